// SPDX-License-Identifier: Apache-2.0
// What a strategy would know of the ops on a simulated machine: curves that model/ learns from noisy samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/cost_table.h"
#include "tools/sim/machine.h"

namespace corun::tools::sim {

struct Learned {
    policy::CostTable table;
    std::vector<std::vector<bool>> spread;  ///< by key and width - 1: the faster class is one thread a cache
    std::size_t samples = 0;                ///< that it took, over all keys
};

/// @param model "exact" (no learning), "fitted", "active" or "step-<x>" (the paper's walk with interval x)
/// Throws std::runtime_error for any other.
[[nodiscard]] Learned learn(const Machine& machine, const Graph& graph, const std::string& model,
                            std::uint64_t seed);

}  // namespace corun::tools::sim
