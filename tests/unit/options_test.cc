// SPDX-License-Identifier: Apache-2.0
#include "shim/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string>
#include <vector>

namespace corun {
namespace {

std::vector<std::string> warnings;

Options read(std::vector<const char*> entries) {
    entries.push_back(nullptr);
    warnings.clear();
    Options options;
    read_options(entries.data(), options, [](const char* sentence) { warnings.emplace_back(sentence); });
    return options;
}

const OptionRow& row(OptionId id) {
    return option_table().at(static_cast<std::size_t>(id));
}

bool accepts(OptionId id, std::string_view value) {
    std::array<char, 512> message{};
    return check_option(row(id), value, message.data(), message.size());
}

std::string message_for(OptionId id, std::string_view value, std::size_t size = 512) {
    std::vector<char> message(size + 1, 'x');
    EXPECT_FALSE(check_option(row(id), value, message.data(), size));
    EXPECT_EQ(message[size], 'x') << "written beyond the end";
    return message.data();
}

TEST(OptionTable, EveryDefaultIsValid) {
    std::array<char, 512> message{};
    for (const OptionRow& one : option_table()) {
        if (one.type == OptionType::path && one.fallback.empty()) continue;
        EXPECT_TRUE(check_option(one, one.fallback, message.data(), message.size()))
            << one.name << message.data();
    }
}

TEST(OptionTable, NamesAreUniqueAndUpperCase) {
    std::set<std::string_view> names;
    for (const OptionRow& one : option_table()) {
        EXPECT_TRUE(names.insert(one.name).second) << one.name;
        EXPECT_EQ(one.name.substr(0, 6), "CORUN_");
        EXPECT_TRUE(
            std::none_of(one.name.begin(), one.name.end(), [](unsigned char c) { return std::islower(c); }));
        EXPECT_FALSE(one.help.empty()) << one.name;
    }
}

TEST(OptionTable, TheLongestNameAndValueFit) {
    for (const OptionRow& one : option_table()) EXPECT_LT(one.fallback.size(), Options::kText);
}

TEST(ReadOptions, GivesDefaultsOfAnEmptyEnvironment) {
    const Options options = read({});
    EXPECT_TRUE(warnings.empty());
    EXPECT_TRUE(options.is(OptionId::mode, "tune"));
    EXPECT_TRUE(options.boolean(OptionId::pool_cap));
    EXPECT_FALSE(options.boolean(OptionId::reproducible));
    EXPECT_DOUBLE_EQ(options.number(OptionId::explore), 5);
    EXPECT_TRUE(std::none_of(options.set.begin(), options.set.end(), [](bool set) { return set; }));
}

TEST(ReadOptions, TakesValidValuesOfEveryType) {
    const Options options =
        read({"CORUN_MODE=Observe", "CORUN_CPUS=3", "CORUN_EXPLORE=2.5", "CORUN_POOL_CAP=off",
              "CORUN_HOOKS=tensorflow", "CORUN_REPORT=/tmp/Report.txt", "PATH=/bin"});
    EXPECT_TRUE(warnings.empty());
    EXPECT_TRUE(options.is(OptionId::mode, "observe"));
    EXPECT_EQ(options.integer(OptionId::cpus), 3);
    EXPECT_DOUBLE_EQ(options.number(OptionId::explore), 2.5);
    EXPECT_FALSE(options.boolean(OptionId::pool_cap));
    EXPECT_TRUE(options.has_word(OptionId::hooks, "tensorflow"));
    EXPECT_EQ(options[OptionId::report], "/tmp/Report.txt") << "a path keeps its case";
    EXPECT_TRUE(options.set[static_cast<std::size_t>(OptionId::cpus)]);
}

TEST(ReadOptions, AnEmptyValueIsNoValue) {
    const Options options = read({"CORUN_MODE="});
    EXPECT_TRUE(warnings.empty());
    EXPECT_TRUE(options.is(OptionId::mode, "tune"));
}

TEST(ReadOptions, ABadValueWarnsOnceAndKeepsTheDefault) {
    const Options options = read({"CORUN_MODE=tunes", "CORUN_CPUS=-1"});
    ASSERT_EQ(warnings.size(), 2U);
    EXPECT_NE(warnings[0].find("CORUN_MODE=tunes"), std::string::npos);
    EXPECT_NE(warnings[0].find("did you mean tune?"), std::string::npos);
    EXPECT_NE(warnings[1].find("0..4096"), std::string::npos);
    EXPECT_TRUE(options.is(OptionId::mode, "tune"));
    EXPECT_EQ(options.integer(OptionId::cpus), 0);
}

TEST(ReadOptions, AnUnknownNameWarnsWithTheNearest) {
    (void)read({"CORUN_POLCY=s1"});
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_NE(warnings[0].find("CORUN_POLICY"), std::string::npos);
}

TEST(ReadOptions, AnUnknownNameWithNothingNearHasNoHint) {
    (void)read({"CORUN_SOMETHING_ELSE_ALTOGETHER=1"});
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_EQ(warnings[0].find("did you mean"), std::string::npos);
}

TEST(ReadOptions, OverlongNamesAndValuesAreHarmless) {
    const std::string name = "CORUN_" + std::string(5000, 'A') + "=1";
    const std::string value = "CORUN_REPORT=" + std::string(5000, 'a');
    const std::string choice = "CORUN_MODE=" + std::string(5000, 'a');
    (void)read({name.c_str(), value.c_str(), choice.c_str()});
    EXPECT_EQ(warnings.size(), 3U);
}

TEST(ReadOptions, WhatTheLauncherPassesIsNoOption) {
    (void)read({"CORUN_LAUNCHED=1"});
    EXPECT_TRUE(warnings.empty());
}

TEST(CheckOption, NumbersKeepTheirBounds) {
    EXPECT_TRUE(accepts(OptionId::explore, "0"));
    EXPECT_TRUE(accepts(OptionId::explore, "99.5"));
    for (const char* bad : {"", "-1", "101", "5%", "nan", "inf", "five"})
        EXPECT_FALSE(accepts(OptionId::explore, bad)) << bad;
    for (const char* bad : {"1.5", "1e9", "4097", "1x", " "})
        EXPECT_FALSE(accepts(OptionId::cpus, bad)) << bad;
}

TEST(CheckOption, BooleansHaveFourSpellings) {
    for (const char* good : {"yes", "no", "1", "0", "TRUE", "false", "On", "off"})
        EXPECT_TRUE(accepts(OptionId::pool_cap, good)) << good;
    EXPECT_FALSE(accepts(OptionId::pool_cap, "maybe"));
}

TEST(CheckOption, ChoicesWithANumber) {
    for (const char* good : {"uniform-1", "uniform-16", "price-0.05", "race", "pass-through"})
        EXPECT_TRUE(accepts(OptionId::policy, good)) << good;
    for (const char* bad : {"uniform-", "uniform", "uniform-x", "uniform--1", "price-"})
        EXPECT_FALSE(accepts(OptionId::policy, bad)) << bad;
}

TEST(CheckOption, ListsTakeSeveralWords) {
    EXPECT_TRUE(accepts(OptionId::hooks, "all"));
    EXPECT_TRUE(accepts(OptionId::hooks, "none,tensorflow"));
    EXPECT_TRUE(accepts(OptionId::hooks, "openmp,tensorflow"));
    EXPECT_TRUE(accepts(OptionId::openmp, "safe"));
    EXPECT_TRUE(accepts(OptionId::openmp, "adaptive"));
    EXPECT_FALSE(accepts(OptionId::hooks, "tensorflow,"));
    EXPECT_FALSE(accepts(OptionId::hooks, "tensorflw"));
    EXPECT_NE(message_for(OptionId::hooks, "tensorflw").find("tensorflow"), std::string::npos);
}

TEST(CheckOption, AShortBufferIsNotOverrun) {
    EXPECT_LT(message_for(OptionId::policy, "nonsense", 16).size(), 16U);
}

TEST(NearestOption, FindsATypingMistakeInAnyCase) {
    ASSERT_NE(nearest_option("CORUN_REPROT"), nullptr);
    EXPECT_EQ(nearest_option("CORUN_REPROT")->name, "CORUN_REPORT");
    ASSERT_NE(nearest_option("corun_mod"), nullptr);
    EXPECT_EQ(nearest_option("corun_mod")->name, "CORUN_MODE");
    EXPECT_EQ(nearest_option("LD_LIBRARY_PATH"), nullptr);
}

}  // namespace
}  // namespace corun
