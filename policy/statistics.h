// SPDX-License-Identifier: Apache-2.0
// The few statistics that race and guard share. Pure functions of their arguments.
#pragma once

#include <vector>

namespace corun::policy {

/// A mean with its standard error.
struct Estimate {
    double mean = 0.0;
    double error = 0.0;  ///< standard error; meaningless when freedom is 0
    int freedom = 0;     ///< degrees of freedom of the Student t that (mean - truth) / error follows
};

/// t with P(T > t) = upper_tail for Student's T; upper_tail in (0, 0.5), freedom >= 1. Exact but slow
/// (microseconds).
[[nodiscard]] double student_quantile(double upper_tail, int freedom);

/// Mean and error after pulling in share kWinsor of each tail, with the correction of Dixon and Tukey (1968)
/// for the variance that is lost by it. Two values or more for an error; none at all gives zeros.
[[nodiscard]] Estimate winsorised(std::vector<double> values);

/// Mean and error of the values as they are.
[[nodiscard]] Estimate plain_mean(const std::vector<double>& values);

/// Middle value (the upper of the two middle ones); 0 when empty.
[[nodiscard]] double median(std::vector<double> values);

}  // namespace corun::policy
