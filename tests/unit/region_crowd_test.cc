// SPDX-License-Identifier: Apache-2.0
// When CPUs count as shared, and what regions run at then; time is made up.
#include "policy/region_crowd.h"

#include <gtest/gtest.h>

#include <vector>

#include "policy/busy_clock.h"
#include "policy/region_tuner.h"

namespace corun::policy {
namespace {

constexpr double kMicro = 1e-6;

struct Machine {
    // So many threads that run and that wait, on average, for some time.
    void pass(double seconds, double running, double waiting) {
        for (const double end = now + seconds; now < end - 1e-9;) {
            now += 0.05;
            world += 0.05;
            ran += 0.05 * running;
            waited += 0.05 * waiting;
            crowd.seen(now, world, ran, waited);
            if (crowd.crowded()) crowded += 0.05;
        }
    }
    RegionCrowd crowd;
    double now = 0.0, world = 0.0, ran = 0.0, waited = 0.0;
    double crowded = 0.0;
};

TEST(RegionCrowd, AProgramAloneIsNotCrowded) {
    Machine machine;
    machine.pass(10.0, 2.0, 0.02);
    EXPECT_EQ(machine.crowd.times(), 0);
}

TEST(RegionCrowd, ANeighbourIsSeenWithinTwoLooks) {
    Machine machine;
    machine.pass(1.0, 2.0, 0.0);
    machine.pass(0.1, 1.4, 0.6);
    EXPECT_TRUE(machine.crowd.crowded());
    EXPECT_NEAR(machine.crowd.cpus(), 1.4, 0.01);
}

// While one thread runs it waits for nobody: the others may still be there.
TEST(RegionCrowd, ItLooksLessAndLessOftenWhetherTheyAreGone) {
    Machine machine;
    double wide = 0.0;
    for (int i = 0; i < 1200; ++i) {  // one minute
        const bool narrow = machine.crowd.crowded();
        machine.pass(0.05, narrow ? 1.0 : 1.4, narrow ? 0.0 : 0.6);
        if (!narrow) wide += 0.05;
    }
    EXPECT_LT(wide, 1.0);
    EXPECT_GT(machine.crowd.times(), 3);
    machine.pass(20.0, 1.0, 0.0);  // they are gone
    EXPECT_FALSE(machine.crowd.crowded());
    machine.pass(40.0, 2.0, 0.0);
    machine.pass(0.1, 1.4, 0.6);  // a new one
    machine.pass(0.6, 1.0, 0.0);
    EXPECT_FALSE(machine.crowd.crowded());  // counts as the first
}

TEST(RegionCrowd, CountsThatGoBackSayNothing) {
    RegionCrowd crowd;
    crowd.seen(1.0, 1.0, 5.0, 3.0);
    crowd.seen(1.1, 1.1, 1.0, 0.5);  // a thread has ended
    EXPECT_FALSE(crowd.crowded());
    crowd.seen(1.2, 1.2, 1.1, 0.6);
    EXPECT_TRUE(crowd.crowded());
}

// The program's own time stands still while no region comes: a thread that computes for ten seconds outside
// of any, and waits for 40 ms meanwhile, is not crowded.
TEST(RegionCrowd, WaitsAreHeldAgainstTheTimeOfTheWorld) {
    Machine machine;
    machine.pass(2.0, 2.0, 0.0);
    machine.world += 10.0;
    machine.ran += 10.0;
    machine.waited += 0.04;
    machine.pass(0.2, 2.0, 0.0);
    EXPECT_FALSE(machine.crowd.crowded());
}

// Looks 5 ms apart for a third of a second, then none for two seconds.
TEST(BusyClock, AProcessThatIsStoppedMostOfTheTimeHasLittle) {
    BusyClock clock;
    double now = 100.0;
    clock.look(now, BusyClock::most(0.0));
    const double begin = clock.at(now);
    for (int slot = 0; slot < 10; ++slot) {
        for (int i = 0; i < 70; ++i) clock.look(now += 0.005, BusyClock::most(0.0));
        clock.look(now += 2.0, BusyClock::most(0.0));
    }
    EXPECT_NEAR(clock.at(now) - begin, 10 * (0.35 + BusyClock::kGap), 1e-6);
    // A program whose regions take long is at it all the time.
    const double before = clock.at(now);
    for (int i = 0; i < 10; ++i) clock.look(now += 1.5, BusyClock::most(0.5));
    EXPECT_NEAR(clock.at(now) - before, 15.0, 1e-6);
}

TEST(RegionCrowd, WhatRegionsRunAt) {
    const std::vector<int> two{1, 2};
    EXPECT_EQ(crowd_width(two, {}, 400 * kMicro, 1.4), 1);  // what it gains is less than a time slice
    EXPECT_EQ(crowd_width(two, {}, 1.0, 1.4), 2);           // far more
    EXPECT_EQ(crowd_width(two, {}, 400 * kMicro, 1.9), 2);  // there are two
    const std::vector<int> many{1, 64};
    EXPECT_EQ(crowd_width(many, {}, 64e-3, 63.0), 64);  // gcc's runtime has nothing between
    EXPECT_EQ(crowd_width(many, {}, 100 * kMicro, 63.0), 1);
    const std::vector<int> any{1, 2, 4, 8, 16, 32, 64};
    EXPECT_EQ(crowd_width(any, {}, 4e-3, 40.0), 32);
    const std::vector<model::Point> measured{{1, 5 * kMicro}, {2, 9 * kMicro}};
    EXPECT_EQ(crowd_width(two, measured, 18 * kMicro, 2.0), 1);  // slower wide anyway
}

// Calls of one region that scales, every 300 us, for some seconds; `others`: its team of two takes a time
// slice more, and whether anybody says so.
struct Program {
    Program() : tuner({RuntimeKind::libomp, 0.05, 0.05}, 0.0), id(tuner.add(2)) {
        tuner.allow(id, {1, 2}, 2);
    }
    void run(double seconds, bool others, bool told) {
        for (const double end = now + seconds; now < end;) {
            if (now - looked >= 0.05) {
                looked = now;
                if (told && others && !crowded) tuner.disturbed();
                if (told && !others) tuner.undisturbed(now);
                crowded = told && others;
            }
            ++calls;
            const int width = crowded ? 1 : tuner.width(id);
            const double cost =
                (width == 1 ? 200 : 110) * kMicro + (others && width == 2 ? kCrowdSlice : 0.0);
            now += cost;
            if (!crowded) tuner.timed(id, {width, before, cost, now, true});
            before = width;
            now += 100 * kMicro;
            if (now - ticked >= 0.005 && !crowded)
                tuner.tick(now, std::vector<std::uint64_t>{calls}, id), ticked = now;
        }
    }
    RegionTuner tuner;
    RegionTuner::Id id;
    double now = 0.0, looked = 0.0, ticked = 0.0;
    std::uint64_t calls = 0;
    int before = 0;
    bool crowded = false;
};

TEST(RegionCrowd, NothingIsConcludedFromCallsThatWereDisturbed) {
    Program program;
    program.run(3.0, false, true);
    ASSERT_EQ(program.tuner.width(program.id), 2);
    const auto alone = program.tuner.curve(program.id);
    for (int i = 0; i < 20; ++i) {
        program.run(0.4, true, true);
        EXPECT_EQ(program.tuner.width(program.id), 2) << i;
        program.run(0.1, false, true);
    }
    const auto after = program.tuner.curve(program.id);
    ASSERT_EQ(after.size(), alone.size());
    for (std::size_t i = 0; i < after.size(); ++i)
        EXPECT_NEAR(after[i].seconds, alone[i].seconds, 0.1 * alone[i].seconds);
    Program untold;
    untold.run(3.0, false, false);
    untold.run(12.0, true, false);
    EXPECT_GT(untold.tuner.curve(untold.id).back().seconds, 1e-3);  // the test can tell
}

TEST(RegionCrowd, ATrialThatWasDisturbedIsMadeAgain) {
    Program program;
    program.run(0.12, false, true);
    program.run(0.5, true, true);
    program.run(3.0, false, true);
    ASSERT_EQ(program.tuner.curve(program.id).size(), 2U);
    EXPECT_NEAR(program.tuner.curve(program.id)[1].seconds, 110 * kMicro, 5 * kMicro);
    EXPECT_EQ(program.tuner.width(program.id), 2);
}

}  // namespace
}  // namespace corun::policy
