// SPDX-License-Identifier: Apache-2.0
// What ops cost beside one another: slow-downs of pairs, the pairs that are better kept apart, and durations
// that depend on each other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "model/curve.h"

namespace corun::model {

/// Learned slow-downs: (seconds beside / seconds solo at the same width) of one op key while another runs.
class PairMemory {
  public:
    using KeyId = std::uint32_t;

    /// Samples of both sides that a verdict needs.
    static constexpr std::size_t least_samples = 3;
    /// A pair is bad when one of the two takes this much longer than alone: about what the other has won.
    static constexpr double bad_slowdown = 1.5;

    /// One observation; `slowdown` > 0, of `op`, while `beside` ran.
    void add(KeyId op, KeyId beside, double slowdown);
    /// Median of the newest observations, 1 when there are none.
    [[nodiscard]] double slowdown(KeyId op, KeyId beside) const;
    /// Whether both were seen beside one another often enough and one of them is slowed down so much.
    [[nodiscard]] bool bad(KeyId one, KeyId other) const;
    [[nodiscard]] std::size_t pairs() const { return seen_.size(); }
    void clear() { seen_.clear(); }

  private:
    std::map<std::pair<KeyId, KeyId>, RobustSamples> seen_;  // (op, beside)
};

/// An op of a set that starts at the same time.
struct CoRunner {
    PairMemory::KeyId key = 0;
    double solo_seconds = 0.0;
};

/// Seconds that each op of the set takes: an op is slowed down by another only while that one runs, and how
/// long that is depends on the first. Solved as a fixed point (damped; 200 rounds at most).
/// `slowdown(op, beside)` is for a pair (values below 1 count as 1); of several the excesses over 1 add up.
[[nodiscard]] std::vector<double> co_run_seconds(
    std::span<const CoRunner> set,
    const std::function<double(PairMemory::KeyId, PairMemory::KeyId)>& slowdown);

}  // namespace corun::model
