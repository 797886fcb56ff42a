// SPDX-License-Identifier: Apache-2.0
// The chunk lever: how many iterations a thread takes at a time in a loop with a dynamic or runtime schedule.
// A small decision tree over loop features proposes the first chunk, as Laberge, Shirzad, Diehl, Kaiser,
// Prudhomme, Lemoine do for HPX loops ("Scheduling optimization of parallel linear algebra algorithms using
// supervised learning", MLHPC 2019: of logistic regression, neural nets and trees, trees won); measurement
// corrects it, which they do not do. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "model/curve.h"
#include "model/drift.h"

namespace corun::model {

struct LoopFeatures {
    double iterations = 0.0;           ///< of the whole loop, >= 1
    double mean_seconds = 0.0;         ///< of one iteration
    double spread = 0.0;               ///< standard deviation of the iterations' costs over their mean;
                                       ///< the tree as it is makes nothing of it
    int threads = 1;                   ///< that share the loop, >= 1
    double dispatch_seconds = 100e-9;  ///< that it takes one thread to get a chunk
};

/// Chunks above are pointless: the first power of two of which each thread gets one chunk at most.
[[nodiscard]] int most_chunk(double iterations, int threads);

/// The tree's answer: a power of two in [1, most_chunk()]. A feature that is no number, or a loop without
/// iterations or cost, gives 1.
[[nodiscard]] int propose_chunk(const LoopFeatures& features);

/// Corrects a proposal by measuring: a local search over powers of two. The chunks in question run in turn,
/// call by call, so that a drift of the machine falls on all alike; medians of `samples` decide, a step is
/// taken when it gains more than `step_gain`, at most `most_steps` are. The program's own chunk is one of
/// those measured, and stays when nothing gains more than `deadband` over it. When the cost of the chosen
/// chunk leaves its band the search starts again from there, with steps of 4 before those of 2, as no
/// proposal says where; each time only after twice as many calls as before.
class ChunkSearch {
  public:
    static constexpr int samples = 5;
    static constexpr int most_steps = 8;
    static constexpr double step_gain = 0.01;
    static constexpr double deadband = 0.02;

    /// @param own the program's chunk, >= 1
    /// @param proposal where the search begins; clamped to [1, most], made a power of two
    /// @param most see most_chunk()
    ChunkSearch(int own, int proposal, int most);

    /// The chunk for the next call.
    [[nodiscard]] int next() const;
    /// One call: the chunk it ran with (others than those in question are ignored) and its wall time over its
    /// number of iterations, so that loops of about the same length can share a search.
    void add(int chunk, double seconds_per_iteration);

    [[nodiscard]] bool settled() const { return stage_ == Stage::settled; }
    [[nodiscard]] int chunk() const { return best_; }   ///< the best so far; the choice once settled
    [[nodiscard]] int calls() const { return calls_; }  ///< used by the latest search
    [[nodiscard]] int restarts() const { return restarts_; }

  private:
    enum class Stage : std::uint8_t { fours, twos, settled };
    struct Candidate {
        int chunk;
        RobustSamples seconds;
    };

    void begin(int chunk, Stage stage);
    void ask_neighbours();
    void decide();
    void settle();
    void watch(double seconds);
    [[nodiscard]] Candidate* find(int chunk);
    [[nodiscard]] double median(int chunk) const;
    [[nodiscard]] int step() const { return stage_ == Stage::fours ? 4 : 2; }

    int own_;
    int most_;
    int best_ = 1;
    Stage stage_ = Stage::twos;
    int steps_ = 0;
    int calls_ = 0;
    int restarts_ = 0;
    std::uint64_t calm_ = 0;  // calls since it settled
    std::vector<Candidate> candidates_;
    std::vector<int> asked_;  // chunks that lack samples
    double settled_seconds_ = 0.0;
    Drift drift_;
};

}  // namespace corun::model
