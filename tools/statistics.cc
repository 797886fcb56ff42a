// SPDX-License-Identifier: Apache-2.0
#include "tools/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace corun::tools {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// P(|T| < t), the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4.
double t_within(double t, int degrees) {
    const double angle = std::atan(t / std::sqrt(degrees));
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    const bool odd = degrees % 2 == 1;
    if (degrees == 1) return 2 * angle / std::numbers::pi;
    double term = odd ? cosine : 1;
    double sum = term;
    for (int k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
        term *= cosine * cosine * (k - 1) / k;
        sum += term;
    }
    return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

}  // namespace

double mean(std::span<const double> values) {
    if (values.empty()) return kNone;
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::span<const double> values) {
    if (values.empty()) return kNone;
    std::vector<double> sorted(values.begin(), values.end());
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double standard_deviation(std::span<const double> values) {
    if (values.size() < 2) return kNone;
    const double centre = mean(values);
    double sum = 0;
    for (double value : values) sum += (value - centre) * (value - centre);
    return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double t_quantile(double p, int degrees) {
    if (!(p > 0 && p < 1) || degrees < 1) return kNone;
    if (p < 0.5) return -t_quantile(1 - p, degrees);
    const double within = 2 * p - 1;
    double low = 0;
    double high = 1;
    while (t_within(high, degrees) < within && high < 1e12) high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
        const double middle = (low + high) / 2;
        (t_within(middle, degrees) < within ? low : high) = middle;
    }
    return (low + high) / 2;
}

Interval mean_interval(std::span<const double> values, double confidence) {
    const double centre = mean(values);
    if (values.size() < 2) return {centre, kNone, kNone};
    const auto n = static_cast<double>(values.size());
    const double t = t_quantile((1 + confidence) / 2, static_cast<int>(values.size()) - 1);
    const double half = t * standard_deviation(values) / std::sqrt(n);
    return {centre, centre - half, centre + half};
}

Interval paired_ratio(std::span<const double> a, std::span<const double> b, double confidence) {
    std::vector<double> logs;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        if (a[i] > 0 && b[i] > 0) logs.push_back(std::log(a[i] / b[i]));
    const Interval interval = mean_interval(logs, confidence);
    return {std::exp(interval.value), std::exp(interval.low), std::exp(interval.high)};
}

Verdict judge(const Interval& interval, double floor) {
    if (interval.low >= floor) return Verdict::above;
    if (interval.high < floor) return Verdict::below;
    return Verdict::undecided;
}

std::vector<int> looks(int first, int last) {
    std::vector<int> result;
    for (int n = first; n < last; n += std::max(1, n / 2)) result.push_back(n);
    result.push_back(last);
    return result;
}

double look_confidence(std::size_t number_of_looks) {
    return 1 - 0.05 / static_cast<double>(std::max<std::size_t>(1, number_of_looks));
}

}  // namespace corun::tools
