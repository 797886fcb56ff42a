// SPDX-License-Identifier: Apache-2.0
// Finds the op key that returns once per period with the steadiest reference work in between.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

namespace corun::policy {

/// Not thread-safe. Allocates only when a key is seen for the first time.
class AnchorFinder {
  public:
    /// Op `key` began when the process had finished `work` reference seconds in all, at time `now` (seconds,
    /// of any origin). Tens of nanoseconds.
    void occurred(std::uint32_t key, double work, double now);

    /// The best anchor known: returned at least `min_returns` times and still returning, coefficient of
    /// variation of the work between returns lowest (and at most kAnchorVariation). Of keys that are about
    /// equally steady (within kAnchorFactor or kAnchorSlack) the one with the longest period up to
    /// kAnchorPeriodEnough (the step, not the loop body inside it), failing that the shortest (the step, not
    /// every tenth of it); of those with about the same period the lowest key, so that processes that run the
    /// same program choose alike. Nothing when none is steady.
    [[nodiscard]] std::optional<std::uint32_t> best(int min_returns = 4) const;
    [[nodiscard]] double period(
        std::uint32_t key) const;  ///< seconds between returns, robust mean; 0 if unknown
    [[nodiscard]] double variation(std::uint32_t key) const;  ///< of the work in between; infinite if unknown
    void clear();

  private:
    struct Track {
        double last_work = 0.0;
        double last_time = 0.0;
        double halved_at = 0.0;  ///< time at which the sums were last halved (kAnchorMemory)
        double count = 0.0;      ///< returns in the sums; halved with them
        double work = 0.0;       ///< sum over the work between returns
        double square = 0.0;     ///< sum of its squares
        double time = 0.0;       ///< sum over the seconds between returns
        int returns = 0;         ///< in all
    };

    [[nodiscard]] static double period_of(const Track& track);
    [[nodiscard]] static double variation_of(const Track& track);
    [[nodiscard]] static double scaled_variation_of(const Track& track);  ///< times the root of the mean work
    [[nodiscard]] bool candidate(const Track& track, int min_returns) const;

    std::unordered_map<std::uint32_t, Track> keys_;
    double work_now_ = 0.0;  ///< at the latest occurrence of any key
};

}  // namespace corun::policy
