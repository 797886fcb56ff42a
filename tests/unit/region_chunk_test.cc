// SPDX-License-Identifier: Apache-2.0
// Chunks of loops that are made up: what each costs is known here.
#include "policy/region_chunk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace corun::policy {
namespace {

// A loop of equal iterations; a thread waits for half a chunk at the end.
struct Loop {
    double iterations = 5000;
    double mean = 30e-9;
    double dispatch = 100e-9;
    int threads = 2;

    [[nodiscard]] double seconds(int chunk) const {
        const double chunks = std::ceil(iterations / chunk);
        return 2e-6 + (iterations * mean + chunks * dispatch) / threads + 0.5 * chunk * mean;
    }
    [[nodiscard]] int best() const {
        int best = 1;
        for (int chunk = 1; chunk <= iterations; chunk *= 2)
            if (seconds(chunk) < seconds(best)) best = chunk;
        return best;
    }
};

struct Program {
    explicit Program(const Loop& like, int own = 1, double explore = 0.05)
        : loop(like), chunk(own, explore, 0.0) {}

    void call() {
        std::lognormal_distribution<double> noise(0.0, 0.03);
        const auto usual = static_cast<std::uint64_t>(chunk.iterations());
        const auto used = static_cast<int>(chunk_for(static_cast<std::uint64_t>(chunk.chunk()), usual,
                                                     static_cast<std::uint64_t>(loop.iterations), 1));
        const double seconds = loop.seconds(used) * noise(random);
        now += seconds + between;
        lost += seconds - loop.seconds(1) > 0 ? seconds - loop.seconds(1) : 0.0;
        chunk.timed({used, loop.iterations, 1.0, loop.threads, seconds, now});
    }
    void settle(int most = 2000) {
        for (int i = 0; i < most && !chunk.settled(); ++i) call();
    }

    Loop loop;
    RegionChunk chunk;
    std::mt19937 random{11};
    double now = 0.0;
    double between = 20e-6;
    double lost = 0.0;
};

TEST(RegionChunk, FindsALargerChunkForShortIterations) {
    for (const double mean : {5e-9, 30e-9, 200e-9}) {
        for (const double iterations : {500.0, 5000.0, 100000.0}) {
            Loop loop;
            loop.mean = mean;
            loop.iterations = iterations;
            Program program(loop);
            program.settle();
            ASSERT_TRUE(program.chunk.settled());
            EXPECT_GT(program.chunk.chunk(), 1) << mean << ' ' << iterations;
            EXPECT_LT(loop.seconds(program.chunk.chunk()), 1.05 * loop.seconds(loop.best()))
                << mean << ' ' << iterations << " chunk " << program.chunk.chunk();
        }
    }
}

TEST(RegionChunk, LeavesLongIterationsAlone) {
    Loop loop;
    loop.mean = 30e-6;
    loop.iterations = 200;
    Program program(loop);
    program.settle();
    EXPECT_TRUE(program.chunk.settled());
    EXPECT_EQ(program.chunk.chunk(), 1);
    EXPECT_EQ(program.lost < 0.1 * program.now, true);
}

TEST(RegionChunk, LeavesAloneWhatHasOneIterationForEachThread) {
    Loop loop;
    loop.iterations = 2;
    Program program(loop);
    program.settle(100);
    EXPECT_TRUE(program.chunk.settled());
    EXPECT_EQ(program.chunk.chunk(), 1);
}

TEST(RegionChunk, KeepsTheProgramsOwnWhereNothingIsGained) {
    Loop loop;
    loop.dispatch = 0.0;
    loop.iterations = 64;
    loop.mean = 4e-6;
    Program program(loop);
    program.settle();
    EXPECT_TRUE(program.chunk.settled());
    EXPECT_EQ(program.chunk.chunk(), 1);
}

// Trials that cost more than what they may wait until that was earned, and the program's own chunk runs then.
TEST(RegionChunk, TrialsKeepWithinTheirBudget) {
    Loop loop;
    loop.dispatch = 0.0;  // each larger chunk is worse
    loop.iterations = 400;
    loop.mean = 5e-6;  // a call of 1 ms
    Program program(loop, 1, 0.01);
    program.settle(400);
    EXPECT_LT(program.lost, RegionChunk::kInitial + 0.01 * program.now + loop.seconds(256));
}

TEST(RegionChunk, LoopsOfAnotherLengthDoNotCount) {
    Loop loop;
    Program program(loop);
    program.settle();
    const int found = program.chunk.chunk();
    ASSERT_GT(found, 1);
    program.loop.iterations = 50;
    for (int i = 0; i < RegionChunk::kUnlikeCalls - 1; ++i) program.call();
    EXPECT_EQ(program.chunk.chunk(), found);
    EXPECT_TRUE(program.chunk.settled());
    program.call();  // now they are the usual ones
    EXPECT_FALSE(program.chunk.settled());
    EXPECT_EQ(program.chunk.iterations(), 50);
}

TEST(RegionChunk, WhatIsNoMeasurementCountsForNothing) {
    RegionChunk chunk(1, 0.05, 0.0);
    for (int i = 0; i < 100; ++i) {
        chunk.timed({1, 0.0, 1.0, 2, 1e-3, 1.0});
        chunk.timed({1, 100.0, 0.0, 2, 1e-3, 1.0});
        chunk.timed({1, 100.0, 1.0, 2, 0.0, 1.0});
        chunk.timed({1, 100.0, 1.0, 2, std::nan(""), 1.0});
    }
    EXPECT_EQ(chunk.chunk(), 1);
    EXPECT_EQ(chunk.iterations(), 0.0);
}

TEST(ChunkFor, AShorterLoopHasAsManyChunks) {
    EXPECT_EQ(chunk_for(64, 1024, 1024, 1), 64U);
    EXPECT_EQ(chunk_for(64, 1024, 5000, 1), 64U);
    EXPECT_EQ(chunk_for(64, 1024, 700, 1), 64U);
    EXPECT_EQ(chunk_for(64, 1024, 512, 1), 32U);
    EXPECT_EQ(chunk_for(64, 1024, 100, 1), 8U);
    EXPECT_EQ(chunk_for(64, 1024, 3, 1), 1U);
    EXPECT_EQ(chunk_for(64, 1024, 0, 1), 64U);
    EXPECT_EQ(chunk_for(4, 1024, 1024, 8), 8U);
    EXPECT_EQ(chunk_for(64, ~std::uint64_t{0}, 1, 1), 1U);
}

TEST(MayRechunk, OnlyWhereNothingButTheNumberOfThreadsSpeaksAgainst) {
    for (int i = 0; i < static_cast<int>(RegionClass::count); ++i) {
        const auto kind = static_cast<RegionClass>(i);
        const bool may = kind == RegionClass::resizable || kind == RegionClass::listed ||
                         kind == RegionClass::planned_outside;
        EXPECT_EQ(may_rechunk(kind), may) << class_name(kind);
    }
}

}  // namespace
}  // namespace corun::policy
