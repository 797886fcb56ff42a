// SPDX-License-Identifier: Apache-2.0
#include "policy/window.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace corun::policy {

double Window::total_work() const {
    return std::accumulate(work.begin() + 1, work.end(), 0.0);
}

double Window::unreferenced_share() const {
    const double all = work[0] + total_work();
    return all > 0.0 ? work[0] / all : 1.0;
}

double Window::log_rate(bool by_open_time) const {
    return std::log(total_work() / (by_open_time ? open : wall));
}

double Window::input_share() const {
    return wall > 0.0 ? std::clamp(1.0 - open / wall, 0.0, 1.0) : 0.0;
}

bool Window::usable() const {
    // Finished work with no time in which a scope was open is a fault of the accounts: not to be trusted
    // either.
    return total_work() > 0.0 && wall > 0.0 && open > 0.0 && unreferenced_share() <= kUnreferencedShare;
}

double mix_distance(const Histogram& a, const Histogram& b) {
    const double all_a = std::accumulate(a.begin(), a.end(), 0.0);
    const double all_b = std::accumulate(b.begin(), b.end(), 0.0);
    if (!(all_a > 0.0) || !(all_b > 0.0)) return 1.0;
    double distance = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) distance += std::abs(a[i] / all_a - b[i] / all_b);
    return 0.5 * distance;
}

void add_to(Histogram& sum, const Histogram& term) {
    std::transform(sum.begin(), sum.end(), term.begin(), sum.begin(),
                   [](double s, double t) { return s + t; });
}

double window_length(double period_seconds, Random& random) {
    std::uniform_real_distribution<double> jitter(1.0 - kWindowJitter, 1.0 + kWindowJitter);
    // Without a period the ends fall anywhere in a step, so that a window must hold many of them.
    const double seconds = period_seconds > 0.0 ? std::max(kWindowSeconds, kWindowPeriods * period_seconds)
                                                : kWindowPeriods * kWindowSeconds;
    return seconds * jitter(random);
}

}  // namespace corun::policy
