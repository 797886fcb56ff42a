// SPDX-License-Identifier: Apache-2.0
// Samples, law, curve, walks, prior and drift.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "model/curve.h"
#include "model/drift.h"
#include "model/prior.h"
#include "model/walk.h"
#include "tests/unit/landscape.h"

namespace corun::model {
namespace {

void add_solo(Curve& curve, int width, double seconds, int count = 3) {
    for (int i = 0; i < count; ++i) curve.add({width, true, seconds});
}

std::vector<Point> points_of(const Law& law, const std::vector<int>& widths) {
    std::vector<Point> points;
    for (const int width : widths) points.push_back({width, law.at(width)});
    return points;
}

TEST(RobustSamples, KeepsTheNewestFifteen) {
    RobustSamples samples;
    EXPECT_FALSE(samples.median());
    EXPECT_FALSE(samples.spread());
    for (int i = 1; i <= 100; ++i) samples.add(i);
    EXPECT_EQ(samples.count(), 15U);
    EXPECT_EQ(samples.seen(), 100U);
    EXPECT_DOUBLE_EQ(*samples.median(), 93.0);  // of 86 to 100
    EXPECT_NEAR(*samples.spread(), 1.4826 * 4.0, 1e-6);
    samples.clear();
    EXPECT_EQ(samples.count(), 0U);
    EXPECT_EQ(samples.seen(), 0U);
}

TEST(RobustSamples, MedianOfAnEvenNumberAndOneBurst) {
    RobustSamples samples;
    for (const double value : {1.0, 4.0, 2.0, 300.0}) samples.add(value);
    EXPECT_DOUBLE_EQ(*samples.median(), 3.0);
}

TEST(RobustSamples, IgnoresWhatIsNoDuration) {
    RobustSamples samples;
    for (const double value : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
        samples.add(value);
    }
    EXPECT_EQ(samples.seen(), 0U);
}

TEST(Law, IsFoundExactly) {
    const Law truth{0.3, 2.0, 0.01};
    const auto law = fit_law(points_of(truth, {1, 4, 9, 30, 68}));
    ASSERT_TRUE(law);
    EXPECT_NEAR(law->serial, truth.serial, 1e-9);
    EXPECT_NEAR(law->parallel, truth.parallel, 1e-9);
    EXPECT_NEAR(law->per_thread, truth.per_thread, 1e-9);
    EXPECT_NEAR(law->residual, 0.0, 1e-9);
    EXPECT_NEAR(law->optimum(68), std::sqrt(200.0), 1e-6);
    EXPECT_DOUBLE_EQ(law->optimum(8), 8.0);
}

TEST(Law, TermsAreNeverNegative) {
    Noise noise(11, 0.5);
    for (int round = 0; round < 500; ++round) {
        std::vector<Point> points;
        for (const int width : {1, 2, 5, 17, 68}) points.push_back({width, noise(1.0)});
        const auto law = fit_law(points);
        ASSERT_TRUE(law);
        EXPECT_GE(law->serial, 0.0);
        EXPECT_GE(law->parallel, 0.0);
        EXPECT_GE(law->per_thread, 0.0);
        const double optimum = law->optimum(68);
        EXPECT_TRUE(optimum >= 1.0 && optimum <= 68.0);
    }
}

TEST(Law, TwoWidthsGiveTwoTerms) {
    const auto faster = fit_law(std::vector<Point>{{1, 4.0}, {4, 2.0}});
    ASSERT_TRUE(faster);
    EXPECT_DOUBLE_EQ(faster->per_thread, 0.0);
    EXPECT_NEAR(faster->at(1), 4.0, 1e-9);
    EXPECT_NEAR(faster->at(4), 2.0, 1e-9);
    EXPECT_DOUBLE_EQ(faster->optimum(4), 4.0);
    const auto slower = fit_law(std::vector<Point>{{1, 2.0}, {4, 4.0}});
    ASSERT_TRUE(slower);
    EXPECT_DOUBLE_EQ(slower->per_thread, 0.0);
    EXPECT_DOUBLE_EQ(slower->optimum(4), 1.0);
}

TEST(Law, NeedsTwoWidths) {
    EXPECT_FALSE(fit_law({}));
    EXPECT_FALSE(fit_law(std::vector<Point>{{4, 1.0}, {4, 2.0}}));
    EXPECT_FALSE(fit_law(std::vector<Point>{{4, 1.0}, {0, 2.0}, {5, std::nan("")}, {6, -1.0}}));
}

TEST(Curve, SoloAndBesideStayApart) {
    Curve curve;
    add_solo(curve, 4, 1.0);
    for (int i = 0; i < 9; ++i) curve.add({4, false, 5.0});
    EXPECT_DOUBLE_EQ(*curve.solo(4), 1.0);
    EXPECT_DOUBLE_EQ(*curve.beside(4), 5.0);
    EXPECT_EQ(curve.solo_count(4), 3U);
    EXPECT_EQ(curve.beside_count(4), 9U);
    curve.add({8, false, 0.1});
    EXPECT_FALSE(curve.solo(8));
    EXPECT_FALSE(curve.predict(8));
    EXPECT_EQ(curve.solo_points().size(), 1U);
    curve.clear();
    EXPECT_FALSE(curve.solo(4));
    EXPECT_FALSE(curve.beside(4));
}

TEST(Curve, TwoSamplesAreNoMeasurement) {
    Curve curve;
    add_solo(curve, 1, 4.0);
    add_solo(curve, 4, 1.0, 2);
    EXPECT_FALSE(curve.optimum(widths_to(4), 0.05));
    curve.add({4, true, 1.0});
    EXPECT_EQ(curve.optimum(widths_to(4), 0.05), 4);
    Curve paper(1);
    add_solo(paper, 1, 4.0, 1);
    add_solo(paper, 4, 1.0, 1);
    EXPECT_EQ(paper.optimum(widths_to(4), 0.05), 4);
}

TEST(Curve, PredictsMedianThenLineThenLaw) {
    Curve curve;
    EXPECT_FALSE(curve.predict(1));
    add_solo(curve, 2, 6.0);
    EXPECT_DOUBLE_EQ(*curve.predict(2), 6.0);
    EXPECT_FALSE(curve.predict(4));  // one width is no law
    add_solo(curve, 6, 3.0);
    EXPECT_DOUBLE_EQ(*curve.predict(4), 4.5);
    EXPECT_NEAR(*curve.predict(1), 1.5 + 9.0, 1e-6);  // serial 1.5, parallel 9
    EXPECT_NEAR(*curve.predict(18), 1.5 + 0.5, 1e-6);
    EXPECT_FALSE(curve.predict(0));
}

TEST(Curve, OptimumIsTheNarrowestWithinTheDeadband) {
    Curve curve;
    add_solo(curve, 1, 3.0);
    add_solo(curve, 2, 1.04);
    add_solo(curve, 4, 1.0);
    add_solo(curve, 8, 1.2);
    const std::vector<int> widths{8, 4, 2, 1};
    EXPECT_EQ(curve.optimum(widths, 0.05), 2);
    EXPECT_EQ(curve.optimum(widths, 0.01), 4);
    EXPECT_EQ(curve.optimum(std::vector<int>{8, 1}, 0.05), 8);
    EXPECT_FALSE(curve.optimum(std::vector<int>{8, 16}, 0.05));  // one of them measured
    Curve scaling;
    add_solo(scaling, 2, 2.0);
    add_solo(scaling, 4, 1.0);
    EXPECT_EQ(scaling.optimum(widths_to(64), 0.05), 4);  // nothing was seen beyond
    EXPECT_LT(*scaling.predict(64), 0.2);
}

TEST(Curve, ThreeBestPointsFastestFirst) {
    Curve curve;
    add_solo(curve, 1, 4.0);
    add_solo(curve, 2, 2.5);
    add_solo(curve, 4, 1.0);
    add_solo(curve, 8, 2.0);
    const auto best = curve.best(std::vector<int>{1, 2, 4, 8});
    ASSERT_EQ(best.size(), 3U);
    EXPECT_EQ(best[0].width, 4);
    EXPECT_EQ(best[1].width, 8);
    EXPECT_EQ(best[2].width, 2);
    EXPECT_DOUBLE_EQ(best[1].seconds, 2.0);
    EXPECT_EQ(curve.best(std::vector<int>{1}).size(), 1U);
    EXPECT_TRUE(Curve().best(std::vector<int>{1, 2}).empty());
}

TEST(FittedWalk, OfTwoCpusTakesTwoWidths) {
    const auto walk = make_fitted_walk(3);
    Curve curve;
    Noise noise(1);
    EXPECT_EQ(walk->next(curve, 2), 2);
    EXPECT_EQ(follow(*walk, curve, {0.0, 1.0, 0.0}, noise, 2), 6);
    EXPECT_EQ(curve.solo_count(1), 3U);
    EXPECT_EQ(curve.solo_count(2), 3U);
    Curve one;
    EXPECT_EQ(follow(*walk, one, {0.0, 1.0, 0.0}, noise, 1), 3);
}

TEST(FittedWalk, BeginsAtTheEndsAndTheRoot) {
    const auto walk = make_fitted_walk(3);
    Curve curve;
    EXPECT_EQ(walk->next(curve, 68), 68);
    add_solo(curve, 68, 1.0);
    EXPECT_EQ(walk->next(curve, 68), 1);
    add_solo(curve, 1, 20.0);
    EXPECT_EQ(walk->next(curve, 68), 8);
    EXPECT_EQ(walk->next(curve, 68, std::vector<int>{8}), 51);  // given up: beside the best
}

// The paper's machine: 68 cores, 15 % noise, some bursts, the optimum anywhere.
TEST(FittedWalk, LosesLittleToTheTrueOptimum) {
    const auto fitted = make_fitted_walk(3);
    const auto steps = make_step_walk(4, 3, true);
    const auto paper = make_step_walk(4, 1, false);
    Noise draw(5);
    double fitted_loss = 0.0, steps_loss = 0.0, paper_loss = 0.0, fitted_samples = 0.0;
    constexpr int rounds = 400;
    for (int round = 0; round < rounds; ++round) {
        const double optimum = std::exp(draw.between(0.0, std::log(150.0)));
        const Law truth{draw.between(0.0, 0.3), 1.0, 1.0 / (optimum * optimum)};
        const auto lose = [&](const Walk& walk, int measured_from, double* samples) {
            Noise noise(static_cast<unsigned>(round), 0.15, 0.02);
            Curve curve(measured_from);
            const int taken = follow(walk, curve, truth, noise, 68);
            EXPECT_GE(taken, 0);
            if (samples != nullptr) *samples += taken;
            return loss_of(curve, truth, 68);
        };
        fitted_loss += lose(*fitted, 3, &fitted_samples) / rounds;
        steps_loss += lose(*steps, 3, nullptr) / rounds;
        paper_loss += lose(*paper, 1, nullptr) / rounds;
    }
    RecordProperty("fitted_loss_percent", static_cast<int>(100 * fitted_loss));
    RecordProperty("fitted_samples", static_cast<int>(fitted_samples / rounds));
    EXPECT_LT(fitted_loss, 0.06);
    EXPECT_LT(fitted_samples / rounds, 27.0);
    EXPECT_LT(steps_loss, 0.12);
    EXPECT_LT(fitted_loss, steps_loss);
    EXPECT_LT(steps_loss, paper_loss);  // first-rise stopping on single samples is the noise trap
}

TEST(FittedWalk, EndsOnAnythingMeasured) {
    Noise noise(3, 1.0);  // a landscape of noise alone
    for (int round = 0; round < 200; ++round) {
        Curve curve;
        const int taken = follow(*make_fitted_walk(3), curve, {1.0, 0.0, 0.0}, noise, 200);
        EXPECT_TRUE(taken >= 9 && taken <= 30) << taken;
    }
    Curve curve;  // more samples are asked for than a curve keeps
    EXPECT_GE(follow(*make_fitted_walk(100), curve, {0.1, 1.0, 0.01}, noise, 68), 0);
}

TEST(StepWalk, ClimbsToTheOptimumOfConvexCurves) {
    const auto walk = make_step_walk(4, 3, true);
    for (const double optimum : {1.0, 5.0, 13.0, 29.0, 61.0}) {
        Curve curve;
        Noise still(1, 0.0);
        const Law truth{0.1, 1.0, 1.0 / (optimum * optimum)};
        EXPECT_GE(follow(*walk, curve, truth, still, 68), 0);
        const auto best = curve.best(widths_to(68));
        ASSERT_FALSE(best.empty());
        EXPECT_EQ(best.front().width, static_cast<int>(optimum));
        EXPECT_LE(curve.solo_points().back().width, optimum + 8);  // two risen points and no more
    }
}

TEST(StepWalk, StopsAtTheWidestAndAtTheFirstRise) {
    const auto paper = make_step_walk(4, 1, false);
    Curve curve(1);
    for (const int width : {1, 5, 9, 10}) {
        EXPECT_EQ(paper->next(curve, 10), width);
        add_solo(curve, width, 10.0 / width, 1);
    }
    EXPECT_FALSE(paper->next(curve, 10));
    Curve rising(1);
    add_solo(rising, 1, 2.0, 1);
    add_solo(rising, 5, 1.0, 1);
    add_solo(rising, 9, 1.1, 1);
    EXPECT_FALSE(paper->next(rising, 68));
}

TEST(StepWalk, SurvivesANoisyRiseAndGivesUpAWidth) {
    const auto walk = make_step_walk(4, 3, true);
    Curve curve;
    add_solo(curve, 1, 8.0);
    add_solo(curve, 5, 3.0);
    add_solo(curve, 9, 3.2);  // noise
    EXPECT_EQ(walk->next(curve, 68), 13);
    EXPECT_EQ(walk->next(curve, 68, std::vector<int>{13}), 17);
    add_solo(curve, 13, 1.5);
    EXPECT_EQ(walk->next(curve, 68), 17);
    add_solo(curve, 17, 1.6);
    add_solo(curve, 21, 1.7);
    EXPECT_FALSE(walk->next(curve, 68));
    EXPECT_EQ(curve.best(widths_to(68)).front().width, 13);
}

TEST(Prior, KnowsKindThenWorkThenNothing) {
    Prior prior;
    EXPECT_FALSE(prior.ratio("MatMul", 1000, 4));
    prior.learn("MatMul", 1000, 4, 0.3);
    prior.learn("MatMul", 1010, 4, 0.3);
    prior.learn("MatMul", 1020, 4, 30.0);  // an outlier
    prior.learn("MatMul", 1000, 1, 1.0);
    EXPECT_NEAR(*prior.ratio("MatMul", 900, 4), 0.3, 1e-6);     // same power of two
    EXPECT_NEAR(*prior.ratio("Relu", 900, 4), 0.3, 1e-6);       // another kind of like work
    EXPECT_FALSE(prior.ratio("MatMul", 5000, 4));               // other work
    EXPECT_NEAR(*prior.ratio("MatMul", 900, 2), 0.7667, 1e-3);  // a line
    EXPECT_FALSE(prior.ratio("MatMul", 900, 8));                // beyond
    EXPECT_TRUE(prior.ratio("MatMul", 900, 4, 3));
    EXPECT_FALSE(prior.ratio("MatMul", 900, 1, 3));  // seen once
    prior.learn("Odd", std::nan(""), 2, -1.0);
    prior.learn("Odd", -5.0, 2, 0.5);
    EXPECT_NEAR(*prior.ratio("Odd", 0.0, 2), 0.5, 1e-6);
    prior.clear();
    EXPECT_FALSE(prior.ratio("MatMul", 1000, 4));
}

TEST(Drift, IsSilentUnderNoiseAndBursts) {
    int alarmed_runs = 0;
    for (unsigned run = 0; run < 100; ++run) {
        Drift drift;
        Noise noise(run, 0.15, 0.02);
        bool alarm = false;
        for (int i = 0; i < 10'000; ++i) alarm |= drift.add(noise(1e-3), 1e-3);
        alarmed_runs += alarm ? 1 : 0;
    }
    EXPECT_LE(alarmed_runs, 1);
}

TEST(Drift, FindsALastingChange) {
    for (const double change : {1.2, 1.5, 3.0, 1 / 1.2, 0.5}) {
        double mean = 0.0;
        int most = 0;
        for (unsigned run = 0; run < 100; ++run) {
            Drift drift;
            Noise noise(run);
            for (int i = 0; i < 50; ++i) EXPECT_FALSE(drift.add(noise(1.0), 1.0));
            int taken = 1;
            while (!drift.add(noise(change), 1.0) && taken < 1000) ++taken;
            mean += taken / 100.0;
            most = std::max(most, taken);
        }
        EXPECT_LT(most, 100) << change;
        const bool large = change >= 1.5 || change <= 0.5;
        EXPECT_LT(mean, large ? 12.0 : 40.0) << change;
    }
}

TEST(Drift, SingleBurstsAndOddInputsAreNothing) {
    Drift drift;
    for (int i = 0; i < 10'000; ++i) {
        EXPECT_FALSE(drift.add(i % 4 == 0 ? 2.0 : 1.0, 1.0));
        EXPECT_FALSE(drift.add(1.0, 1.0));
    }
    EXPECT_FALSE(drift.add(0.0, 1.0));
    EXPECT_FALSE(drift.add(1.0, 0.0));
    EXPECT_FALSE(drift.add(std::nan(""), 1.0));
    EXPECT_FALSE(drift.add(std::numeric_limits<double>::infinity(), 1.0));
}

TEST(Drift, SaysItOnce) {
    Drift drift;
    int alarms = 0;
    for (int i = 0; i < 12; ++i) alarms += drift.add(2.0, 1.0) ? 1 : 0;
    EXPECT_EQ(alarms, 1);  // 8 samples for one
}

}  // namespace
}  // namespace corun::model
