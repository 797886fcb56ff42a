// SPDX-License-Identifier: Apache-2.0
// The tuner of regions against programs that are made up: what a region costs at each width is known here.
#include "policy/region_tuner.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <utility>
#include <vector>

namespace corun::policy {
namespace {

constexpr double kMicro = 1e-6;
using Widths = std::vector<int>;

// Regions that one thread opens in turn, and what a call takes at (width, width of the region before).
struct Program {
    explicit Program(RuntimeKind kind, double explore = 0.05) : tuner({kind, explore, 0.05}, 0.0) {}

    using Cost = std::function<double(int width, int before)>;
    RegionTuner::Id add(int times, Cost cost, Widths widths, int own) {
        const auto id = tuner.add(own);
        tuner.allow(id, std::move(widths), own);
        regions.push_back({times, std::move(cost)});
        calls.push_back(0);
        return id;
    }
    void call(RegionTuner::Id id) {
        ++calls[id];
        const std::uint64_t every = regions[id].cost(1, 1) < 100 * kMicro && calls[id] > 64 ? 64 : 1;
        const bool looked_at = calls[id] % every == 0;
        if (looked_at) {
            if (last) tuner.followed(*last, id, every);
            if (now - ticked >= 0.005) tuner.tick(now, calls, id), ticked = now;
        }
        const int width = tuner.width(id);
        std::lognormal_distribution<double> noise(0.0, 0.1);
        const double seconds = regions[id].cost(width, before) * noise(random);
        now += seconds;
        at_width[{id, width}] += 1;
        if (looked_at || tuner.wants_each(id)) tuner.timed(id, {width, before, seconds, now, solo});
        before = width;
        last = id;
    }
    // Passes over all regions until so many seconds are gone.
    void run(double seconds) {
        const double end = now + seconds;
        while (now < end) {
            for (RegionTuner::Id id = 0; id < regions.size(); ++id)
                for (int i = 0; i < regions[id].times; ++i) call(id);
            now += between(before);
        }
    }

    struct Region {
        int times;
        Cost cost;
    };
    RegionTuner tuner;
    std::vector<Region> regions;
    std::vector<std::uint64_t> calls;
    std::map<std::pair<RegionTuner::Id, int>, std::uint64_t> at_width;
    std::optional<RegionTuner::Id> last;
    std::mt19937 random{7};
    double now = 0.0;
    double ticked = 0.0;
    int before = 0;
    std::function<double(int)> between = [](int) { return 2 * kMicro; };  // outside regions, after that width
    bool solo = true;
};

Program::Cost law(double serial, double parallel, double per_thread, double change = 0.0) {
    return [=](int width, int before) {
        return kMicro * (serial + parallel / width + per_thread * width +
                         (before != 0 && before != width ? change : 0.0));
    };
}

TEST(RegionTuner, ATinyRegionRunsNarrow) {
    for (const auto kind : {RuntimeKind::libgomp, RuntimeKind::libomp}) {
        Program program(kind);
        const auto tiny = program.add(1, law(0.1, 0.4, 1.0), {1, 2}, 2);
        program.run(3.0);
        EXPECT_EQ(program.tuner.width(tiny), 1);
        program.run(1.0);
        EXPECT_GT(program.tuner.gain().value_or(0.0), 1.2);
    }
}

TEST(RegionTuner, ARegionThatScalesStaysAndLittleIsSpentOnTrying) {
    Program program(RuntimeKind::libomp);
    const auto wide = program.add(1, law(10, 4000, 1), {1, 2, 4, 8}, 8);
    program.run(20.0);
    EXPECT_EQ(program.tuner.width(wide), 8);
    EXPECT_LE(program.tuner.explored(), 0.05 * program.now + 0.01);
    EXPECT_EQ((program.at_width[{wide, 1}]), 0U);  // worse and worse: not even tried
}

TEST(RegionTuner, TheBestWidthIsInTheMiddle) {
    Program program(RuntimeKind::libomp);
    const auto region = program.add(1, law(0, 400, 25), {1, 2, 4, 8, 16}, 16);
    program.run(5.0);
    EXPECT_EQ(program.tuner.width(region), 4);
}

TEST(RegionTuner, WideAndTinyInTurn) {
    Program program(RuntimeKind::libomp);
    const auto wide = program.add(1, law(5, 200, 2, 5), {1, 2}, 2);
    const auto tiny = program.add(100, law(0.2, 0.2, 1.5, 5), {1, 2}, 2);
    program.run(5.0);
    EXPECT_EQ(program.tuner.width(wide), 2);
    EXPECT_EQ(program.tuner.width(tiny), 1);
}

// Each alone would rather be narrow, but the change costs more than it gains.
TEST(RegionTuner, AChangeThatCostsMoreThanItGainsIsNotMade) {
    Program program(RuntimeKind::libomp);
    const auto wide = program.add(1, law(5, 200, 2, 60), {1, 2}, 2);
    const auto small = program.add(1, law(2, 2, 8, 60), {1, 2}, 2);
    program.run(10.0);
    program.at_width.clear();
    program.run(2.0);
    EXPECT_EQ(program.tuner.width(wide), 2);
    EXPECT_GT((program.at_width[{small, 2}]), (program.at_width[{small, 1}]));
}

// What a narrow region does to the rest of the program cannot be seen in its own time: only both in turn show
// it.
TEST(RegionTuner, TheGuardDropsAPlanThatOnlySeemedGood) {
    Program program(RuntimeKind::libgomp);
    const auto tiny = program.add(1, law(0.2, 0.2, 1.5), {1, 2}, 2);
    program.between = [](int before) { return (before == 1 ? 40 : 2) * kMicro; };
    program.run(6.0);
    program.at_width.clear();
    program.run(6.0);
    EXPECT_GT((program.at_width[{tiny, 2}]), 3 * (program.at_width[{tiny, 1}]));
}

TEST(RegionTuner, WhatIsRevokedGoesBackAtOnce) {
    Program program(RuntimeKind::libomp);
    const auto tiny = program.add(1, law(0.1, 0.4, 1.0), {1, 2}, 2);
    program.run(3.0);
    ASSERT_EQ(program.tuner.width(tiny), 1);
    program.tuner.allow(tiny, {2}, 2);
    EXPECT_EQ(program.tuner.width(tiny), 2);
    program.run(3.0);
    EXPECT_EQ(program.tuner.width(tiny), 2);
    EXPECT_FALSE(program.tuner.wants_each(tiny));
}

TEST(RegionTuner, RevokedInTheMiddleOfATrial) {
    Program program(RuntimeKind::libomp);
    const auto tiny = program.add(1, law(0.1, 0.4, 1.0), {1, 2}, 2);
    while (!program.tuner.wants_each(tiny)) program.call(tiny);
    program.tuner.allow(tiny, {2}, 2);
    EXPECT_EQ(program.tuner.width(tiny), 2);
    program.run(1.0);
    EXPECT_EQ(program.tuner.width(tiny), 2);
}

TEST(RegionTuner, ATrialOfARegionThatNeverComesBackHoldsNobodyUp) {
    Program program(RuntimeKind::libomp);
    const auto first = program.add(1, law(0.1, 0.4, 1.0), {1, 2}, 2);
    const auto other = program.add(0, law(0.1, 0.4, 1.0), {1, 2}, 2);
    while (!program.tuner.wants_each(first)) program.call(first);
    std::swap(program.regions[first].times, program.regions[other].times);
    program.run(RegionTuner::kNotCalled - 1.0);
    EXPECT_TRUE(program.tuner.wants_each(first));
    program.run(4.0);
    EXPECT_FALSE(program.tuner.wants_each(first));
    EXPECT_EQ(program.tuner.width(other), 1);
    // And it is tried when it does come back.
    std::swap(program.regions[first].times, program.regions[other].times);
    program.run(3.0);
    EXPECT_EQ(program.tuner.width(first), 1);
}

// Each kind of guard begins and ends with windows of one region: the others must not wait for it for ever.
TEST(RegionTuner, AGuardOfARegionThatIsGoneHoldsNobodyUp) {
    Program program(RuntimeKind::libomp);
    const auto first = program.add(1, law(0.1, 0.4, 1.0), {1, 2}, 2);
    const auto fixed = program.add(0, law(0.1, 0.4, 1.0), {2}, 2);
    const auto other = program.add(0, law(0.1, 0.4, 1.0), {1, 2}, 2);
    program.run(3.0);
    ASSERT_EQ(program.tuner.width(first), 1);
    std::swap(program.regions[first].times, program.regions[fixed].times);
    program.run(40.0);  // the plan is looked at again meanwhile
    program.regions[other].times = 1;
    program.run(5.0);
    EXPECT_EQ(program.tuner.width(other), 1);
}

// With libgomp the only other width is one: what a call takes there has to be earned first.
TEST(RegionTuner, AWideRegionOfLibgompIsNotTriedAtOneThreadForLong) {
    Program program(RuntimeKind::libgomp);
    const auto wide = program.add(1, law(0, 6.4e6, 0), {1, 64}, 64);
    program.run(60.0);
    EXPECT_EQ(program.tuner.width(wide), 64);
    EXPECT_LE(program.tuner.explored(), 0.05 * program.now + 0.5);
}

TEST(RegionTuner, NeverAnotherWidthThanAllowed) {
    Program program(RuntimeKind::libgomp);
    const auto one = program.add(3, law(1, 30, 1), {1, 4}, 4);
    const auto other = program.add(7, law(1, 1, 1), {1, 4}, 4);
    const auto fixed = program.add(1, law(1, 1, 3), {4}, 4);
    program.run(10.0);
    for (const auto& [key, count] : program.at_width) {
        EXPECT_TRUE(key.second == 4 || (key.second == 1 && key.first != fixed)) << key.first << " " << count;
    }
    EXPECT_EQ(program.tuner.width(other), 1);
    EXPECT_EQ(program.tuner.width(one), 4);
}

TEST(RegionTuner, WhatIsNotAloneTeachesNothing) {
    Program program(RuntimeKind::libomp);
    program.solo = false;
    const auto tiny = program.add(1, law(0.1, 0.4, 1.0), {1, 2}, 2);
    program.run(3.0);
    EXPECT_EQ(program.tuner.width(tiny), 2);
    EXPECT_TRUE(program.tuner.curve(tiny).empty());
}

TEST(RegionTuner, NothingIsSpentWhereNothingMayBe) {
    Program program(RuntimeKind::libomp, 0.0);
    const auto wide = program.add(1, law(10, 40000, 1), {1, 2}, 2);
    program.run(10.0);
    EXPECT_EQ((program.at_width[{wide, 1}]), 0U);
}

// The region becomes large: what was right for it no longer is.
TEST(RegionTuner, FollowsARegionThatChanges) {
    Program program(RuntimeKind::libomp);
    double size = 1.0;
    const auto region = program.add(
        1, [&](int width, int) { return kMicro * (0.5 + size / width + 1.0 * width); }, {1, 2}, 2);
    program.run(3.0);
    ASSERT_EQ(program.tuner.width(region), 1);
    size = 100.0;
    program.run(60.0);
    program.at_width.clear();
    program.run(5.0);
    EXPECT_GT((program.at_width[{region, 2}]), 9 * (program.at_width[{region, 1}]));
}

// The process is stopped now and then (SIGSTOP, a debugger): the plan stays.
TEST(RegionTuner, OneWindowThatWasStoppedIsNoReasonToDropAPlan) {
    Program program(RuntimeKind::libomp);
    const auto tiny = program.add(1, law(0.1, 0.4, 1.0), {1, 2}, 2);
    program.run(3.0);
    ASSERT_EQ(program.tuner.width(tiny), 1);
    double at_own = 0.0;
    for (int stop = 0; stop < 100; ++stop) {
        program.now += 0.5;
        program.at_width.clear();
        program.run(0.4);
        const auto wide = static_cast<double>(program.at_width[{tiny, 2}]);
        at_own += wide / (wide + static_cast<double>(program.at_width[{tiny, 1}]));
    }
    EXPECT_LT(at_own / 100.0, 0.1);
}

// And the other way round: the width that was left is tried again.
TEST(RegionTuner, TriesAgainWhatWasLeft) {
    Program program(RuntimeKind::libomp);
    double size = 100.0;
    const auto region = program.add(
        1, [&](int width, int) { return kMicro * (0.5 + size / width + 1.0 * width); }, {1, 2}, 2);
    program.run(3.0);
    ASSERT_EQ(program.tuner.width(region), 2);
    size = 1.0;
    program.run(60.0);
    program.at_width.clear();
    program.run(5.0);
    EXPECT_GT((program.at_width[{region, 1}]), 9 * (program.at_width[{region, 2}]));
}

}  // namespace
}  // namespace corun::policy
