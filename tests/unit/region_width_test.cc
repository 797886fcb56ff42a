// SPDX-License-Identifier: Apache-2.0
// Widths of regions when a change of team size has its price.
#include "policy/region_width.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace corun::policy {
namespace {

constexpr double kMicro = 1e-6;
using Widths = std::vector<int>;

RegionLoad load(std::uint64_t calls, int own, std::vector<model::Point> curve, Widths allowed = {}) {
    RegionLoad region;
    region.calls = calls;
    region.own = own;
    if (allowed.empty())
        for (const model::Point& point : curve) allowed.push_back(point.width);
    region.curve = std::move(curve);
    region.allowed = std::move(allowed);
    return region;
}

SwitchCosts costs_of(RuntimeKind kind, int a, int b, double seconds) {
    SwitchCosts costs(kind);
    for (int i = 0; i < 5; ++i) {
        costs.add(a, b, seconds);
        costs.add(b, a, seconds);
    }
    return costs;
}

// Two regions that run in turn.
std::vector<Transition> in_turn(std::uint64_t count) {
    return {{0, 1, count}, {1, 0, count}};
}

TEST(SwitchCosts, GuessesUntilThreeWereMeasured) {
    SwitchCosts costs(RuntimeKind::libgomp);
    EXPECT_LT(costs.seconds(1, 4), 2 * kMicro);
    EXPECT_LT(costs.seconds(4, 1), 2 * kMicro);
    EXPECT_GT(costs.seconds(2, 4), 20 * kMicro);
    EXPECT_DOUBLE_EQ(costs.seconds(4, 4), 0.0);
    costs.add(2, 4, 100 * kMicro);
    costs.add(2, 4, 110 * kMicro);
    EXPECT_FALSE(costs.measured(2, 4));
    costs.add(2, 4, 5000 * kMicro);  // a burst does not matter
    EXPECT_TRUE(costs.measured(2, 4));
    EXPECT_NEAR(costs.seconds(2, 4), 110 * kMicro, 1e-9);
    EXPECT_FALSE(costs.measured(4, 2));
}

TEST(SwitchCosts, LibompChangesAnySizeAlike) {
    const SwitchCosts costs(RuntimeKind::libomp);
    EXPECT_DOUBLE_EQ(costs.seconds(1, 8), costs.seconds(8, 4));
    EXPECT_LT(costs.seconds(8, 4), 20 * kMicro);
}

TEST(SwitchCosts, AGainOrNoNumberIsNoCost) {
    SwitchCosts costs(RuntimeKind::libomp);
    for (int i = 0; i < 3; ++i) costs.add(1, 2, -1.0);
    costs.add(1, 2, 0.0 / 0.0);
    EXPECT_LT(costs.seconds(1, 2), 1e-8);
}

TEST(PlanWidths, WithoutNeighboursEachAtItsOptimum) {
    const std::vector<RegionLoad> regions{load(1000, 4, {{1, 5 * kMicro}, {4, 20 * kMicro}}),
                                          load(1000, 4, {{1, 4e-3}, {4, 1e-3}})};
    const WidthPlan plan = plan_widths(regions, {}, SwitchCosts(RuntimeKind::libgomp));
    EXPECT_EQ(plan.widths, (Widths{1, 4}));
    EXPECT_NEAR(plan.own_seconds, 1.02, 1e-9);
    EXPECT_NEAR(plan.seconds, 1.005, 1e-9);
    EXPECT_DOUBLE_EQ(plan.switch_seconds, 0.0);
}

// Wide and tiny in turn, each change charged: tiny at 1 pays while a change is cheap and not when it is dear.
TEST(PlanWidths, AChangeIsWorthItOnlyBelowItsPrice) {
    const std::vector<RegionLoad> regions{load(1000, 4, {{1, 4e-3}, {4, 1e-3}}),
                                          load(1000, 4, {{1, 10 * kMicro}, {4, 30 * kMicro}})};
    const auto turns = in_turn(1000);
    const WidthPlan cheap = plan_widths(regions, turns, costs_of(RuntimeKind::libgomp, 1, 4, 1 * kMicro));
    EXPECT_EQ(cheap.widths, (Widths{4, 1}));
    EXPECT_NEAR(cheap.switch_seconds, 2000 * kMicro, 1e-9);
    EXPECT_NEAR(cheap.charged[0], 1000 * kMicro, 1e-9);
    EXPECT_NEAR(cheap.charged[1], 1000 * kMicro, 1e-9);
    const WidthPlan dear = plan_widths(regions, turns, costs_of(RuntimeKind::libgomp, 1, 4, 11 * kMicro));
    EXPECT_EQ(dear.widths, (Widths{4, 4}));
    EXPECT_DOUBLE_EQ(dear.switch_seconds, 0.0);
    EXPECT_DOUBLE_EQ(dear.seconds, dear.own_seconds);
}

// A row of tiny regions after each wide one: one change for many calls.
TEST(PlanWidths, ManyTinyRegionsShareOneChange) {
    const std::vector<RegionLoad> regions{load(100, 4, {{1, 4e-3}, {4, 1e-3}}),
                                          load(10000, 4, {{1, 10 * kMicro}, {4, 30 * kMicro}})};
    const std::vector<Transition> turns{{0, 1, 100}, {1, 1, 9900}, {1, 0, 100}};
    const WidthPlan plan = plan_widths(regions, turns, costs_of(RuntimeKind::libgomp, 1, 4, 100 * kMicro));
    EXPECT_EQ(plan.widths, (Widths{4, 1}));
    EXPECT_NEAR(plan.switch_seconds, 200 * 100 * kMicro, 1e-9);
}

// Neither region can leave alone, both together can: descent from the program's own widths would stay.
TEST(PlanWidths, RegionsMoveTogether) {
    const std::vector<RegionLoad> regions{load(1000, 4, {{1, 10 * kMicro}, {4, 30 * kMicro}}),
                                          load(1000, 4, {{1, 10 * kMicro}, {4, 30 * kMicro}})};
    const WidthPlan plan =
        plan_widths(regions, in_turn(1000), costs_of(RuntimeKind::libgomp, 1, 4, 50 * kMicro));
    EXPECT_EQ(plan.widths, (Widths{1, 1}));
    EXPECT_DOUBLE_EQ(plan.switch_seconds, 0.0);
}

TEST(PlanWidths, AGainWithinTheDeadbandIsNone) {
    const auto at = [](double seconds) {
        const std::vector<RegionLoad> regions{load(100, 2, {{1, seconds}, {2, 1e-3}})};
        return plan_widths(regions, {}, SwitchCosts(RuntimeKind::libomp)).widths.front();
    };
    EXPECT_EQ(at(0.96e-3), 2);
    EXPECT_EQ(at(0.94e-3), 1);
}

TEST(PlanWidths, OneRegionsGainIsNoExcuseForAnothersMove) {
    const std::vector<RegionLoad> regions{load(1000, 2, {{1, 1e-3}, {2, 9e-3}}),
                                          load(1000, 2, {{1, 0.98e-3}, {2, 1e-3}})};
    const WidthPlan plan = plan_widths(regions, {}, SwitchCosts(RuntimeKind::libomp));
    EXPECT_EQ(plan.widths, (Widths{1, 2}));
}

TEST(PlanWidths, NoWidthThatIsNotAllowedOrNotMeasured) {
    const std::vector<RegionLoad> regions{
        load(1000, 4, {{1, 1e-6}, {2, 1e-6}, {4, 1e-3}}, {4}),     // not resizable
        load(1000, 4, {{4, 1e-3}}, {1, 4}),                        // nothing known at 1
        load(1000, 4, {{1, 1e-6}}, {1, 4}),                        // nothing known of its own width
        load(1000, 4, {{1, 1e-6}, {2, 1e-7}, {4, 1e-3}}, {1, 4}),  // libgomp
        load(0, 4, {}, {1, 4})};
    const WidthPlan plan = plan_widths(regions, {}, SwitchCosts(RuntimeKind::libgomp));
    EXPECT_EQ(plan.widths, (Widths{4, 4, 4, 1, 4}));
}

// What a region costs at its own width is not known: it must not be moved for its neighbour's sake either.
TEST(PlanWidths, ARegionOfUnknownCostIsNotDrawnAlong) {
    const std::vector<RegionLoad> regions{load(1000, 4, {{1, 1e-6}}, {1, 4}),
                                          load(1000, 4, {{1, 10 * kMicro}, {4, 30 * kMicro}})};
    const auto costs = costs_of(RuntimeKind::libgomp, 1, 4, 50 * kMicro);
    EXPECT_EQ(plan_widths(regions, in_turn(1000), costs).widths, (Widths{4, 4}));
}

// A region that follows itself changes nothing, whatever a change would cost: it gains no more by staying.
TEST(PlanWidths, ARegionAfterItselfIsNoChange) {
    const std::vector<RegionLoad> regions{load(1000, 2, {{1, 1e-3}, {2, 9e-3}}),
                                          load(1000, 2, {{1, 0.98e-3}, {2, 1e-3}})};
    const std::vector<Transition> turns{{0, 0, 1000}, {1, 1, 1000}};
    const WidthPlan plan = plan_widths(regions, turns, costs_of(RuntimeKind::libomp, 1, 2, 1e-3));
    EXPECT_EQ(plan.widths, (Widths{1, 2}));
    EXPECT_DOUBLE_EQ(plan.switch_seconds, 0.0);
}

TEST(PlanWidths, NothingToPlan) {
    const WidthPlan plan = plan_widths({}, {}, SwitchCosts(RuntimeKind::libomp));
    EXPECT_TRUE(plan.widths.empty());
    EXPECT_DOUBLE_EQ(plan.seconds, 0.0);
}

TEST(PlanWidths, TransitionsOfUnknownRegionsAreIgnored) {
    const std::vector<RegionLoad> regions{load(10, 2, {{1, 1e-3}, {2, 9e-3}})};
    const std::vector<Transition> turns{{0, 7, 10}, {7, 0, 10}, {8, 9, 10}};
    EXPECT_EQ(plan_widths(regions, turns, SwitchCosts(RuntimeKind::libomp)).widths, (Widths{1}));
}

// --- against the best of all combinations

double total(const std::vector<RegionLoad>& regions, const std::vector<Transition>& turns,
             const SwitchCosts& costs, const Widths& widths) {
    double sum = 0.0;
    for (std::size_t i = 0; i < regions.size(); ++i)
        for (const model::Point& point : regions[i].curve)
            if (point.width == widths[i]) sum += static_cast<double>(regions[i].calls) * point.seconds;
    for (const Transition& turn : turns)
        sum += static_cast<double>(turn.count) * costs.seconds(widths[turn.before], widths[turn.after]);
    return sum;
}

double best_total(const std::vector<RegionLoad>& regions, const std::vector<Transition>& turns,
                  const SwitchCosts& costs, Widths& widths, std::size_t at = 0) {
    if (at == regions.size()) return total(regions, turns, costs, widths);
    double best = 1e30;
    for (const int width : regions[at].allowed) {
        widths[at] = width;
        best = std::min(best, best_total(regions, turns, costs, widths, at + 1));
    }
    return best;
}

struct RandomProgram {
    std::vector<RegionLoad> regions;
    std::vector<Transition> turns;
};

// Five regions between 5 us and 1 ms of work, in a random cyclic order.
RandomProgram random_program(std::mt19937& engine) {
    std::uniform_real_distribution<double> uniform(0.0, 1.0);
    RandomProgram program;
    for (int i = 0; i < 5; ++i) {
        const double work = 5e-6 * std::pow(200.0, uniform(engine));
        const double overhead = 2e-6 + 6e-6 * uniform(engine);
        std::vector<model::Point> curve{{1, work}};
        for (const int width : {2, 4}) curve.push_back({width, work / width + overhead * width});
        program.regions.push_back(load(0, 4, curve));
    }
    std::vector<std::uint32_t> order;
    for (int i = 0; i < 12; ++i) order.push_back(static_cast<std::uint32_t>(engine() % 5));
    for (std::size_t i = 0; i < order.size(); ++i) {
        program.regions[order[i]].calls += 1000;
        program.turns.push_back({order[i], order[(i + 1) % order.size()], 1000});
    }
    return program;
}

// Descent finds what trying all 243 combinations finds, but for what the deadband gives away.
TEST(PlanWidths, IsCloseToTheBestOfAllCombinations) {
    std::mt19937 engine(7);
    int exact = 0;
    for (int i = 0; i < 300; ++i) {
        const RandomProgram program = random_program(engine);
        const SwitchCosts costs(i % 2 == 0 ? RuntimeKind::libomp : RuntimeKind::libgomp);
        Widths widths(program.regions.size());
        const double best = best_total(program.regions, program.turns, costs, widths);
        const WidthPlan plan = plan_widths(program.regions, program.turns, costs);
        ASSERT_NEAR(plan.seconds, total(program.regions, program.turns, costs, plan.widths), 1e-9);
        ASSERT_NEAR(plan.own_seconds, total(program.regions, program.turns, costs, Widths(5, 4)), 1e-9);
        EXPECT_LE(plan.seconds, best * 1.05) << i;
        EXPECT_LE(plan.seconds, plan.own_seconds + 1e-12) << i;
        exact += plan_widths(program.regions, program.turns, costs, 0.0).seconds <= best * (1.0 + 1e-9);
    }
    std::printf("without a deadband the best of all combinations in %d of 300\n", exact);
    EXPECT_GE(exact, 298);
}

}  // namespace
}  // namespace corun::policy
