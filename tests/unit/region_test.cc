// SPDX-License-Identifier: Apache-2.0
// Which raw OpenMP regions count as resizable, and what takes that back.
#include "policy/region.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace corun::policy {
namespace {

constexpr std::uint64_t kEnough = kEvidenceCalls;

// Seen often enough, its loop handed out by the runtime, nothing against it.
RegionEvidence good() {
    RegionEvidence evidence;
    evidence.region = kLoopDynamic;
    evidence.calls = kEnough;
    return evidence;
}

RegionClass with_region(std::uint32_t facts) {
    RegionEvidence evidence = good();
    evidence.region |= facts;
    return classify(evidence);
}

RegionClass listed_with(std::uint32_t region, std::uint32_t object = 0) {
    RegionEvidence evidence;
    evidence.listed = true;
    evidence.region = region;
    evidence.object = object;
    return classify(evidence);
}

TEST(Classify, EachLoopThatTheRuntimeHandsOutIsResizable) {
    for (const std::uint32_t loop : {kLoopStatic, kLoopDynamic, kLoopGuided, kLoopRuntime}) {
        RegionEvidence evidence = good();
        evidence.region = loop;
        EXPECT_EQ(classify(evidence), RegionClass::resizable) << loop;
    }
}

TEST(Classify, WithoutSuchALoopItIsNot) {
    RegionEvidence evidence = good();
    evidence.region = 0;
    EXPECT_EQ(classify(evidence), RegionClass::no_shared_loop);
}

TEST(Classify, OneCallLessThanEnoughIsTooFew) {
    RegionEvidence evidence = good();
    evidence.calls = kEnough - 1;
    EXPECT_EQ(classify(evidence), RegionClass::too_few_calls);
    evidence.calls = 0;
    EXPECT_EQ(classify(evidence), RegionClass::too_few_calls);
}

TEST(Classify, WhatOneRegionDoesAgainstIt) {
    for (const std::uint32_t asked : {kAskedThread, kAskedTeam, kAskedMaximum, kAskedParallel})
        EXPECT_EQ(with_region(asked), RegionClass::asks_its_team) << asked;
    EXPECT_EQ(with_region(kNamedSize), RegionClass::named_size);
    EXPECT_EQ(with_region(kInside), RegionClass::nested);
    EXPECT_EQ(with_region(kHolds), RegionClass::nested);
    EXPECT_EQ(with_region(kKeepsPerThread), RegionClass::per_thread_data);
}

// gcc passes num_threads 1 for `if (false)`: that call is forwarded untouched, the others may be resized.
TEST(Classify, AFalseIfClauseIsNoEvidenceAgainst) {
    EXPECT_EQ(with_region(kNamedOne), RegionClass::resizable);
}

TEST(Classify, WhatItsObjectIs) {
    RegionEvidence evidence = good();
    evidence.object = kFortran;
    EXPECT_EQ(classify(evidence), RegionClass::fortran);
    evidence.object = kInductor;
    EXPECT_EQ(classify(evidence), RegionClass::inductor);
    evidence.object = kThreadLocal;
    EXPECT_EQ(classify(evidence), RegionClass::per_thread_data);
    evidence.object = kOpened;
    EXPECT_EQ(classify(evidence), RegionClass::opened_later);
}

TEST(Classify, APlanMadeByAnyObjectOfTheRuntime) {
    for (const std::uint32_t fact : {kAskedOutside, kAskedOutsideFortran, kSetNumber}) {
        RegionEvidence evidence = good();
        evidence.objects = fact;
        EXPECT_EQ(classify(evidence), RegionClass::planned_outside) << fact;
    }
    RegionEvidence evidence = good();
    evidence.runtime = kAskedUnseen;
    EXPECT_EQ(classify(evidence), RegionClass::planned_outside);
}

TEST(Classify, AListedRegionNeedsNoEvidenceAndOverridesTheSoftOnes) {
    EXPECT_EQ(listed_with(0), RegionClass::listed);
    EXPECT_EQ(listed_with(kAsked | kKeepsPerThread), RegionClass::listed);
    EXPECT_EQ(listed_with(0, kFortran), RegionClass::listed);
    EXPECT_EQ(listed_with(0, kThreadLocal), RegionClass::listed);
}

TEST(Classify, ListedOrNotANamedSizeANestedRegionAndAnInductorKernelStay) {
    EXPECT_EQ(listed_with(kNamedSize), RegionClass::named_size);
    EXPECT_EQ(listed_with(kInside), RegionClass::nested);
    EXPECT_EQ(listed_with(kHolds), RegionClass::nested);
    EXPECT_EQ(listed_with(0, kInductor), RegionClass::inductor);
    EXPECT_EQ(listed_with(0, kOpened), RegionClass::opened_later);
}

TEST(Classify, DistrustComesBeforeTheCount) {
    RegionEvidence evidence = good();
    evidence.distrusted = true;
    EXPECT_EQ(classify(evidence), RegionClass::distrusted);
}

// The masks that hooks test must say what the rule says, for every set of facts.
TEST(Classify, TheMasksOfTheHooksAgreeWithTheRule) {
    for (std::uint32_t facts = 0; facts < (kLoopRuntime << 1); ++facts) {
        RegionEvidence evidence = good();
        evidence.region = facts;
        const bool resizable = classify(evidence) == RegionClass::resizable;
        ASSERT_EQ(resizable, !(facts & kRevokes) && (facts & kLoops)) << facts;
        evidence.listed = true;
        ASSERT_EQ(may_resize(classify(evidence)), !(facts & kNever)) << facts;
    }
}

TEST(Classify, EveryClassHasItsOwnName) {
    std::set<std::string> names;
    for (int kind = 0; kind < static_cast<int>(RegionClass::count); ++kind)
        names.insert(class_name(static_cast<RegionClass>(kind)));
    EXPECT_EQ(names.size(), static_cast<std::size_t>(RegionClass::count));
    EXPECT_STREQ(class_name(RegionClass::asks_its_team), "asks-its-team");
    EXPECT_STREQ(class_name(RegionClass::resizable), "resizable");
}

TEST(AllowedWidths, OneOrAllOnLibgompAnyOnLibomp) {
    using Widths = std::vector<int>;
    EXPECT_EQ(allowed_widths(RuntimeKind::libgomp, RegionClass::resizable, 12), (Widths{1, 12}));
    EXPECT_EQ(allowed_widths(RuntimeKind::libomp, RegionClass::resizable, 12), (Widths{1, 2, 4, 8, 12}));
    EXPECT_EQ(allowed_widths(RuntimeKind::libomp, RegionClass::listed, 2), (Widths{1, 2}));
    EXPECT_EQ(allowed_widths(RuntimeKind::libomp, RegionClass::resizable, 1), (Widths{1}));
    EXPECT_EQ(allowed_widths(RuntimeKind::libgomp, RegionClass::listed, 0), (Widths{1}));
}

TEST(AllowedWidths, OnlyItsOwnForEveryOtherClass) {
    for (int kind = 0; kind < static_cast<int>(RegionClass::count); ++kind) {
        const auto one = static_cast<RegionClass>(kind);
        if (may_resize(one)) continue;
        EXPECT_EQ(allowed_widths(RuntimeKind::libomp, one, 8), (std::vector<int>{8})) << class_name(one);
        EXPECT_EQ(allowed_widths(RuntimeKind::libgomp, one, 8), (std::vector<int>{8})) << class_name(one);
    }
}

TEST(RegionsOption, NamesObjectsAndOffsets) {
    const auto matches = [](const char* entry) {
        return entry_matches(entry, "libsolver.so.2", 0x1a2b, "step._omp_fn.3");
    };
    EXPECT_TRUE(matches("step"));  // of which function it is a part
    EXPECT_TRUE(matches("step._omp_fn.3"));
    EXPECT_TRUE(matches("st*"));
    EXPECT_TRUE(matches("*"));
    EXPECT_TRUE(matches("libsolver.so*:step"));
    EXPECT_TRUE(matches("libsolver.so.2+0x1a2b"));
    EXPECT_TRUE(matches("lib*+0x1A2B"));
    EXPECT_FALSE(matches("step2"));
    EXPECT_FALSE(matches("ste"));
    EXPECT_FALSE(matches("step._omp_fn.30"));
    EXPECT_FALSE(matches("libother.so:step"));
    EXPECT_FALSE(matches("libsolver.so.2+0x1a2c"));
    EXPECT_FALSE(matches("libsolver.so.2+0x1a2bz"));
    EXPECT_FALSE(matches("libsolver.so.2:"));
    EXPECT_FALSE(matches(""));
}

TEST(RegionsOption, CppNamesAndLists) {
    const auto in = [](const char* list) { return list_matches(list, "app", 0x10, "ns::run(int)"); };
    EXPECT_TRUE(in("ns::run*"));
    EXPECT_TRUE(in("app:ns::run*"));
    EXPECT_TRUE(in("other, ns::*"));
    EXPECT_TRUE(in("app+0x10,other"));
    EXPECT_FALSE(in("other:ns::run*"));
    EXPECT_FALSE(in("other, app+0x11"));
    EXPECT_FALSE(in(""));
    EXPECT_FALSE(in(" , "));
}

// --- the book

class Book : public ::testing::Test {
  protected:
    RegionBook::Id region(const std::string& name) { return book.add_region(name, object); }
    RegionClass judge(RegionBook::Id id) { return book.judge(id).kind; }
    // Calls that are as good as they can be.
    void run(RegionBook::Id id, std::uint64_t calls = kEnough) { book.region_seen(id, calls, kLoopDynamic); }

    RegionBook book;
    RegionBook::Id runtime = book.add_runtime(RuntimeKind::libgomp);
    RegionBook::Id object = book.add_object("app", runtime);
};

TEST_F(Book, EvidenceGrowsUntilItIsEnough) {
    const auto id = region("loop");
    EXPECT_EQ(judge(id), RegionClass::too_few_calls);
    run(id, kEnough - 1);
    EXPECT_EQ(judge(id), RegionClass::too_few_calls);
    EXPECT_EQ(book.judge(id).why, "seen 15 times of 16");
    EXPECT_EQ(book.widths(id, 4), (std::vector<int>{4}));
    run(id, 1);
    EXPECT_EQ(judge(id), RegionClass::resizable);
    EXPECT_EQ(book.judge(id).why,
              "no thread of it asked in 16 calls; the runtime hands out its loop (dynamic)");
    EXPECT_EQ(book.widths(id, 4), (std::vector<int>{1, 4}));
    EXPECT_EQ(book.judge(id).revoked_at, 0U);
}

// Each fact that revokes does so after the region was resizable, says why, and is never taken back.
TEST_F(Book, EveryRevocationIsForGood) {
    struct Case {
        std::uint32_t fact;
        RegionClass kind;
        const char* why;
    };
    const std::vector<Case> cases{
        {kAskedThread, RegionClass::asks_its_team,
         "a thread inside asked for its thread number: it may keep data by that"},
        {kAskedTeam, RegionClass::asks_its_team,
         "a thread inside asked for the size of its team: it may keep data by that"},
        {kAskedMaximum, RegionClass::asks_its_team,
         "a thread inside asked for the maximum of threads: it may keep data by that"},
        {kAskedParallel, RegionClass::asks_its_team,
         "a thread inside asked for the level of parallelism: it may keep data by that"},
        {kNamedSize, RegionClass::named_size, "the program names the size of its team"},
        {kInside, RegionClass::nested, "it begins inside another region"},
        {kHolds, RegionClass::nested, "another region begins inside it"},
        {kKeepsPerThread, RegionClass::per_thread_data, "it keeps data per thread (threadprivate)"}};
    for (const Case& one : cases) {
        const auto own_object = book.add_object("own object", runtime);
        const auto id = book.add_region("loop", own_object);
        run(id);
        ASSERT_EQ(judge(id), RegionClass::resizable);
        book.region_seen(id, 1, one.fact);
        EXPECT_EQ(judge(id), one.kind);
        EXPECT_EQ(book.judge(id).why, one.why);
        EXPECT_EQ(book.judge(id).revoked_at, kEnough + 1);
        EXPECT_EQ(book.widths(id, 4), (std::vector<int>{4}));
        run(id, 1000000);
        EXPECT_EQ(judge(id), one.kind);
        EXPECT_EQ(book.judge(id).revoked_at, kEnough + 1);
    }
}

TEST_F(Book, AnObjectThatPlansOutsideRevokesAllRegionsOfItsRuntimeAndOfNoOther) {
    const auto other_object = book.add_object("libplans.so", runtime);
    const auto other_runtime = book.add_runtime(RuntimeKind::libomp);
    const auto far = book.add_region("far", book.add_object("libfar.so", other_runtime));
    const auto near = region("near");
    run(near);
    run(far);
    ASSERT_EQ(judge(near), RegionClass::resizable);
    book.object_seen(other_object, kAskedOutside);
    EXPECT_EQ(judge(near), RegionClass::planned_outside);
    EXPECT_EQ(book.judge(near).why, "libplans.so asked for the number of threads outside a region");
    EXPECT_EQ(judge(far), RegionClass::resizable);
    run(near, 1000);
    EXPECT_EQ(judge(near), RegionClass::planned_outside);
    // That tells nothing of the object itself.
    EXPECT_EQ(book.judge(near).revoked_at, kEnough);
    const auto later = region("later");
    run(later);
    EXPECT_EQ(judge(later), RegionClass::planned_outside);
}

TEST_F(Book, TheFirstToPlanIsNamed) {
    const auto id = region("loop");
    run(id);
    book.object_seen(book.add_object("libfirst.so", runtime), kSetNumber);
    book.object_seen(book.add_object("libsecond.so", runtime), kAskedOutside);
    EXPECT_EQ(judge(id), RegionClass::planned_outside);
    EXPECT_EQ(book.judge(id).why, "libfirst.so set the number of threads itself");
}

TEST_F(Book, ARuntimeThatCanBeAskedPastTheHooks) {
    const auto id = region("loop");
    run(id);
    ASSERT_EQ(judge(id), RegionClass::resizable);
    book.runtime_seen(runtime, kAskedUnseen);
    EXPECT_EQ(judge(id), RegionClass::planned_outside);
    EXPECT_EQ(book.judge(id).why, "its runtime can be asked for the number of threads past the hooks");
}

// A parallel counting sort: one region counts by thread number, the second writes to where the first counted.
// They crash when their teams differ. Both ask, each in its first call, so that neither ever becomes
// resizable.
TEST_F(Book, TheTwoRegionsOfACountingSort) {
    const auto count = region("count");
    const auto place = region("place");
    for (int call = 0; call < 1000; ++call) {
        book.region_seen(count, 1, kAskedThread | kAskedTeam);
        EXPECT_EQ(book.widths(count, 4), (std::vector<int>{4}));
        book.region_seen(place, 1, kAskedThread);
        EXPECT_EQ(book.widths(place, 4), (std::vector<int>{4}));
    }
    EXPECT_EQ(judge(count), RegionClass::asks_its_team);
    EXPECT_EQ(judge(place), RegionClass::asks_its_team);
    EXPECT_EQ(book.judge(count).revoked_at, 0U);  // it never was
}

// The same where clang hands out static loops and only rare keys make a thread ask: the first region that
// asks after all takes the other with it, in either order.
TEST_F(Book, ACountingSortThatAsksLateRevokesBothOfItsRegions) {
    for (const bool first_asks : {true, false}) {
        const auto own_object = book.add_object("sort", runtime);
        const auto count = book.add_region("count", own_object);
        const auto place = book.add_region("place", own_object);
        run(count);
        run(place);
        ASSERT_EQ(judge(count), RegionClass::resizable);
        ASSERT_EQ(judge(place), RegionClass::resizable);
        const auto asking = first_asks ? count : place;
        const auto silent = first_asks ? place : count;
        book.region_seen(asking, 1, kAskedThread);
        EXPECT_EQ(judge(asking), RegionClass::asks_its_team);
        EXPECT_EQ(judge(silent), RegionClass::distrusted);
        EXPECT_EQ(book.judge(silent).why, std::string(first_asks ? "count" : "place") +
                                              " of the same object seemed resizable and was not");
        run(silent, 1000);
        EXPECT_EQ(judge(silent), RegionClass::distrusted);
    }
}

// A Fortran program: its own object says so, and it plans by Fortran's names.
TEST_F(Book, AFortranProgramIsNeverResized) {
    const auto program = book.add_object("a.out", runtime, kFortran);
    const auto loop = book.add_region("MAIN__", program);
    run(loop, 1000);
    EXPECT_EQ(judge(loop), RegionClass::fortran);
    EXPECT_EQ(book.judge(loop).why, "a.out is compiled from Fortran");
    EXPECT_EQ(book.widths(loop, 4), (std::vector<int>{4}));
    // A C library beside it: free until the program plans, and not after it.
    const auto beside = region("beside");
    run(beside);
    EXPECT_EQ(judge(beside), RegionClass::resizable);
    book.object_seen(program, kAskedOutsideFortran);
    EXPECT_EQ(judge(beside), RegionClass::planned_outside);
    EXPECT_EQ(book.judge(beside).why, "a.out asked for the number of threads outside a region");
    EXPECT_EQ(judge(loop), RegionClass::fortran);
}

TEST_F(Book, AListedRegionOfAFortranProgramIsResizedUntilItNamesASize) {
    const auto id =
        book.add_region("MAIN__", book.add_object("a.out", runtime, kFortran | kAskedOutsideFortran), true);
    EXPECT_EQ(judge(id), RegionClass::listed);
    EXPECT_EQ(book.widths(id, 4), (std::vector<int>{1, 4}));
    book.region_seen(id, 1, kNamedSize);
    EXPECT_EQ(judge(id), RegionClass::named_size);
    EXPECT_EQ(book.widths(id, 4), (std::vector<int>{4}));
}

TEST_F(Book, ManyRegionsKeepTheirReferences) {
    const auto first = region("first");
    run(first);
    const Judgement& judgement = book.judge(first);
    for (int i = 0; i < 1000; ++i) region("more");
    book.region_seen(first, 1, kAskedTeam);
    book.judge(first);
    EXPECT_EQ(judgement.kind, RegionClass::asks_its_team);
    EXPECT_EQ(book.regions(), 1001U);
}

}  // namespace
}  // namespace corun::policy
