// SPDX-License-Identifier: Apache-2.0
#include "policy/wait_policy.h"

#include <gtest/gtest.h>

namespace corun::policy {
namespace {

WaitFacts alone() {
    WaitFacts facts;
    facts.threads = facts.affinity = facts.machine = 4;
    facts.ran = 0.005;
    facts.waited = 0.004;  // of no interest without neighbours
    return facts;
}

TEST(WaitPolicy, AProgramAloneIsLeftAsItIs) {
    EXPECT_EQ(choose_wait(alone()).kind, WaitKind::leave);
    WaitFacts facts = alone();
    facts.runnable = facts.load = 0.7;  // housekeeping
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
}

TEST(WaitPolicy, TheUsersChoiceIsKept) {
    WaitFacts facts = alone();
    facts.quota = 1.0;
    facts.runnable = facts.load = 9.0;
    facts.chosen = true;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
}

TEST(WaitPolicy, ATeamOfOneWaitsForNobody) {
    WaitFacts facts = alone();
    facts.threads = 1;
    facts.runnable = facts.load = 9.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
}

TEST(WaitPolicy, AQuotaBelowTheMask) {
    WaitFacts facts = alone();
    facts.quota = 2.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::bounded);
    EXPECT_EQ(choose_wait(facts).why, "a quota of 2 CPUs is used up by spinning too");
    facts.quota = 4.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
}

TEST(WaitPolicy, Neighbours) {
    WaitFacts facts = alone();
    facts.runnable = facts.load = 1.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::brief);
    facts.runnable = facts.load = 4.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::passive);
}

TEST(WaitPolicy, NeighboursThatHaveJustEndedAreNone) {
    WaitFacts facts = alone();
    facts.runnable = facts.load = 4.0;
    ASSERT_EQ(choose_wait(facts).kind, WaitKind::passive);
    facts.used = 0.5;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
    facts.used = 3.0;  // with this program in turn: how many there are the machine cannot use
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::passive);
}

TEST(WaitPolicy, NeighboursThatYieldAreNone) {
    WaitFacts facts = alone();
    facts.runnable = facts.load = 9.0;
    ASSERT_EQ(choose_wait(facts).kind, WaitKind::passive);
    facts.waited = 0.0005;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
    facts.ran = 1.0;
    facts.waited = 0.05;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
    facts.waited = 0.2;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::passive);
}

TEST(WaitPolicy, AMomentOrAPastMinuteAloneIsNoNeighbour) {
    WaitFacts facts = alone();
    facts.runnable = 5.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
    facts.runnable = 0.0;
    facts.load = 5.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
}

TEST(WaitPolicy, WhoAskedForMoreThreadsThanCpusIsNotLeftToSpinForLong) {
    WaitFacts facts = alone();
    facts.wanted = 5;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::limited);
    facts.runnable = facts.load = 9.0;
    facts.waited = 0.0005;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::limited);
    facts.waited = 0.004;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::passive);
    facts.wanted = 4;
    facts.runnable = facts.load = 0.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
    facts.wanted = 5;
    facts.chosen = true;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
}

TEST(WaitPolicy, ATeamThatLeavesRoom) {
    WaitFacts facts = alone();
    facts.threads = 2;
    facts.runnable = facts.load = 2.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
    facts.runnable = facts.load = 3.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::brief);
}

TEST(WaitPolicy, NeighboursAreSpreadOverTheWholeMachine) {
    WaitFacts facts = alone();
    facts.machine = 64;
    facts.runnable = facts.load = 8.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::leave);
    facts.runnable = facts.load = 32.0;
    EXPECT_EQ(choose_wait(facts).kind, WaitKind::brief);
}

}  // namespace
}  // namespace corun::policy
