// SPDX-License-Identifier: Apache-2.0
// The anchor on made-up streams of ops, and the epoch on made-up mixes.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "policy/anchor.h"
#include "policy/epoch.h"

namespace corun::policy {
namespace {

// --- anchor
// --------------------------------------------------------------------------------------------------

constexpr std::uint32_t kLoss = 90;
constexpr std::uint32_t kOptimizer = 91;
constexpr std::uint32_t kBody = 10;  ///< and the three after it
constexpr std::uint32_t kLog = 5;    ///< once in ten steps
constexpr std::uint32_t kStart = 1;  ///< only in the first moment, very regularly

/// An LSTM: 28 turns of a loop of four ops, then loss and optimizer. The work read is a little late or early,
/// as it is summed over threads.
class Stream {
  public:
    explicit Stream(AnchorFinder& finder, double speed = 1.0) : finder_(finder), speed_(speed) {}

    void op(std::uint32_t key, double work) {
        const double jitter = std::uniform_real_distribution<double>(-5e-5, 5e-5)(random_);
        finder_.occurred(key, work_ + jitter, now_);
        work_ += work;
        now_ += work / speed_ * std::exp(std::normal_distribution<double>(0.0, 0.15)(random_));
    }
    void step(int turns = 28) {
        for (int turn = 0; turn < turns; ++turn) {
            for (std::uint32_t i = 0; i < 4; ++i) op(kBody + i, 1.2e-4);
        }
        op(kLoss, 2e-3);
        op(kOptimizer, 4e-3);
        if (++steps_ % 10 == 0) op(kLog, 1e-4);
    }
    void pause(double seconds) { now_ += seconds; }
    [[nodiscard]] double now() const { return now_; }

  private:
    AnchorFinder& finder_;
    double speed_;
    double work_ = 0.0;
    double now_ = 100.0;
    int steps_ = 0;
    Random random_{11};
};

TEST(Anchor, IsTheStepNotTheLoopInsideIt) {
    AnchorFinder finder;
    Stream stream(finder);
    EXPECT_FALSE(finder.best().has_value());
    for (int i = 0; i < 6; ++i) stream.op(kStart, 1e-3);
    for (int i = 0; i < 5; ++i) stream.step();
    ASSERT_TRUE(finder.best().has_value());
    EXPECT_EQ(*finder.best(), kLoss);  // the lower key of the two that return once per step
    EXPECT_NEAR(finder.period(kLoss), 0.0194, 0.002);
    EXPECT_LT(finder.variation(kLoss), 0.01);
    EXPECT_GT(finder.variation(kBody), 1.0);
}

TEST(Anchor, IsTheStepNotEveryTenthOfIt) {
    AnchorFinder finder;
    Stream stream(finder);
    for (int i = 0; i < 200; ++i) stream.step();
    EXPECT_LT(finder.variation(kLog), finder.variation(kLoss));
    EXPECT_EQ(finder.best(), kLoss);
}

TEST(Anchor, NeedsFourReturns) {
    AnchorFinder finder;
    Stream stream(finder);
    for (int i = 0; i < 4; ++i) stream.op(7, 0.02);
    EXPECT_FALSE(finder.best().has_value());
    EXPECT_EQ(finder.best(3), 7u);
    stream.op(7, 0.02);
    EXPECT_EQ(finder.best(), 7u);
    EXPECT_EQ(finder.period(8), 0.0);
    EXPECT_TRUE(std::isinf(finder.variation(8)));
}

TEST(Anchor, IgnoresWarmUpAndForgetsAPauseAndACheckpoint) {
    AnchorFinder finder;
    Stream stream(finder);
    stream.step();
    stream.op(40, 3.0);  // compiled on the first step
    for (int i = 0; i < 20; ++i) stream.step();
    EXPECT_EQ(finder.best(), kLoss);
    EXPECT_LT(finder.variation(kLoss), 0.01);
    stream.pause(30.0);
    stream.step();
    EXPECT_LT(finder.period(kLoss), 0.030);
    stream.op(41, 0.5);  // a checkpoint: 25 steps' worth
    for (int i = 0; i < 3000; ++i) stream.step();
    EXPECT_EQ(finder.best(), kLoss);
    EXPECT_LT(finder.variation(kLoss), 0.05);
}

TEST(Anchor, IsNothingWhenNothingIsSteady) {
    AnchorFinder finder;
    Stream stream(finder);
    Random random(1);
    for (int i = 0; i < 3000; ++i) {
        const auto key = static_cast<std::uint32_t>(random() % 20);
        stream.op(key, 1e-3 * std::exp(std::normal_distribution<double>(0.0, 1.0)(random)));
    }
    EXPECT_FALSE(finder.best().has_value());
}

TEST(Anchor, IsNoKeyOfThePast) {
    AnchorFinder finder;
    Stream stream(finder);
    for (int i = 0; i < 20; ++i) stream.op(3, 0.02);  // another model, perfectly steady
    EXPECT_EQ(finder.best(), 3u);
    for (int i = 0; i < 6; ++i) stream.step();
    EXPECT_EQ(finder.best(), kLoss);
    finder.clear();
    EXPECT_FALSE(finder.best().has_value());
}

TEST(Anchor, IsNotSoSlowThatWindowsBecomeUseless) {
    AnchorFinder finder;
    Stream stream(finder);
    for (int i = 0; i < 10; ++i) stream.op(3, 3.0);
    EXPECT_FALSE(finder.best().has_value());
    Stream slow(finder);
    finder.clear();
    for (int i = 0; i < 10; ++i) slow.op(3, 0.8);
    EXPECT_EQ(finder.best(), 3u);
}

// --- epoch
// ---------------------------------------------------------------------------------------------------

Histogram mix_of(double forward, double backward, double other, double unreferenced = 0.0) {
    Histogram mix{};
    mix[0] = unreferenced;
    mix[1] = 0.6 * forward;
    mix[2] = 0.4 * forward;
    mix[3] = backward;
    mix[4] = other;
    return mix;
}

const Histogram kTraining = mix_of(0.04, 0.06, 0.0);
const Histogram kEvaluation = mix_of(0.09, 0.0, 0.01);

TEST(Epoch, ANewMixIsAPhaseAfterSomeWindows) {
    EpochWatch watch;
    for (int i = 1; i < kPhaseConfirm; ++i) EXPECT_FALSE(watch.add(kTraining).has_value());
    EXPECT_EQ(watch.add(kTraining), 0);
    EXPECT_EQ(watch.add(kTraining), 0);
    EXPECT_EQ(watch.current(), 0);
    EXPECT_NEAR(watch.mix(0)[3], 0.6, 1e-9);
}

TEST(Epoch, AKnownPhaseIsKnownAtOnce) {
    EpochWatch watch;
    for (int i = 0; i < kPhaseConfirm; ++i) watch.add(kTraining);
    for (int i = 1; i < kPhaseConfirm; ++i) EXPECT_FALSE(watch.add(kEvaluation).has_value());
    EXPECT_EQ(watch.current(), 0);  // until the other is certain
    EXPECT_EQ(watch.add(kEvaluation), 1);
    for (int turn = 0; turn < 20; ++turn) {
        EXPECT_EQ(watch.add(kTraining), 0);
        EXPECT_EQ(watch.add(kEvaluation), 1);
    }
    EXPECT_EQ(watch.phases(), 2);
}

TEST(Epoch, WindowsThatStraddleAChangeMakeNoPhase) {
    EpochWatch watch;
    Random random(3);
    for (int i = 0; i < kPhaseConfirm; ++i) watch.add(kTraining);
    for (int i = 0; i < kPhaseConfirm; ++i) watch.add(kEvaluation);
    for (int turn = 0; turn < 500; ++turn) {
        const double part = std::uniform_real_distribution<double>(0.0, 1.0)(random);
        Histogram straddling{};
        for (std::size_t i = 0; i < straddling.size(); ++i) {
            straddling[i] = part * kTraining[i] + (1.0 - part) * kEvaluation[i];
        }
        watch.add(straddling);
        EXPECT_TRUE(watch.add(turn % 2 == 0 ? kTraining : kEvaluation).has_value());
    }
    EXPECT_EQ(watch.phases(), 2);
    EXPECT_LT(mix_distance(watch.mix(0), kTraining), kMixTolerance);
    EXPECT_LT(mix_distance(watch.mix(1), kEvaluation), kMixTolerance);
}

TEST(Epoch, WindowsWithoutReferencesSayNothing) {
    EpochWatch watch;
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(watch.add(mix_of(0.04, 0.0, 0.0, 0.06)).has_value());
    EXPECT_FALSE(watch.add(Histogram{}).has_value());
    EXPECT_EQ(watch.phases(), 0);
    for (int i = 0; i < kPhaseConfirm; ++i) watch.add(mix_of(0.04, 0.06, 0.0, 0.002));
    EXPECT_EQ(watch.phases(), 1);
    // A burst of new ops does not hide the phase when it is over.
    EXPECT_FALSE(watch.add(mix_of(0.04, 0.06, 0.0, 0.05)).has_value());
    EXPECT_EQ(watch.add(kTraining), 0);
}

TEST(Epoch, FollowsSlowChange) {
    EpochWatch watch;
    for (int i = 0; i <= 600; ++i) {
        const auto phase = watch.add(mix_of(0.04 + 1e-4 * i, 0.06, 0.0));
        if (i >= kPhaseConfirm) {
            EXPECT_EQ(phase, 0) << i;
        }
    }
    EXPECT_EQ(watch.phases(), 1);
}

TEST(Epoch, RestoresFromAProfile) {
    EpochWatch watch;
    EXPECT_EQ(watch.restore(kTraining), 0);
    EXPECT_EQ(watch.restore(kEvaluation), 1);
    EXPECT_EQ(watch.restore(kTraining), 0);
    EXPECT_EQ(watch.restore(Histogram{}), -1);
    EXPECT_FALSE(watch.current().has_value());
    EXPECT_EQ(watch.add(kEvaluation), 1);
}

TEST(Epoch, KeepsNoMorePhasesThanItCanUse) {
    EpochWatch watch;
    for (int i = 0; i < 2 * kPhasesMax; ++i) {
        Histogram mix{};
        mix[static_cast<std::size_t>(1 + i % 60)] = 1.0;
        mix[static_cast<std::size_t>(1 + (i * 7 + i / 60 + 1) % 60)] = 1.5;
        for (int window = 0; window < kPhaseConfirm; ++window) watch.add(mix);
    }
    EXPECT_LE(watch.phases(), kPhasesMax);
}

}  // namespace
}  // namespace corun::policy
