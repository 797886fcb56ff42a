// SPDX-License-Identifier: Apache-2.0
// How wide each resizable region runs when changing the size of a team costs something. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "model/curve.h"
#include "policy/region.h"

namespace corun::policy {

/// What one change of team size costs in one runtime: measured where it was, else a cautious guess by kind.
class SwitchCosts {
  public:
    explicit SwitchCosts(RuntimeKind kind) : kind_(kind) {}

    /// One measured change: seconds that a region of `to` took after one of `from`, beyond what it takes
    /// after one of `to`. What is not positive counts as nothing lost.
    void add(int from, int to, double seconds);
    /// Median of the measured ones; the guess where fewer than three were.
    [[nodiscard]] double seconds(int from, int to) const;
    [[nodiscard]] bool measured(int from, int to) const;

  private:
    RuntimeKind kind_;
    std::map<std::pair<int, int>, model::RobustSamples> samples_;
};

/// One region as the choice sees it.
struct RegionLoad {
    std::uint64_t calls = 0;          ///< as many as the transitions were counted over
    int own = 1;                      ///< the program's own width
    std::vector<model::Point> curve;  ///< seconds a call at the widths that are known, *settled*: after a
                                      ///< region of the same width, so that no switch is paid twice
    std::vector<int> allowed;         ///< allowed_widths(); holds `own`
};

/// How often region `after` began next after region `before` on one thread.
struct Transition {
    std::uint32_t before = 0;  ///< indices into the regions
    std::uint32_t after = 0;
    std::uint64_t count = 0;
};

struct WidthPlan {
    std::vector<int> widths;      ///< one for each region
    double own_seconds = 0.0;     ///< predicted for the program's own widths, switches included
    double seconds = 0.0;         ///< predicted for `widths`, switches included
    double switch_seconds = 0.0;  ///< of them, what the switches cost
    std::vector<double> charged;  ///< seconds of switching into each region
};

/// The widths that cost least together: the calls by their curves plus each change between neighbours by its
/// price, as papers since Liu et al. (IPDPS 2019, their second strategy) had to do: per-op optima alone lose
/// what the changes cost. Descent over one region at a time (iterated conditional modes: Besag, J. R. Stat.
/// Soc. B 48, 1986) from the program's own widths, from each uniform width and from the optima without
/// switches; the best end wins. A region leaves its own width only when that gains more than `deadband`
/// (0.05 = 5 %) of what it costs there, switches included; the whole plan is dropped for the program's own
/// widths unless it gains more than `deadband` on the regions that it moves.
[[nodiscard]] WidthPlan plan_widths(std::span<const RegionLoad> regions,
                                    std::span<const Transition> transitions, const SwitchCosts& costs,
                                    double deadband = 0.05);

}  // namespace corun::policy
