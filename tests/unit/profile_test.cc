// SPDX-License-Identifier: Apache-2.0
// The profile store: round trips, merging, and every way in which a file can be wrong.
#include "model/profile.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace corun::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ProfileTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "corun-profile-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
        path = directory_ / "profile.json";
    }
    void TearDown() override { fs::remove_all(directory_); }

    void write(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }
    [[nodiscard]] std::string read() const {
        std::ostringstream text;
        text << std::ifstream(path, std::ios::binary).rdbuf();
        return text.str();
    }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), {}));
    }
    // A message is one sentence, or one with a colon, that names the file.
    void expect_message(const std::string& message) const {
        EXPECT_NE(message.find("profile.json"), std::string::npos) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_EQ(message.back(), '.') << message;
    }

    fs::path directory_;
    std::string path;
};

Identity identity_of(int budget) {
    return {"Some CPU @ 2 GHz", budget, {"aa11", "bb22"}};
}

ProfileRun sample_run(const std::string& words, int width) {
    return {"aa11", words, width, 2.5, {{"aa11+0x1290", 1000, 1.5, 2.0, 1.25}, {"aa11+0x20", 1, 0.5, 0, 0}}};
}

Profile sample_profile(int budget = 4) {
    Profile profile;
    profile.identity = identity_of(budget);
    profile.ops.push_back(
        {"tensorflow/MatMul(float[3,4])", {{1, 0.3}, {4, 0.1}}, {{1, 3}, {4, 15}}, 0.125, 4});
    profile.ops.push_back({"blas/dgemm(\xc3\xa4 \"quoted\")", {}, {}, 1e-6, 0});
    profile.phases.push_back({{0.25, 0.75}, "idle", 0.36});
    profile.runs.push_back(sample_run("0123456789abcdef", 2));
    return profile;
}

void expect_equal(const Profile& a, const Profile& b) {
    EXPECT_EQ(a.identity, b.identity);
    ASSERT_EQ(a.ops.size(), b.ops.size());
    for (std::size_t i = 0; i < a.ops.size(); ++i) {
        EXPECT_EQ(a.ops[i].name, b.ops[i].name);
        ASSERT_EQ(a.ops[i].solo.size(), b.ops[i].solo.size());
        for (std::size_t j = 0; j < a.ops[i].solo.size(); ++j) {
            EXPECT_EQ(a.ops[i].solo[j].width, b.ops[i].solo[j].width);
            EXPECT_EQ(a.ops[i].solo[j].seconds, b.ops[i].solo[j].seconds);
        }
        EXPECT_EQ(a.ops[i].counts, b.ops[i].counts);
        EXPECT_EQ(a.ops[i].reference, b.ops[i].reference);
        EXPECT_EQ(a.ops[i].width, b.ops[i].width);
    }
    ASSERT_EQ(a.phases.size(), b.phases.size());
    for (std::size_t i = 0; i < a.phases.size(); ++i) {
        EXPECT_EQ(a.phases[i].histogram, b.phases[i].histogram);
        EXPECT_EQ(a.phases[i].arm, b.phases[i].arm);
        EXPECT_EQ(a.phases[i].gain, b.phases[i].gain);
    }
    ASSERT_EQ(a.runs.size(), b.runs.size());
    for (std::size_t i = 0; i < a.runs.size(); ++i) {
        EXPECT_EQ(a.runs[i].program + a.runs[i].words, b.runs[i].program + b.runs[i].words);
        EXPECT_EQ(a.runs[i].width, b.runs[i].width);
        EXPECT_EQ(a.runs[i].seconds, b.runs[i].seconds);
        ASSERT_EQ(a.runs[i].regions.size(), b.runs[i].regions.size());
        for (std::size_t j = 0; j < a.runs[i].regions.size(); ++j) {
            const ProfileRegion& one = a.runs[i].regions[j];
            const ProfileRegion& other = b.runs[i].regions[j];
            EXPECT_EQ(one.key, other.key);
            EXPECT_EQ(one.calls, other.calls);
            EXPECT_EQ(one.seconds, other.seconds);
            EXPECT_EQ(one.work_seconds, other.work_seconds);
            EXPECT_EQ(one.longest_seconds, other.longest_seconds);
        }
    }
}

// What compose() would write for `document` (its checksum is put right).
std::string sealed(json document) {
    document.erase("checksum");
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char each : document.dump()) hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3U;
    std::ostringstream digits;
    digits << std::hex << std::setw(16) << std::setfill('0') << hash;
    document["checksum"] = digits.str();
    return document.dump();
}

TEST_F(ProfileTest, ReturnsWhatWasSaved) {
    EXPECT_EQ(save_profile(path, sample_profile()), std::nullopt);
    const LoadResult result = load_profile(path, identity_of(4));
    EXPECT_EQ(result.status, LoadStatus::ok);
    EXPECT_TRUE(result.message.empty());
    expect_equal(result.profile, sample_profile());
    EXPECT_EQ(files(), 1U);  // no temporary file is left
    struct stat about {};
    ASSERT_EQ(::stat(path.c_str(), &about), 0);
    const mode_t mask = ::umask(0);
    ::umask(mask);
    EXPECT_EQ(about.st_mode & 0777U, 0644U & ~mask);
}

TEST_F(ProfileTest, TheOrderOfBuildIdsIsNothing) {
    ASSERT_EQ(save_profile(path, sample_profile()), std::nullopt);
    Identity identity = identity_of(4);
    std::swap(identity.build_ids[0], identity.build_ids[1]);
    EXPECT_EQ(load_profile(path, identity).status, LoadStatus::ok);
}

TEST_F(ProfileTest, MissingIsNoFault) {
    EXPECT_EQ(load_profile(path, identity_of(4)).status, LoadStatus::missing);
    EXPECT_TRUE(load_profile(path, identity_of(4)).message.empty());
    EXPECT_EQ(load_profile(path + "/below/nothing", identity_of(4)).status, LoadStatus::missing);
}

TEST_F(ProfileTest, AnotherBudgetCpuOrBuildIsForeignAndKept) {
    ASSERT_EQ(save_profile(path, sample_profile(4)), std::nullopt);
    Identity other_cpu = identity_of(4);
    other_cpu.cpu_model = "Other";
    Identity other_build = identity_of(4);
    other_build.build_ids = {"cc33"};
    for (const Identity& identity : {identity_of(8), other_cpu, other_build}) {
        const LoadResult result = load_profile(path, identity);
        EXPECT_EQ(result.status, LoadStatus::foreign);
        EXPECT_TRUE(result.profile.ops.empty());
        expect_message(result.message);
        Profile profile = sample_profile();
        profile.identity = identity;
        EXPECT_EQ(save_profile(path, profile), std::nullopt);
        EXPECT_EQ(load_profile(path, identity).status, LoadStatus::ok);
    }
    expect_equal(load_profile(path, identity_of(4)).profile, sample_profile(4));
}

TEST_F(ProfileTest, MergesIntoItsOwnSection) {
    ASSERT_EQ(save_profile(path, sample_profile()), std::nullopt);
    Profile later;
    later.identity = identity_of(4);
    later.ops.push_back({"torch/aten::mm", {{2, 0.5}}, {{2, 3}}, 0.5, 2});
    later.ops.push_back({"tensorflow/MatMul(float[3,4])", {{1, 0.2}}, {{1, 3}}, 0.2, 1});
    ASSERT_EQ(save_profile(path, later), std::nullopt);
    const Profile merged = load_profile(path, identity_of(4)).profile;
    ASSERT_EQ(merged.ops.size(), 3U);
    EXPECT_EQ(merged.ops[1].width, 1);  // replaced
    EXPECT_EQ(merged.ops[2].name, sample_profile().ops[1].name);
    ASSERT_EQ(merged.phases.size(), 1U);  // it named none: kept
    later.phases.push_back({{1.0}, "uniform-2", -0.1});
    ASSERT_EQ(save_profile(path, later), std::nullopt);
    EXPECT_EQ(load_profile(path, identity_of(4)).profile.phases.at(0).arm, "uniform-2");
}

TEST_F(ProfileTest, RunsComeAfterThoseThatAreThere) {
    ASSERT_EQ(save_profile(path, sample_profile()), std::nullopt);
    Profile later;
    later.identity = identity_of(4);
    later.runs.push_back(sample_run("other", 1));
    ASSERT_EQ(save_profile(path, later), std::nullopt);
    later.runs = {sample_run("0123456789abcdef", 4)};
    ASSERT_EQ(save_profile(path, later), std::nullopt);
    const Profile merged = load_profile(path, identity_of(4)).profile;
    ASSERT_EQ(merged.runs.size(), 3U);
    EXPECT_EQ(merged.runs[0].width, 2);
    EXPECT_EQ(merged.runs[1].words, "other");
    EXPECT_EQ(merged.runs[2].width, 4);
    EXPECT_EQ(merged.ops.size(), 2U);
}

TEST_F(ProfileTest, TheOldestRunsOfAProcessGo) {
    Profile profile;
    profile.identity = identity_of(4);
    profile.runs.push_back(sample_run("once", 1));
    for (int width = 1; width <= 20; ++width) profile.runs.push_back(sample_run("often", width));
    ASSERT_EQ(save_profile(path, profile), std::nullopt);
    const Profile kept = load_profile(path, identity_of(4)).profile;
    ASSERT_EQ(kept.runs.size(), 1 + kProfileRuns);
    EXPECT_EQ(kept.runs[0].words, "once");
    EXPECT_EQ(kept.runs[1].width, 20 - static_cast<int>(kProfileRuns) + 1);
    EXPECT_EQ(kept.runs.back().width, 20);
    profile.runs.clear();
    for (std::size_t i = 0; i < kProfileAllRuns + 5; ++i)
        profile.runs.push_back(sample_run(std::to_string(i), 1));
    ASSERT_EQ(save_profile(path, profile), std::nullopt);
    const Profile bounded = load_profile(path, identity_of(4)).profile;
    ASSERT_EQ(bounded.runs.size(), kProfileAllRuns);
    EXPECT_EQ(bounded.runs[0].words, "5");
}

TEST_F(ProfileTest, AFileOfTheFirstVersionIsRead) {
    Profile before = sample_profile();
    before.runs.clear();
    ASSERT_EQ(save_profile(path, before), std::nullopt);
    json old = json::parse(read());
    old["version"] = 1;
    for (json& section : old["sections"]) section.erase("runs");
    write(sealed(old));
    const LoadResult result = load_profile(path, identity_of(4));
    EXPECT_EQ(result.status, LoadStatus::ok);
    expect_equal(result.profile, before);
    ASSERT_EQ(save_profile(path, sample_profile()), std::nullopt);
    expect_equal(load_profile(path, identity_of(4)).profile, sample_profile());
}

TEST_F(ProfileTest, RunsAloneAreNoForeignKnowledgeOfOps) {
    Profile profile;
    profile.identity = identity_of(8);
    profile.runs.push_back(sample_run("words", 2));
    ASSERT_EQ(save_profile(path, profile), std::nullopt);
    EXPECT_EQ(load_profile(path, identity_of(4)).status, LoadStatus::missing);
    EXPECT_TRUE(load_profile(path, identity_of(4)).message.empty());
}

TEST_F(ProfileTest, AbsurdFiguresAreNotWritten) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    Profile profile = sample_profile();
    profile.ops.push_back({"a", {{1, nan}}, {}, 0.0, 0});
    profile.ops.push_back({"b", {{-1, 1.0}}, {}, 0.0, 0});
    profile.ops.push_back({"c", {{1, 1.0}, {1, 2.0}}, {}, 0.0, 0});
    profile.ops.push_back({"d", {}, {}, std::numeric_limits<double>::infinity(), 0});
    profile.phases.push_back({{nan}, "x", 0.0});
    profile.runs.push_back(sample_run("absurd", 0));
    profile.runs.push_back(sample_run("absurd", 1));
    profile.runs.back().regions[0].work_seconds = nan;
    ASSERT_EQ(save_profile(path, profile), std::nullopt);
    expect_equal(load_profile(path, identity_of(4)).profile, sample_profile());
}

TEST_F(ProfileTest, NamesThatAreNoUtf8AreReplacedNotRefused) {
    Profile profile = sample_profile();
    profile.identity.cpu_model = "CPU \xff";
    profile.ops[0].name = "bad \xc3(";
    ASSERT_EQ(save_profile(path, profile), std::nullopt);
    const LoadResult result = load_profile(path, profile.identity);
    EXPECT_EQ(result.status, LoadStatus::ok);
    EXPECT_EQ(result.profile.ops[0].name, "bad \xef\xbf\xbd(");
}

TEST_F(ProfileTest, BrokenFilesAreSaidSoAndRewritten) {
    ASSERT_EQ(save_profile(path, sample_profile()), std::nullopt);
    const json good = json::parse(read());
    std::vector<std::string> contents{"",
                                      "{",
                                      "[]",
                                      "null",
                                      "hello",
                                      "{\"format\": 3}",
                                      std::string(1000, '\0'),
                                      std::string(200'000, '['),
                                      "{\"a\":" + std::string(200'000, '[')};
    contents.push_back(good.dump().substr(0, 100));
    const auto with = [&](const char* pointer, const json& value) {
        json changed = good;
        changed[json::json_pointer(pointer)] = value;
        contents.push_back(sealed(changed));  // a right checksum does not make it right
    };
    with("/format", "another");
    with("/version", "1");
    with("/version", 0);
    with("/sections", 3);
    with("/sections/0", json::array());
    with("/sections/0/identity/budget", -1);
    with("/sections/0/identity/budget", 1e300);
    with("/sections/0/identity/budget", 18446744073709551615U);
    with("/sections/0/ops", "none");
    with("/sections/0/ops/0/name", 5);
    with("/sections/0/ops/0/width", -4);
    with("/sections/0/ops/0/reference", nullptr);  // what a NaN becomes in JSON
    with("/sections/0/ops/0/reference", -1.0);
    with("/sections/0/ops/0/solo/0", {1, 0.3});
    with("/sections/0/ops/0/solo/0", {0, 0.3, 3});
    with("/sections/0/ops/0/solo/0", {1, 0.0, 3});
    with("/sections/0/ops/0/solo/0", {1, 0.3, 99999999999});
    with("/sections/0/ops/0/solo/1", {1, 0.3, 3});
    with("/sections/0/phases/0/histogram", {0.5, -0.5});
    with("/sections/0/phases/0/gain", 1e9);
    with("/sections/0/runs", 3);
    with("/sections/0/runs/0/width", 0);
    with("/sections/0/runs/0/program", nullptr);
    with("/sections/0/runs/0/seconds", -1.0);
    with("/sections/0/runs/0/regions/0", {"key", 3, 0.5, 0.4});
    with("/sections/0/runs/0/regions/0/1", -3);
    with("/sections/0/runs/0/regions/0/2", nullptr);
    contents.push_back(sealed(good).replace(sealed(good).find("0.125"), 5, "1e999"));
    for (const std::string& content : contents) {
        write(content);
        const LoadResult result = load_profile(path, identity_of(4));
        EXPECT_EQ(result.status, LoadStatus::broken) << content.substr(0, 200);
        expect_message(result.message);
        EXPECT_TRUE(result.profile.ops.empty());
        EXPECT_EQ(save_profile(path, sample_profile()), std::nullopt);
        EXPECT_EQ(load_profile(path, identity_of(4)).status, LoadStatus::ok);
    }
}

TEST_F(ProfileTest, UnknownMembersDoNotBreakTheNextSave) {
    ASSERT_EQ(save_profile(path, sample_profile(8)), std::nullopt);
    json more = json::parse(read());
    more["note"] = "by hand";
    more["sections"][0]["note"] = "by hand";
    more["sections"][0]["ops"][0]["note"] = "by hand";
    write(sealed(more));
    EXPECT_EQ(load_profile(path, identity_of(8)).status, LoadStatus::ok);
    ASSERT_EQ(save_profile(path, sample_profile(4)), std::nullopt);
    expect_equal(load_profile(path, identity_of(8)).profile, sample_profile(8));
}

TEST_F(ProfileTest, ANewerVersionIsLeftAlone) {
    ASSERT_EQ(save_profile(path, sample_profile()), std::nullopt);
    json newer = json::parse(read());
    newer["version"] = 3;
    newer["sections"] = "something else";
    const std::string text = sealed(newer);
    write(text);
    const LoadResult result = load_profile(path, identity_of(4));
    EXPECT_EQ(result.status, LoadStatus::newer_version);
    expect_message(result.message);
    const auto error = save_profile(path, sample_profile());
    ASSERT_TRUE(error);
    expect_message(*error);
    EXPECT_EQ(read(), text);
}

TEST_F(ProfileTest, WhatIsNoRegularFileIsUnreadableAndStays) {
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // must not block
    for (const bool directory : {false, true}) {
        if (directory) {
            fs::remove(path);
            fs::create_directory(path);
        }
        const LoadResult result = load_profile(path, identity_of(4));
        EXPECT_EQ(result.status, LoadStatus::unreadable);
        expect_message(result.message);
        EXPECT_TRUE(save_profile(path, sample_profile()));
        EXPECT_FALSE(fs::is_regular_file(path));
    }
    EXPECT_EQ(load_profile("/dev/null", identity_of(4)).status, LoadStatus::unreadable);
}

TEST_F(ProfileTest, PermissionsAreRespected) {
    if (::geteuid() == 0) GTEST_SKIP() << "root may read and write everything";
    ASSERT_EQ(save_profile(path, sample_profile()), std::nullopt);
    ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
    const std::string before = read();
    EXPECT_TRUE(save_profile(path, sample_profile(8)));
    EXPECT_EQ(read(), before);
    ASSERT_EQ(::chmod(path.c_str(), 0), 0);
    EXPECT_EQ(load_profile(path, identity_of(4)).status, LoadStatus::unreadable);
}

TEST_F(ProfileTest, SavingWhereNothingCanBeWrittenIsAnErrorSentence) {
    const auto error = save_profile(directory_ / "no" / "profile.json", sample_profile());
    ASSERT_TRUE(error);
    expect_message(*error);
    Profile absurd = sample_profile();
    absurd.identity.budget = -1;
    EXPECT_TRUE(save_profile(path, absurd));
    EXPECT_EQ(files(), 0U);
}

TEST_F(ProfileTest, AFileSizeLimitIsNoSignal) {
    const pid_t child = ::fork();
    if (child == 0) {
        const rlimit limit{64, 64};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        ::_exit(save_profile(path, sample_profile()) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(files(), 0U);
}

TEST_F(ProfileTest, AFileOverTheSizeLimitIsBroken) {
    write("{");
    fs::resize_file(path, (std::uintmax_t{64} << 20) + 1);  // sparse
    EXPECT_EQ(load_profile(path, identity_of(4)).status, LoadStatus::broken);
}

TEST_F(ProfileTest, ALinkStaysALinkAndAModeStays) {
    const fs::path target = directory_ / "target.json";
    ASSERT_EQ(save_profile(target, sample_profile()), std::nullopt);
    ASSERT_EQ(::chmod(target.c_str(), 0600), 0);
    fs::create_symlink(target, path);
    ASSERT_EQ(save_profile(path, sample_profile(8)), std::nullopt);
    EXPECT_TRUE(fs::is_symlink(path));
    EXPECT_EQ(load_profile(target, identity_of(8)).status, LoadStatus::ok);
    EXPECT_EQ(fs::status(target).permissions(), fs::perms{0600});
}

TEST_F(ProfileTest, EveryFlippedByteAndEveryTruncationIsNoticed) {
    Profile profile;
    profile.identity = {"CPU", 4, {"aa"}};
    profile.ops.push_back({"MatMul", {{1, 0.3}, {4, 0.1}}, {{1, 3}, {4, 15}}, 0.125, 4});
    profile.phases.push_back({{0.25, 0.75}, "idle", 0.36});
    ASSERT_EQ(save_profile(path, profile), std::nullopt);
    const std::string good = read();
    const auto check = [&](const std::string& text) {
        write(text);
        const LoadResult result = load_profile(path, profile.identity);
        if (result.status == LoadStatus::ok) {
            expect_equal(result.profile, profile);  // white space, say
        } else {
            EXPECT_EQ(result.status, LoadStatus::broken) << text;
            expect_message(result.message);
        }
    };
    for (std::size_t at = 0; at < good.size(); ++at) {
        check(good.substr(0, at));
        check(good.substr(0, at) + good.substr(at + 1));
        for (const int bit : {0, 1, 5, 7}) {
            std::string flipped = good;
            flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
            check(flipped);
        }
    }
}

TEST_F(ProfileTest, TwoProcessesThatSaveAtOnceNeverBreakTheFile) {
    ASSERT_EQ(save_profile(path, sample_profile(1)), std::nullopt);
    std::vector<pid_t> children;
    for (int budget = 2; budget < 4; ++budget) {
        const pid_t child = ::fork();
        if (child == 0) {
            int errors = 0;
            for (int i = 0; i < 30; ++i) errors += save_profile(path, sample_profile(budget)) ? 1 : 0;
            ::_exit(errors == 0 ? 0 : 1);
        }
        children.push_back(child);
    }
    for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(load_profile(path, identity_of(1)).status, LoadStatus::ok);
    }
    for (const pid_t child : children) {
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(files(), 1U);
}

TEST(ProfileCurve, ThereAndBack) {
    Curve curve;
    for (int i = 0; i < 20; ++i) curve.add({4, true, 0.5});
    for (int i = 0; i < 3; ++i) curve.add({1, true, 1.5});
    for (int i = 0; i < 2; ++i) curve.add({2, true, 1.0});  // not measured
    ProfileOp op;
    put_curve(op, curve);
    EXPECT_EQ(op.counts, (std::map<int, int>{{1, 3}, {4, 15}}));
    const Curve back = curve_of(op);
    EXPECT_FLOAT_EQ(static_cast<float>(back.solo(4).value()), 0.5F);
    EXPECT_EQ(back.solo_count(4), 15U);
    EXPECT_EQ(back.solo_count(1), 3U);
    EXPECT_FALSE(back.solo(2));
    op.counts = {{1, 1'000'000'000}};
    EXPECT_EQ(curve_of(op).solo_count(1), 15U);
}

}  // namespace
}  // namespace corun::model
