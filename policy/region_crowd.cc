// SPDX-License-Identifier: Apache-2.0
#include "policy/region_crowd.h"

#include <algorithm>
#include <cmath>

namespace corun::policy {

void RegionCrowd::seen(double now, double world, double ran, double waited) {
    const double elapsed = now - at_;
    if (known_ && elapsed < kInterval) return;
    const double passed = std::max(world - world_, elapsed);
    // A thread that has ended takes its counts with it.
    const bool usable = known_ && ran >= ran_ && waited >= waited_;
    const double had = usable ? (ran - ran_) / passed : 0.0;
    const double waits = usable ? (waited - waited_) / passed : 0.0;
    if (crowded_ && known_) seconds_ += elapsed;
    known_ = true;
    at_ = now;
    world_ = world;
    ran_ = ran;
    waited_ = waited;
    if (!usable) return;
    if (waits >= kWaits) {
        cpus_ = std::max(had, 1.0);
        if (!crowded_) {
            ++times_;
            // With few threads it waits for nobody: whether the others are still there shows only afterwards.
            lasts_ = times_ > 1 && now - ended_at_ < lasts_ ? std::min(2.0 * lasts_, kLast) : kFirst;
            until_ = now + lasts_;
        }
        crowded_ = true;
    } else if (crowded_ && waits < kCalm && now >= until_) {
        crowded_ = false;
        ended_at_ = now;
    }
}

int crowd_width(std::span<const int> widths, std::span<const model::Point> curve, double work, double cpus) {
    int best = widths.front();
    double least = INFINITY;
    for (const int width : widths) {
        const auto known = std::find_if(curve.begin(), curve.end(),
                                        [width](const model::Point& point) { return point.width == width; });
        const double alone = known != curve.end() ? known->seconds : work / width;
        const double cost = alone + (width > std::max(cpus, 1.0) + 0.25 ? kCrowdSlice : 0.0);
        if (cost < least) least = cost, best = width;
    }
    return best;
}

}  // namespace corun::policy
