// SPDX-License-Identifier: Apache-2.0
// The strategies of the paper and of moldable-task scheduling, on graphs small enough to know the answer.
#include "policy/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

namespace corun::policy {
namespace {

using Sources = std::vector<std::vector<OpIndex>>;

// T(n) = work / n up to `most` threads, then flat and a little more for each thread.
KeyCosts costs(const std::string& type, double work, int most, int cpus, double each = 0.001) {
    KeyCosts key{type, {}};
    for (int width = 1; width <= cpus; ++width)
        key.seconds.push_back(work / std::min(width, most) + each * std::max(0, width - most));
    return key;
}

Situation situation(int cpus, int idle, const std::vector<Running>& running, int siblings = 0) {
    return {0.0, cpus, idle, siblings, 0, running};
}

TEST(CostTable, KnowsOptimumCandidatesAndTypeWidth) {
    const CostTable table({costs("Conv", 8.0, 6, 8), costs("Conv", 1.0, 2, 8), costs("Add", 1.0, 1, 8)});
    EXPECT_EQ(table.optimum(0), 6);
    EXPECT_EQ(table.optimum(1), 2);
    EXPECT_EQ(table.type_width(1), 6);  // that of the most expensive Conv
    EXPECT_EQ(table.type_width(2), 1);
    EXPECT_EQ(table.candidates(0), (std::array<int, 3>{6, 7, 8}));
    EXPECT_EQ(table.best_within(0, 4), 4);
    EXPECT_EQ(table.best_within(0, 100), 6);
    EXPECT_EQ(table.at_price(0, 0.0), 6);
    const std::vector<KeyCosts> poor{{"Poor", {1.0, 0.9}}};
    EXPECT_EQ(CostTable(poor).at_price(0, 0.0), 2);
    EXPECT_EQ(CostTable(poor).at_price(0, 0.2), 1);
}

TEST(TeamCosts, ATeamOfOneIsFreeAndChangesNothing) {
    const TeamCosts teams{1.0, 0.5};
    EXPECT_EQ(teams.seconds(4, 1), 0.0);
    EXPECT_EQ(teams.seconds(0, 4), 0.0);
    EXPECT_EQ(teams.seconds(4, 4), 0.0);
    EXPECT_EQ(teams.seconds(4, 6), 2.0);
}

TEST(TaskGraph, LevelsDepthsAndBounds) {
    const CostTable table({costs("A", 4.0, 1, 4), costs("B", 4.0, 4, 4)});
    const TaskGraph graph({0, 1, 1, 0}, Sources{{}, {0}, {0}, {1, 2}});
    EXPECT_EQ(graph.depths(), (std::vector<std::uint32_t>{0, 1, 1, 2}));
    EXPECT_EQ(graph.levels(std::vector<double>{4, 4, 1, 4}), (std::vector<double>{12, 8, 5, 4}));
    const Bounds bounds = lower_bounds(graph, table, 4);
    EXPECT_NEAR(bounds.critical_path, 4.0 + 1.0 + 4.0, 1e-9);
    EXPECT_NEAR(bounds.area, 16.0 / 4.0, 1e-9);
}

TEST(Grid, StartsInOrderUpToInterWhateverIsIdle) {
    const auto grid = make_grid(2, 8);
    grid->begin_step();
    for (OpIndex op = 0; op < 3; ++op) grid->ready(op);
    std::vector<Running> running;
    const auto first = grid->next(situation(4, 4, running));
    ASSERT_TRUE(first);
    EXPECT_EQ(first->op, 0U);
    EXPECT_EQ(first->width, 8);
    running = {{0, 0, 8, 1.0, false}, {1, 0, 8, 1.0, false}};
    EXPECT_FALSE(grid->next(situation(4, 0, running)));
}

class PaperTest : public testing::Test {
  protected:
    // Key 0: long, wants 6 of 8. Key 1: short, wants 2. Key 2: as long as the first, wants 6.
    CostTable table_{{costs("Conv", 12.0, 6, 8), costs("Add", 1.0, 2, 8), costs("Conv2", 12.6, 6, 8)}};
    TaskGraph graph_{{0, 1, 1, 2}, Sources{{}, {}, {}, {}}};

    std::unique_ptr<Strategy> make(const PaperStrategies& which) {
        auto strategy = make_paper(graph_, table_, which);
        strategy->begin_step();
        for (const OpIndex op : {1U, 0U, 3U}) strategy->ready(op);
        return strategy;
    }
};

TEST_F(PaperTest, WithoutAnyOneOpAtATimeOnAllCpus) {
    const auto strategy = make({});
    const auto start = strategy->next(situation(8, 8, {}));
    EXPECT_EQ(start->op, 1U);
    EXPECT_EQ(start->width, 8);
    EXPECT_FALSE(strategy->next(situation(8, 4, {{1, 1, 4, 1.0, false}})));
}

TEST_F(PaperTest, S1RunsAtTheOptimum) {
    EXPECT_EQ(make({true, false, false, false})->next(situation(8, 8, {}))->width, 2);
}

TEST_F(PaperTest, S3BeginsWithTheLongestAndAddsWhatFitsAndDoesNotOutlast) {
    const auto strategy = make({true, true, true, false});
    const auto first = strategy->next(situation(8, 8, {}));
    ASSERT_TRUE(first);
    EXPECT_EQ(first->op, 3U);  // the longest
    EXPECT_EQ(first->width, 6);
    const std::vector<Running> running{{3, 2, 6, 2.1, false}};
    const auto second = strategy->next(situation(8, 2, running));
    ASSERT_TRUE(second);
    EXPECT_EQ(second->op, 1U);
    EXPECT_EQ(second->width, 2);
    EXPECT_FALSE(strategy->next(situation(8, 2, running)));  // op 0 does not fit at any candidate
}

TEST_F(PaperTest, S3LetsNothingOutlastWhatRuns) {
    const auto strategy = make({true, true, true, false});
    EXPECT_FALSE(strategy->next(situation(8, 2, {{3, 2, 6, 0.4, false}})));
}

TEST_F(PaperTest, S3KeepsPairsApartThatWereSeenToHurt) {
    const auto strategy = make({true, true, true, false});
    for (int i = 0; i < 3; ++i) {
        strategy->learn(1, 2, 2.0);
        strategy->learn(2, 1, 1.2);
    }
    EXPECT_FALSE(strategy->next(situation(8, 2, {{3, 2, 6, 2.1, false}})));
}

TEST_F(PaperTest, S4PlacesTheSmallestOnSiblingsOnlyWhenAllCoresAreBusy) {
    const auto strategy = make({true, true, true, true});
    const std::vector<Running> running{{3, 2, 8, 2.1, false}};
    const auto start = strategy->next(situation(8, 0, running, 8));
    ASSERT_TRUE(start);
    EXPECT_TRUE(start->siblings);
    EXPECT_EQ(start->op, 1U);
    EXPECT_FALSE(make({true, true, true, false})->next(situation(8, 0, running, 8)));
}

TEST(CandidatesOfS3, AreTooAlikeToFitBesideOneAnother) {
    // What the paper's rule does on wide graphs: three neighbouring counts, none of which fits.
    const CostTable table({costs("Conv", 10.0, 40, 68)});
    for (const int width : table.candidates(0)) EXPECT_GT(width, 68 / 2);
}

TEST(Idle, SharesTheIdleCpusAmongTheReady) {
    const CostTable table({costs("A", 8.0, 8, 8)});
    const TaskGraph graph({0, 0}, Sources{{}, {}});
    const auto idle = make_idle(graph, table);
    idle->begin_step();
    idle->ready(0);
    idle->ready(1);
    EXPECT_EQ(idle->next(situation(8, 8, {}))->width, 4);
    EXPECT_EQ(idle->next(situation(8, 4, {}))->width, 4);
}

TEST(Plans, CpaWidensTheCriticalPathOnly) {
    const CostTable table({costs("Long", 16.0, 8, 8), costs("Short", 1.0, 8, 8)});
    const TaskGraph graph({0, 1, 1}, Sources{{}, {}, {}});
    const Plan plan = plan_cpa(graph, table, 8, false);
    EXPECT_GT(plan.widths[0], 4);
    EXPECT_EQ(plan.widths[1], 1);
}

TEST(Plans, McpaKeepsADepthWithinTheCpus) {
    const CostTable table({costs("Long", 16.0, 8, 8)});
    const TaskGraph graph({0, 0, 0, 0}, Sources{{}, {}, {}, {}});
    const Plan plan = plan_cpa(graph, table, 8, true);
    EXPECT_LE(std::accumulate(plan.widths.begin(), plan.widths.end(), 0), 8);
}

TEST(Plans, APriceMakesOpsNarrowThatGainLittle) {
    const CostTable table({costs("Good", 16.0, 8, 8), costs("Poor", 1.0, 2, 8)});
    const TaskGraph graph({0, 1}, Sources{{}, {}});
    const Plan plan = plan_price(graph, table, 0.2);
    EXPECT_GT(plan.widths[0], plan.widths[1]);
}

// Random layered graphs.
struct Drawn {
    std::vector<KeyIndex> keys;
    Sources sources;
    std::vector<KeyCosts> costs;
};

Drawn draw(unsigned seed, int cpus) {
    std::mt19937 random(seed);
    const auto upto = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
    Drawn drawn;
    for (int key = 0; key < 12; ++key)
        drawn.costs.push_back(
            costs("T" + std::to_string(key % 4), 0.1 + upto(100) * 0.1, 1 + upto(cpus), cpus));
    for (OpIndex op = 0; op < 60; ++op) {
        drawn.keys.push_back(static_cast<KeyIndex>(upto(12)));
        std::set<OpIndex> sources;
        for (int i = upto(3); i > 0 && op > 0; --i)
            sources.insert(op - 1 - static_cast<OpIndex>(upto(std::min(8, static_cast<int>(op)))));
        drawn.sources.emplace_back(sources.begin(), sources.end());
    }
    return drawn;
}

TEST(AnyStrategy, RunsEveryOpOnceAndBeatsNoBound) {
    constexpr int kCpus = 16;
    double price = 0.0;
    double alone = 0.0;
    for (unsigned seed = 1; seed <= 30; ++seed) {
        const Drawn drawn = draw(seed, kCpus);
        const CostTable table(drawn.costs);
        const TaskGraph graph(drawn.keys, drawn.sources);
        const Bounds bounds = lower_bounds(graph, table, kCpus);
        for (const char* name : {"s1", "s2", "s3", "s4", "s2-alone", "s3-alone", "s4-alone", "s1+s3", "idle",
                                 "cpa", "mcpa", "heft", "price", "price+s4", "price-0.1", "uniform-4"}) {
            const auto strategy = strategy_by_name(name, graph, table, kCpus);
            ASSERT_TRUE(strategy) << name;
            const double seconds = ideal_seconds(graph, table, *strategy, kCpus);
            EXPECT_TRUE(std::isfinite(seconds)) << name << " left an op, seed " << seed;
            EXPECT_GE(seconds, std::max(bounds.critical_path, bounds.area) * (1.0 - 1e-9)) << name;
            if (std::string(name) == "price") price += seconds / std::max(bounds.critical_path, bounds.area);
            if (std::string(name) == "s1") alone += seconds / std::max(bounds.critical_path, bounds.area);
        }
    }
    EXPECT_LT(price / 30, 1.6);     // of the lower bound
    EXPECT_LT(price, 0.8 * alone);  // and better than one op at a time
}

TEST(AnyStrategy, IsFoundByNameOnly) {
    const CostTable table({costs("A", 1.0, 1, 2)});
    const TaskGraph graph({0}, Sources{{}});
    for (const char* name : {"", "s5", "price-", "price-x", "uniform-", "Price"})
        EXPECT_FALSE(strategy_by_name(name, graph, table, 2)) << name;
}

}  // namespace
}  // namespace corun::policy
