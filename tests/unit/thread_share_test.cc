// SPDX-License-Identifier: Apache-2.0
// What threads that run ops side by side leave to each one's team.
#include "policy/thread_share.h"

#include <gtest/gtest.h>

namespace corun::policy {
namespace {

void note(ThreadShare& share, double inside, int times) {
    for (int i = 0; i < times; ++i) share.note(inside);
}

TEST(ThreadShare, OneThreadHasEverything) {
    ThreadShare share;
    EXPECT_EQ(share.width(64), 64);
    note(share, 1.0, 100);
    EXPECT_EQ(share.callers(), 1);
    EXPECT_EQ(share.width(64), 64);
    note(share, 0.0, 100);  // nothing to do
    EXPECT_EQ(share.width(64), 64);
}

TEST(ThreadShare, ManyHavePartsThatFit) {
    for (int callers = 2; callers <= 70; ++callers) {
        ThreadShare share;
        note(share, callers, 50);
        EXPECT_EQ(share.callers(), callers);
        for (int budget = 1; budget <= 64; ++budget) {
            const int width = share.width(budget);
            EXPECT_GE(width, 1);
            EXPECT_TRUE(width == 1 || width * callers <= budget);
            EXPECT_GT((width + 1) * callers, budget);  // nothing is left idle
        }
    }
}

TEST(ThreadShare, FollowsWithinASecond) {
    ThreadShare share;
    note(share, 1.0, 10);
    share.note(8.0);
    EXPECT_EQ(share.width(2), 1);
    note(share, 8.0, 10);
    EXPECT_EQ(share.callers(), 8);
    const int stretches = static_cast<int>(1.0 / ThreadShare::kStretchSeconds);
    note(share, 1.0, stretches);
    EXPECT_EQ(share.width(2), 2);
}

TEST(ThreadShare, ALongPauseCountsAsAll) {
    ThreadShare share;
    note(share, 8.0, 50);
    share.note(0.0, 2.0);
    EXPECT_EQ(share.width(2), 2);
}

TEST(ThreadShare, WhoIsSeldomInsideTakesNothing) {
    ThreadShare share;
    for (int i = 0; i < 100; ++i) {
        share.note(i % 4 == 0 ? 2.0 : 1.0);
        EXPECT_EQ(share.width(64), 64);
    }
    note(share, 1.3, 100);
    EXPECT_EQ(share.width(64), 64);
}

TEST(ThreadShare, DoesNotGoToAndFro) {
    ThreadShare share;
    note(share, 2.0, 50);
    int changes = 0;
    for (int i = 0; i < 200; ++i) {
        const int before = share.width(8);
        share.note(i % 2 == 0 ? 2.4 : 2.6);
        changes += share.width(8) != before;
    }
    EXPECT_LE(changes, 1);
}

TEST(ShareOf, TheBudgetIsSplit) {
    EXPECT_EQ(share_of(8, 1), 8);
    EXPECT_EQ(share_of(8, 2), 4);
    EXPECT_EQ(share_of(8, 3), 2);
    EXPECT_EQ(share_of(8, 100), 1);
    EXPECT_EQ(share_of(8, 0), 8);
    EXPECT_EQ(share_of(1, 2), 1);
}

TEST(RecentCallers, AreRememberedForAWhile) {
    RecentCallers callers;
    EXPECT_FALSE(callers.any());
    EXPECT_EQ(callers.note(0, 1000, 250), 1);
    EXPECT_FALSE(callers.any());
    EXPECT_EQ(callers.note(3, 1000, 250), 4);
    EXPECT_TRUE(callers.any());
    EXPECT_EQ(callers.note(0, 1249, 250), 4);  // the others are between two calls
    EXPECT_EQ(callers.note(1, 1249, 250), 4);
    EXPECT_EQ(callers.note(0, 1498, 250), 4);
    EXPECT_EQ(callers.note(0, 1748, 250), 1);
    EXPECT_FALSE(callers.any());
    EXPECT_EQ(callers.note(1, 5000, 250), 2);  // not as many as long ago
}

TEST(RecentCallers, ACrowdThatWasThereOnceIsForgotten) {
    RecentCallers callers;
    EXPECT_EQ(callers.note(32, 1000, 250), 33);
    int known = 0;
    for (std::uint64_t now = 1010; now < 1600; now += 10) known = callers.note(1, now, 250);  // two go on
    EXPECT_EQ(known, 2);
}

}  // namespace
}  // namespace corun::policy
