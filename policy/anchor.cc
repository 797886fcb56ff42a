// SPDX-License-Identifier: Apache-2.0
#include "policy/anchor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "policy/constants.h"

namespace corun::policy {
namespace {

constexpr double kFewReturns = 8.0;  ///< with fewer a mean is not known well enough to halve its samples
constexpr double kStall = 4.0;       ///< a time between returns is taken as at most this many means

}  // namespace

void AnchorFinder::occurred(std::uint32_t key, double work, double now) {
    work_now_ = std::max(work_now_, work);
    const auto [at, first] = keys_.try_emplace(key);
    Track& track = at->second;
    if (!first) {
        // The counters of several threads are summed: a sum may be a little behind an earlier one.
        const double between = std::max(0.0, work - track.last_work);
        double seconds = std::max(0.0, now - track.last_time);
        if (++track.returns == 2) {
            // The first time between holds the program's warm-up: compiling, filling caches.
            track.count = track.work = track.square = track.time = 0.0;
        }
        if (track.count >= 4.0) seconds = std::min(seconds, kStall * track.time / track.count);
        track.count += 1.0;
        track.work += between;
        track.square += between * between;
        track.time += seconds;
        if (now - track.halved_at > kAnchorMemory && track.count >= kFewReturns) {
            // So that one odd period (a checkpoint, a pause) is forgotten. By time, not by returns: a key
            // that returns a thousand times per step must remember many steps, else it never sees the gap
            // between them.
            track.count *= 0.5;
            track.work *= 0.5;
            track.square *= 0.5;
            track.time *= 0.5;
            track.halved_at = now;
        }
    } else {
        track.halved_at = now;
    }
    track.last_work = work;
    track.last_time = now;
}

double AnchorFinder::period_of(const Track& track) {
    return track.count > 0.0 ? track.time / track.count : 0.0;
}

double AnchorFinder::variation_of(const Track& track) {
    if (!(track.work > 0.0)) return std::numeric_limits<double>::infinity();
    const double mean = track.work / track.count;
    return std::sqrt(std::max(0.0, track.square / track.count - mean * mean)) / mean;
}

double AnchorFinder::scaled_variation_of(const Track& track) {
    return variation_of(track) * std::sqrt(track.work / track.count);
}

bool AnchorFinder::candidate(const Track& track, int min_returns) const {
    if (track.returns < min_returns || !(variation_of(track) <= kAnchorVariation)) return false;
    const double period = period_of(track);
    const bool returning = work_now_ - track.last_work <= kAnchorGone * track.work / track.count;
    return period > 0.0 && period <= kAnchorPeriodMax && returning;
}

std::optional<std::uint32_t> AnchorFinder::best(int min_returns) const {
    // Noise that comes anew in every step (and one odd step among many) makes ten steps sqrt(10) times
    // steadier than one. So that every tenth step is not taken for better than the step, variations are
    // compared per root of work.
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    double steadiest = kUnknown;
    double steadiest_scaled = kUnknown;
    for (const auto& [key, track] : keys_) {
        if (!candidate(track, min_returns)) continue;
        steadiest = std::min(steadiest, variation_of(track));
        steadiest_scaled = std::min(steadiest_scaled, scaled_variation_of(track));
    }
    const auto as_steady = [=](const Track& track) {
        return variation_of(track) <= steadiest + kAnchorSlack ||
               scaled_variation_of(track) <= kAnchorFactor * steadiest_scaled;
    };
    struct Found {
        std::uint32_t key;
        double period;
    };
    std::vector<Found> alike;
    double longest_enough = 0.0;
    double shortest = kUnknown;
    for (const auto& [key, track] : keys_) {
        if (!candidate(track, min_returns) || !as_steady(track)) continue;
        alike.push_back({key, period_of(track)});
        shortest = std::min(shortest, alike.back().period);
        if (alike.back().period <= kAnchorPeriodEnough)
            longest_enough = std::max(longest_enough, alike.back().period);
    }
    const double wanted = longest_enough > 0.0 ? longest_enough : shortest;
    std::optional<std::uint32_t> lowest;
    for (const Found& found : alike) {
        const bool same =
            found.period >= kAnchorSamePeriod * wanted && found.period <= wanted / kAnchorSamePeriod;
        if (same && (!lowest || found.key < *lowest)) lowest = found.key;
    }
    return lowest;
}

double AnchorFinder::period(std::uint32_t key) const {
    const auto at = keys_.find(key);
    return at == keys_.end() ? 0.0 : period_of(at->second);
}

double AnchorFinder::variation(std::uint32_t key) const {
    const auto at = keys_.find(key);
    return at == keys_.end() ? std::numeric_limits<double>::infinity() : variation_of(at->second);
}

void AnchorFinder::clear() {
    keys_.clear();
    work_now_ = 0.0;
}

}  // namespace corun::policy
