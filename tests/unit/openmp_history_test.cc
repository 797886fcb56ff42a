// SPDX-License-Identifier: Apache-2.0
#include "policy/openmp_history.h"

#include <gtest/gtest.h>

namespace corun::policy {
namespace {

RegionSeen region(const std::string& key, double seconds, int widest = 2, bool timed = true) {
    return {{key, 100, seconds, seconds, seconds}, timed, widest};
}

RunSeen run(std::vector<RegionSeen> regions) {
    RunSeen seen;
    seen.width = 2;
    seen.seconds = 10.0;
    seen.regions = std::move(regions);
    return seen;
}

TEST(OpenMpHistory, ARunIsKeptRegionByRegion) {
    const auto kept = run_record(run({region("a", 1.0), region("b", 3.0, 1), region("never", 0.0)}));
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->width, 2);
    EXPECT_EQ(kept->seconds, 10.0);
    ASSERT_EQ(kept->regions.size(), 3U);
    EXPECT_EQ(kept->regions[0].key, "b");
    EXPECT_EQ(kept->regions[1].work_seconds, 1.0);
}

TEST(OpenMpHistory, WhatSaysNothingAboutAWidthIsNotKept) {
    EXPECT_FALSE(run_record(run({})));
    RunSeen own = run({region("a", 1.0)});
    own.own_word = true;
    EXPECT_FALSE(run_record(own));
    EXPECT_FALSE(run_record(run({region("wider", 1.0, 4), region("a", 1.0)})));
    EXPECT_FALSE(run_record(run({region("narrow", 1.0, 1)})));
    RunSeen none = run({region("a", 1.0)});
    none.regions[0].record.calls = 0;
    EXPECT_FALSE(run_record(none));
}

TEST(OpenMpHistory, TheWallTimeStandsForWhatWasNotTimed) {
    const auto kept = run_record(run({region("a", 1.0), region("b", 0.0, 2, false)}));
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->regions.size(), 1U);
    EXPECT_EQ(kept->regions[0].key, "wall");
    EXPECT_EQ(kept->regions[0].seconds, 10.0);
    EXPECT_EQ(kept->regions[0].work_seconds, 0.0);
}

TEST(OpenMpHistory, TheWallTimeStandsForRegionsThatOverlap) {
    const auto kept = run_record(run({region("a", 8.0), region("b", 8.0)}));
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->regions.at(0).key, "wall");
}

// One call of many was timed: that the rest took as long is a guess.
TEST(OpenMpHistory, AProgramThatIsInRegionsAllTheTimeIsSeenByRegion) {
    const auto kept = run_record(run({region("a", 9.0), region("b", 3.0)}));
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->regions.size(), 2U);
    EXPECT_DOUBLE_EQ(kept->regions[0].seconds, 7.5);
    EXPECT_DOUBLE_EQ(kept->regions[1].seconds, 2.5);
    EXPECT_DOUBLE_EQ(kept->regions[1].work_seconds, 2.5);
}

TEST(OpenMpHistory, RegionsOfUnknownPlaceAreOne) {
    const auto kept = run_record(run({region("unknown", 1.0), region("b", 0.5), region("unknown", 2.0)}));
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->regions.size(), 2U);
    EXPECT_EQ(kept->regions[0].key, "unknown");
    EXPECT_EQ(kept->regions[0].calls, 200U);
    EXPECT_EQ(kept->regions[0].seconds, 3.0);
    EXPECT_EQ(kept->regions[0].work_seconds, 3.0);
}

TEST(OpenMpHistory, ManyRegionsAreBounded) {
    std::vector<RegionSeen> many;
    for (int i = 0; i < 100; ++i) many.push_back(region("r" + std::to_string(i), 0.001 * (i + 1)));
    const auto kept = run_record(run(many));
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->regions.size(), kRegionsKept + 1);
    EXPECT_EQ(kept->regions[0].key, "r99");
    EXPECT_EQ(kept->regions.back().key, "others");
    EXPECT_EQ(kept->regions.back().calls, 3600U);
    EXPECT_NEAR(kept->regions.back().work_seconds, 0.001 * 36 * 37 / 2, 1e-9);
    many[3].record.work_seconds = 0.0;
    EXPECT_EQ(run_record(run(many))->regions.back().work_seconds, 0.0);
}

TEST(OpenMpHistory, ThereAndBack) {
    const ProcessKey key{"id", "words"};
    const RunRecord record{2, 3.5, {{"a", 7, 1.0, 1.5, 0.8}}};
    const StartHistory history = history_of({profile_run(key, record)});
    ASSERT_EQ(history.runs(key).size(), 1U);
    const RunRecord& back = history.runs(key)[0];
    EXPECT_EQ(back.width, 2);
    EXPECT_EQ(back.seconds, 3.5);
    ASSERT_EQ(back.regions.size(), 1U);
    EXPECT_EQ(back.regions[0].key, "a");
    EXPECT_EQ(back.regions[0].calls, 7U);
    EXPECT_EQ(back.regions[0].work_seconds, 1.5);
    EXPECT_EQ(back.regions[0].longest_seconds, 0.8);
}

}  // namespace
}  // namespace corun::policy
