// SPDX-License-Identifier: Apache-2.0
// What `corun top` shows: the programs that share a machine, as rows and as text.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "shim/node_segment.h"

namespace corun::tools {

struct NodeRow {
    int pid = 0;
    bool visible = true;  ///< false: of another PID namespace, in which the pid is
    std::string program;
    double weight = 1.0;
    double share = 0.0;  ///< CPUs
    double use = 0.0;    ///< CPUs
    double ops = 0.0;    ///< per second
    std::optional<double> gain;
    std::string state;  ///< "idle" while it lends its share
    std::string arm;
    int slot = 0;
};

struct NodeTable {
    int cpus = 1;         ///< of the machine
    double others = 0.0;  ///< CPUs that everybody else uses
    std::vector<NodeRow> rows;
};

/// Looks at the slots again and again and knows by that who is alive and what each uses.
class NodeObserver {
  public:
    /// @param now  seconds
    /// @param busy CPU seconds that the machine has spent so far
    NodeTable look(double now, const std::vector<NodeSlot>& slots, int cpus, double busy);

  private:
    struct Seen {
        std::uint64_t beat = 0;
        double moved = 0.0;
        double looked = 0.0;
        double cpu_seconds = -1.0;  ///< < 0: not known
    };
    std::unordered_map<std::uint64_t, Seen> seen_;
    std::uint64_t space_ = pid_space();
    double looked_ = -1.0;
    double busy_ = 0.0;
};

/// The slots that hold somebody. Throws std::runtime_error with one sentence where there is no such file or
/// it is not fit to be read; an empty list is fine once it was there.
[[nodiscard]] std::vector<NodeSlot> read_node(const std::string& folder, bool must_be_there);

/// @param columns width of the terminal; 0: no limit
[[nodiscard]] std::string render_node(const NodeTable& table, const std::string& time, int columns);
[[nodiscard]] nlohmann::ordered_json node_json(const NodeTable& table);

}  // namespace corun::tools
