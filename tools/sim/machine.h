// SPDX-License-Identifier: Apache-2.0
// A machine that `corun sim` simulates, and the step graph that runs on it, as their files say.
#pragma once

#include <algorithm>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/placement.h"
#include "policy/cost_table.h"

namespace corun::tools::sim {

/// Schema "corun-machine", version 1. Constants in microseconds, GB/s and plain factors.
struct Machine {
    std::string name;
    std::string about;
    int sockets = 1;
    int cores = 1;                       ///< physical, of all sockets; a multiple of sockets
    int cores_per_cache = 1;             ///< that share the cache which matters for placement
    std::vector<double> smt_yield{1.0};  ///< work that a core does with 1, 2, ... busy threads, against 1

    // Where the graph's times were measured, and how much slower a core here computes.
    double reference_core_gbs = 10.0;
    double core_slowdown = 1.0;
    double core_gbs = 10.0;
    double socket_gbs = 100.0;
    double serial_share = 0.0;  ///< of an op's computing that does not run side by side
    double cache_share = 1.0;   ///< memory time when all cores on a cache are busy, against alone
    double remote = 1.0;        ///< memory time of an op over several sockets, against one
    double dispatch_us = 0.0;   ///< of each op, by the framework
    double wake_us = 0.0;       ///< of an op with more than one thread
    double wake_per_thread_us = 0.0;
    double switch_us = 0.0;  ///< of a team that has another size than its thread's last
    double switch_per_thread_us = 0.0;
    double oversubscribed = 0.0;  ///< loss when twice as many threads run as there are hardware threads
    double noise = 0.0;           ///< standard deviation of an op's time, as a share
    bool as_measured = false;     ///< it is the machine of the graph: its measured widths count as they are
    std::vector<std::string> assumed;  ///< constants of this file that nobody measured

    [[nodiscard]] int hardware_threads() const { return cores * static_cast<int>(smt_yield.size()); }
    /// Work of all cores with all their hardware threads busy, in cores.
    [[nodiscard]] double capacity() const {
        return cores * *std::max_element(smt_yield.begin(), smt_yield.end());
    }
    [[nodiscard]] model::Topology topology() const { return {cores, cores_per_cache}; }
    /// Sets the constant `name`; throws std::runtime_error when there is none or the value is out of range.
    void set(const std::string& name, double value);
    [[nodiscard]] double get(const std::string& name) const;
};

struct GraphKey {
    std::string type;
    std::string shapes;
    double bytes = 0.0;
    double flops = 0.0;
    int parts = 1;
    std::vector<double> seconds;  ///< measured at width 1, 2, ...; 0 where not measured, [0] always is
};

/// Schema "corun-graph", version 1; see tests/graphs/README.md.
struct Graph {
    std::string name;
    std::vector<GraphKey> keys;
    std::vector<policy::KeyIndex> ops;
    std::vector<std::vector<policy::OpIndex>> sources;
    std::vector<std::string> names;  ///< of the ops; may be empty
};

/// Both throw std::runtime_error with one message that names the file and what is wrong with it. Files may be
/// compressed with gzip.
[[nodiscard]] Machine read_machine(const std::string& path);
[[nodiscard]] Graph read_graph(const std::string& path);

}  // namespace corun::tools::sim
