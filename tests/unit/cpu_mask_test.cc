// SPDX-License-Identifier: Apache-2.0
#include "shim/cpu_mask.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace corun {
namespace {

CpuMask mask_of(std::initializer_list<int> cpus) {
    CpuMask mask;
    for (const int cpu : cpus) mask.add(cpu);
    return mask;
}

std::string list_of(const CpuMask& mask) {
    char text[4096];
    return {text, write_cpu_list(mask, text, sizeof text)};
}

TEST(CpuMask, CopiesWhatTheKernelWrites) {
    CpuMask mask;
    std::vector<unsigned char> bytes(256, 0);
    bytes[0] = 0x81;
    bytes[127] = 0x80;
    ASSERT_TRUE(mask.assign(bytes.data(), bytes.size()));
    EXPECT_EQ(mask, mask_of({0, 7, 1023}));
    EXPECT_EQ(mask.count(), 3);
    bytes[128] = 1;
    EXPECT_FALSE(mask.assign(bytes.data(), bytes.size()));  // CPU 1,024
    ASSERT_TRUE(mask.assign(bytes.data(), 8));
    EXPECT_EQ(mask, mask_of({0, 7}));

    std::vector<unsigned char> out(200, 0xFF);
    mask_of({3}).copy_to(out.data(), 192);
    EXPECT_EQ(out[0], 8);
    EXPECT_EQ(out[191], 0);
    EXPECT_EQ(out[192], 0xFF);
    mask_of({3, 70}).copy_to(out.data(), 8);
    EXPECT_EQ(out[8], 0);
}

TEST(CpuMask, NeighboursGetOtherCpus) {
    const CpuMask all = mask_of({0, 1, 2, 3, 8, 9, 10, 11});
    std::set<std::string> seen;
    for (unsigned which = 0; which < 4; ++which) {
        const CpuMask chosen = choose_cpus(all, 2, which);
        EXPECT_EQ(chosen.count(), 2);
        seen.insert(list_of(chosen));
    }
    EXPECT_EQ(seen, (std::set<std::string>{"0-1\n", "2-3\n", "8-9\n", "10-11\n"}));
    EXPECT_EQ(choose_cpus(all, 2, 4), choose_cpus(all, 2, 0));
    // No divisor: the last block goes on at the beginning.
    EXPECT_EQ(list_of(choose_cpus(all, 3, 2)), "0,10-11\n");
    for (int wanted = 1; wanted <= 9; ++wanted)
        for (unsigned which = 0; which < 20; ++which) {
            const CpuMask chosen = choose_cpus(all, wanted, which);
            EXPECT_EQ(chosen.count(), std::min(wanted, 8));
            for (int cpu = 0; cpu < CpuMask::kCpus; ++cpu) EXPECT_LE(chosen.has(cpu), all.has(cpu));
        }
    EXPECT_EQ(choose_cpus(all, 0, 0).count(), 0);
    EXPECT_EQ(choose_cpus({}, 2, 1).count(), 0);
}

TEST(CpuMask, WritesAndCountsLists) {
    EXPECT_EQ(list_of({}), "\n");
    EXPECT_EQ(list_of(mask_of({0})), "0\n");
    EXPECT_EQ(list_of(mask_of({0, 1, 2, 5, 7, 8, 1023})), "0-2,5,7-8,1023\n");
    char small[4];
    EXPECT_EQ(write_cpu_list(mask_of({100, 200}), small, sizeof small), 4U);

    EXPECT_EQ(count_cpu_list("0\n"), 1);
    EXPECT_EQ(count_cpu_list("0-3,8,10-11\n"), 7);
    for (const char* text : {"", "\n", "x", "-1", "3-1", "0-", "1,,x", "99999999999999"})
        EXPECT_EQ(count_cpu_list(text), 0) << text;
}

constexpr char kInfo[] =
    "processor\t: 0\nvendor_id\t: X\nflags\t\t: a b c\n\n"
    "processor\t: 1\nvendor_id\t: Y\n\n"
    "processor\t: 12\nvendor_id\t: Z\n\n"
    "Hardware\t: a board\nSerial : 1\n";

std::string filtered(const std::string& text, const CpuMask& kept, std::size_t piece) {
    CpuinfoFilter filter(kept);
    std::string result;
    for (std::size_t at = 0; at < text.size(); at += piece) {
        std::vector<char> out(piece + CpuinfoFilter::kHeld);
        const std::string part = text.substr(at, piece);
        result.append(out.data(), filter.feed(part, out.data()));
    }
    char rest[CpuinfoFilter::kHeld];
    return result.append(rest, filter.finish(rest));
}

TEST(CpuinfoFilter, KeepsTheParagraphsOfSomeCpus) {
    for (const std::size_t piece : {1U, 2U, 3U, 7U, 64U, 4096U}) {
        EXPECT_EQ(filtered(kInfo, mask_of({0, 1, 12}), piece), kInfo);
        EXPECT_EQ(filtered(kInfo, mask_of({1}), piece),
                  "processor\t: 1\nvendor_id\t: Y\n\nHardware\t: a board\nSerial : 1\n");
        EXPECT_EQ(filtered(kInfo, mask_of({12}), piece),
                  "processor\t: 12\nvendor_id\t: Z\n\nHardware\t: a board\nSerial : 1\n");
    }
}

TEST(CpuinfoFilter, LeavesOtherTextsAlone) {
    const std::string line(300, 'x');
    for (const std::string& text :
         {std::string(), std::string("\n\n\n"), std::string("processor"), "processors: many\n\n" + line,
          line + "\n\n" + line + "\n", std::string("processor : x\n\nprocessor\n")})
        for (const std::size_t piece : {1U, 5U, 4096U}) EXPECT_EQ(filtered(text, {}, piece), text);
    EXPECT_EQ(filtered("processor : 3", mask_of({1}), 64), "processor : 3");  // no whole line: nobody's
}

}  // namespace
}  // namespace corun
