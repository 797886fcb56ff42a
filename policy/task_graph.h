// SPDX-License-Identifier: Apache-2.0
// The ops of one step and what each waits for: what planning strategies need, and bounds on any schedule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/cost_table.h"

namespace corun::policy {

/// Ops are numbered so that each comes after all that it waits for.
class TaskGraph {
  public:
    /// @param keys op key of each op
    /// @param sources for each op the (smaller) numbers of the ops that it waits for
    TaskGraph(std::vector<KeyIndex> keys, const std::vector<std::vector<OpIndex>>& sources);

    [[nodiscard]] std::size_t size() const { return keys_.size(); }
    [[nodiscard]] KeyIndex key(OpIndex op) const { return keys_[op]; }
    [[nodiscard]] std::uint32_t sources(OpIndex op) const { return source_count_[op]; }
    [[nodiscard]] std::span<const OpIndex> successors(OpIndex op) const {
        return {successors_.data() + first_[op], first_[op + 1] - first_[op]};
    }
    /// Of each op the longest path from its begin to the end of the step. @param seconds of each op
    [[nodiscard]] std::vector<double> levels(std::span<const double> seconds) const;
    /// Of each op the number of ops on the longest path to it (0: it waits for nothing).
    [[nodiscard]] std::vector<std::uint32_t> depths() const;

  private:
    std::vector<KeyIndex> keys_;
    std::vector<std::uint32_t> source_count_;
    std::vector<std::size_t> first_;
    std::vector<OpIndex> successors_;
};

/// What no schedule can beat, in seconds.
struct Bounds {
    double critical_path = 0.0;  ///< the longest path with each op at its fastest
    double area = 0.0;           ///< each op at the width of least CPU time, over all CPUs
    /// @return area / critical path, below 0.5 a graph says little of schedulers: it is one chain
    [[nodiscard]] double breadth() const { return critical_path > 0.0 ? area / critical_path : 0.0; }
};
/// @param cpus what all cores do together, in cores: more than their number where hardware threads add to it
[[nodiscard]] Bounds lower_bounds(const TaskGraph& graph, const CostTable& costs, double cpus);

}  // namespace corun::policy
