// SPDX-License-Identifier: Apache-2.0
// A window: a stretch of run time in which one arm decided, and whether it may be compared with another.
#pragma once

#include <array>
#include <cstdint>
#include <random>

#include "policy/constants.h"

namespace corun::policy {

using ArmId = int;
inline constexpr ArmId kPassThrough = 0;  ///< arm 0 is always the program as it is

using Histogram =
    std::array<double, kHistogramBuckets>;  ///< reference work (seconds) by key bucket; [0]: unreferenced
using Random = std::mt19937_64;

struct Window {
    ArmId arm = kPassThrough;
    double wall = 0.0;  ///< seconds
    double open = 0.0;  ///< seconds of it in which at least one scope was open
    Histogram work{};   ///< reference seconds finished in it; [0] is measured time of ops without a reference
    int periods = 0;    ///< returns of the anchor
    double slowest_period = 0.0;  ///< seconds
    double rested = 0.0;          ///< seconds before it in which nothing was seen (Directive::rest)
    bool stopped = false;  ///< the process stood still in it (SIGSTOP, a suspended machine): says nothing

    [[nodiscard]] double total_work() const;                 ///< without bucket 0
    [[nodiscard]] double unreferenced_share() const;         ///< of all work
    [[nodiscard]] double log_rate(bool by_open_time) const;  ///< log(total work / time)
    [[nodiscard]] double input_share() const;                ///< 1 - open / wall
    [[nodiscard]] bool usable()
        const;  ///< has work, wall and open time, and unreferenced share within tolerance
};

/// Half the L1 distance of the two windows' work shares (0 = same mix, 1 = nothing in common, or one is
/// empty).
[[nodiscard]] double mix_distance(const Histogram& a, const Histogram& b);

/// Adds the reference seconds of `term` to `sum`, bucket by bucket.
void add_to(Histogram& sum, const Histogram& term);

/// Seconds the next window should last, given the anchor's period (0: none), with jitter. It then ends on the
/// next anchor.
[[nodiscard]] double window_length(double period_seconds, Random& random);

}  // namespace corun::policy
