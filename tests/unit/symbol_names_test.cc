// SPDX-License-Identifier: Apache-2.0
// Names from the symbol tables of files, of which nothing may be believed.
#include "shim/symbol_names.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

namespace corun {
namespace {

[[gnu::noinline]] int sought(int x) {
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

std::uint64_t base_of_program() {
    std::uint64_t base = 0;
    dl_iterate_phdr([](dl_phdr_info* info, std::size_t,
                       void* at) { return *static_cast<std::uint64_t*>(at) = info->dlpi_addr, 1; },
                    &base);
    return base;
}

std::uint64_t offset_of_sought() {
    return reinterpret_cast<std::uintptr_t>(sought) - base_of_program();
}

std::string own_content() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

struct Temporary {
    Temporary() { close(mkstemp(path)); }
    ~Temporary() { std::remove(path); }
    void write(const std::string& content) const { std::ofstream(path, std::ios::binary) << content; }
    char path[32] = "/tmp/corun-names-XXXXXX";
};

TEST(SymbolNames, LocalFunctionsOfTheProgram) {
    EXPECT_EQ(sought(1), 2);
    EXPECT_NE(function_name("", offset_of_sought()).find("sought"), std::string::npos);
    EXPECT_NE(function_name("", offset_of_sought() + 1).find("sought"), std::string::npos);
    EXPECT_EQ(function_name("", 1), "");
}

TEST(SymbolNames, NoSuchFile) {
    EXPECT_EQ(function_name("/nowhere/library.so", 4096), "");
    EXPECT_EQ(function_name("/dev/null", 4096), "");
    EXPECT_EQ(function_name("/tmp", 4096), "");
    EXPECT_EQ(function_name("/proc/self/cmdline", 4096), "");
}

TEST(SymbolNames, DamagedFiles) {
    const Temporary file;
    const std::string whole = own_content();
    ASSERT_GT(whole.size(), sizeof(Elf64_Ehdr));
    std::mt19937 random(1);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{3}, sizeof(Elf64_Ehdr), whole.size() / 2, whole.size() - 1}) {
        file.write(whole.substr(0, size));
        function_name(file.path, offset_of_sought());
    }
    const Elf64_Ehdr header = *reinterpret_cast<const Elf64_Ehdr*>(whole.data());
    const std::size_t table = header.e_shnum * sizeof(Elf64_Shdr);
    ASSERT_LE(header.e_shoff + table, whole.size());
    for (int round = 0; round < 300; ++round) {
        std::string damaged = whole;
        for (int i = 0; i < 20; ++i) {
            const std::size_t at = i % 4 == 0 ? random() % sizeof header : header.e_shoff + random() % table;
            if (at >= EI_NIDENT) damaged[at] = static_cast<char>(random());
        }
        file.write(damaged);
        function_name(file.path, offset_of_sought());
    }
    file.write(whole);
    EXPECT_NE(function_name(file.path, offset_of_sought()).find("sought"), std::string::npos);
}

}  // namespace
}  // namespace corun
