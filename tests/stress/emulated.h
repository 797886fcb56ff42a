// SPDX-License-Identifier: Apache-2.0
// A machine that is not there: threads that sleep for as long as its CPUs would compute, and an executor that
// hands the ops of a graph to threads as TensorFlow's does. Many CPUs take little of the real ones that way.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

namespace emulated {

/// Time that this thread has computed on CPUs that are not there, seconds. What the program's clock_gettime()
/// says for CLOCK_THREAD_CPUTIME_ID.
extern thread_local double computed;

class Cpus {
  public:
    explicit Cpus(int count) : load_(static_cast<std::size_t>(count), 0) {}

    /// Returns when `width` threads have computed what takes them `seconds` alone. They are placed on the
    /// CPUs that have the fewest threads; a CPU's threads share it, and the slowest of a team is waited for.
    void compute(int width, double seconds);

    struct Use {
        double busy = 0.0;   ///< CPU seconds
        double crowd = 0.0;  ///< seconds in which a CPU had several threads
        int most = 0;        ///< threads at once
    };
    [[nodiscard]] Use use();  ///< since it was asked for last

  private:
    struct Job {
        double left = 0.0;  ///< seconds, alone
        double rate = 1.0;  ///< of one alone
        std::vector<std::size_t> cpus;
        std::condition_variable changed;
    };
    // With the mutex.
    void advance(double now);
    void place(Job& job, int width);
    void update_rates();

    std::vector<int> load_;  ///< threads by CPU
    std::mutex mutex_;
    std::list<Job*> jobs_;
    int threads_ = 0;
    double at_ = 0.0;  // of `left`
    Use use_;
};

/// Ops numbered so that each comes after all that it waits for.
struct Graph {
    std::vector<std::vector<std::uint32_t>> successors;
    std::vector<std::uint32_t> sources;  ///< how many ops each waits for
};

class Executor {
  public:
    using Body = std::function<void(std::uint32_t op)>;

    explicit Executor(int threads);
    ~Executor();
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;

    /// One step: calls body(op) once for each op, after all that it waits for, on the threads.
    void run(const Graph& graph, const Body& body);

  private:
    void work();

    std::mutex mutex_;
    std::condition_variable news_;
    std::condition_variable done_;
    const Graph* graph_ = nullptr;
    const Body* body_ = nullptr;
    std::vector<std::uint32_t> waits_;
    std::list<std::uint32_t> ready_;
    std::size_t left_ = 0;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace emulated
