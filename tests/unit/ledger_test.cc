// SPDX-License-Identifier: Apache-2.0
// The ledger is exact, alone and under many threads.
#include "policy/ledger.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace corun::policy {
namespace {

TEST(Ledger, CountsOpenScopesAndTheirWidths) {
    Ledger ledger;
    EXPECT_EQ(ledger.idle(4), 4);
    const auto first = ledger.begin(1);
    const auto second = ledger.begin(3);
    EXPECT_EQ(ledger.open(), 2);
    EXPECT_EQ(ledger.widths(), 4);
    EXPECT_EQ(ledger.idle(4), 0);
    EXPECT_EQ(ledger.idle(6), 2);
    EXPECT_EQ(ledger.idle(2), 0);  // more is held than there is: never negative
    ledger.end(first, 1);
    EXPECT_EQ(ledger.open(), 1);
    EXPECT_EQ(ledger.widths(), 3);
    ledger.end(second, 3);
    EXPECT_EQ(ledger.open(), 0);
    EXPECT_EQ(ledger.widths(), 0);
}

TEST(Ledger, AScopeIsSoloOnlyWhenNothingElseWasOpenAtAnyTime) {
    Ledger ledger;
    EXPECT_TRUE(ledger.end(ledger.begin(2), 2));

    const auto outer = ledger.begin(1);
    const auto within = ledger.begin(1);
    EXPECT_FALSE(ledger.end(within, 1));  // began beside another
    EXPECT_FALSE(ledger.end(outer, 1));   // another began and ended meanwhile

    const auto leaving = ledger.begin(1);
    const auto staying = ledger.begin(1);
    EXPECT_FALSE(ledger.end(leaving, 1));
    EXPECT_FALSE(ledger.end(staying, 1));  // alone at its end, not at its begin
    EXPECT_TRUE(ledger.end(ledger.begin(1), 1));
}

TEST(Ledger, WidthsOfAThousandThreadsFit) {
    Ledger ledger;
    std::vector<Ledger::Ticket> tickets;
    for (int i = 0; i < 1024; ++i) tickets.push_back(ledger.begin(63));
    EXPECT_EQ(ledger.open(), 1024);
    EXPECT_EQ(ledger.widths(), 1024 * 63);
    for (const auto& ticket : tickets) ledger.end(ticket, 63);
    EXPECT_EQ(ledger.open(), 0);
    EXPECT_EQ(ledger.widths(), 0);
}

TEST(Ledger, TheCounterOfStartsWrapsWithoutHarm) {
    Ledger ledger;
    const auto old = ledger.begin(1);
    ledger.clear();  // as in a forked child
    EXPECT_EQ(ledger.open(), 0);
    EXPECT_EQ(old.starts, 1U);
    EXPECT_TRUE(ledger.end(ledger.begin(5), 5));
}

TEST(Ledger, IsExactUnderEightThreads) {
    constexpr int kThreads = 8;
    constexpr int kScopes = 100'000;
    Ledger ledger;
    std::atomic<int> inside{0};
    std::atomic<int> wrong_solo{0};
    std::atomic<int> impossible{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            std::minstd_rand random(static_cast<unsigned>(t) + 1);
            for (int i = 0; i < kScopes; ++i) {
                const auto width = static_cast<std::uint16_t>(1 + random() % 64);
                const auto ticket = ledger.begin(width);
                // `inside` is counted within the scope, so whoever sees another one there was not solo.
                const bool beside = inside.fetch_add(1) > 0;
                const int open = ledger.open();
                if (open < 1 || open > kThreads || ledger.widths() > 64 * kThreads || ledger.widths() < width)
                    ++impossible;
                inside.fetch_sub(1);
                if (ledger.end(ticket, width) && beside) ++wrong_solo;
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(ledger.open(), 0);
    EXPECT_EQ(ledger.widths(), 0);
    EXPECT_EQ(impossible, 0);
    EXPECT_EQ(wrong_solo, 0);
    EXPECT_TRUE(ledger.end(ledger.begin(1), 1));
}

TEST(Ledger, HoldsTheWidthsOfALargeMachine) {
    Ledger ledger;
    for (int i = 0; i < 300; ++i) ledger.begin(1024);
    EXPECT_EQ(ledger.open(), 300);
    EXPECT_EQ(ledger.widths(), 300 * 1024);
    EXPECT_EQ(ledger.idle(1024), 0);
}

}  // namespace
}  // namespace corun::policy
