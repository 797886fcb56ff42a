// SPDX-License-Identifier: Apache-2.0
// Means, medians and ratios with intervals. Pure functions.
#pragma once

#include <span>
#include <vector>

namespace corun::tools {

/// A value and the limits of its confidence interval; the limits are NaN with fewer than two values.
struct Interval {
    double value = 0;
    double low = 0;
    double high = 0;
};

[[nodiscard]] double mean(std::span<const double> values);    ///< NaN when empty
[[nodiscard]] double median(std::span<const double> values);  ///< NaN when empty
[[nodiscard]] double standard_deviation(
    std::span<const double> values);  ///< of a sample; NaN below two values

/// The t such that Student's distribution with `degrees` >= 1 degrees of freedom lies below it with
/// probability `p`, 0 < p < 1.
[[nodiscard]] double t_quantile(double p, int degrees);

/// The mean with its t interval. `confidence` such as 0.95.
[[nodiscard]] Interval mean_interval(std::span<const double> values, double confidence);

/// The geometric mean of a[i] / b[i] with the t interval of the logarithms. Pairs that are not both positive
/// are left out; the longer of the two is cut.
[[nodiscard]] Interval paired_ratio(std::span<const double> a, std::span<const double> b, double confidence);

enum class Verdict { undecided, above, below };

/// Where an interval lies: wholly at or above the floor, wholly below it, or across (or unknown).
[[nodiscard]] Verdict judge(const Interval& interval, double floor);

/// The numbers of rounds after which a sequential comparison may stop: from `first` in steps of half as much
/// again up to `last`.
[[nodiscard]] std::vector<int> looks(int first, int last);

/// The confidence of one look, so that all looks together err as often as one look at 95 %.
[[nodiscard]] double look_confidence(std::size_t number_of_looks);

}  // namespace corun::tools
