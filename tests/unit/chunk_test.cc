// SPDX-License-Identifier: Apache-2.0
// The chunk lever on simulated loops: what the tree proposes, what measuring makes of it.
#include "model/chunk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "tools/chunk_tree/loop_simulation.h"

namespace corun::model {
namespace {

using chunk_tree::Loop;
using chunk_tree::LoopMaker;

// As the tree's training, with another seed.
constexpr unsigned kSeed = 11;

Loop equal_loop(std::int64_t iterations, double seconds, int threads) {
    Loop loop;
    loop.threads = threads;
    for (std::int64_t i = 0; i <= iterations; ++i) loop.until.push_back(static_cast<double>(i) * seconds);
    return loop;
}

// Powers of two and what lies halfway between them.
double best_seconds(const Loop& loop) {
    double best = std::numeric_limits<double>::infinity();
    for (const std::int64_t chunk : chunk_tree::chunk_candidates(loop.iterations(), loop.threads)) {
        best = std::min(best, run_dynamic(loop, chunk));
        if (chunk > 1) best = std::min(best, run_dynamic(loop, chunk + chunk / 2));
    }
    return best;
}

// What a hook learns from one call that runs with `chunk`, when it sees each chunk with some noise.
LoopFeatures seen(const Loop& loop, std::int64_t chunk, LoopMaker& noise) {
    double all = 0.0;
    run_dynamic(loop, chunk,
                [&](std::int64_t, double seconds) { all += seconds * std::exp(0.05 * noise.normal()); });
    const auto iterations = static_cast<double>(loop.iterations());
    return {iterations, all / iterations, 0.0, loop.threads, loop.dispatch()};
}

// Of one way to choose a chunk: how far it is from the best, over many loops.
class Score {
  public:
    explicit Score(std::string name) : name_(std::move(name)) {}

    void add(double seconds, double best) { excess_.push_back(seconds / best - 1.0); }
    [[nodiscard]] double near(double within = 0.05) const {
        const auto good =
            std::count_if(excess_.begin(), excess_.end(), [&](double one) { return one <= within; });
        return static_cast<double>(good) / static_cast<double>(excess_.size());
    }
    [[nodiscard]] double mean() const {
        double sum = 0.0;
        for (const double one : excess_) sum += one;
        return sum / static_cast<double>(excess_.size());
    }
    void tell() const {
        std::printf("%-28s within 5 %% of the best in %5.1f %% of %zu loops, mean excess %6.1f %%\n",
                    name_.c_str(), 100.0 * near(), excess_.size(), 100.0 * mean());
    }

  private:
    std::string name_;
    std::vector<double> excess_;
};

// --- the tree

TEST(ProposeChunk, IsAPowerOfTwoWithinItsBounds) {
    LoopMaker maker(kSeed);
    for (int i = 0; i < 2000; ++i) {
        LoopFeatures loop{std::exp(maker.between(0, 16)), std::exp(maker.between(-25, 0)),
                          maker.between(0, 8), 1 << static_cast<int>(maker.between(0, 8)),
                          std::exp(maker.between(-19, -14))};
        const int chunk = propose_chunk(loop);
        EXPECT_GE(chunk, 1);
        EXPECT_LE(chunk, most_chunk(loop.iterations, loop.threads));
        EXPECT_EQ(chunk & (chunk - 1), 0);
    }
}

TEST(ProposeChunk, CheapIterationsAreTakenTogetherAndDearOnesAlone) {
    EXPECT_GE(propose_chunk({100000, 5e-9, 0.0, 8, 50e-9}), 64);
    EXPECT_LE(propose_chunk({100, 1e-3, 2.0, 8, 50e-9}), 2);
}

TEST(ProposeChunk, WhatIsNoLoopGivesOne) {
    EXPECT_EQ(propose_chunk({0, 1e-6, 0, 4, 50e-9}), 1);
    EXPECT_EQ(propose_chunk({1000, 0, 0, 4, 50e-9}), 1);
    EXPECT_EQ(propose_chunk({1000, 1e-6, std::nan(""), 4, 50e-9}), 1);
    EXPECT_EQ(propose_chunk({1000, 1e-6, 0, 4, 0}), 1);
    EXPECT_EQ(propose_chunk({1000, -1, 0, 4, 50e-9}), 1);
    EXPECT_EQ(propose_chunk({}), 1);
}

TEST(MostChunk, GivesEachThreadOne) {
    EXPECT_EQ(most_chunk(64, 4), 16);
    EXPECT_EQ(most_chunk(65, 4), 32);
    EXPECT_EQ(most_chunk(3, 4), 1);
    EXPECT_EQ(most_chunk(0, 0), 1);
    EXPECT_EQ(most_chunk(1e300, 1), 1 << 30);
}

// The tree alone, from the true features and from what one call with chunk 1 shows, against fixed rules.
TEST(ProposeChunk, IsNearerToTheBestThanFixedRules) {
    LoopMaker maker(kSeed);
    LoopMaker noise(kSeed + 1);
    Score tree("tree, true features");
    Score observed("tree, features of one call");
    Score one("chunk 1");
    std::vector<Score> shares;
    const std::vector<int> parts{1, 2, 4, 8, 16, 32};
    for (const int k : parts) shares.emplace_back("iterations/(" + std::to_string(k) + " threads)");
    for (int i = 0; i < 1500; ++i) {
        const Loop loop = maker();
        const double best = best_seconds(loop);
        const auto iterations = static_cast<double>(loop.iterations());
        const LoopFeatures truth{iterations, loop.mean(), loop.spread(), loop.threads, loop.dispatch()};
        tree.add(run_dynamic(loop, propose_chunk(truth)), best);
        observed.add(run_dynamic(loop, propose_chunk(seen(loop, 1, noise))), best);
        one.add(run_dynamic(loop, 1), best);
        for (std::size_t k = 0; k < parts.size(); ++k)
            shares[k].add(run_dynamic(loop, loop.iterations() / (parts[k] * loop.threads)), best);
    }
    for (const Score* score : {&tree, &observed, &one}) score->tell();
    for (const Score& score : shares) score.tell();
    EXPECT_GE(tree.near(), 0.90);
    EXPECT_GE(observed.near(), 0.88);
    EXPECT_LT(observed.mean(), one.mean() / 5.0);
    for (const Score& score : shares) {
        EXPECT_GT(observed.near(), score.near() + 0.05);
        EXPECT_LT(observed.mean(), score.mean());
    }
}

// --- the search

// Follows a search over a loop whose calls have lognormal noise, with a burst of 2x in one call of fifty.
class Calls {
  public:
    Calls(const Loop& loop, double sigma, unsigned seed) : loop_(&loop), sigma_(sigma), noise_(seed) {}

    // Calls until it is settled; -1: it never is.
    int settle(ChunkSearch& search, int most = 400) {
        for (int call = 0; call < most; ++call) {
            if (search.settled()) return call;
            step(search);
        }
        return -1;
    }
    void step(ChunkSearch& search) {
        const int chunk = search.next();
        const double factor = std::exp(sigma_ * noise_.normal()) * (noise_.between(0, 1) < 0.02 ? 2.0 : 1.0);
        search.add(chunk, run_dynamic(*loop_, chunk) * factor / static_cast<double>(loop_->iterations()));
    }
    void change(const Loop& loop) { loop_ = &loop; }

  private:
    const Loop* loop_;
    double sigma_;
    LoopMaker noise_;
};

struct Outcome {
    Score score;
    double calls = 0.0;
    int most_calls = 0;
};

// A random loop with a random chunk of the program's own; the features come from one call with that chunk.
// @param dispatch what the cost of a dispatch is thought to be, over what it is
Outcome search_many(const std::string& name, int loops, double sigma, bool tree, double dispatch = 1.0) {
    Outcome outcome{Score(name)};
    LoopMaker maker(kSeed + 2);
    LoopMaker noise(kSeed + 3);
    for (int i = 0; i < loops; ++i) {
        const Loop loop = maker();
        const int most = most_chunk(static_cast<double>(loop.iterations()), loop.threads);
        const int own = std::min(most, 1 << static_cast<int>(noise.between(0, 6)));
        LoopFeatures features = seen(loop, own, noise);
        features.dispatch_seconds *= dispatch;
        const int proposal = tree ? propose_chunk(features) : own;
        ChunkSearch search(own, proposal, most);
        const int calls = Calls(loop, sigma, kSeed + static_cast<unsigned>(i)).settle(search);
        EXPECT_GE(calls, 0) << i;
        outcome.calls += static_cast<double>(calls) / loops;
        outcome.most_calls = std::max(outcome.most_calls, calls);
        outcome.score.add(run_dynamic(loop, search.chunk()), best_seconds(loop));
    }
    outcome.score.tell();
    std::printf("%-28s %.0f calls until settled on average, %d at most\n", "", outcome.calls,
                outcome.most_calls);
    return outcome;
}

TEST(ChunkSearch, ProposalAndCorrectionAreWithinFivePercentOfTheBest) {
    const Outcome quiet = search_many("tree + search, 5 % noise", 600, 0.05, true);
    EXPECT_GE(quiet.score.near(), 0.90);
    EXPECT_LE(quiet.most_calls, 120);
    const Outcome noisy = search_many("tree + search, 15 % noise", 600, 0.15, true);
    EXPECT_GE(noisy.score.near(0.10), 0.90);
}

TEST(ChunkSearch, TheProposalIsBetterThanTheProgramsChunkAsAStart) {
    const Outcome with = search_many("tree + search, 5 % noise", 300, 0.05, true);
    const Outcome without = search_many("search from the own chunk", 300, 0.05, false);
    EXPECT_LT(with.calls, without.calls);
    EXPECT_GE(with.score.near(), without.score.near() + 0.02);
}

TEST(ChunkSearch, CorrectsAProposalThatRestsOnAWrongCostOfADispatch) {
    EXPECT_GE(search_many("tree + search, dispatch x 4", 300, 0.05, true, 4.0).score.near(), 0.90);
    EXPECT_GE(search_many("tree + search, dispatch / 4", 300, 0.05, true, 0.25).score.near(), 0.90);
}

TEST(ChunkSearch, BeginsWithTheProposalAndTheProgramsOwnChunk) {
    ChunkSearch search(3, 64, 1024);
    std::vector<int> first;
    for (int i = 0; i < 4; ++i) {
        first.push_back(search.next());
        search.add(first.back(), 1e-6);
    }
    std::sort(first.begin(), first.end());
    EXPECT_EQ(first, (std::vector<int>{3, 32, 64, 128}));
}

TEST(ChunkSearch, StaysWithinItsBounds) {
    for (const int most : {1, 2, 3, 8, 1000}) {
        ChunkSearch search(5, 1 << 20, most);
        while (!search.settled()) {
            const int chunk = search.next();
            EXPECT_TRUE(chunk == 5 || (chunk >= 1 && chunk <= most)) << chunk;
            search.add(chunk, 1e-6 / chunk);  // the larger the better: it would go on and on
        }
    }
}

TEST(ChunkSearch, KeepsTheProgramsChunkUnlessAnotherIsClearlyBetter) {
    const auto settled_at = [](double gain) {
        ChunkSearch search(24, 4, 256);
        while (!search.settled()) {
            const int chunk = search.next();
            search.add(chunk, chunk == 24
                                  ? 1e-6
                                  : 1e-6 * (1.0 - gain) * (1.0 + 0.1 * std::abs(std::log2(chunk / 4.0))));
        }
        return search.chunk();
    };
    EXPECT_EQ(settled_at(-0.10), 24);
    EXPECT_EQ(settled_at(0.00), 24);
    EXPECT_EQ(settled_at(0.015), 24);
    EXPECT_EQ(settled_at(0.05), 4);
}

TEST(ChunkSearch, IgnoresWhatItDidNotAskFor) {
    ChunkSearch search(1, 8, 64);
    search.add(48, 1e-12);
    search.add(8, std::nan(""));
    search.add(8, 0.0);
    EXPECT_EQ(search.calls(), 0);
    while (!search.settled()) search.add(search.next(), search.next() == 8 ? 1e-6 : 2e-6);
    EXPECT_EQ(search.chunk(), 8);
}

TEST(ChunkSearch, StartsAgainWhenTheCostHasMovedAndFollowsIt) {
    const Loop cheap = equal_loop(4096, 10e-9, 4);
    Loop dear = equal_loop(4096, 4e-6, 4);
    // The last stretch is dear: a large chunk of it would keep one thread busy alone.
    for (std::size_t i = 3600; i < dear.until.size(); ++i) dear.until[i] = dear.until[i - 1] + 40e-6;
    ChunkSearch search(1, 256, most_chunk(4096, 4));
    Calls calls(cheap, 0.05, 5);
    ASSERT_GE(calls.settle(search), 0);
    const int before = search.chunk();
    EXPECT_LE(run_dynamic(cheap, before), best_seconds(cheap) * 1.05);
    for (int i = 0; i < 500; ++i) calls.step(search);
    EXPECT_EQ(search.restarts(), 0);  // noise alone does not move it
    calls.change(dear);
    int waited = 0;
    while (search.restarts() == 0 && waited < 500) calls.step(search), ++waited;
    EXPECT_LE(waited, 30);
    ASSERT_GE(calls.settle(search), 0);
    EXPECT_LT(search.chunk(), before);
    EXPECT_LE(run_dynamic(dear, search.chunk()), best_seconds(dear) * 1.05);
}

// A loop whose cost has two modes must not be searched for ever.
TEST(ChunkSearch, RestartsGetRarer) {
    const Loop fast = equal_loop(1000, 100e-9, 4);
    const Loop slow = equal_loop(1000, 300e-9, 4);
    ChunkSearch search(1, 16, most_chunk(1000, 4));
    Calls calls(fast, 0.05, 9);
    for (int i = 0; i < 20000; ++i) {
        if (i % 200 == 0) calls.change(i % 400 == 0 ? slow : fast);
        calls.step(search);
    }
    EXPECT_GE(search.restarts(), 3);
    EXPECT_LE(search.restarts(), 9);
}

// --- the simulation itself

TEST(LoopSimulation, AgreesWithWhatCanBeSaidByHand) {
    Loop loop = equal_loop(1000, 1e-6, 4);
    loop.skew = 0.0;
    loop.local = loop.shared = 0.0;
    EXPECT_NEAR(run_dynamic(loop, 1), 250e-6, 1e-12);
    EXPECT_NEAR(run_dynamic(loop, 250), 250e-6, 1e-12);
    EXPECT_NEAR(run_dynamic(loop, 1000), 1000e-6, 1e-12);
    EXPECT_NEAR(run_dynamic(loop, 300), 300e-6, 1e-12);
    loop.local = 1e-6;  // each chunk costs its dispatch, the last question too
    EXPECT_NEAR(run_dynamic(loop, 250), 252e-6, 1e-12);
    loop.local = 0.0;
    loop.shared = 10e-6;  // one thread at a time: the counter alone decides
    EXPECT_GE(run_dynamic(loop, 1), 1000 * 10e-6);
    EXPECT_NEAR(loop.mean(), 1e-6, 1e-12);
    EXPECT_NEAR(loop.spread(), 0.0, 1e-6);
}

}  // namespace
}  // namespace corun::model
