// SPDX-License-Identifier: Apache-2.0
// Pictures of a simulated step.
#pragma once

#include <string>
#include <vector>

#include "tools/sim/simulator.h"

namespace corun::tools::sim {

/// A Gantt chart: a row a core, a colour a kind of op. Throws std::runtime_error when it cannot be written.
void write_gantt(const std::string& path, const Graph& graph, const Machine& machine,
                 const std::vector<Executed>& ops, const std::string& title);

/// The Chrome trace event format, as Perfetto reads it: a track for each dispatching thread, and how many
/// cores are busy.
void write_trace(const std::string& path, const Graph& graph, const std::vector<Executed>& ops);

}  // namespace corun::tools::sim
