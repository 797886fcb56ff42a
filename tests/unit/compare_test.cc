// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tools/commands.h"
#include "tools/compare_output.h"
#include "tools/comparison.h"
#include "tools/statistics.h"

namespace corun::tools {
namespace {

using Values = std::vector<double>;

TEST(Statistics, MeanMedianDeviation) {
    const Values values{2, 4, 4, 4, 5, 5, 7, 9};
    EXPECT_DOUBLE_EQ(mean(values), 5);
    EXPECT_DOUBLE_EQ(median(values), 4.5);
    EXPECT_NEAR(standard_deviation(values), 2.138089935, 1e-9);
    EXPECT_DOUBLE_EQ(median(Values{3, 1, 2}), 2);
    EXPECT_TRUE(std::isnan(mean(Values{})));
    EXPECT_TRUE(std::isnan(standard_deviation(Values{1})));
}

TEST(Statistics, StudentsQuantilesAreThoseOfTheTables) {
    EXPECT_NEAR(t_quantile(0.975, 1), 12.7062, 1e-4);
    EXPECT_NEAR(t_quantile(0.975, 2), 4.30265, 1e-5);
    EXPECT_NEAR(t_quantile(0.975, 3), 3.18245, 1e-5);
    EXPECT_NEAR(t_quantile(0.975, 7), 2.36462, 1e-5);
    EXPECT_NEAR(t_quantile(0.995, 10), 3.16927, 1e-5);
    EXPECT_NEAR(t_quantile(0.975, 31), 2.03951, 1e-5);
    EXPECT_NEAR(t_quantile(0.975, 1000), 1.96234, 1e-5);
    EXPECT_NEAR(t_quantile(0.025, 7), -2.36462, 1e-5);
    EXPECT_NEAR(t_quantile(0.5, 7), 0, 1e-9);
    EXPECT_TRUE(std::isnan(t_quantile(1, 7)));
    EXPECT_TRUE(std::isnan(t_quantile(0.9, 0)));
}

TEST(Statistics, IntervalOfAMean) {
    const Interval interval = mean_interval(Values{9, 10, 11}, 0.95);
    EXPECT_DOUBLE_EQ(interval.value, 10);
    EXPECT_NEAR(interval.low, 10 - 4.30265 / std::sqrt(3), 1e-5);
    EXPECT_NEAR(interval.high, 10 + 4.30265 / std::sqrt(3), 1e-5);
    EXPECT_TRUE(std::isnan(mean_interval(Values{9}, 0.95).low));
}

TEST(Statistics, PairedRatioTakesPairsNotMeans) {
    // The machine becomes three times slower half-way; each pair still says 1.25.
    const Interval ratio = paired_ratio(Values{10, 10, 30, 30}, Values{8, 8, 24, 24}, 0.95);
    EXPECT_NEAR(ratio.value, 1.25, 1e-12);
    EXPECT_NEAR(ratio.low, 1.25, 1e-9);
    EXPECT_NEAR(ratio.high, 1.25, 1e-9);
}

TEST(Statistics, PairedRatioIsTheSameBothWays) {
    const Values a{10, 11, 9, 12};
    const Values b{8, 10, 9, 9};
    const Interval there = paired_ratio(a, b, 0.95);
    const Interval back = paired_ratio(b, a, 0.95);
    EXPECT_NEAR(there.value * back.value, 1, 1e-12);
    EXPECT_NEAR(there.low * back.high, 1, 1e-12);
}

TEST(Statistics, PairedRatioLeavesOutWhatIsNoPair) {
    EXPECT_NEAR(paired_ratio(Values{10, 0, 10, 10}, Values{5, 5, 5}, 0.95).value, 2, 1e-12);
    EXPECT_TRUE(std::isnan(paired_ratio(Values{}, Values{}, 0.95).value));
}

TEST(Statistics, IntervalsHoldTheTruthAsOftenAsTheySay) {
    std::mt19937 random(7);
    std::lognormal_distribution<double> noise(0, 0.1);
    int held = 0;
    for (int run = 0; run < 2000; ++run) {
        Values a;
        Values b;
        for (int i = 0; i < 8; ++i) {
            a.push_back(1.3 * noise(random));
            b.push_back(noise(random));
        }
        const Interval ratio = paired_ratio(a, b, 0.95);
        held += ratio.low <= 1.3 && 1.3 <= ratio.high ? 1 : 0;
    }
    EXPECT_NEAR(held / 2000.0, 0.95, 0.02);
}

TEST(Statistics, VerdictNeedsTheWholeInterval) {
    EXPECT_EQ(judge({1.2, 1.1, 1.3}, 0.97), Verdict::above);
    EXPECT_EQ(judge({0.9, 0.85, 0.95}, 0.97), Verdict::below);
    EXPECT_EQ(judge({1.0, 0.95, 1.05}, 0.97), Verdict::undecided);
    EXPECT_EQ(judge({1.2, std::nan(""), std::nan("")}, 0.97), Verdict::undecided);
}

TEST(Statistics, LooksGrowAndEndAtTheLast) {
    EXPECT_EQ(looks(8, 32), (std::vector<int>{8, 12, 18, 27, 32}));
    EXPECT_EQ(looks(3, 3), (std::vector<int>{3}));
    EXPECT_NEAR(look_confidence(5), 0.99, 1e-12);
    EXPECT_NEAR(look_confidence(1), 0.95, 1e-12);
}

TEST(ParseSetting, Variables) {
    const Setting setting = parse_setting("two threads=OMP_NUM_THREADS=2 A='b c'");
    EXPECT_EQ(setting.name, "two threads");
    EXPECT_FALSE(setting.under_corun);
    ASSERT_EQ(setting.variables.size(), 2U);
    EXPECT_EQ(setting.variables[0].first, "OMP_NUM_THREADS");
    EXPECT_EQ(setting.variables[1].second, "b c");
    EXPECT_TRUE(setting.arguments.empty());
}

TEST(ParseSetting, Arguments) {
    EXPECT_EQ(parse_setting("a=--intra 1 --inter 2").arguments,
              (std::vector<std::string>{"--intra", "1", "--inter", "2"}));
    EXPECT_EQ(parse_setting("a=X=1 -- word Y=2").arguments, (std::vector<std::string>{"word", "Y=2"}));
    EXPECT_TRUE(parse_setting("again=").arguments.empty());
}

TEST(ParseSetting, UnderCorun) {
    const Setting setting = parse_setting("s1=@corun CORUN_POLICY=s1 -- --fast");
    EXPECT_TRUE(setting.under_corun);
    EXPECT_EQ(setting.variables.at(0).first, "CORUN_POLICY");
    EXPECT_EQ(setting.arguments, (std::vector<std::string>{"--fast"}));
}

TEST(ParseSetting, Mistakes) {
    for (const char* bad : {"", "name", "=A=1", "a=word", "a=1X=2", "a=$(ls)", "a=A='b"})
        EXPECT_THROW((void)parse_setting(bad), UsageError) << bad;
}

TEST(FindMetric, FirstGroupOfTheMatch) {
    EXPECT_DOUBLE_EQ(find_metric("x\nms=12.5 p99=20\ny\n", "ms=([0-9.]+)").value(), 12.5);
    EXPECT_DOUBLE_EQ(find_metric("t: 1e-3 s", "t: ([-0-9.e]+)").value(), 1e-3);
    EXPECT_FALSE(find_metric("ms=abc", "ms=([a-z]+)").has_value());
    EXPECT_FALSE(find_metric("", "ms=([0-9.]+)").has_value());
    EXPECT_DOUBLE_EQ(find_metric(std::string(1 << 20, 'a') + "\nms=1", "ms=([0-9.]+)").value(), 1)
        << "a long line";
}

TEST(FindMetric, OfSeveralTheFirstHalfIsWarmUp) {
    EXPECT_DOUBLE_EQ(find_metric("ms=90\nms=13\n", "ms=([0-9.]+)").value(), 13);
    EXPECT_DOUBLE_EQ(find_metric("ms=0\nms=90\nms=80\nms=11\nms=50\nms=12\n", "ms=([0-9.]+)").value(), 12);
}

TEST(FindMetrics, AllPositiveNumbersOfALine) {
    const std::regex pattern("ms=([-0-9.a-z]+)");
    EXPECT_EQ(find_metrics("ms=1 ms=2.5 p99=7 ms=-3 ms=0 ms=nan ms=4x ms=1e3", pattern),
              (Values{1, 2.5, 1000}));
    EXPECT_TRUE(find_metrics("", pattern).empty());
}

TEST(Preload, LibraryFirstAndOnlyOnce) {
    EXPECT_EQ(merge_preload("", "/l/libcorun.so"), "/l/libcorun.so");
    EXPECT_EQ(merge_preload("/a.so /b.so", "/l/libcorun.so"), "/l/libcorun.so:/a.so:/b.so");
    EXPECT_EQ(merge_preload(":/old/libcorun.so:/a.so:", "/l/libcorun.so"), "/l/libcorun.so:/a.so");
    EXPECT_EQ(merge_preload("/a.so:/usr/lib/libasan.so.8", "/l/libcorun.so"),
              "/usr/lib/libasan.so.8:/l/libcorun.so:/a.so");
}

TEST(Preload, PlainHasNoTraceOfCorun) {
    Environment environment = Environment::of_this_process();
    environment.set("LD_PRELOAD", "/l/libcorun.so:/a.so");
    environment.set("CORUN_MODE", "tune");
    remove_corun(environment);
    EXPECT_EQ(environment.get("LD_PRELOAD"), "/a.so");
    EXPECT_EQ(environment.get("CORUN_MODE"), "");
    environment.set("LD_PRELOAD", "/l/libcorun.so");
    remove_corun(environment);
    EXPECT_EQ(environment.get("LD_PRELOAD"), "");
}

TEST(CompareOutput, ProgramsThatAlternate) {
    Comparison comparison;
    comparison.alternate = AlternateTimes{4, 60, 8};
    comparison.series.push_back({{"plain", false, {}, {}}, {10}, {4}, {4}, {1}});
    comparison.series.push_back({{"corun", true, {}, {}}, {8}, {4}, {4}, {1}, R"({"arm":"s1"})", 60, 9});
    comparison.series.push_back({{"broken", true, {}, {}}, {8}, {4}, {4}, {1}, "{"});
    const auto json = json_of(comparison);
    EXPECT_EQ(json["alternate"]["warm_plain"], 8);
    EXPECT_FALSE(json["settings"][0].contains("status"));
    EXPECT_FALSE(json["settings"][0].contains("first_mean"));
    EXPECT_EQ(json["settings"][1]["status"]["arm"], "s1");
    EXPECT_EQ(json["settings"][1]["first_seconds"], 60);
    EXPECT_EQ(json["settings"][1]["first_mean"], 9);
    EXPECT_TRUE(json["settings"][2]["status"].is_null());
}

TEST(CompareOutput, AnUnfinishedComparisonIsShownAndSaved) {
    Comparison comparison;
    comparison.command = {"prog"};
    comparison.series.push_back({{"plain", false, {}, {}}, {10, 11}, {1, 1}, {1, 1}, {1, 1}});
    comparison.series.push_back({{"corun", true, {}, {}}, {8}, {1}, {1}, {1}});
    comparison.series.push_back({{"other", false, {{"A", "1"}}, {"-x"}}, {}, {}, {}, {}});
    comparison.error = "interrupted";
    EXPECT_EQ(comparison.rounds(), 0U);
    EXPECT_NE(table_of(comparison).find("corun is 1.250 times"), std::string::npos);
    const auto json = json_of(comparison);
    EXPECT_EQ(json["error"], "interrupted");
    EXPECT_EQ(json["settings"][0]["values"].size(), 2U);
    EXPECT_TRUE(json["settings"][2]["mean"]["value"].is_null());
    EXPECT_EQ(json["settings"][2]["environment"]["A"], "1");
}

}  // namespace
}  // namespace corun::tools
