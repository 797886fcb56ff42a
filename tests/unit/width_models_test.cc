// SPDX-License-Identifier: Apache-2.0
// The models beside the fitted walk: USL, placement classes, active choice, co-run slow-down, cold start.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "model/active.h"
#include "model/cold_start.h"
#include "model/interference.h"
#include "model/placement.h"
#include "model/usl.h"
#include "tests/unit/landscape.h"

namespace corun::model {
namespace {

TEST(Usl, FindsTheSharesThatMadeThePoints) {
    const ScalabilityLaw truth{2.0, 0.05, 0.001};
    std::vector<Point> points;
    for (const int width : {1, 2, 4, 8, 16, 32, 64}) points.push_back({width, truth.at(width)});
    const auto law = fit_scalability(points);
    ASSERT_TRUE(law);
    EXPECT_NEAR(law->seconds, 2.0, 1e-6);
    EXPECT_NEAR(law->serial, 0.05, 1e-6);
    EXPECT_NEAR(law->coherency, 0.001, 1e-8);
    EXPECT_NEAR(law->peak(68), std::sqrt(0.95 / 0.001), 1e-3);
    EXPECT_TRUE(trusted(law->residual));
}

TEST(Usl, TheResidualTestRefusesWhatIsNoSuchLaw) {
    // A step: faster up to a cache's CPUs, slower beyond.
    const std::vector<Point> points{{1, 8.0}, {2, 4.0}, {4, 2.0}, {8, 1.0}, {16, 3.0}, {32, 3.0}};
    const auto law = fit_scalability(points);
    ASSERT_TRUE(law);
    EXPECT_FALSE(trusted(law->residual));
    EXPECT_FALSE(fit_scalability(std::vector<Point>{{1, 2.0}, {2, 1.0}}));
}

TEST(Placement, ThePapersClimbTestsEvenCountsOnSharedCaches) {
    const Topology topology{16, 2};
    PlacedCurves curves(topology, 1);
    const PlacementWalk walk(4);
    std::vector<int> spread;
    std::vector<int> compact;
    for (int i = 0; i < 100; ++i) {
        const auto next = walk.next(curves);
        if (!next) break;
        (next->placement == Placement::spread ? spread : compact).push_back(next->width);
        curves.add(next->placement, {next->width, true, 10.0 / next->width});  // never rises
    }
    EXPECT_EQ(spread, (std::vector<int>{1, 5, 8}));  // eight caches
    EXPECT_EQ(compact, (std::vector<int>{2, 6, 10, 14, 16}));
}

TEST(Placement, StopsEachClassOnItsFirstRiseAndKeepsTheThreeBest) {
    const Topology topology{68, 2};
    PlacedCurves curves(topology, 1);
    const PlacementWalk walk(4);
    const Law spread{0.0, 10.0, 0.03};   // optimum near 18
    const Law compact{0.0, 12.0, 0.01};  // optimum near 35
    int samples = 0;
    for (; samples < 100; ++samples) {
        const auto next = walk.next(curves);
        if (!next) break;
        const Law& law = next->placement == Placement::spread ? spread : compact;
        curves.add(next->placement, {next->width, true, law.at(next->width)});
    }
    EXPECT_LE(samples, 2 * 68 / 4);  // the paper's worst case
    const auto best = curves.best(widths_to(68));
    ASSERT_EQ(best.size(), 3U);
    EXPECT_EQ(best[0].placement, Placement::compact);
    EXPECT_NEAR(best[0].width, 34, 4);
    EXPECT_LE(best[0].seconds, best[1].seconds);
    const auto narrow = curves.predict(8);
    ASSERT_TRUE(narrow);
    EXPECT_EQ(narrow->placement, Placement::spread);
}

TEST(Placement, OneClassWhereNoCacheIsShared) {
    const Topology topology{8, 1};
    EXPECT_EQ(topology.widest(Placement::compact), 0);
    PlacedCurves curves(topology, 1);
    const PlacementWalk walk(7);
    ASSERT_EQ(walk.next(curves)->width, 1);
    curves.add(Placement::spread, {1, true, 1.0});
    ASSERT_EQ(walk.next(curves)->width, 8);
    curves.add(Placement::spread, {8, true, 2.0});
    EXPECT_FALSE(walk.next(curves));
}

// Mean loss of the width that is believed best, over many ops, and the samples that it took.
struct Outcome {
    double loss = 0.0;
    double samples = 0.0;
};

Outcome active_choice(double sigma) {  // the noise is known
    Outcome outcome;
    Noise noise(7, sigma);
    constexpr int kOps = 200;
    for (int i = 0; i < kOps; ++i) {
        const Law truth{noise.between(0.0, 0.2), noise.between(0.5, 2.0),
                        std::pow(10.0, noise.between(-4.0, -1.5))};
        Curve curve(1);
        const auto walk = make_active_walk(sigma);
        const int samples = follow(*walk, curve, truth, noise, 68);
        EXPECT_GE(samples, 3);
        EXPECT_LE(samples, 15);
        const auto chosen = believed_best(WidthBelief(curve, 68, sigma), widths_to(68));
        outcome.loss += (truth.at(*chosen) / truth.at(true_optimum(truth, 68)) - 1.0) / kOps;
        outcome.samples += static_cast<double>(samples) / kOps;
    }
    return outcome;
}

TEST(ActiveChoice, FindsTheOptimumWithFewSamples) {
    const Outcome outcome = active_choice(0.15);
    EXPECT_LT(outcome.loss, 0.04);
    EXPECT_LE(outcome.samples, 15.0);
    const Outcome quiet = active_choice(0.02);
    EXPECT_LT(quiet.loss, 0.02);
    EXPECT_LT(quiet.samples, 12.0);
}

TEST(ActiveChoice, IsSureWhereItSampledAndNotElsewhere) {
    Curve curve(1);
    for (int i = 0; i < 9; ++i) curve.add({4, true, 1.0});
    const WidthBelief belief(curve, 64, 0.1);
    EXPECT_NEAR(belief.at(4).seconds, 1.0, 0.02);
    EXPECT_LT(belief.at(4).deviation, 0.05);
    EXPECT_GT(belief.at(64).deviation, 0.3);
    EXPECT_FALSE(WidthBelief(Curve(1), 64, 0.1).known());
}

TEST(ActiveChoice, GoesOnWithoutAWidthThatWasGivenUp) {
    Curve curve(1);
    curve.add({1, true, 1.0});
    const std::vector<int> given_up{16};
    const auto walk = make_active_walk();
    for (int i = 0; i < 40; ++i) {
        const auto width = walk->next(curve, 16, given_up);
        if (!width) return;
        ASSERT_NE(*width, 16);
        curve.add({*width, true, 1.0 / *width});
    }
    FAIL() << "does not end";
}

TEST(Interference, RemembersABadPairOnceBothSidesWereSeen) {
    PairMemory memory;
    for (int i = 0; i < 3; ++i) memory.add(1, 2, 1.9);
    EXPECT_FALSE(memory.bad(1, 2));  // nothing of 2 beside 1
    for (int i = 0; i < 3; ++i) memory.add(2, 1, 1.1);
    EXPECT_TRUE(memory.bad(1, 2));
    EXPECT_TRUE(memory.bad(2, 1));
    EXPECT_FALSE(memory.bad(1, 3));
    EXPECT_DOUBLE_EQ(memory.slowdown(3, 1), 1.0);
    EXPECT_NEAR(memory.slowdown(1, 2), 1.9, 1e-6);
    for (int i = 0; i < 15; ++i) memory.add(1, 2, 1.05);  // it was something else
    EXPECT_FALSE(memory.bad(1, 2));
}

TEST(Interference, DurationsThatDependOnEachOtherAreAFixedPoint) {
    const std::vector<CoRunner> pair{{1, 1.0}, {2, 3.0}};
    const auto slowdown = [](PairMemory::KeyId op, PairMemory::KeyId) { return op == 1 ? 2.0 : 1.5; };
    const auto seconds = co_run_seconds(pair, slowdown);
    // Op 1 runs beside op 2 all its life: 2. Meanwhile op 2 did 2 / 1.5; what is left runs alone.
    EXPECT_NEAR(seconds[0], 2.0, 1e-6);
    EXPECT_NEAR(seconds[1], 2.0 + (3.0 - 2.0 / 1.5), 1e-6);
}

TEST(Interference, ThreeOpsAgreeWithStepByStepSimulation) {
    const std::vector<CoRunner> set{{0, 1.0}, {1, 1.2}, {2, 2.5}};
    const auto slowdown = [](PairMemory::KeyId op, PairMemory::KeyId other) {
        return 1.0 + 0.2 * static_cast<double>(op + 1) + 0.1 * static_cast<double>(other);
    };
    std::vector<double> left;
    std::vector<double> ends(3, 0.0);
    for (const CoRunner& op : set) left.push_back(op.solo_seconds);
    constexpr double kStep = 1e-4;
    for (double now = 0.0; now < 20.0; now += kStep) {
        const std::vector<double> before = left;
        for (std::size_t i = 0; i < 3; ++i) {
            if (before[i] <= 0.0) continue;
            double excess = 0.0;
            for (std::size_t j = 0; j < 3; ++j)
                if (j != i && before[j] > 0.0) excess += slowdown(set[i].key, set[j].key) - 1.0;
            left[i] -= kStep / (1.0 + excess);
            if (left[i] <= 0.0) ends[i] = now + kStep;
        }
    }
    const auto seconds = co_run_seconds(set, slowdown);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(seconds[i], ends[i], 0.002 * ends[i]) << i;
}

TEST(ColdStart, TheCheapestModelThatIsSureAnswers) {
    const std::vector<int> widths{1, 4, 16};
    Prior prior;
    Curve none(1);
    EXPECT_FALSE(cold_start(prior, "Conv", 1e6, none, widths, 0.1));
    for (const double noise : {0.97, 1.0, 1.03, 1.01}) {
        prior.learn("Conv", 1e6, 1, 1.0);
        prior.learn("Conv", 1e6, 4, 0.3 * noise);
        prior.learn("Conv", 1e6, 16, 0.6 * noise);
    }
    const auto answer = cold_start(prior, "Conv", 1e6, none, widths, 0.1);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->width, 4);
    EXPECT_EQ(answer->model, ColdModel::prior);
    EXPECT_TRUE(answer->sure);
}

TEST(ColdStart, TheNextModelIsAskedWhenThePriorIsNotSure) {
    const std::vector<int> widths{1, 4, 16};
    Prior prior;
    for (int i = 0; i < 3; ++i) {  // what other kinds of like work did is no rule for this one
        for (const auto& [kind, ratio] :
             {std::pair{"Mul", 0.4}, std::pair{"Sum", 1.5}, std::pair{"Add", 1.4}}) {
            prior.learn(kind, 1e3, 1, 1.0);
            prior.learn(kind, 1e3, 4, ratio);
            prior.learn(kind, 1e3, 16, ratio + 0.3);
        }
    }
    Curve none(1);
    const auto unsure = cold_start(prior, "Mul", 1e3, none, widths, 0.1);
    ASSERT_TRUE(unsure);
    EXPECT_FALSE(unsure->sure);
    Curve own(1);
    for (int i = 0; i < 5; ++i) {
        own.add({1, true, 1.0});
        own.add({4, true, 3.0});
        own.add({16, true, 9.0});
    }
    const auto answer = cold_start(prior, "Mul", 1e3, own, widths, 0.1);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->width, 1);
    EXPECT_EQ(answer->model, ColdModel::belief);
    EXPECT_TRUE(answer->sure);
}

}  // namespace
}  // namespace corun::model
