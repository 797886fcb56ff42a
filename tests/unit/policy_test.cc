// SPDX-License-Identifier: Apache-2.0
// Windows, the statistics, the race and the guard on windows made by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "policy/guard.h"
#include "policy/race.h"
#include "policy/statistics.h"
#include "policy/window.h"

namespace corun::policy {
namespace {

/// 100 ms of a program whose arm has this work rate.
Window window_of(ArmId arm, double rate, double wall = 0.1) {
    Window window;
    window.arm = arm;
    window.wall = wall;
    window.open = wall;
    window.work[1] = 0.7 * rate * wall;
    window.work[2] = 0.3 * rate * wall;
    window.periods = 5;
    window.slowest_period = 0.02;
    return window;
}

Window other_mix(ArmId arm) {
    Window window = window_of(arm, 1.0);
    std::swap(window.work[1], window.work[2]);
    return window;
}

// --- window
// --------------------------------------------------------------------------------------------------

TEST(Window, CountsOnlyReferencedWorkAsProgress) {
    Window window = window_of(0, 2.0);
    EXPECT_NEAR(window.total_work(), 0.2, 1e-12);
    EXPECT_NEAR(window.log_rate(false), std::log(2.0), 1e-12);
    window.work[0] = 0.2;
    EXPECT_NEAR(window.log_rate(false), std::log(2.0), 1e-12);
    EXPECT_NEAR(window.unreferenced_share(), 0.5, 1e-12);
    EXPECT_FALSE(window.usable());
    window.work[0] = 0.01;
    EXPECT_TRUE(window.usable());
}

TEST(Window, IsOfNoUseWithoutWorkOrTime) {
    EXPECT_FALSE(Window{}.usable());
    EXPECT_FALSE(window_of(0, 0.0).usable());
    EXPECT_FALSE(window_of(0, 1.0, 0.0).usable());
}

TEST(Window, KnowsItsInputShare) {
    Window window = window_of(0, 1.0);
    window.open = 0.04;
    EXPECT_NEAR(window.input_share(), 0.6, 1e-12);
    EXPECT_NEAR(window.log_rate(true), std::log(2.5), 1e-12);
}

TEST(Window, MixDistanceComparesShares) {
    EXPECT_NEAR(mix_distance(window_of(0, 1.0).work, window_of(1, 9.0).work), 0.0, 1e-12);
    EXPECT_NEAR(mix_distance(window_of(0, 1.0).work, other_mix(0).work), 0.4, 1e-12);
    EXPECT_EQ(mix_distance(window_of(0, 1.0).work, Histogram{}), 1.0);
    EXPECT_EQ(mix_distance(Histogram{}, Histogram{}), 1.0);
    Histogram elsewhere{};
    elsewhere[9] = 1.0;
    EXPECT_NEAR(mix_distance(window_of(0, 1.0).work, elsewhere), 1.0, 1e-12);
}

TEST(Window, LengthIsJittered) {
    Random random(1);
    double shortest = 1e9;
    double longest = 0.0;
    for (int i = 0; i < 1000; ++i) {
        const double length = window_length(0.1, random);
        shortest = std::min(shortest, length);
        longest = std::max(longest, length);
    }
    EXPECT_NEAR(shortest, 0.375, 0.005);
    EXPECT_NEAR(longest, 0.625, 0.005);
    EXPECT_NEAR(window_length(0.001, random), 0.1, 0.0251);
    EXPECT_NEAR(window_length(0.0, random), 0.5, 0.126);
}

// --- statistics
// ----------------------------------------------------------------------------------------------

TEST(Statistics, StudentQuantilesAgreeWithTables) {
    EXPECT_NEAR(student_quantile(0.025, 1), 12.706, 1e-3);
    EXPECT_NEAR(student_quantile(0.025, 2), 4.303, 1e-3);
    EXPECT_NEAR(student_quantile(0.025, 3), 3.182, 1e-3);
    EXPECT_NEAR(student_quantile(0.005, 8), 3.355, 1e-3);
    EXPECT_NEAR(student_quantile(0.0005, 15), 4.073, 1e-3);
    EXPECT_NEAR(student_quantile(0.025, 255), 1.969, 1e-3);
    EXPECT_NEAR(student_quantile(0.0005, 1000), 3.300, 1e-3);
}

TEST(Statistics, WinsorisingPullsInTheTails) {
    EXPECT_NEAR(winsorised({1, 2, 3, 4, 5, 6, 7, 8, 9, 1000}).mean, 5.5, 1e-12);
    EXPECT_NEAR(winsorised({0, 0, 3}).mean, 1.0, 1e-12);  // too few to tell which is odd
    EXPECT_EQ(winsorised({}).freedom, 0);
    EXPECT_EQ(winsorised({1, 2, 3, 4, 5, 6, 7, 8}).freedom, 5);
}

TEST(Statistics, WinsorisedIntervalCoversTheTruth) {
    Random random(3);
    std::student_t_distribution<double> noise(3.0);  // tails as heavy as those of windows
    int covered = 0;
    for (int i = 0; i < 4000; ++i) {
        std::vector<double> values(16);
        for (double& x : values) x = noise(random);
        const Estimate e = winsorised(values);
        covered += std::abs(e.mean) < student_quantile(0.025, e.freedom) * e.error;
    }
    EXPECT_NEAR(covered / 4000.0, 0.95, 0.02);
}

// --- race
// ----------------------------------------------------------------------------------------------------

/// Runs the race on windows of these rates with a little noise.
void run_race(Race& race, const std::map<ArmId, double>& rates, double noise = 0.01) {
    Random random(5);
    std::normal_distribution<double> normal(0.0, noise);
    while (!race.finished())
        race.add(window_of(race.next(), rates.at(race.next()) * std::exp(normal(random))));
}

TEST(Race, FindsTheFastest) {
    Race race({0, 3, 7}, Random(1));
    run_race(race, {{0, 1.0}, {3, 1.5}, {7, 0.6}});
    EXPECT_EQ(race.winner(), 3);
    EXPECT_EQ(race.next(), 3);
    EXPECT_EQ(race.rounds(), kRaceLooks[0]);
    EXPECT_NEAR(race.estimate(3).value(), std::log(1.5), 0.03);
    EXPECT_NEAR(race.estimate(7).value(), std::log(0.6), 0.03);
    EXPECT_FALSE(race.estimate(99).has_value());
}

TEST(Race, DoesNotCountItsWarmRounds) {
    Race race({0, 3}, Random(1), 2);
    for (int i = 0; i < 4; ++i) race.add(window_of(race.next(), race.next() == 3 ? 0.1 : 1.0));
    EXPECT_EQ(race.rounds(), 0);
    EXPECT_FALSE(race.estimate(3).has_value());
    run_race(race, {{0, 1.0}, {3, 1.5}});
    EXPECT_EQ(race.winner(), 3);
    EXPECT_NEAR(race.estimate(3).value(), std::log(1.5), 0.03);
}

TEST(Race, OfOneArmNeedsNoWindow) {
    EXPECT_EQ(Race({4}, Random(1)).winner(), 4);
    EXPECT_THROW(Race({}, Random(1)), std::invalid_argument);
}

TEST(Race, PrefersTheProgramAsItIsAmongEquals) {
    Race race({0, 1}, Random(1));
    run_race(race, {{0, 1.0}, {1, 1.01}}, 0.001);
    EXPECT_EQ(race.winner(), kPassThrough);
    Race noisy({0, 1}, Random(1));
    run_race(noisy, {{0, 1.0}, {1, 1.01}}, 0.05);
    // It ends once no arm can be much better, which takes more rounds than a clear case does.
    EXPECT_GT(noisy.rounds(), kRaceLooks.front());
    EXPECT_EQ(noisy.winner(), kPassThrough);
}

TEST(Race, LooksOnlyAtTheAppointedRounds) {
    Race race({0, 1, 2}, Random(1));
    std::set<int> seen;
    Random random(5);
    std::normal_distribution<double> normal(0.0, 0.05);
    std::size_t live = 3;
    while (!race.finished()) {
        const std::map<ArmId, double> rates{{0, 1.0}, {1, 1.12}, {2, 1.05}};
        race.add(window_of(race.next(), rates.at(race.next()) * std::exp(normal(random))));
        if (race.live().size() != live || race.finished()) seen.insert(race.rounds());
        live = race.live().size();
    }
    EXPECT_FALSE(seen.empty());
    for (const int round : seen)
        EXPECT_NE(std::find(kRaceLooks.begin(), kRaceLooks.end(), round), kRaceLooks.end());
}

TEST(Race, EachRoundRunsEveryArmInRandomOrder) {
    Race race({0, 1, 2}, Random(1));
    std::set<std::vector<ArmId>> orders;
    Random random(1);
    for (int round = 0; round < 24 && !race.finished(); ++round) {
        std::vector<ArmId> order;
        for (int i = 0; i < 3; ++i) {
            order.push_back(race.next());
            const double noise = std::normal_distribution<double>(0.0, 0.3)(random);
            race.add(window_of(race.next(), std::exp(noise)));
        }
        EXPECT_EQ(std::set<ArmId>(order.begin(), order.end()).size(), 3u);
        orders.insert(order);
    }
    EXPECT_GE(orders.size(), 4u);
}

TEST(Race, AsksAgainAfterADiscardedWindow) {
    Race race({0, 1, 2}, Random(1));
    Window bad = window_of(race.next(), 1.0);
    bad.work[0] = 1.0;
    const ArmId asked = race.next();
    race.add(bad);
    EXPECT_EQ(race.next(), asked);
    race.add(window_of(asked, 1.0));
    const ArmId second = race.next();
    EXPECT_NE(second, asked);
    race.add(other_mix(second));
    EXPECT_EQ(race.next(), second);
    race.add(window_of(asked, 1.0));  // not the arm that was asked for
    EXPECT_EQ(race.next(), second);
    EXPECT_EQ(race.discarded(), 3);
    EXPECT_EQ(race.rounds(), 0);
}

TEST(Race, ThrowsAwayARoundWhoseFirstWindowWasOdd) {
    Race race({0, 1}, Random(1));
    race.add(other_mix(race.next()));
    for (int i = 0; i < 5; ++i) race.add(window_of(race.next(), 1.0));
    EXPECT_EQ(race.discarded(), 5);
    EXPECT_FALSE(race.stuck());
    race.add(window_of(race.next(), 1.0));
    race.add(window_of(race.next(), 1.0));
    EXPECT_EQ(race.rounds(), 1);
}

TEST(Race, SaysWhenItIsStuck) {
    Race race({0, 1}, Random(1));
    for (int i = 0; i < kStuckDiscards; ++i) {
        EXPECT_FALSE(race.stuck());
        Window bad = window_of(race.next(), 1.0);
        bad.work[0] = 1.0;
        race.add(bad);
    }
    EXPECT_TRUE(race.stuck());
    race.add(window_of(race.next(), 1.0));
    race.add(window_of(race.next(), 1.0));
    EXPECT_FALSE(race.stuck());
}

TEST(Race, CanBeConcludedEarly) {
    EXPECT_EQ(Race({1, 0}, Random(1)).conclude(), kPassThrough);
    EXPECT_EQ(Race({1, 2}, Random(1)).conclude(), 1);
    Race race({0, 1}, Random(1));
    while (race.rounds() < 2) race.add(window_of(race.next(), race.next() == 1 ? 1.2 : 1.0));
    EXPECT_FALSE(race.finished());
    EXPECT_EQ(race.conclude(), 1);
    EXPECT_TRUE(race.finished());
}

TEST(Race, GoesByOpenTimeWhenWaitingForInput) {
    // By wall time the two are alike, as both wait for the same input; arm 1 does its work in half the open
    // time.
    Race race({0, 1}, Random(1));
    Random random(2);
    while (!race.finished()) {
        Window window = window_of(race.next(), std::exp(std::normal_distribution<double>(0.0, 0.01)(random)));
        window.open = window.arm == 1 ? 0.02 : 0.04;
        race.add(window);
    }
    EXPECT_TRUE(race.by_open_time());
    EXPECT_EQ(race.winner(), 1);
    EXPECT_NEAR(race.estimate(1).value(), std::log(2.0), 0.05);
}

// --- guard
// ---------------------------------------------------------------------------------------------------

class GuardTest : public testing::Test {
  protected:
    /// Runs until this many blocks are complete or the arm is stood down. Returns the windows run,
    /// pass-through's too.
    std::pair<int, int> run(Guard& guard, int blocks, double gain, double noise = 0.03,
                            double arm_slowest = 0.02) {
        std::normal_distribution<double> normal(0.0, noise);
        int all = 0;
        int plain = 0;
        while (guard.blocks() < blocks && !guard.stand_down()) {
            const ArmId arm = guard.next();
            Window window = window_of(arm, (arm == kPassThrough ? 1.0 : gain) * std::exp(normal(random_)));
            if (arm != kPassThrough) window.slowest_period = arm_slowest;
            guard.add(window);
            ++all;
            plain += arm == kPassThrough;
        }
        return {all, plain};
    }
    Random random_{9};
};

TEST_F(GuardTest, OrderOfABlockIsByCoin) {
    Guard guard(1, Random(4));
    std::map<std::vector<ArmId>, int> orders;
    // Too noisy for any verdict, and unusable filler windows do no harm.
    while (guard.blocks() < 200) {
        std::vector<ArmId> order;
        while (!guard.in_block()) guard.add(Window{});
        for (int i = 0; i < 4; ++i) {
            order.push_back(guard.next());
            guard.add(window_of(guard.next(), std::exp(std::normal_distribution<double>(0.0, 1.0)(random_))));
        }
        ++orders[order];
    }
    ASSERT_EQ(orders.size(), 2u);
    EXPECT_NEAR((orders[{0, 1, 1, 0}]), 100, 30);
    EXPECT_NEAR((orders[{1, 0, 0, 1}]), 100, 30);
    EXPECT_EQ(guard.discarded(), 0);
}

TEST_F(GuardTest, ShowsNoIntervalBeforeSixteenBlocks) {
    Guard guard(1, Random(4));
    run(guard, 7, 1.2);
    EXPECT_EQ(guard.verdict(), Verdict::undecided);
    run(guard, 15, 1.2);
    EXPECT_EQ(guard.verdict(), Verdict::gain);
    EXPECT_FALSE(guard.gain().has_value());
    EXPECT_FALSE(guard.totals().has_value());
    EXPECT_FALSE(guard.tail_ratio().has_value());
    run(guard, 16, 1.2);
    EXPECT_NEAR(guard.gain().value().estimate, std::log(1.2), 0.03);
    EXPECT_LT(guard.gain().value().low, std::log(1.2));
    EXPECT_GT(guard.gain().value().high, std::log(1.2));
    EXPECT_NEAR(guard.totals().value().estimate, std::log(1.2), 0.03);
    EXPECT_NEAR(guard.tail_ratio().value(), 1.0, 1e-9);
}

TEST_F(GuardTest, PassThroughShareFallsInThreeSteps) {
    // +3 % in much noise is not certain until late.
    Guard guard(1, Random(4));
    auto [all, plain] = run(guard, 15, 1.03, 0.12);
    EXPECT_EQ(guard.pass_through_share(), kShareFirst);
    EXPECT_EQ(2 * plain, all);
    run(guard, 16, 1.03, 0.12);
    EXPECT_EQ(guard.pass_through_share(), kShareThen);
    std::tie(all, plain) = run(guard, 26, 1.03, 0.12);
    EXPECT_EQ(10 * plain, all);
    run(guard, 128, 1.03, 0.03);
    EXPECT_EQ(guard.pass_through_share(), kShareLast);
    std::tie(all, plain) = run(guard, 138, 1.03, 0.03);
    EXPECT_EQ(50 * plain, all);
}

TEST_F(GuardTest, ACertainGainNeedsLittlePassThrough) {
    Guard guard(1, Random(4));
    run(guard, 8, 1.3, 0.01);
    EXPECT_EQ(guard.verdict(), Verdict::gain);
    EXPECT_EQ(guard.pass_through_share(), kShareThen);  // there is no interval to show yet
    run(guard, kIntervalBlocks, 1.3, 0.01);
    EXPECT_EQ(guard.pass_through_share(), kShareLast);
}

TEST_F(GuardTest, StandsDownForHarmAndForNoGain) {
    Guard harmful(1, Random(4));
    run(harmful, 256, 0.8);
    EXPECT_EQ(harmful.verdict(), Verdict::harm);
    EXPECT_EQ(harmful.ground(), Ground::rate);
    EXPECT_EQ(harmful.blocks(), kGuardLooks[0]);
    EXPECT_EQ(harmful.next(), kPassThrough);
    EXPECT_EQ(harmful.pass_through_share(), 1.0);
    harmful.add(window_of(kPassThrough, 1.0));
    EXPECT_EQ(harmful.verdict(), Verdict::harm);

    Guard useless(1, Random(4));
    run(useless, 256, 1.005, 0.01);
    EXPECT_EQ(useless.verdict(), Verdict::no_gain);
    EXPECT_TRUE(useless.stand_down());
}

TEST_F(GuardTest, LooksOnlyAtTheAppointedBlocks) {
    for (int seed = 0; seed < 40; ++seed) {
        Guard guard(1, Random(static_cast<std::uint64_t>(seed)));
        run(guard, 400, 0.99, 0.05);
        ASSERT_TRUE(guard.stand_down());
        if (guard.ground() == Ground::recent || guard.blocks() > kGuardLooks.back()) continue;
        EXPECT_NE(std::find(kGuardLooks.begin(), kGuardLooks.end(), guard.blocks()), kGuardLooks.end());
    }
}

TEST_F(GuardTest, StandsDownForMuchLongerTails) {
    Guard guard(1, Random(4));
    run(guard, 31, 1.2, 0.03, 0.03);
    EXPECT_FALSE(guard.stand_down());
    EXPECT_NEAR(guard.tail_ratio().value(), 1.5, 1e-9);
    run(guard, 32, 1.2, 0.03, 0.03);
    EXPECT_EQ(guard.verdict(), Verdict::harm);
    EXPECT_EQ(guard.ground(), Ground::tails);
}

TEST_F(GuardTest, FindsAProvenArmThatTurnedBad) {
    Guard guard(1, Random(4));
    run(guard, 256, 1.2);
    EXPECT_EQ(guard.verdict(), Verdict::gain);
    run(guard, 1000, 0.85);
    EXPECT_EQ(guard.ground(), Ground::recent);
    EXPECT_LE(guard.blocks(), 256 + kRecentBlocks + kRecentEvery);
}

TEST_F(GuardTest, DiscardsLikeTheRace) {
    Guard guard(1, Random(4));
    const ArmId first = guard.next();
    guard.add(window_of(1 - first, 1.0));  // not asked for
    guard.add(Window{.arm = first});
    EXPECT_EQ(guard.next(), first);
    guard.add(window_of(first, 1.0));
    EXPECT_EQ(guard.next(), 1 - first);
    guard.add(other_mix(1 - first));
    EXPECT_EQ(guard.discarded(), 3);
    for (int i = 0; i < 17; ++i) guard.add(Window{.arm = guard.next()});
    EXPECT_TRUE(guard.stuck());
    run(guard, 1, 1.0);
    EXPECT_FALSE(guard.stuck());
    EXPECT_EQ(guard.blocks(), 1);
}

}  // namespace
}  // namespace corun::policy
