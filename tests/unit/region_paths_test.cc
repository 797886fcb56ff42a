// SPDX-License-Identifier: Apache-2.0
// Whether the callers of a region tell its costs apart, on programs that are made up.
#include "policy/region_paths.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>
#include <vector>

namespace corun::policy {
namespace {

constexpr double kMicro = 1e-6;

CallPath path_of(std::initializer_list<std::uintptr_t> addresses) {
    CallPath path;
    for (const std::uintptr_t address : addresses) path.at[path.depth++] = address;
    return path;
}

struct Program {
    struct Call {
        CallPath path;
        double seconds;
    };
    // Calls of `next(i)` one after the other, with noise, until so many are gone.
    void run(int calls, const std::function<Call(int)>& next, double noise = 0.1, bool worth = true) {
        std::lognormal_distribution<double> factor(0.0, noise);
        for (int i = 0; i < calls; ++i) {
            const Call call = next(made++);
            const double seconds = call.seconds * factor(random);
            now += seconds + between;
            if (paths.asks()) {
                paths.timed(seconds, now, call.path);
                ++asked;
            } else {
                paths.timed(seconds, now, worth);
            }
        }
    }
    RegionPaths paths;
    std::mt19937 random{5};
    double now = 0.0;
    double between = 10 * kMicro;
    int made = 0;
    int asked = 0;
};

TEST(RegionPaths, TwoCallersOfOnePlace) {
    Program program;
    program.run(1000, [](int i) {
        return i % 2 == 0 ? Program::Call{path_of({1, 9}), 5 * kMicro}
                          : Program::Call{path_of({2, 9}), 500 * kMicro};
    });
    ASSERT_TRUE(program.paths.split());
    EXPECT_EQ(program.paths.depth(), 1U);
    EXPECT_EQ(program.paths.groups(), (std::vector<CallPath>{path_of({2}), path_of({1})}));  // by time
    EXPECT_EQ(program.asked, static_cast<int>(RegionPaths::kAsked));
}

// The function that opens the region is called from one wrapper, that from elsewhere.
// One call of seven is held up for far longer than any takes.
TEST(RegionPaths, OnAMachineThatIsCrowded) {
    Program program;
    program.run(1000, [](int i) {
        const double held_up = i % 7 == 0 ? 50e-3 : 0.0;
        return i % 2 == 0 ? Program::Call{path_of({1, 9}), 5 * kMicro + held_up}
                          : Program::Call{path_of({2, 9}), 250 * kMicro + held_up};
    });
    ASSERT_TRUE(program.paths.split());
    EXPECT_EQ(program.paths.depth(), 1U);
}

TEST(RegionPaths, TheCallerFurtherUpTells) {
    Program program;
    program.run(1000, [](int i) {
        const auto upper = static_cast<std::uintptr_t>(30 + i % 3);
        return Program::Call{path_of({1, 2, upper, 9}), (i % 3 == 0 ? 400 : 20 + i % 3) * kMicro};
    });
    ASSERT_TRUE(program.paths.split());
    EXPECT_EQ(program.paths.depth(), 3U);
    EXPECT_EQ(program.paths.groups().size(), 3U);
}

TEST(RegionPaths, ASteadyRegionIsNeverAsked) {
    Program program;
    program.run(
        5000,
        [](int i) {
            return Program::Call{path_of({1U + static_cast<std::uintptr_t>(i % 2)}), 50 * kMicro};
        },
        0.3);
    EXPECT_TRUE(program.paths.judged());
    EXPECT_EQ(program.asked, 0);
}

// A rare long call has most of the time; a burst of the machine has not.
TEST(RegionPaths, RareLongCallsAreSeenAndBurstsAreNot) {
    Program rare;
    rare.run(2000, [](int i) {
        return i % 16 == 0 ? Program::Call{path_of({2}), 900 * kMicro}
                           : Program::Call{path_of({1}), 5 * kMicro};
    });
    EXPECT_TRUE(rare.paths.split());
    Program bursts;
    bursts.run(2000, [](int i) { return Program::Call{path_of({1}), (i % 24 == 7 ? 50 : 5) * kMicro}; });
    EXPECT_EQ(bursts.asked, 0);
}

TEST(RegionPaths, WhereTheCallersDoNotTellItRestsLongerAndLonger) {
    Program program;
    program.between = 0.01;
    program.run(20000, [](int i) {
        return Program::Call{path_of({1U + static_cast<std::uintptr_t>(i / 2 % 2)}),
                             (i % 2 == 0 ? 5 : 500) * kMicro};
    });
    EXPECT_FALSE(program.paths.split());
    EXPECT_GE(program.asked, static_cast<int>(RegionPaths::kAsked));
    EXPECT_LE(program.asked, 6 * static_cast<int>(RegionPaths::kAsked));  // in 200 s
    EXPECT_NE(program.paths.story().find("not by who calls"), std::string::npos);
}

TEST(RegionPaths, ManyCallersThatAreAllAlikeAreNoReason) {
    Program program;
    program.run(3000, [](int i) {
        return Program::Call{path_of({static_cast<std::uintptr_t>(1 + i % 31)}),
                             (i * 7919 % 5 < 2 ? 5 : 500) * kMicro};
    });
    EXPECT_FALSE(program.paths.split());
}

// Of some callers nothing is known, of others less than it takes: they are no group.
TEST(RegionPaths, WaysThatEndEarlyStayTogether) {
    Program program;
    program.run(1000, [](int i) {
        switch (i % 4) {
            case 0:
                return Program::Call{CallPath{}, 30 * kMicro};
            case 1:
                return Program::Call{path_of({1}), 30 * kMicro};
            default:
                return Program::Call{path_of({1, 2 + static_cast<std::uintptr_t>(i % 2)}),
                                     (i % 2 == 0 ? 3 : 900) * kMicro};
        }
    });
    ASSERT_TRUE(program.paths.split());
    EXPECT_EQ(program.paths.groups(), (std::vector<CallPath>{path_of({1, 3}), path_of({1, 2})}));
    Program nobody;
    nobody.run(1000, [](int i) { return Program::Call{CallPath{}, (i % 2 == 0 ? 3 : 900) * kMicro}; });
    EXPECT_FALSE(nobody.paths.split());
    EXPECT_EQ(nobody.asked, static_cast<int>(RegionPaths::kAsked));
}

TEST(RegionPaths, NoMoreGroupsThanItCanHold) {
    Program program;
    program.run(3000, [](int i) {
        const auto caller = static_cast<std::uintptr_t>(i % 12);
        return Program::Call{path_of({1 + caller}), (1 << caller) * kMicro};
    });
    ASSERT_TRUE(program.paths.split());
    EXPECT_EQ(program.paths.groups().size(), RegionPaths::kGroups);
    EXPECT_EQ(program.paths.groups().front(), path_of({12}));
}

TEST(RegionPaths, WhatIsNotWorthItOrCannotBeReadIsNotAsked) {
    Program program;
    const auto two = [](int i) {
        return Program::Call{path_of({1U + static_cast<std::uintptr_t>(i % 2)}),
                             (i % 2 == 0 ? 5 : 500) * kMicro};
    };
    program.run(1000, two, 0.1, false);
    EXPECT_EQ(program.asked, 0);
    program.paths.unreadable("libunwind was not found");
    program.run(1000, two);
    EXPECT_EQ(program.asked, 0);
    EXPECT_EQ(program.paths.story(), "libunwind was not found");
}

}  // namespace
}  // namespace corun::policy
