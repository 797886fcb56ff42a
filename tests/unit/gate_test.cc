// SPDX-License-Identifier: Apache-2.0
// The gate's rules with a clock that the tests turn: who waits, for how long, and who never does.
#include "policy/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>

#include "policy/ledger.h"

namespace corun::policy {
namespace {

constexpr int kCpus = 8;
enum : KeyIndex { kConv, kAdd, kTiny, kUnknown };

// T(n) = work / n up to `most` threads.
KeyCosts costs(const std::string& type, double work, int most) {
    KeyCosts key{type, {}};
    for (int width = 1; width <= kCpus; ++width) key.seconds.push_back(work / std::min(width, most));
    return key;
}

std::vector<KeyCosts> known() {
    return {costs("Conv", 8.0e-3, 8), costs("Add", 1.0e-3, 1), costs("Tiny", 40e-6, 1), {"Unknown", {}}};
}

class GateTest : public testing::Test {
  protected:
    GateTest() { gate_.adopt(known(), "s1", kCpus); }

    void prove(KeyIndex key, double share = 1.0, int calls = 20) {
        for (int i = 0; i < calls; ++i) {
            gate_.begin(900, key, 1, now_);
            ASSERT_TRUE(gate_.end(900, now_ + 1e-3, share * 1e-3));
        }
    }
    void prove_all() {
        for (const KeyIndex key : {kConv, kAdd, kTiny, kUnknown}) prove(key);
    }
    // The widths of what has been let in, by ticket.
    std::map<Gate::Ticket, int> let_in() {
        std::map<Gate::Ticket, int> widths;
        while (const auto grant = gate_.next(now_)) widths[grant->ticket] = grant->width;
        return widths;
    }
    std::map<Gate::Ticket, int> ask(Gate::Ticket ticket, KeyIndex key, bool patient = true,
                                    int most = kCpus) {
        gate_.arrive(ticket, key, most, patient);
        return let_in();
    }

    using Widths = std::map<Gate::Ticket, int>;
    Gate gate_;
    double now_ = 1.0;
};

TEST_F(GateTest, TheFirstBeginsAtItsWidth) {
    EXPECT_EQ(ask(1, kConv), (Widths{{1, 8}}));
    EXPECT_EQ(gate_.widths(), 8);
    EXPECT_TRUE(gate_.end(1, now_));
    EXPECT_FALSE(gate_.end(1, now_));
    EXPECT_EQ(gate_.widths(), 0);
}

TEST_F(GateTest, WaitsWhileAllIsTakenAndIsLetInAtTheEnd) {
    prove_all();
    ask(1, kConv);
    EXPECT_EQ(ask(2, kConv), Widths{});
    EXPECT_EQ(gate_.waiting(), 1U);
    gate_.end(1, now_);
    EXPECT_EQ(let_in(), (Widths{{2, 8}}));
}

TEST_F(GateTest, WaitsHalfOfWhatItTakesAtMostAndThenCrowds) {
    prove_all();
    ask(1, kConv);
    EXPECT_EQ(ask(2, kConv), Widths{});
    const auto until = gate_.until(2);
    ASSERT_TRUE(until);
    EXPECT_GT(*until, now_);
    EXPECT_LE(*until, now_ + 0.5 * 8e-3);
    now_ = *until;
    const Widths widths = let_in();
    ASSERT_EQ(widths.count(2), 1U);
    EXPECT_GT(widths.at(2), 1);  // eight times as long as at 8 would be no good
    EXPECT_EQ(gate_.keys().all_expired(), 1U);
}

TEST_F(GateTest, PrefersNarrowToWaitingWhereThatEndsNoLater) {
    prove_all();
    ask(1, kConv, true, 6);
    EXPECT_EQ(ask(2, kAdd), (Widths{{2, 1}}));
    EXPECT_EQ(ask(3, kConv), Widths{});  // one CPU would take it eight times as long
}

TEST_F(GateTest, ShortOpsNeverWait) {
    prove_all();
    ask(1, kConv);
    EXPECT_EQ(ask(2, kTiny), (Widths{{2, 1}}));
}

TEST_F(GateTest, NobodyWaitsForWhatIsNotProven) {
    prove(kAdd);
    ask(1, kConv);
    EXPECT_EQ(ask(2, kAdd).size(), 1U);
    gate_.end(1, now_);
    gate_.end(2, now_);
    prove(kConv, 0.5);  // its thread is idle half of the time: it may wait for another op
    ask(3, kConv);
    EXPECT_EQ(ask(4, kAdd).size(), 1U);
}

TEST_F(GateTest, WhatBeginsUnprovenReleasesWhoWaits) {
    prove(kConv);
    prove(kAdd);
    ask(1, kConv);
    EXPECT_EQ(ask(2, kAdd), Widths{});
    gate_.begin(3, kUnknown, 2, now_);
    EXPECT_EQ(let_in().count(2), 1U);
}

TEST_F(GateTest, AProofNeedsTwentyCalls) {
    EXPECT_TRUE(gate_.keys().wants_proof(kConv));
    prove(kConv, 1.0, 19);
    EXPECT_FALSE(gate_.keys().leaf(kConv));
    prove(kConv, 1.0, 1);
    EXPECT_TRUE(gate_.keys().leaf(kConv));
    EXPECT_FALSE(gate_.keys().wants_proof(kConv));
    for (int tries = 0; tries < 5; ++tries) prove(kAdd, 0.7);
    EXPECT_FALSE(gate_.keys().leaf(kAdd));
    EXPECT_FALSE(gate_.keys().wants_proof(kAdd));
}

TEST_F(GateTest, WhoHasWaitedInVainTwiceNeverWaitsAgain) {
    prove_all();
    ask(1, kConv);
    for (Gate::Ticket ticket = 2; ticket < 4; ++ticket) {
        EXPECT_EQ(ask(ticket, kAdd), Widths{});
        now_ = gate_.until(ticket).value();
        EXPECT_EQ(let_in().count(ticket), 1U);
        gate_.end(ticket, now_);
    }
    EXPECT_EQ(ask(4, kAdd).count(4), 1U);
    EXPECT_TRUE(gate_.keys().barred(kAdd));
    EXPECT_FALSE(gate_.keys().barred(kConv));
    gate_.adopt(known(), "s1", kCpus);
    EXPECT_TRUE(gate_.keys().barred(kAdd));
    gate_.adopt(known(), "s1", kCpus, true);
    EXPECT_FALSE(gate_.keys().barred(kAdd));
}

TEST_F(GateTest, AWaitThatWasOverInTimeCounts) {
    prove_all();
    for (Gate::Ticket ticket = 2; ticket < 10; ++ticket) {
        ask(1, kConv);
        EXPECT_EQ(ask(ticket, kAdd), Widths{}) << ticket;
        now_ = ticket % 2 == 0 ? gate_.until(ticket).value() : now_ + 1e-6;
        if (ticket % 2 == 1) gate_.end(1, now_);
        EXPECT_EQ(let_in().count(ticket), 1U);
        gate_.end(1, now_);
        gate_.end(ticket, now_);
    }
    EXPECT_FALSE(gate_.keys().barred(kAdd));
}

TEST_F(GateTest, TheImpatientBeginAtOnceAndTheLimitHolds) {
    prove_all();
    ask(1, kConv);
    EXPECT_EQ(ask(2, kConv, false, 2), (Widths{{2, 2}}));
    EXPECT_EQ(gate_.widths(), 10);
}

TEST_F(GateTest, OpenLetsAllIn) {
    prove_all();
    ask(1, kConv);
    EXPECT_EQ(ask(2, kConv), Widths{});
    EXPECT_EQ(ask(3, kConv), Widths{});
    gate_.open();
    EXPECT_EQ(let_in().size(), 2U);
    EXPECT_EQ(ask(4, kConv).size(), 1U);
    EXPECT_EQ(gate_.keys().all_expired(), 0U);
}

TEST_F(GateTest, WhatNeverEndsIsNoticed) {
    ask(1, kConv);
    EXPECT_FALSE(gate_.overdue(now_ + 0.9));
    const auto overdue = gate_.overdue(now_ + 1.1);
    ASSERT_TRUE(overdue);
    EXPECT_EQ(overdue->key, kConv);
    EXPECT_NEAR(overdue->seconds, 1.1, 1e-9);
    gate_.begin(2, kUnknown, 1, now_);
    gate_.end(1, now_);
    EXPECT_TRUE(gate_.overdue(now_ + 1.1));
}

TEST_F(GateTest, OtherCostsFindWhoWaits) {
    prove_all();
    ask(1, kConv);
    EXPECT_EQ(ask(2, kConv), Widths{});
    EXPECT_EQ(ask(3, kAdd), Widths{});
    gate_.adopt({{"Conv", {}}, costs("Add", 1e-3, 1)}, "idle", kCpus);
    EXPECT_EQ(let_in().count(2), 1U);  // nothing is known of it now
    gate_.end(1, now_);
    EXPECT_TRUE(let_in().count(3) == 1U || gate_.waiting() == 0);
    gate_.adopt({}, "idle", kCpus);
    EXPECT_FALSE(gate_.knows(kConv));
    EXPECT_EQ(let_in(), Widths{});
}

TEST_F(GateTest, EqualCostsStandForTheNarrowest) {
    gate_.adopt({{"Coarse", {4e-3, 4e-3, 4e-3, 4e-3, 4e-3, 4e-3, 4e-3, 1e-3}}}, "s3", kCpus);
    prove(0);
    EXPECT_EQ(ask(1, 0, true, 8), (Widths{{1, 8}}));
    gate_.end(1, now_);
    gate_.begin(2, 0, 4, now_);
    for (const auto& [ticket, width] : ask(3, 0)) EXPECT_EQ(width, 1) << ticket;
}

// Whatever comes, at whatever time: all are let in, and the widths are those of the ledger.
TEST(GateRandom, NobodyIsLostAndTheLedgerIsExact) {
    std::mt19937 random(7);
    const auto pick = [&](unsigned count) { return static_cast<unsigned>(random()) % count; };
    for (const char* strategy : {"s1", "s3", "idle", "price-0.05", "uniform-4"}) {
        Gate gate;
        gate.adopt(known(), strategy, kCpus);
        Ledger ledger;
        std::map<Gate::Ticket, int> running;
        std::map<Gate::Ticket, double> waiting;
        double now = 0.0;
        Gate::Ticket last = 0;
        std::size_t ended = 0;
        const auto take = [&] {
            while (const auto grant = gate.next(now)) {
                ASSERT_EQ(waiting.erase(grant->ticket), 1U);
                running[grant->ticket] = grant->width;
                ledger.begin(static_cast<std::uint16_t>(grant->width));
            }
        };
        for (int turn = 0; turn < 20000 || !waiting.empty() || !running.empty(); ++turn) {
            if (turn < 20000 && pick(2) == 0) {
                waiting[++last] = now;
                gate.arrive(last, pick(3), 1 + static_cast<int>(pick(kCpus)), pick(4) != 0);
            } else if (!running.empty()) {
                const auto at = std::next(running.begin(), pick(static_cast<unsigned>(running.size())));
                ASSERT_TRUE(gate.end(at->first, now, pick(2) == 0 ? 1.0 : -1.0));
                ledger.end({}, static_cast<std::uint16_t>(at->second));
                running.erase(at);
                ++ended;
            }
            take();
            if (turn % 5000 == 4999) gate.adopt(known(), strategy, kCpus);
            double next = std::numeric_limits<double>::infinity();
            for (const auto& [ticket, since] : waiting) {
                ASSERT_LE(now - since, 4e-3 + 1e-9) << "half of 8 ms at most";
                next = std::min(next, gate.until(ticket).value());
            }
            now = std::min(now + 1e-4 * pick(20), next);
            take();
            ASSERT_EQ(gate.widths(), ledger.widths());
            ASSERT_EQ(gate.running(), running.size());
            ASSERT_EQ(gate.waiting(), waiting.size());
        }
        EXPECT_EQ(ended, last) << strategy;
    }
}

// The simulator and others give a gated strategy no tickets, and know no keys.
TEST(Gated, IsAStrategyAmongOthers) {
    const CostTable table(std::vector<KeyCosts>{costs("Conv", 8e-3, 8), costs("Add", 1e-3, 1)});
    const TaskGraph graph({0, 0, 1}, {{}, {}, {}});
    const auto gated = strategy_by_name("gate-s1", graph, table, kCpus);
    ASSERT_TRUE(gated);
    EXPECT_FALSE(strategy_by_name("gate-nothing", graph, table, kCpus));
    gated->begin_step();
    for (OpIndex op = 0; op < 3; ++op) gated->ready(op);
    std::vector<Running> running;
    const auto first = gated->next({0.0, kCpus, 8, 0, 0, running});
    ASSERT_TRUE(first);
    running.push_back({first->op, graph.key(first->op), first->width, 1e-3});
    EXPECT_FALSE(gated->next({0.0, kCpus, 0, 0, 0, running}));
    EXPECT_GT(gated->wakes(), 0.0);
    EXPECT_TRUE(gated->next({gated->wakes(), kCpus, 0, 0, 0, running}));
    gated->withdraw(1);
    gated->withdraw(2);
    EXPECT_EQ(gated->wakes(), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace corun::policy
