// SPDX-License-Identifier: Apache-2.0
// A strategy decides which of the ops that could run begin now, and how wide. It sees what a gate sees: the
// ops that are ready, those that run, the CPUs that are idle. Planning strategies also know the graph.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/interference.h"
#include "policy/cost_table.h"
#include "policy/task_graph.h"

namespace corun::policy {

struct Running {
    OpIndex op = 0;
    KeyIndex key = 0;
    int width = 0;
    double ends = 0.0;      ///< as predicted at its begin, seconds
    bool siblings = false;  ///< on the second hardware threads of busy cores
    double begins = 0.0;    ///< seconds
    bool paired = false;    ///< one other op has run all the time so far, and nothing else: ...
    KeyIndex beside = 0;    ///< ... this
};

/// Who runs beside whom: to be told when the last of them has just begun, and when one of them has ended and
/// is gone.
void note_begun(std::vector<Running>& running);
void note_ended(std::vector<Running>& running);

/// The state at one moment.
struct Situation {
    double now = 0.0;       ///< seconds
    int cpus = 1;           ///< physical cores
    int idle = 1;           ///< cores on which nothing runs
    int idle_siblings = 0;  ///< busy cores whose second hardware thread is idle
    int last_width = 0;     ///< of the team that the thread has which would begin the next op; 0: none yet
    std::span<const Running> running;
};

struct Start {
    OpIndex op = 0;
    int width = 1;
    bool siblings = false;
};

class Strategy {
  public:
    virtual ~Strategy() = default;
    virtual void begin_step() {}
    /// An op waits for nothing any more.
    virtual void ready(OpIndex op) = 0;
    /// The next op that begins now, or nothing until something changes. It is no longer ready then.
    [[nodiscard]] virtual std::optional<Start> next(const Situation& situation) = 0;
    /// A ready op was begun by somebody else.
    virtual void withdraw(OpIndex op) = 0;
    /// When next() may say more though nothing has changed, in seconds.
    [[nodiscard]] virtual double wakes() const { return std::numeric_limits<double>::infinity(); }
    /// An op took `slowdown` times as long as predicted while `beside` ran all the time, and nothing else.
    virtual void learn(KeyIndex /*op*/, KeyIndex /*beside*/, double /*slowdown*/) {}
};

/// What TensorFlow does: at most `inter` ops at once in the order in which they become ready, `intra` threads
/// each, whatever is idle.
[[nodiscard]] std::unique_ptr<Strategy> make_grid(int inter, int intra);

/// The strategies of Liu et al. (IPDPS 2019), each alone or on top of others. Without any: one op at a time
/// at all CPUs.
struct PaperStrategies {
    bool per_op = false;    ///< S1: each op at its optimum
    bool per_type = false;  ///< S2: at that of the most expensive op of its type
    bool co_run = false;  ///< S3: beside others, where one of its three candidates fits and does not outlast
    bool siblings = false;  ///< S4: small ops on second hardware threads when all cores are busy
};
[[nodiscard]] std::unique_ptr<Strategy> make_paper(const TaskGraph& graph, const CostTable& costs,
                                                   const PaperStrategies& which);

/// Each op takes its share of the idle CPUs among those that are ready, as far as it gains by them.
[[nodiscard]] std::unique_ptr<Strategy> make_idle(const TaskGraph& graph, const CostTable& costs);

/// Widths that are planned for the whole step, and the order of the ops by the longest path behind them.
struct Plan {
    std::vector<int> widths;     ///< of each op
    std::vector<double> levels;  ///< of each op: larger first
    double price = 0.0;          ///< that the widths were planned at
    bool keep_teams = false;  ///< the thread's last width is taken where that is cheaper, its change counted
    bool siblings = false;    ///< S4 on top: short ops on second hardware threads when nothing is idle
};
enum class PlanRule {
    fit,           ///< an op begins when its planned width is idle; others may overtake it meanwhile
    shrink,        ///< ... or narrower at once, where it then ends no later
    earliest_end,  ///< at whatever width ends it first, now or when more is idle (HEFT)
};
[[nodiscard]] std::unique_ptr<Strategy> make_list(const TaskGraph& graph, const CostTable& costs, Plan plan,
                                                  PlanRule rule);

/// Critical path and area (Radulescu and van Gemund 2001): widths grow along the critical path until it is
/// as short as the mean area. `bound_levels`: MCPA (Bansal, Kumar, Singh 2006), ops of a depth share the
/// CPUs.
[[nodiscard]] Plan plan_cpa(const TaskGraph& graph, const CostTable& costs, int cpus, bool bound_levels);
/// Each op at its fastest width, for PlanRule::earliest_end.
[[nodiscard]] Plan plan_heft(const TaskGraph& graph, const CostTable& costs);
/// Each op at the width of lowest T(n) (1 + price n), or at the one that its thread has where that is
/// cheaper.
[[nodiscard]] Plan plan_price(const TaskGraph& graph, const CostTable& costs, double price);
/// The price whose plan ends first when it is carried out at the predicted costs, without interference.
[[nodiscard]] double best_price(const TaskGraph& graph, const CostTable& costs, int cpus);

/// Seconds of a step in which every op takes as long as predicted.
[[nodiscard]] double ideal_seconds(const TaskGraph& graph, const CostTable& costs, Strategy& strategy,
                                   int cpus);

/// By name: "s1" "s2" "s3" "s4" (each on top of those before), "s2-alone" ..., "cpa" "mcpa" "heft" "idle"
/// "price" "price+s4" "price-<lambda>" "uniform-<n>", and "gate-" before any: under the gate's rules. Nothing
/// when there is no such strategy.
[[nodiscard]] std::unique_ptr<Strategy> strategy_by_name(const std::string& name, const TaskGraph& graph,
                                                         const CostTable& costs, int cpus);

}  // namespace corun::policy
