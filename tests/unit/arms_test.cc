// SPDX-License-Identifier: Apache-2.0
// What every arm makes of an op whose costs are known.
#include "policy/arms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace corun::policy {
namespace {

using Costs = std::map<int, double>;  ///< seconds by width

/// Narrowest within 5 % of the fastest, as the model answers; nothing when fewer than two are known.
std::optional<int> narrowest(const Costs& costs, const std::vector<int>& widths) {
    std::optional<double> fastest;
    int known = 0;
    for (const int width : widths)
        if (const auto at = costs.find(width); at != costs.end())
            fastest = std::min(fastest.value_or(at->second), at->second), ++known;
    if (known < 2) return std::nullopt;
    for (const int width : widths)
        if (const auto at = costs.find(width); at != costs.end() && at->second <= *fastest * 1.05)
            return width;
    return std::nullopt;
}

OpView op_with(const Costs& costs) {
    OpView view;
    view.seconds = [costs](int width) -> std::optional<double> {
        const auto at = costs.find(width);
        return at == costs.end() ? std::nullopt : std::optional<double>(at->second);
    };
    view.optimum = [costs](const std::vector<int>& widths) { return narrowest(costs, widths); };
    return view;
}

Costs law(double serial, double parallel, double per_thread, int budget) {
    Costs costs;
    for (const int width : candidate_widths(budget))
        costs[width] = serial + parallel / width + per_thread * width;
    return costs;
}

Arm arm(const std::string& name, int budget) {
    return arm_by_name(name, budget).value();
}

WidthRow all(int width) {
    WidthRow row{};
    row.fill(static_cast<std::uint16_t>(width));
    return row;
}

// --- names ---------------------------------------------------------------------------------------

TEST(Arms, CandidateWidthsEndWithTheBudget) {
    EXPECT_EQ(candidate_widths(0), (std::vector{1}));
    EXPECT_EQ(candidate_widths(1), (std::vector{1}));
    EXPECT_EQ(candidate_widths(2), (std::vector{1, 2}));
    EXPECT_EQ(candidate_widths(6), (std::vector{1, 2, 4, 6}));
    EXPECT_EQ(candidate_widths(8), (std::vector{1, 2, 4, 8}));
}

TEST(Arms, ARaceStartsWithPassThroughAndFitsTheTable) {
    for (int budget = 1; budget <= 1024; ++budget) {
        const std::vector<Arm> arms = race_arms(budget);
        ASSERT_FALSE(arms.empty());
        EXPECT_EQ(arms.front().kind, ArmKind::pass_through);
        EXPECT_LE(arms.size(), kArmSlots);
        std::set<std::string> names;
        for (const Arm& each : arms) {
            EXPECT_TRUE(names.insert(each.name).second) << each.name << " twice at budget " << budget;
            EXPECT_NE(each.kind, ArmKind::random);
            if (each.kind == ArmKind::uniform) {
                EXPECT_LT(each.value, budget);  // that of the whole budget is pass-through
            }
        }
    }
    EXPECT_EQ(race_arms(1).size(), 1U);  // one CPU: nothing to choose
    EXPECT_EQ(race_arms(0).size(), 1U);
}

TEST(Arms, EveryArmOfARaceIsFoundByItsName) {
    for (const int budget : {1, 2, 3, 6, 16, 64, 68}) {
        for (const Arm& each : race_arms(budget)) {
            const auto found = arm_by_name(each.name, budget);
            ASSERT_TRUE(found) << each.name;
            EXPECT_EQ(found->name, each.name);
            EXPECT_EQ(found->kind, each.kind);
            EXPECT_EQ(found->value, each.value);
        }
    }
}

TEST(Arms, GatedOnesRaceWhereWanted) {
    const auto gated = [](GateMode mode, int budget) {
        std::size_t count = 0;
        for (const Arm& each : race_arms(budget, mode)) {
            EXPECT_EQ(each.gate.empty(), each.name.rfind("gate-", 0) != 0) << each.name;
            count += each.gate.empty() ? 0 : 1;
            EXPECT_EQ(arm_by_name(each.name, budget).value().gate, each.gate);
        }
        return count;
    };
    for (const int budget : {2, 6, 64, 1024}) {
        EXPECT_EQ(gated(GateMode::off, budget), 0U);
        EXPECT_EQ(gated(GateMode::beside, budget), 2U);
        EXPECT_EQ(gated(GateMode::alone, budget), race_arms(budget, GateMode::alone).size() - 1);
        EXPECT_LE(race_arms(budget, GateMode::beside).size(), kArmSlots);
    }
    EXPECT_EQ(race_arms(1, GateMode::alone).size(), 1U);
    EXPECT_EQ(arm("gate-s3", 8).kind, ArmKind::by_type);
    EXPECT_EQ(arm("gate-s3", 8).gate, "s3");
    EXPECT_EQ(arm("gate-price-0.1", 8).gate, "price-0.1");
    for (const char* name : {"gate-", "gate-uniform-2", "gate-random", "gate-pass-through", "gate-gate-s3"})
        EXPECT_FALSE(arm_by_name(name, 8)) << name;
}

TEST(Arms, NamesAreParsedStrictly) {
    for (const char* name : {"", "race", "uniform", "uniform-", "uniform-x", "uniform-2x", "uniform--1",
                             "uniform-nan", "price", "price-", "price--1", "price-cheap", "S1", "Idle", "s3"})
        EXPECT_FALSE(arm_by_name(name, 8)) << name;
    EXPECT_EQ(arm("random", 8).kind, ArmKind::random);
    EXPECT_EQ(arm("replay", 8).kind, ArmKind::replay);
    EXPECT_EQ(arm("price-0.3", 8).value, 0.3);
}

TEST(Arms, AUniformWidthIsKeptWithinTheBudget) {
    EXPECT_EQ(arm("uniform-0", 8).name, "uniform-1");
    EXPECT_EQ(arm("uniform-3", 8).value, 3.0);
    EXPECT_EQ(arm("uniform-99", 8).name, "uniform-8");
    EXPECT_EQ(arm("uniform-2", 0).name, "uniform-1");
}

// --- rows ----------------------------------------------------------------------------------------

TEST(Arms, IdleBucketsAreLogarithmic) {
    EXPECT_EQ(idle_bucket(-1), 0U);
    EXPECT_EQ(idle_bucket(0), 0U);
    EXPECT_EQ(idle_bucket(1), 0U);
    EXPECT_EQ(idle_bucket(2), 1U);
    EXPECT_EQ(idle_bucket(3), 1U);
    EXPECT_EQ(idle_bucket(4), 2U);
    EXPECT_EQ(idle_bucket(127), 6U);
    EXPECT_EQ(idle_bucket(128), 7U);
    EXPECT_EQ(idle_bucket(100'000), 7U);
}

TEST(Arms, PassThroughAndRandomSetNothing) {
    const OpView op = op_with(law(1, 10, 0, 8));
    EXPECT_EQ(width_row(Arm{}, op, 8), all(0));
    EXPECT_EQ(width_row(arm("random", 8), op, 8), all(0));
}

TEST(Arms, AWidthOfTheWholeBudgetLeavesTheProgramsOwn) {
    const OpView op = op_with(law(0, 10, 0, 8));  // the wider the better
    EXPECT_EQ(width_row(arm("uniform-4", 8), op, 8), all(4));
    EXPECT_EQ(width_row(arm("uniform-8", 8), op, 8), all(0));
    EXPECT_EQ(width_row(arm("uniform-4", 8), op, 4), all(0));  // the budget has shrunk
    EXPECT_EQ(width_row(arm("uniform-4", 8), op, 3), all(0));
    EXPECT_EQ(width_row(arm("s1", 8), op, 8), all(0));
    OpView replayed = op;
    replayed.profile_width = 8;
    EXPECT_EQ(width_row(arm("replay", 8), replayed, 8), all(0));
    replayed.profile_width = 3;
    EXPECT_EQ(width_row(arm("replay", 8), replayed, 8), all(3));
}

TEST(Arms, AnOpThatNothingIsKnownOfIsLeftAlone) {
    for (const char* name : {"s1", "s2", "idle", "price-0", "price-1", "replay"})
        EXPECT_EQ(width_row(arm(name, 8), op_with({}), 8), all(0)) << name;
    for (const char* name : {"s1", "s2", "idle", "price-0.2"})
        EXPECT_EQ(width_row(arm(name, 8), op_with({{8, 1.0}}), 8), all(0)) << name << " with one width known";
}

TEST(Arms, WhereOtherChangesCostOpsHaveOneThreadOrAll) {
    EXPECT_EQ(mixed_widths(16, true), (std::vector<int>{1, 16}));
    EXPECT_EQ(mixed_widths(16, false), candidate_widths(16));
    EXPECT_EQ(mixed_widths(1, true), std::vector<int>{1});
    const OpView op = op_with(law(1e-5, 1e-3, 4e-5, 16));  // best at 4 or 8
    for (const char* name : {"s1", "idle", "price-0.05"}) {
        const WidthRow row = width_row(arm(name, 16), op, 16, true);
        EXPECT_TRUE(std::all_of(row.begin(), row.end(), [](int width) { return width <= 1; })) << name;
    }
    EXPECT_NE(width_row(arm("s1", 16), op, 16, false), width_row(arm("s1", 16), op, 16, true));
    EXPECT_EQ(width_row(arm("uniform-4", 16), op, 16, true), all(4));  // of all alike there is no change
}

TEST(Arms, TheOptimumIsPerOpOrPerType) {
    OpView op = op_with(law(0, 16, 1, 16));  // best at 4
    EXPECT_EQ(width_row(arm("s1", 16), op, 16), all(4));
    EXPECT_EQ(width_row(arm("s2", 16), op, 16), all(0));
    op.type_optimum = 2;
    EXPECT_EQ(width_row(arm("s2", 16), op, 16), all(2));
    op.type_optimum = 16;
    EXPECT_EQ(width_row(arm("s2", 16), op, 16), all(0));
}

TEST(Arms, APriceMakesNarrower) {
    const OpView op = op_with(law(1, 16, 0, 16));
    int before = 16;
    for (const char* name : {"price-0", "price-0.01", "price-0.05", "price-0.2", "price-1"}) {
        const int width = width_row(arm(name, 16), op, 16)[0];
        EXPECT_LE(width == 0 ? 16 : width, before) << name;
        before = width == 0 ? 16 : width;
    }
    EXPECT_EQ(width_row(arm("price-0", 16), op, 16), all(0));
    EXPECT_EQ(width_row(arm("price-1", 16), op, 16), all(4));  // 5 x 5 is the least of T(n) (1 + n)
}

TEST(Arms, IdleFitsTheOpIntoTheIdleCpus) {
    const WidthRow row = width_row(arm("idle", 16), op_with(law(0, 16, 0, 16)), 16);
    EXPECT_EQ(row[0], 1);  // one idle, or none: narrow disturbs least
    EXPECT_EQ(row[1], 2);
    EXPECT_EQ(row[2], 4);
    EXPECT_EQ(row[3], 8);
    EXPECT_EQ(row[4], 0);  // all 16 idle: the program's own
    EXPECT_EQ(row[7], 0);
}

TEST(Arms, IdleNeverGoesBeyondTheOpsOptimum) {
    const WidthRow row = width_row(arm("idle", 16), op_with(law(0, 16, 1, 16)), 16);
    EXPECT_EQ(row[0], 1);
    EXPECT_EQ(row[1], 2);
    for (std::size_t bucket = 2; bucket < kIdleBuckets; ++bucket) EXPECT_EQ(row[bucket], 4);
}

// The widest choice of such a budget would need a bucket that no number of idle CPUs reaches.
TEST(Arms, IdleReachesABudgetThatIsNoPowerOfTwo) {
    for (const int budget : {3, 5, 6, 7, 12, 24, 48, 68, 100, 127, 160, 200}) {
        const WidthRow row = width_row(arm("idle", budget), op_with(law(0, 64, 0, budget)), budget);
        EXPECT_EQ(row[idle_bucket(budget)], 0)
            << budget << ": all idle, the more the better: the program's own";
        EXPECT_EQ(row[0], 1) << budget;
        for (std::size_t bucket = 0; bucket + 1 < idle_bucket(budget); ++bucket) {
            EXPECT_GT(row[bucket], 0) << budget;
            EXPECT_LE(row[bucket], 1 << bucket) << budget;
        }
    }
}

TEST(Arms, IdleUsesAGuessBetweenTwoMeasuredWidths) {
    // Measured at 1 and 16 alone; 2, 4 and 8 can be predicted. Fewer than two *measured* widths fit into few
    // CPUs.
    const Costs costs = law(0, 16, 0, 16);
    OpView op = op_with(costs);
    op.optimum = [costs](const std::vector<int>& widths) -> std::optional<int> {
        return widths.back() == 16 ? narrowest(costs, widths) : std::nullopt;
    };
    const WidthRow row = width_row(arm("idle", 16), op, 16);
    EXPECT_EQ(row[0], 1);
    EXPECT_EQ(row[1], 2);
    EXPECT_EQ(row[3], 8);
    EXPECT_EQ(row[4], 0);
}

TEST(Arms, OnlyIdleNeedsTheLedger) {
    for (const Arm& each : race_arms(64)) {
        EXPECT_EQ(each.dynamic(), each.kind == ArmKind::idle) << each.name;
        const WidthRow row = width_row(each, op_with(law(1, 64, 0.01, 64)), 64);
        if (!each.dynamic()) {
            EXPECT_EQ(std::count(row.begin(), row.end(), row[0]), static_cast<long>(row.size())) << each.name;
        }
    }
}

}  // namespace
}  // namespace corun::policy
