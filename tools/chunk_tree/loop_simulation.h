// SPDX-License-Identifier: Apache-2.0
// A dynamically scheduled loop, simulated: what model/chunk_tree.h is trained on and what the tests of
// model/chunk.h are measured by. Nothing of corun's is used here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace corun::chunk_tree {

/// One loop: what each iteration costs, and what it costs to get a chunk.
struct Loop {
    std::string kind;           ///< of the distribution of the costs
    std::vector<double> until;  ///< until[i]: seconds of the iterations before i; one more than iterations
    int threads = 1;
    double local = 30e-9;   ///< seconds of a dispatch on the thread alone
    double shared = 20e-9;  ///< seconds for which a dispatch holds the shared counter's cache line
    double skew = 0.5e-6;   ///< seconds by which each thread begins after the one before it

    [[nodiscard]] std::int64_t iterations() const { return static_cast<std::int64_t>(until.size()) - 1; }
    [[nodiscard]] double dispatch() const { return local + shared; }
    [[nodiscard]] double mean() const { return until.back() / static_cast<double>(iterations()); }
    /// Standard deviation of the iterations' costs over their mean.
    [[nodiscard]] double spread() const {
        double sum = 0.0;
        for (std::size_t i = 1; i < until.size(); ++i) {
            const double off = until[i] - until[i - 1] - mean();
            sum += off * off;
        }
        return std::sqrt(sum / static_cast<double>(iterations())) / mean();
    }
};

/// A chunk that a thread got: for callers that want to know what a hook would have seen.
using ChunkSeen = std::function<void(std::int64_t iterations, double seconds)>;

/// Seconds from the first thread's begin to the last one's end with `schedule(dynamic, chunk)`. Every thread
/// takes the next chunk when it is done with its own; the counter is one cache line, which one thread has at
/// a time.
inline double run_dynamic(const Loop& loop, std::int64_t chunk, const ChunkSeen& seen = {}) {
    std::priority_queue<double, std::vector<double>, std::greater<>> ready;
    for (int thread = 0; thread < loop.threads; ++thread) ready.push(loop.skew * thread);
    double line_free = 0.0;
    double end = 0.0;
    std::int64_t next = 0;
    const std::int64_t most = loop.iterations();
    while (!ready.empty()) {
        const double begin = std::max(ready.top(), line_free);
        ready.pop();
        line_free = begin + loop.shared;
        const double got = line_free + loop.local;
        if (next >= most) {  // told that nothing is left
            end = std::max(end, got);
            continue;
        }
        const std::int64_t last = std::min(most, next + std::max<std::int64_t>(chunk, 1));
        const double seconds =
            loop.until[static_cast<std::size_t>(last)] - loop.until[static_cast<std::size_t>(next)];
        if (seen) seen(last - next, seconds);
        next = last;
        ready.push(got + seconds);
    }
    return end;
}

/// Powers of two from 1 to the first that gives each thread one chunk at most.
inline std::vector<std::int64_t> chunk_candidates(std::int64_t iterations, int threads) {
    std::vector<std::int64_t> chunks{1};
    while (chunks.back() * threads < iterations) chunks.push_back(chunks.back() * 2);
    return chunks;
}

/// Random loops: 8 to 100,000 iterations of 5 ns to 200 us, 2 to 64 threads, nine shapes of cost.
class LoopMaker {
  public:
    explicit LoopMaker(unsigned seed) : engine_(seed) {}

    Loop operator()() {
        Loop loop;
        loop.threads = 2 << below(6);
        const double iterations = log_between(std::max(8, 2 * loop.threads), 1e5);
        std::vector<double> costs(static_cast<std::size_t>(iterations));
        loop.kind = fill(costs, below(9));
        double sum = 0.0;
        for (const double cost : costs) sum += cost;
        const double scale = log_between(5e-9, 200e-6) * static_cast<double>(costs.size()) / sum;
        loop.until.reserve(costs.size() + 1);
        loop.until.push_back(0.0);
        for (const double cost : costs) loop.until.push_back(loop.until.back() + cost * scale);
        loop.local = log_between(10e-9, 80e-9);
        loop.shared = log_between(8e-9, 60e-9);
        loop.skew = log_between(0.05e-6, 2e-6);
        return loop;
    }
    double between(double low, double high) {
        return std::uniform_real_distribution<double>(low, high)(engine_);
    }
    double normal() { return std::normal_distribution<double>()(engine_); }

  private:
    int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(engine_); }
    double log_between(double low, double high) { return std::exp(between(std::log(low), std::log(high))); }

    // Costs in any unit; returns the name of the shape.
    std::string fill(std::vector<double>& costs, int shape) {
        const auto count = static_cast<double>(costs.size());
        const double a = between(0.0, 1.0);
        const auto each = [&](const std::function<double(double)>& cost) {
            for (std::size_t i = 0; i < costs.size(); ++i) costs[i] = cost(static_cast<double>(i) / count);
        };
        switch (shape) {
            case 0:
                return each([](double) { return 1.0; }), "equal";
            case 1:
                return each([&](double) { return between(1.0 - a, 1.0 + a); }), "uniform";
            case 2:
                return each([&](double) { return std::exp(1.5 * a * normal()); }), "lognormal";
            case 3:
                return each([&](double) { return -std::log(between(1e-12, 1.0)); }), "exponential";
            case 4: {  // a few that cost 10 to 100 times as much
                const double heavy = log_between(10.0, 100.0);
                return each([&](double) { return between(0.0, 1.0) < 0.1 * a ? heavy : 1.0; }), "heavy";
            }
            case 5:  // a triangular loop, and the other way round
                return each([&](double at) { return 1.0 - at + 0.02; }), "falling";
            case 6:
                return each([&](double at) { return at + 0.02; }), "rising";
            case 7:  // one stretch is dear
                return each([&](double at) { return at > a && at < a + 0.1 ? 10.0 : 1.0; }), "stretch";
            default: {  // neighbours are alike
                double level = 0.0;
                return each([&](double) {
                           level = 0.98 * level + 0.2 * a * normal();
                           return std::exp(level);
                       }),
                       "wandering";
            }
        }
    }

    std::mt19937 engine_;
};

}  // namespace corun::chunk_tree
