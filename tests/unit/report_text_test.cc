// SPDX-License-Identifier: Apache-2.0
#include "shim/report_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace corun {
namespace {

using nlohmann::json;

json sample() {
    return json::parse(R"json({
      "schema":"corun-report","version":1,"corun":"0.1.0","program":["python","train.py"],"pid":123,
      "wall_seconds":61.2,"cpu_seconds":110.3,"max_rss_bytes":123456789,"mode":"tune","policy":"race",
      "budget":{"cpus":2,"affinity":2,"quota":1.5,"option":null,
        "changes":[{"seconds":0.01,"cpus":1,"limit":"quota"},{"seconds":12.5,"cpus":2,"limit":"quota"}],
        "throttled":{"periods":340,"throttled":12,"seconds":0.43},"steal_share":0.031},
      "sources":[{"name":"tensorflow","state":"active","version":"2.21.0","reason":"","ops":812345,"async_ops":123}],
      "irreversible":[{"lever":"tensorflow pool cap","effect":"numa_-1_Eigen 16 -> 2","option":"CORUN_POOL_CAP"}],
      "phases":[{"share":0.93,"state":"guard","arm":"uniform-1","seconds_to_decision":14.1,
        "anchor":"tensorflow/Foo","period_seconds":0.0153,
        "gain":{"ratio":1.31,"low":1.28,"high":1.34,"blocks":64,"verdict":"gain"},
        "explanation":"31 % faster than without corun, 95 % interval 28-34 %, decided after 14 s",
        "arms":[{"name":"uniform-1","seconds":30.1,"share":0.75,"race":1.3,"state":"chosen"},
                {"name":"pass-through","seconds":10,"share":0.25,"race":null,"state":"live"}],
        "windows":{"used":812,"discarded":13}}],
      "op_keys":412,"ops_listed":1,"samples_dropped":0,
      "ops":[{"name":"MatMul","source":"tensorflow","shapes":"(float[20,400];float[400,800])","example":"lstm/MatMul",
        "calls":70000,"seconds":12.1,"share":0.31,"reference_us":173.0,
        "widths":[{"width":1,"solo_us":161.0,"beside_us":210.0,"samples":15},{"width":2,"solo_us":5.25,"samples":3}],
        "chosen":1,"why":"uniform-1 won the race"}],
      "static_setting":{"intra_op":1,"inter_op":2,"text":"set_intra_op_parallelism_threads(1) comes nearest"},
      "messages":["the profile was of another machine"]
})json");
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

std::size_t columns(const std::string& line) {
    return static_cast<std::size_t>(std::count_if(
        line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(ReportText, NamesTheNeighbours) {
    json report = sample();
    EXPECT_FALSE(has(render_report(report), "Node"));
    report["node"] = {{"most_peers", 1}, {"shared_seconds", 12.25}, {"lent_seconds", 3.0}};
    EXPECT_TRUE(
        has(render_report(report),
            "\nNode      up to 1 other program beside it: a part of the CPUs for 12.2 s, its own lent "
            "for 3.0 s\n"))
        << render_report(report);
}

TEST(ReportText, TheFirstLineSaysWhetherItHelped) {
    const auto lines = lines_of(render_report(sample()));
    ASSERT_GT(lines.size(), 10U);
    EXPECT_EQ(
        lines[0],
        "31 % faster than without corun, 95 % interval 28-34 %, decided after 14 s (in 93 % of the time)");
    EXPECT_TRUE(has(lines[1], "set_intra_op_parallelism_threads(1)"));
}

TEST(ReportText, ShowsEachPart) {
    const std::string text = render_report(sample());
    for (const char* part :
         {"python train.py (pid 123)", "61.2 s wall, 110.3 s CPU", "118 MiB", "2 CPUs, affinity 2",
          "tensorflow 2.21.0: active, 812,345 ops, 123 asynchronous", "numa_-1_Eigen 16 -> 2",
          "1.310 (1.280 - 1.340) from 64 blocks: gain", "every 15.3 ms", "MatMul", "70,000",
          "1: 161 (210) | 2: 5.2", "(float[20,400];float[400,800])", "uniform-1 won the race",
          "the profile was of another machine", "quota 1.5", "from 12.5 s on: 2 (by quota)",
          "Throttled 12 of 340 periods", "3.1 % of the machine's CPU time"})
        EXPECT_TRUE(has(text, part)) << part << '\n' << text;
}

TEST(ReportText, OpenMpRegions) {
    json report = sample();
    report["phases"] = json::array();
    report["runtimes"] = json::parse(R"([{"name":"libgomp.so.1","kind":"libgomp","state":"reached"},
        {"name":"libomp.so.5","kind":"libomp","state":"loaded, has made no parallel region so far that corun could see"}])");
    report["regions_seen"] = 1234;
    report["crowded"] = {{"times", 3}, {"seconds", 2.5}};
    report["regions"] = json::parse(
        R"([{"name":"sort._omp_fn.0","object":"the program+0x10","calls":70000,"class":["raw","nested"],
        "narrowest":1,"widest":4,"seconds":0.25,"kind":"resizable","why":"no thread of it asked","resized":0,
        "rechunked":60000,"chunk":{"iterations":64,"why":"measured"},"wait_share":0.125},
        {"name":"other\u001b[31m","calls":2,"class":["named size"],"narrowest":3,"widest":3,"seconds":null},{}, 5])");
    const std::string text = render_report(report);
    for (const char* part : {"resized none", "libgomp.so.1: libgomp, reached",
                             "libomp.so.5: libomp, loaded, has made no parallel region so far",
                             "for 2.5 s others had the CPUs too", "of 1,234", "sort._omp_fn.0", "70,000",
                             "250 ms", "1-4  raw, nested", "resizable: no thread of it asked",
                             "64 iterations at a time in 60,000 calls (measured)",
                             "its threads waited 12 % of the time at its end", "3  named size", "other?[31m"})
        EXPECT_TRUE(has(text, part)) << part << '\n' << text;
    for (const std::string& line : lines_of(text)) EXPECT_LE(columns(line), 110U) << line;
}

TEST(ReportText, ResizedRegionsAreCounted) {
    json report = sample();
    report["phases"] = json::array();
    report["regions"] = json::parse(R"([{"name":"a","resized":3},{"name":"b","resized":0},{"name":"c"}])");
    EXPECT_TRUE(has(render_report(report), "corun saw OpenMP regions only, and resized 1"));
}

TEST(ReportText, BarsAreProportional) {
    const std::string text = render_report(sample());
    std::string quarter;
    for (int i = 0; i < 7; ++i) quarter += "█";
    EXPECT_TRUE(has(text, quarter + "▌ ")) << text;  // 0.25 of 30 cells
}

TEST(ReportText, WithoutASentenceTheNumbersSpeak) {
    json report = sample();
    report["phases"][0].erase("explanation");
    EXPECT_TRUE(has(render_report(report),
                    "31 % faster than without corun, 95 % interval 28 to 34 %, decided after 14.1 s"));
    report["phases"][0]["gain"]["ratio"] = 0.9;
    EXPECT_TRUE(has(render_report(report), "10 % slower"));
    report["phases"][0]["gain"] = nullptr;
    EXPECT_TRUE(has(render_report(report), "nothing was decided"));
    report["phases"] = json::array();
    EXPECT_TRUE(has(render_report(report), "no op that it knows"));
}

TEST(ReportText, NoLineIsTooLong) {
    json report = sample();
    report["program"] = json::array();
    for (int i = 0; i < 100; ++i) report["program"].push_back("--argument");
    report["ops"][0]["name"] = std::string(300, 'n');
    report["ops"][0]["shapes"] = std::string(3000, 's');
    report["ops"][0]["why"] = std::string(300, 'w');
    for (int i = 0; i < 60; ++i)
        report["ops"][0]["widths"].push_back({{"width", i}, {"solo_us", 1000.0 * i}});
    report["messages"][0] = "ä" + std::string(500, 'm');
    report["phases"][0]["arms"][0]["name"] = std::string(100, 'a');
    report["phases"][0]["arms"][0]["state"] = "same as " + std::string(100, 'a');
    report["phases"][0]["anchor"] = std::string(400, 'a');
    report["sources"][0]["reason"] = std::string(400, 'r');
    const std::string text = render_report(report);
    EXPECT_TRUE(has(text, "…"));
    for (const std::string& line : lines_of(text)) EXPECT_LE(columns(line), 110U) << line;
}

TEST(ReportText, EscapeSequencesAreTakenOut) {
    json report = sample();
    report["ops"][0]["name"] = "evil\x1b[2J";
    EXPECT_FALSE(has(render_report(report), "\x1b"));
}

TEST(ReportText, WhatIsNoReportGetsASentence) {
    for (const char* text : {"null", "[]", "{}", "3", "\"x\"", R"({"schema":"other"})"})
        EXPECT_TRUE(has(render_report(json::parse(text)), "no report of corun")) << text;
    EXPECT_TRUE(has(render_report(json::parse("{", nullptr, false)), "no report of corun"));
}

// Replaces one node of the tree at a time by something else.
void damage(json& whole, json& node, const std::vector<json>& others) {
    if (node.is_structured())
        for (auto& child : node) damage(whole, child, others);
    const json kept = node;
    for (const json& other : others) {
        node = other;
        const std::string text = render_report(whole);
        EXPECT_FALSE(text.empty());
        EXPECT_EQ(text.back(), '\n');
    }
    node = kept;
}

TEST(ReportText, AnyDamagedFieldIsSurvived) {
    json report = sample();
    damage(report, report,
           {nullptr, -1, 1e300, "text", "\xff\xfe", json::array(), json::object(), true,
            json::array({nullptr, 1})});
}

}  // namespace
}  // namespace corun
