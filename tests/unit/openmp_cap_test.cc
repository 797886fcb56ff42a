// SPDX-License-Identifier: Apache-2.0
#include "policy/openmp_cap.h"

#include <gtest/gtest.h>

#include <string>

namespace corun::policy {
namespace {

constexpr NumberSources kMachine{.processors = 8, .affinity = 8, .environment = 0, .environment_now = 0};
constexpr NumberSources kSixteen{.processors = 8, .affinity = 8, .environment = 16, .environment_now = 16};

Cap cap(int own, const NumberSources& sources, int limit, bool held = false) {
    return cap_number({own, sources, limit, held});
}

TEST(OpenMpCap, WhatNobodyChoseIsCapped) {
    EXPECT_EQ(cap(8, kMachine, 2).threads, 2);
    EXPECT_EQ(cap(8, kMachine, 2).reason, CapReason::machine);
    EXPECT_EQ(cap(16, kSixteen, 2).threads, 2);
    EXPECT_EQ(cap(16, kSixteen, 2).reason, CapReason::environment);
    EXPECT_TRUE(cap(16, kSixteen, 2).changes());
}

TEST(OpenMpCap, ThreadsCountedByTheMaskNowOrAtStart) {
    NumberSources pinned{.processors = 1, .affinity = 8, .environment = 0, .environment_now = 0};
    EXPECT_EQ(cap(8, pinned, 2).reason, CapReason::machine);
    pinned.processors = 6;
    EXPECT_EQ(cap(6, pinned, 2).reason, CapReason::machine);
}

TEST(OpenMpCap, TheVariableAsItWasAndAsItIs) {
    NumberSources lowered = kSixteen;
    lowered.environment_now = 2;
    EXPECT_EQ(cap(16, lowered, 2).reason, CapReason::environment);
    NumberSources set_later = kMachine;
    set_later.environment_now = 12;
    EXPECT_EQ(cap(12, set_later, 2).reason, CapReason::environment);
}

TEST(OpenMpCap, WithinTheLimitNothingChanges) {
    for (int own = 1; own <= 4; ++own) {
        EXPECT_EQ(cap(own, kMachine, 4).threads, own);
        EXPECT_FALSE(cap(own, kMachine, 4).changes());
    }
    EXPECT_FALSE(cap(16, kSixteen, INT_MAX).changes());
}

TEST(OpenMpCap, TheProgramsOwnWordStays) {
    EXPECT_EQ(cap(5, kSixteen, 2).threads, 5);
    EXPECT_EQ(cap(5, kSixteen, 2).reason, CapReason::program);
    EXPECT_FALSE(cap(5, kSixteen, 2).changes());
}

TEST(OpenMpCap, AForkedChildThatWouldWaitHasOneThread) {
    EXPECT_EQ(cap(5, kSixteen, 8, true).threads, 1);
    EXPECT_EQ(cap(5, kSixteen, INT_MAX, true).reason, CapReason::held);
    EXPECT_FALSE(cap(1, kSixteen, 8, true).changes());
}

TEST(OpenMpCap, NeverAboveTheRuntimesOwnNumber) {
    for (int own = 1; own < 20; ++own)
        for (int limit = 1; limit < 20; ++limit)
            for (const bool held : {false, true}) {
                const Cap given = cap(own, kSixteen, limit, held);
                EXPECT_LE(given.threads, own);
                EXPECT_GE(given.threads, 1);
                EXPECT_EQ(given.changes(), given.threads != own);
            }
}

TEST(OpenMpSet, TheProgramsNumberIsKept) {
    const SetNumber own = set_number({5, kSixteen, 2, false, false});
    EXPECT_EQ(own.threads, 5);
    EXPECT_EQ(own.reason, SetReason::own);
}

TEST(OpenMpSet, TheEnvironmentsNumberIsKeptUntilItAsks) {
    const SetNumber again = set_number({16, kSixteen, 2, false, false});
    EXPECT_EQ(again.threads, 16);
    EXPECT_EQ(again.reason, SetReason::repeats);
    EXPECT_EQ(set_number({16, kSixteen, 16, false, false}).reason, SetReason::own);
    EXPECT_EQ(set_number({8, kMachine, 2, false, false}).reason, SetReason::own);  // it has counted itself
}

TEST(OpenMpSet, InsideARegionOfTheRegionOnly) {
    EXPECT_EQ(set_number({16, kSixteen, 2, false, true}).reason, SetReason::region);
    EXPECT_EQ(set_number({16, kSixteen, 2, false, true}).threads, 16);
}

TEST(OpenMpSet, AForkedChildThatWouldWait) {
    EXPECT_EQ(set_number({4, kSixteen, 8, true, false}).threads, 1);
    EXPECT_EQ(set_number({1, kSixteen, 8, true, false}).reason, SetReason::own);
}

TEST(OpenMpList, OutermostNumber) {
    EXPECT_EQ(outermost_number("16"), 16);
    EXPECT_EQ(outermost_number("16,2"), 16);
    EXPECT_EQ(outermost_number(" 16 ,\t2 "), 16);
    EXPECT_EQ(outermost_number("007"), 7);
}

TEST(OpenMpList, WhatIsNoPlainList) {
    for (const char* odd : {"", " ", "+16", "-4", "16.5", "16x", "0x10", "16,", ",16", "16,,2", "16 2",
                            "16,a", "1234567890", "auto", "16;2", "16,1234567890"}) {
        EXPECT_EQ(outermost_number(odd), 0) << odd;
        std::string text = odd;
        EXPECT_FALSE(lower_outermost(text.data(), 2)) << odd;
        EXPECT_EQ(text, odd);
    }
}

std::string lowered(std::string text, int limit) {
    EXPECT_TRUE(lower_outermost(text.data(), limit)) << text;
    return text.c_str();  // up to the new end
}

TEST(OpenMpList, LoweredInPlace) {
    EXPECT_EQ(lowered("16", 2), "2");
    EXPECT_EQ(lowered("16", 12), "12");
    EXPECT_EQ(lowered("16,2", 4), "4,2");
    EXPECT_EQ(lowered(" 16 , 20", 4), " 4 , 20");
    EXPECT_EQ(lowered("0016", 4), "4");
    EXPECT_EQ(lowered("999999999", 1), "1");
    EXPECT_EQ(lowered("16", 0), "1");
}

TEST(OpenMpList, OnlyDownwards) {
    for (const char* list : {"2", "1,16", "2 ", "0"}) {
        std::string text = list;
        EXPECT_FALSE(lower_outermost(text.data(), 2)) << list;
        EXPECT_EQ(text, list);
    }
}

TEST(OpenMpWords, TheNumberOrSomeRanksOfIt) {
    for (const char* word : {"16", "-ntomp=16", "-t16", "a16b", "32", "x7,48", "256", "1.16", "0016"})
        EXPECT_TRUE(word_names(word, 16)) << word;
    for (const char* word :
         {"", "-ntomp", "160001", "1", "6", "15", "17", "116", "272", "1600001", "16000000000"})
        EXPECT_FALSE(word_names(word, 16)) << word;
    EXPECT_FALSE(word_names("0", 0));
    EXPECT_FALSE(word_names("5", 0));
}

}  // namespace
}  // namespace corun::policy
