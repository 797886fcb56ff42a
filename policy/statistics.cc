// SPDX-License-Identifier: Apache-2.0
#include "policy/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>

#include "policy/constants.h"

namespace corun::policy {
namespace {

/// P(|T| < t): the finite sums that hold for whole degrees of freedom (Abramowitz and Stegun 26.7.3
/// and 26.7.4).
double student_inside(double t, int freedom) {
    const double angle = std::atan(t / std::sqrt(static_cast<double>(freedom)));
    const double cosine = std::cos(angle);
    const bool odd = freedom % 2 != 0;
    double term = odd ? cosine : 1.0;
    double sum = freedom == 1 ? 0.0 : term;
    for (int i = odd ? 3 : 2; i <= freedom - 2; i += 2) {
        term *= cosine * cosine * (i - 1) / i;
        sum += term;
    }
    return odd ? 2.0 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
}

double sum_of_squares(const std::vector<double>& values, double mean) {
    return std::accumulate(values.begin(), values.end(), 0.0,
                           [mean](double sum, double x) { return sum + (x - mean) * (x - mean); });
}

}  // namespace

double student_quantile(double upper_tail, int freedom) {
    freedom = std::clamp(freedom, 1, 1000);
    double low = 0.0;
    double high = 1.0;
    while (1.0 - student_inside(high, freedom) > 2.0 * upper_tail && high < 1e9) high *= 2.0;
    for (int i = 0; i < 60; ++i) {
        const double middle = 0.5 * (low + high);
        (1.0 - student_inside(middle, freedom) > 2.0 * upper_tail ? low : high) = middle;
    }
    return high;
}

Estimate plain_mean(const std::vector<double>& values) {
    if (values.empty()) return {};
    const auto n = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    if (values.size() < 2) return {mean, 0.0, 0};
    return {mean, std::sqrt(sum_of_squares(values, mean) / (n - 1.0) / n),
            static_cast<int>(values.size()) - 1};
}

Estimate winsorised(std::vector<double> values) {
    const std::size_t n = values.size();
    // From 5 values on at least one of each tail: a single burst is the commonest disturbance of a short
    // series.
    const auto pulled = n < 5 ? 0 : static_cast<std::size_t>(std::lround(kWinsor * static_cast<double>(n)));
    if (pulled == 0) return plain_mean(values);
    std::sort(values.begin(), values.end());
    std::fill_n(values.begin(), pulled, values[pulled]);
    std::fill(values.end() - static_cast<std::ptrdiff_t>(pulled), values.end(), values[n - 1 - pulled]);
    const Estimate raw = plain_mean(values);
    const int left = static_cast<int>(n - 2 * pulled);
    return {raw.mean, raw.error * static_cast<double>(n - 1) / (left - 1), left - 1};
}

double median(std::vector<double> values) {
    if (values.empty()) return 0.0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace corun::policy
