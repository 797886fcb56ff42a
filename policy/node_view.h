// SPDX-License-Identifier: Apache-2.0
// One process's view of the others on its machine: who of them is there, who is idle and lends its CPUs, and
// what share that leaves. Rests on what this process has seen move by its own clock, never on a time that
// another has written: a segment of an earlier boot, a process that was killed or stopped and one in another
// PID or time namespace all look alike, as a beat that stands still. Pure; time is passed in.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policy/node_share.h"

namespace corun::policy {

// Seconds. A beat comes with an op, at most every kNodeVisit.
inline constexpr double kNodeVisit = 0.080;
inline constexpr double kNodeDoubt = 0.25;    ///< without a beat, the kernel is asked about the process
inline constexpr double kNodeIdle = 0.40;     ///< without a beat (and without CPU time) it is idle
inline constexpr double kNodeIdleMost = 5.0;  ///< patience that a process may ask for
inline constexpr double kNodeLight = 0.25;    ///< CPUs that it wants: so little that nothing is kept for it,
inline constexpr double kNodeAllLight = 0.5;  ///< ... unless those who want so little want this much together
inline constexpr double kNodeBusy = 0.15;     ///< CPUs in use: it runs something, if not our ops
inline constexpr double kNodeFlap = 5.0;      ///< a gain that is lost again so soon was none
inline constexpr double kNodeHoldFirst = 0.5;  ///< then gains have to last before they are taken,
inline constexpr double kNodeHoldMost = 8.0;   ///< ... longer each time,
inline constexpr double kNodeCalm = 30.0;      ///< until none was lost for so long

/// What the kernel says of a process whose beat stands still.
struct Evidence {
    bool known = false;        ///< false: it is in another PID namespace
    bool dead = false;         ///< it is not there, or is another one with its number
    double cpu_seconds = 0.0;  ///< that it has used since its start
};

/// One place of the segment that another process holds, checked.
struct Neighbour {
    std::uint64_t nonce = 0;      ///< of this process at this place: never 0
    std::uint64_t beat = 0;       ///< moves at each of its visits
    double patience = kNodeIdle;  ///< seconds between visits that are usual for it while it works
    Claim claim;
};

class NodeView {
  public:
    using Ask = std::function<Evidence(std::size_t neighbour)>;

    /// One visit.
    /// @param own what this process asks for; it is here, so not idle
    /// @param before how many of `neighbours` come before it in the segment: all break ties in that order
    /// @param ask called for neighbours whose beat stands still
    Share look(double now, const Claim& own, std::span<const Neighbour> neighbours, std::size_t before,
               const Ask& ask);

    /// Of the neighbours of the latest look(): who is surely dead.
    [[nodiscard]] const std::vector<std::size_t>& dead() const { return dead_; }
    [[nodiscard]] bool idle(std::uint64_t nonce) const;  ///< as look() took it
    /// Seconds since its beat was seen to move; 0: it is not known.
    [[nodiscard]] double still(std::uint64_t nonce, double now) const;

  private:
    struct Seen {
        std::uint64_t beat = 0;
        double moved = 0.0;   ///< when its beat was last seen to move, or was seen first
        double looked = 0.0;  ///< the latest look at which it was there
        double asked = -1.0;  ///< when the kernel was asked for the time below; < 0: not since it moved
        double cpu_seconds = 0.0;
        double use = -1.0;  ///< CPUs, between two answers; < 0: not known
        bool idle = false;
        bool gone = false;
        double since = 0.0;  ///< when it was seen first
    };

    [[nodiscard]] bool judge(double now, std::size_t index, const Neighbour& neighbour, Claim& claim,
                             bool light, const Ask& ask);
    void forget(double now);
    [[nodiscard]] Share steady(double now, const Share& share);

    std::unordered_map<std::uint64_t, Seen> seen_;
    std::vector<std::size_t> dead_;
    std::vector<Claim> claims_;
    Share taken_;            ///< in force
    double risen_ = -1e9;    ///< when it last rose
    double offered_ = -1.0;  ///< a larger one has been on offer since then; < 0: none is
    double hold_ = 0.0;      ///< seconds that a larger one has to last
    double lost_ = -1e9;     ///< when a gain was lost too soon
};

}  // namespace corun::policy
