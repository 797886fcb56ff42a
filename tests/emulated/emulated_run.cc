// SPDX-License-Identifier: Apache-2.0
// The op graph of a real training step as a program of a TensorFlow that is made up, on a machine that is not
// there: the threads of its dispatch pool are real, and each op sleeps for as long as the machine's file says
// it takes at the width that it is given. The preloaded library sees what it would see of the real program.
//   emulated_run MACHINE GRAPH WARM_SECONDS STEPS [teams]
// Steps last too long here for corun to see what repeats. So first the shortest ops run in a loop for so many
// seconds, by which it is settled, then each kind of op often enough to be known as one that waits for no
// other, and only then STEPS steps on the threads of the pool. With "teams" an op opens a region of OpenMP
// with as many threads.
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/emulated/emulated_key.h"
#include "tests/stress/emulated.h"
#include "tests/victims/fake_tensorflow/fake_tensorflow.h"
#include "tools/sim/cost.h"
#include "tools/sim/machine.h"

namespace {

using namespace corun::tools;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Program {
  public:
    Program(sim::Machine machine, sim::Graph graph, bool teams)
        : machine_(std::move(machine)), graph_(std::move(graph)), teams_(teams), cpus_(machine_.cores) {
        for (std::size_t key = 0; key < graph_.keys.size(); ++key)
            contexts_.push_back(std::make_unique<fake::OpKernelContext>(
                std::vector<tensorflow::Shape>{{emulated::size_of_key(key)}}));
        order_.successors.resize(graph_.ops.size());
        for (std::uint32_t op = 0; op < graph_.ops.size(); ++op) {
            const corun::policy::KeyIndex key = graph_.ops[op];
            kernels_.push_back(std::make_unique<fake::Kernel>(
                "op" + std::to_string(op), emulated::kind(graph_.keys[key].type),
                [this, key](fake::OpKernelContext*) { compute(graph_.keys[key]); }));
            order_.sources.push_back(static_cast<std::uint32_t>(graph_.sources[op].size()));
            for (const auto source : graph_.sources[op]) order_.successors[source].push_back(op);
        }
    }

    void step(emulated::Executor& executor) {
        executor.run(order_,
                     [this](std::uint32_t op) { fake::run(*kernels_[op], *contexts_[graph_.ops[op]]); });
    }
    /// One op of each key, one after the other: of the shortest up to `seconds` in all.
    void each_key(double seconds) {
        std::vector<std::size_t> keys(contexts_.size());
        std::iota(keys.begin(), keys.end(), 0U);
        std::sort(keys.begin(), keys.end(), [this](std::size_t a, std::size_t b) {
            return seconds_of(graph_.keys[a], machine_.cores) < seconds_of(graph_.keys[b], machine_.cores);
        });
        for (const std::size_t key : keys) {
            seconds -= seconds_of(graph_.keys[key], machine_.cores);
            if (seconds < 0.0) return;
            const auto op = std::find(graph_.ops.begin(), graph_.ops.end(), key) - graph_.ops.begin();
            fake::run(*kernels_[static_cast<std::size_t>(op)], *contexts_[key]);
        }
    }
    [[nodiscard]] std::size_t ops() const { return graph_.ops.size(); }
    [[nodiscard]] int cores() const { return machine_.cores; }
    emulated::Cpus& cpus() { return cpus_; }

  private:
    [[nodiscard]] double seconds_of(const sim::GraphKey& key, int width) const {
        const int threads = key.parts > 1 ? width : 1;
        return sim::cost_parts(machine_, key, threads, sim::sockets_for(machine_, threads)).seconds();
    }
    void compute(const sim::GraphKey& key) {
        const int limit = std::min(tensorflow::GetPerThreadMaxParallelism(), machine_.cores);
        const int threads = key.parts > 1 ? limit : 1;
        const double seconds = seconds_of(key, threads);
        if (!teams_ || threads == 1) return cpus_.compute(threads, seconds);
#pragma omp parallel num_threads(threads)
        {
#pragma omp master
            cpus_.compute(threads, seconds);
        }
    }

    sim::Machine machine_;
    sim::Graph graph_;
    bool teams_;
    emulated::Cpus cpus_;
    std::vector<std::unique_ptr<fake::OpKernelContext>> contexts_;  // of each key
    std::vector<std::unique_ptr<fake::Kernel>> kernels_;            // of each op, as TensorFlow has it
    emulated::Graph order_;
};

// As TensorFlow sizes its pool.
int dispatch_threads(int cores) {
    int threads = tensorflow::NumInterOpThreadsFromEnvironment();
    if (threads == 0) threads = cores;
    const tsl::thread::ThreadPool pool(nullptr, {}, "Compute", threads, true, nullptr);
    return pool.eigen().NumThreads();
}

int run(const char* machine, const char* graph, double warm, int steps, bool teams) {
    prctl(PR_SET_TIMERSLACK, 1);  // inherited by the threads
    Program program(sim::read_machine(machine), sim::read_graph(graph), teams);
    constexpr double kPeriod = 0.02;
    constexpr int kProof = 22;
    for (const auto begin = Clock::now(); since(begin) < warm;) program.each_key(kPeriod);
    for (int i = 0; i < kProof; ++i) program.each_key(std::numeric_limits<double>::infinity());
    const int threads = dispatch_threads(program.cores());
    emulated::Executor executor(threads);
    program.step(executor);  // threads are made, ops looked up by each
    std::vector<double> seconds;
    static_cast<void>(program.cpus().use());
    const auto all = Clock::now();
    for (int step = 0; step < steps; ++step) {
        const auto begin = Clock::now();
        program.step(executor);
        seconds.push_back(since(begin));
    }
    const emulated::Cpus::Use use = program.cpus().use();
    const double wall = since(all);
    std::sort(seconds.begin(), seconds.end());
    std::printf("{\"threads\": %d, \"ops\": %zu, \"median\": %.6f, \"least\": %.6f, \"most\": %.6f, ",
                threads, program.ops(), seconds[seconds.size() / 2], seconds.front(), seconds.back());
    std::printf("\"busy\": %.4f, \"crowded\": %.4f, \"most_threads\": %d}\n",
                use.busy / wall / program.cores(), use.crowd / wall, use.most);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 5) return std::fputs("emulated_run MACHINE GRAPH WARM_SECONDS STEPS [teams]\n", stderr), 2;
    try {
        return run(argv[1], argv[2], std::atof(argv[3]), std::max(1, std::atoi(argv[4])),
                   argc > 5 && std::strcmp(argv[5], "teams") == 0);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
