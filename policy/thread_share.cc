// SPDX-License-Identifier: Apache-2.0
#include "policy/thread_share.h"

#include <algorithm>
#include <cmath>

namespace corun::policy {
namespace {

// Eight threads after one are seen in the first stretch, one after eight in the seventh; one that is busy in
// every fourth stretch changes nothing.
constexpr double kWeight = 0.4;
constexpr double kReluctance = 0.1;  // beyond the middle between two numbers, lest it goes to and fro

}  // namespace

void ThreadShare::note(double inside, double seconds) noexcept {
    const double weight = 1.0 - std::pow(1.0 - kWeight, seconds / kStretchSeconds);
    inside_ += weight * (std::max(inside, 0.0) - inside_);
    if (std::abs(inside_ - callers_) < 0.5 + kReluctance) return;
    callers_ = std::max(1, static_cast<int>(std::lround(inside_)));
}

}  // namespace corun::policy
