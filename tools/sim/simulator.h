// SPDX-License-Identifier: Apache-2.0
// The discrete-event simulator: a strategy of policy/ on a machine that may not be there.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "policy/strategy.h"
#include "tools/sim/cost.h"

namespace corun::tools::sim {

/// One op of one simulated step.
struct Executed {
    policy::OpIndex op = 0;
    double begin = 0.0;  ///< seconds since the step's begin
    double end = 0.0;
    int width = 0;
    int slot = 0;            ///< thread that dispatched it: no two ops at once have the same
    std::vector<int> cores;  ///< that it had, ascending
    bool siblings = false;
};

struct StepResult {
    double seconds = 0.0;
    double busy = 0.0;  ///< core seconds in which a core ran something
    std::size_t ops = 0;
    int most_at_once = 0;  ///< ops
};

class Simulator {
  public:
    /// @param table what the strategy believes of the costs: predicted ends come from it
    /// @param spread for each key and width whether its threads are spread over caches; empty: always
    Simulator(const Machine& machine, const Graph& graph, const policy::TaskGraph& tasks,
              const policy::CostTable& table, std::vector<std::vector<bool>> spread, std::uint64_t seed);

    /// One step from its first op to its last. @param trace filled when not null
    StepResult run(policy::Strategy& strategy, std::vector<Executed>* trace = nullptr);

  private:
    struct Active {
        policy::OpIndex op = 0;
        int width = 0;
        CostParts parts;
        double noise = 1.0;
        double left = 1.0;      // share of it that is still to do
        double duration = 0.0;  // of the whole at the present rates
        double begin = 0.0;
        double crowd = 1.0;    // threads of it on each of its cores
        double over = 1.0;     // threads of it, over those that its costs are of
        double share = 1.0;    // speed of its slowest core
        double caching = 1.0;  // stretch of its memory time
        int slot = 0;
        std::vector<int> cores;
        std::vector<double> traffic;  // share of its cores by socket
    };

    void start(const policy::Start& start);
    void finish(std::size_t at, policy::Strategy& strategy, std::vector<Executed>* trace);
    void place(Active& active, int threads, bool siblings, bool spread);
    [[nodiscard]] int best_socket(int wanted) const;
    void take_idle(Active& active, int socket, int wanted, bool spread);
    void add_load(const Active& active, int sign);
    void update_rates();
    [[nodiscard]] double core_speed(double load) const;
    double switch_cost(int slot, int width);
    int next_last_width() const;

    const Machine& machine_;
    const Graph& graph_;
    const policy::TaskGraph& tasks_;
    const policy::CostTable& table_;
    std::vector<std::vector<bool>> spread_;
    std::vector<std::vector<CostParts>> parts_;  // by key and width - 1, on as few sockets as possible
    std::mt19937_64 random_;
    std::normal_distribution<double> normal_;

    double now_ = 0.0;
    double busy_seconds_ = 0.0;
    std::vector<int> load_;         // threads by core
    std::vector<double> pressure_;  // the same, each counted by the share of its time that it runs
    std::vector<int> cache_busy_;   // busy cores by cache
    std::vector<double> demand_;    // scratch of update_rates(): GB/s by socket
    std::vector<int> fitting_;      // scratch of place(): cores that suit, by socket
    int busy_cores_ = 0;
    int single_loaded_ = 0;  // cores with exactly one thread
    int crowded_ = 0;        // cores with more than one
    std::vector<Active> active_;
    std::vector<policy::Running> running_;  // the same, as the strategy sees it
    std::vector<int> free_slots_;           // a heap, lowest first
    int slots_ = 0;
    std::vector<int> last_width_;  // by slot; 0: no team yet
    std::vector<std::uint32_t> waits_;
};

}  // namespace corun::tools::sim
