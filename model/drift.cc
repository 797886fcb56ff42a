// SPDX-License-Identifier: Apache-2.0
#include "model/drift.h"

#include <algorithm>
#include <cmath>

namespace corun::model {
namespace {

// In units of log(duration / learned). With noise of 0.15 the slack is 0.7 deviations and the limit 10: by
// Siegmund's formula one false alarm in some millions of samples, and a change of 20 % (0.18) is found after
// about limit / (0.18 - slack) = 22.
constexpr double kSlack = 0.11;
constexpr double kLimit = 1.5;
constexpr double kClip = 0.30;  // two deviations: a burst of 2x (0.69) counts no more than that

}  // namespace

bool Drift::add(double seconds, double learned_median) {
    if (!(seconds > 0.0) || !(learned_median > 0.0)) return false;
    const double raw = std::log(seconds / learned_median);
    if (!std::isfinite(raw)) return false;
    const double change = std::clamp(raw, -kClip, kClip);
    up_ = std::max(0.0, up_ + change - kSlack);
    down_ = std::max(0.0, down_ - change - kSlack);
    if (up_ < kLimit && down_ < kLimit) return false;
    clear();
    return true;
}

void Drift::clear() {
    up_ = down_ = 0.0;
}

}  // namespace corun::model
