// SPDX-License-Identifier: Apache-2.0
// The explorer on simulated programs, with a clock that only the test moves.
#include "model/explorer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/landscape.h"

namespace corun::model {
namespace {

// A program that runs every op once a step, at the assigned width or at its own.
class Program {
  public:
    Program(const ExplorerSettings& settings, std::vector<Law> laws, unsigned seed, double sigma = 0.15)
        : explorer(settings), laws_(std::move(laws)), noise_(seed, sigma), own_(settings.max_width) {
        for (OpId op = 0; op < laws_.size(); ++op) explorer.add(op, "Op" + std::to_string(op), 1000.0);
    }

    void step() {
        std::map<OpId, int> widths;
        for (const Assignment& assignment : explorer.plan(elapsed)) widths[assignment.op] = assignment.width;
        for (OpId op = 0; op < laws_.size(); ++op) {
            const bool assigned = widths.contains(op);
            const int width = assigned ? widths[op] : narrowed.contains(op) ? narrowed[op] : own_;
            const double seconds = noise_(laws_[op].at(width));
            explorer.record(op, {width, solo, seconds}, assigned);
            elapsed += seconds;
            if (assigned) {
                ++assigned_calls;
                true_extra += laws_[op].at(width) - laws_[op].at(own_);
            }
        }
    }
    bool run_until_done(int most_steps) {
        for (int i = 0; i < most_steps; ++i) {
            if (explorer.done()) return true;
            step();
        }
        return explorer.done();
    }
    void change(OpId op, const Law& law) { laws_[op] = law; }
    [[nodiscard]] const Law& law(OpId op) const { return laws_[op]; }

    Explorer explorer;
    std::map<OpId, int> narrowed;  // widths that some arm decided on
    bool solo = true;
    double elapsed = 0.0;
    double true_extra = 0.0;
    int assigned_calls = 0;

  private:
    std::vector<Law> laws_;
    Noise noise_;
    int own_;
};

ExplorerSettings settings_of(int max_width, double share = 0.05) {
    ExplorerSettings settings;
    settings.max_width = max_width;
    settings.share = share;
    return settings;
}

constexpr double kUnbounded = 1e9;

void record(Explorer& explorer, OpId op, int width, double seconds, int count, bool solo = true,
            bool assigned = false) {
    for (int i = 0; i < count; ++i) explorer.record(op, {width, solo, seconds}, assigned);
}

TEST(Explorer, FindsGoodWidthsForAllOps) {
    std::vector<Law> laws;
    Noise draw(2);
    for (int op = 0; op < 30; ++op) {
        const double optimum = std::exp(draw.between(0.0, std::log(100.0)));
        laws.push_back({0.1e-3, 1e-3, 1e-3 / (optimum * optimum)});
    }
    Program program(settings_of(64, kUnbounded), laws, 7);
    ASSERT_TRUE(program.run_until_done(200));
    double found = 0.0, best = 0.0, own = 0.0;
    for (OpId op = 0; op < laws.size(); ++op) {
        const auto width = program.explorer.optimum(op, widths_to(64));
        if (program.explorer.explored(op)) {
            ASSERT_TRUE(width);
        }
        found += laws[op].at(width.value_or(64));
        best += laws[op].at(true_optimum(laws[op], 64));
        own += laws[op].at(64);
    }
    EXPECT_LT(found, 1.10 * best);
    EXPECT_LT(found, 0.6 * own);
    EXPECT_TRUE(program.explorer.plan(program.elapsed).empty());
}

TEST(Explorer, FollowsThePapersWalkWhenAsked) {
    ExplorerSettings settings = settings_of(16, kUnbounded);
    settings.step = 4;
    Program program(settings, {{0.0, 1.0, 0.02}}, 1, 0.0);  // optimum at 7
    std::vector<int> asked;
    for (int i = 0; i < 100 && !program.explorer.done(); ++i) {
        const auto plan = program.explorer.plan(1.0);
        if (!plan.empty() && (asked.empty() || asked.back() != plan[0].width)) asked.push_back(plan[0].width);
        program.step();
    }
    EXPECT_EQ(asked, (std::vector<int>{1, 5, 9, 13, 16}));  // 13 rises over 9, 16 confirms it
    EXPECT_EQ(program.explorer.optimum(0, {1, 5, 9, 13, 16}), 5);
}

TEST(Explorer, KeepsToItsShareOfTheTime) {
    for (const double share : {0.01, 0.05, 0.2}) {
        // Wide is right for all of them: every other width costs a lot.
        std::vector<Law> laws(20, Law{0.1e-3, 10e-3, 0.0});
        Program program(settings_of(32, share), laws, 3);
        double most_over = 0.0;
        double step_cost = 0.0;  // of the dearest step: no plan can be revised within one
        for (int i = 0; i < 3000; ++i) {
            const double before = program.true_extra;
            program.step();
            step_cost = std::max(step_cost, program.true_extra - before);
            most_over = std::max(most_over, program.true_extra - share * program.elapsed);
        }
        EXPECT_GT(program.assigned_calls, 0);
        EXPECT_NEAR(program.explorer.spent(), program.true_extra, 0.15 * program.true_extra);
        EXPECT_LT(most_over, 1.1 * step_cost + 0.1 * program.true_extra);
        EXPECT_EQ(program.explorer.done(), share > 0.01);  // 1 % of this run does not buy all samples
    }
}

TEST(Explorer, PlansNothingWhileOverTheBoundAndAgainAfterwards) {
    Explorer explorer(settings_of(8));
    explorer.add(0, "A", 1.0);
    record(explorer, 0, 8, 1.0, 3);
    ASSERT_EQ(explorer.plan(3.0).size(), 1U);
    EXPECT_EQ(explorer.plan(3.0)[0].width, 1);
    record(explorer, 0, 1, 3.0, 1, true, true);
    EXPECT_NEAR(explorer.spent(), 2.0, 1e-6);
    EXPECT_TRUE(explorer.plan(6.0).empty());
    EXPECT_TRUE(explorer.plan(39.0).empty());
    EXPECT_EQ(explorer.plan(41.0).size(), 1U);
}

TEST(Explorer, AGainIsNoCost) {
    Explorer explorer(settings_of(8, 0.0));
    record(explorer, 0, 8, 1.0, 3);
    ASSERT_EQ(explorer.plan(3.0).size(), 1U);
    record(explorer, 0, 1, 0.5, 3, true, true);
    EXPECT_LT(explorer.spent(), 0.0);
    EXPECT_EQ(explorer.plan(0.0).size(), 1U);  // no limit
}

TEST(Explorer, OrdersByTimeUntilTheCoverage) {
    Explorer explorer(settings_of(8));
    const std::vector<double> seconds{0.1, 6.0, 0.5, 3.0, 0.4};
    for (OpId op = 0; op < seconds.size(); ++op) record(explorer, op, 8, seconds[op], 1);
    const auto plan = explorer.plan(10.0);  // 95 % of 10 s: 6 + 3 + 0.5
    ASSERT_EQ(plan.size(), 3U);
    EXPECT_EQ(plan[0].op, 1U);
    EXPECT_EQ(plan[1].op, 3U);
    EXPECT_EQ(plan[2].op, 2U);
    EXPECT_FALSE(explorer.done());
}

TEST(Explorer, PutsWhatIsExpectedToGainFirst) {
    Explorer explorer(settings_of(8));
    record(explorer, 0, 8, 1.0, 4);  // much time, but known to scale well
    record(explorer, 0, 1, 8.0, 3, true, true);
    record(explorer, 1, 8, 1.0, 3);  // less, unknown
    const auto plan = explorer.plan(1e6);
    ASSERT_EQ(plan.size(), 2U);
    EXPECT_EQ(plan[0].op, 1U);
}

TEST(Explorer, StopsAskingWhereNothingRunsAlone) {
    ExplorerSettings settings = settings_of(8, kUnbounded);
    Program program(settings, {{0.0, 1e-3, 0.0}}, 1);
    program.solo = false;
    ASSERT_TRUE(program.run_until_done(1000));
    EXPECT_EQ(program.assigned_calls, 3 * settings.attempts);  // 8, 1 and 3
    EXPECT_TRUE(program.explorer.explored(0));
    EXPECT_FALSE(program.explorer.optimum(0, {1, 8}));
    EXPECT_FALSE(program.explorer.curve(0)->solo(8));
    EXPECT_GT(program.explorer.curve(0)->beside_count(8), 0U);
    for (int i = 0; i < 100; ++i) program.step();
    EXPECT_EQ(program.assigned_calls, 3 * settings.attempts);
    program.explorer.clear();
    EXPECT_FALSE(program.explorer.done());
    program.step();
    EXPECT_EQ(program.explorer.plan(1.0).size(), 1U);
}

TEST(Explorer, GivesUpAWidthThatTheProgramForbids) {
    Explorer explorer(settings_of(8, kUnbounded));
    int calls = 0;
    record(explorer, 0, 2, 1.0, 3);
    while (!explorer.done() && calls < 1000) {
        static_cast<void>(explorer.plan(1.0));
        explorer.record(0, {2, true, 1.0}, true);  // a ceiling of 2, whatever is asked
        ++calls;
    }
    EXPECT_LE(calls, 5 * 40);
    EXPECT_TRUE(explorer.explored(0));
}

TEST(Explorer, WantedEndsWithTheSamples) {
    Explorer explorer(settings_of(4, kUnbounded));
    record(explorer, 0, 4, 1.0, 3);
    const auto plan = explorer.plan(1.0);
    ASSERT_EQ(plan.size(), 1U);
    EXPECT_TRUE(explorer.wanted(plan[0]));
    EXPECT_FALSE(explorer.wanted({0, 4}));
    EXPECT_FALSE(explorer.wanted({77, 1}));
    record(explorer, 0, plan[0].width, 1.0, 2, true, true);
    EXPECT_TRUE(explorer.wanted(plan[0]));
    record(explorer, 0, plan[0].width, 1.0, 1, true, true);
    EXPECT_FALSE(explorer.wanted(plan[0]));
}

TEST(Explorer, NoticesAChangedLandscapeAndLearnsItAnew) {
    Program program(settings_of(16, kUnbounded), {{0.0, 1e-3, 1e-6}, {0.0, 1e-3, 1e-6}}, 5);
    ASSERT_TRUE(program.run_until_done(200));
    for (int i = 0; i < 200; ++i) program.step();
    ASSERT_TRUE(program.explorer.done());
    EXPECT_GE(program.explorer.optimum(0, widths_to(16)).value(), 8);
    program.change(0, {1e-3, 0.1e-3, 0.1e-3});  // narrow is right from now on, and at 16 it costs much more
    int steps = 0;
    while (program.explorer.done() && steps < 1000) {
        program.step();
        ++steps;
    }
    EXPECT_LE(steps, 20);
    EXPECT_FALSE(program.explorer.explored(0));
    EXPECT_TRUE(program.explorer.explored(1));
    ASSERT_TRUE(program.run_until_done(200));
    EXPECT_LE(program.explorer.optimum(0, widths_to(16)).value(), 2);
}

TEST(Explorer, NoiseIsNoDrift) {
    int drifted = 0;
    for (unsigned seed = 0; seed < 50; ++seed) {
        Explorer explorer(settings_of(1, kUnbounded));
        Noise noise(seed, 0.15, 0.02);
        bool learned = false;
        for (int i = 0; i < 10'000; ++i) {
            explorer.record(0, {1, true, noise(1e-3)}, false);
            if (i == 2) static_cast<void>(explorer.plan(1.0));
            if (i == 2) learned = explorer.explored(0);
            if (i > 2 && learned && !explorer.explored(0)) {
                ++drifted;
                break;
            }
        }
        EXPECT_TRUE(learned);
    }
    EXPECT_LE(drifted, 2);  // the learned level has an error of its own
}

TEST(Explorer, ACostWithTwoModesIsNotLearnedForEver) {
    Explorer explorer(settings_of(1, kUnbounded));
    int times = 0;
    for (int i = 0; i < 20'000; ++i) {
        explorer.record(0, {1, true, i / 100 % 2 == 0 ? 1e-3 : 3e-3}, false);
        const bool before = explorer.explored(0);
        static_cast<void>(explorer.plan(1.0));
        times += !before && explorer.explored(0) ? 1 : 0;
    }
    EXPECT_LE(times, 10);
    EXPECT_TRUE(explorer.done());
}

TEST(Explorer, ThePriorSpeaksForOpsNeverExplored) {
    Explorer explorer(settings_of(4, kUnbounded));
    for (OpId op = 0; op < 3; ++op) {
        explorer.add(op, "MatMul", 1000.0);
        EXPECT_FALSE(explorer.optimum(9, {1, 2, 4}));
        record(explorer, op, 4, 3.0, 3);
        record(explorer, op, 2, 1.2, 3);
        record(explorer, op, 1, 2.0, 3);
        record(explorer, op, 3, 2.0, 3);
        static_cast<void>(explorer.plan(1.0));
        ASSERT_TRUE(explorer.explored(op));
    }
    explorer.add(9, "MatMul", 1010.0);
    EXPECT_EQ(explorer.optimum(9, {1, 2, 4}), 2);
    EXPECT_FALSE(explorer.predict(9, 2));  // ratios alone: no seconds
    record(explorer, 9, 4, 30.0, 3);
    EXPECT_NEAR(explorer.predict(9, 2).value(), 12.0, 1e-4);
    explorer.add(10, "MatMul", 1e9);
    EXPECT_FALSE(explorer.optimum(10, {1, 2, 4}));
}

TEST(Explorer, SamplesBesideOthersNeverEnterTheSoloCurve) {
    Explorer explorer(settings_of(2, kUnbounded));
    record(explorer, 0, 2, 1.0, 3);
    record(explorer, 0, 2, 9.0, 50, false);
    record(explorer, 0, 1, 9.0, 50, false);
    EXPECT_DOUBLE_EQ(explorer.curve(0)->solo(2).value(), 1.0);
    EXPECT_FALSE(explorer.curve(0)->solo(1));
    EXPECT_DOUBLE_EQ(explorer.curve(0)->beside(1).value(), 9.0);
}

Curve learned_curve(double factor) {
    Curve curve;
    for (int i = 0; i < 15; ++i) {
        curve.add({4, true, 1.0 * factor});
        curve.add({2, true, 1.5 * factor});
        curve.add({1, true, 2.5 * factor});
        curve.add({3, true, 1.2 * factor});
    }
    return curve;
}

TEST(Explorer, ARestoredCurveIsUsedAtOnceAndKeptWhenItAgrees) {
    Explorer explorer(settings_of(4));
    explorer.restore(0, learned_curve(1.2));
    EXPECT_TRUE(explorer.explored(0));
    EXPECT_EQ(explorer.optimum(0, {1, 2, 4}), 4);
    Noise noise(1);
    for (int i = 0; i < 5; ++i) explorer.record(0, {4, true, noise(1.0)}, false);
    EXPECT_TRUE(explorer.explored(0));
    EXPECT_TRUE(explorer.curve(0)->solo(1));
    EXPECT_TRUE(explorer.done());
    EXPECT_TRUE(explorer.plan(5.0).empty());
}

TEST(Explorer, ARestoredCurveThatDisagreesIsThrownAway) {
    for (const double factor : {2.0, 0.5}) {
        Explorer explorer(settings_of(4));
        explorer.restore(0, learned_curve(factor));
        record(explorer, 0, 4, 1.0, 4);
        EXPECT_TRUE(explorer.explored(0));
        record(explorer, 0, 4, 1.0, 1);
        EXPECT_FALSE(explorer.explored(0));
        EXPECT_FALSE(explorer.curve(0)->solo(1));
        EXPECT_DOUBLE_EQ(explorer.curve(0)->solo(4).value(), 1.0);
        EXPECT_EQ(explorer.plan(5.0).size(), 1U);
    }
}

TEST(Explorer, ALesserDisagreementIsFoundAsDrift) {
    Explorer explorer(settings_of(4));
    explorer.restore(0, learned_curve(1.0));
    record(explorer, 0, 4, 1.35, 5);
    EXPECT_TRUE(explorer.explored(0));
    int samples = 0;
    Noise noise(4);
    while (explorer.explored(0) && samples < 1000) {
        explorer.record(0, {4, true, noise(1.35)}, false);
        ++samples;
    }
    EXPECT_LT(samples, 40);
}

TEST(Explorer, RestoresOnlyInPlaceOfAnEmptyCurve) {
    Explorer explorer(settings_of(4));
    record(explorer, 0, 4, 7.0, 3);
    explorer.restore(0, learned_curve(1.0));
    EXPECT_DOUBLE_EQ(explorer.curve(0)->solo(4).value(), 7.0);
    EXPECT_FALSE(explorer.curve(0)->solo(1));
    explorer.restore(1, Curve());
    EXPECT_FALSE(explorer.explored(1));
}

TEST(Explorer, OddInputsAreHarmless) {
    ExplorerSettings odd;
    odd.samples = 0;
    odd.attempts = -1;
    odd.max_width = -3;
    odd.coverage = 7.0;
    Explorer explorer(odd);
    EXPECT_TRUE(explorer.plan(0.0).empty());
    EXPECT_FALSE(explorer.done());
    explorer.record(0, {0, true, 1.0}, false);
    explorer.record(0, {1, true, -1.0}, true);
    explorer.record(0, {1, true, std::nan("")}, true);
    explorer.record(0xffffffffU, {1, true, 1.0}, false);
    EXPECT_EQ(explorer.curve(0), nullptr);
    EXPECT_EQ(explorer.curve(0xffffffffU), nullptr);
    EXPECT_FALSE(explorer.predict(5, 1));
    explorer.add(3, "Late", 10.0);
    explorer.record(3, {1, true, 1.0}, false);
    EXPECT_TRUE(explorer.plan(std::nan("")).empty());
    EXPECT_TRUE(explorer.done());
    const Curve* before = explorer.curve(3);
    explorer.add(900, "Later", 10.0);
    EXPECT_EQ(explorer.curve(3), before);
    Explorer moved = std::move(explorer);
    EXPECT_EQ(moved.curve(3), before);
}

}  // namespace
}  // namespace corun::model
