// SPDX-License-Identifier: Apache-2.0
// The budget: cgroup folders made by hand, and the real affinity mask.
#include "shim/budget.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

namespace corun {
namespace {

namespace fs = std::filesystem;

class BudgetFolder : public testing::Test {
  protected:
    BudgetFolder() {
        std::string name = (fs::temp_directory_path() / "corun-budget-XXXXXX").string();
        root_ = mkdtemp(name.data());
    }
    ~BudgetFolder() override {
        std::error_code ignored;
        fs::remove_all(root_, ignored);
    }

    void write(const std::string& path, const std::string& text) {
        const fs::path file = root_ / path;
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text << '\n';
    }
    /// The lines of /proc/self/cgroup.
    void member_of(const std::string& lines) { std::ofstream(root_ / "membership") << lines; }
    [[nodiscard]] double quota() const { return reader()->quota(); }
    [[nodiscard]] Throttling throttling() const { return reader()->throttling(); }
    [[nodiscard]] Budget budget(int option = 0, double share = 0.0) const {
        return make_budget(affinity_count(), quota(), share, option);
    }

    fs::path root_;

  private:
    [[nodiscard]] std::unique_ptr<CgroupReader> reader() const {
        static std::string root;
        static std::string membership;
        root = root_.string();
        membership = (root_ / "membership").string();
        return std::make_unique<CgroupReader>(root.c_str(), membership.c_str());
    }
};

// --- cgroup v2 -----------------------------------------------------------------------------------

TEST_F(BudgetFolder, ReadsTheQuotaOfVersionTwo) {
    member_of("0::/user.slice/job\n");
    write("user.slice/job/cpu.max", "400000 100000");
    EXPECT_DOUBLE_EQ(quota(), 4.0);
    write("user.slice/job/cpu.max", "150000 100000");
    EXPECT_DOUBLE_EQ(quota(), 1.5);
    write("user.slice/job/cpu.max", "max 100000");
    EXPECT_EQ(quota(), 0.0);
}

TEST_F(BudgetFolder, AnAncestorsLimitHoldsToo) {
    member_of("0::/kubepods/pod/container\n");
    write("kubepods/cpu.max", "800000 100000");
    write("kubepods/pod/cpu.max", "200000 100000");
    write("kubepods/pod/container/cpu.max", "max 100000");
    EXPECT_DOUBLE_EQ(quota(), 2.0);
    write("kubepods/pod/container/cpu.max", "600000 200000");
    EXPECT_DOUBLE_EQ(quota(), 2.0);
    write("kubepods/pod/container/cpu.max", "50000 100000");
    EXPECT_DOUBLE_EQ(quota(), 0.5);
}

TEST_F(BudgetFolder, InsideANamespaceThePathMayNotExistBelowTheMount) {
    member_of("0::/kubepods/pod/container\n");
    write("cpu.max", "300000 100000");  // the mount is the container's own group
    EXPECT_DOUBLE_EQ(quota(), 3.0);
    member_of("0::/\n");
    EXPECT_DOUBLE_EQ(quota(), 3.0);
    member_of("0::/../../elsewhere\n");
    EXPECT_DOUBLE_EQ(quota(), 3.0);
}

// --- cgroup v1 and hybrid ------------------------------------------------------------------------

TEST_F(BudgetFolder, ReadsTheQuotaOfVersionOne) {
    member_of("12:memory:/job\n4:cpu,cpuacct:/slurm/job\n1:name=systemd:/job\n");
    write("cpu,cpuacct/slurm/job/cpu.cfs_quota_us", "250000");
    write("cpu,cpuacct/slurm/job/cpu.cfs_period_us", "100000");
    EXPECT_DOUBLE_EQ(quota(), 2.5);
    write("cpu,cpuacct/slurm/job/cpu.cfs_quota_us", "-1");
    EXPECT_EQ(quota(), 0.0);
    write("cpu,cpuacct/slurm/cpu.cfs_quota_us", "100000");
    write("cpu,cpuacct/slurm/cpu.cfs_period_us", "50000");
    EXPECT_DOUBLE_EQ(quota(), 2.0);
}

TEST_F(BudgetFolder, OtherControllersGroupsDoNotCount) {
    member_of("5:cpuset:/a\n4:cpuacct:/b\n3:cpu:/c\n");
    for (const char* group : {"cpu/a", "cpu/b"}) {
        write(std::string(group) + "/cpu.cfs_quota_us", "100000");
        write(std::string(group) + "/cpu.cfs_period_us", "100000");
    }
    EXPECT_EQ(quota(), 0.0);
    write("cpu/c/cpu.cfs_quota_us", "700000");
    write("cpu/c/cpu.cfs_period_us", "100000");
    EXPECT_DOUBLE_EQ(quota(), 7.0);
}

TEST_F(BudgetFolder, InAHybridHierarchyBothAreRead) {
    member_of("4:cpu,cpuacct:/job\n0::/user/job\n");
    write("cpu/job/cpu.cfs_quota_us", "600000");
    write("cpu/job/cpu.cfs_period_us", "100000");
    EXPECT_DOUBLE_EQ(quota(), 6.0);
    write("unified/user/job/cpu.max", "500000 100000");
    EXPECT_DOUBLE_EQ(quota(), 5.0);
}

// --- what cannot be read -------------------------------------------------------------------------

TEST_F(BudgetFolder, NothingReadableIsNoLimit) {
    EXPECT_LT(quota(), 0.0);  // not even of which groups it is: what was known before holds
    member_of("0::/job\n");
    EXPECT_EQ(quota(), 0.0);
    EXPECT_EQ(budget().cpus, budget().affinity);
    for (const char* text : {"", "rubbish", "100000", "100000 0", "-5 100000", "0 100000", "x 100000"}) {
        write("job/cpu.max", text);
        EXPECT_EQ(quota(), 0.0) << '"' << text << '"';
    }
}

TEST_F(BudgetFolder, LinesOfAStrangeKernelDoNoHarm) {
    member_of("\n:\n::\n0::\n0:cpu\n0::relative/path\n4:cpu:also/relative\ngarbage\n0::/job\n");
    write("job/cpu.max", "300000 100000");
    EXPECT_DOUBLE_EQ(quota(), 3.0);
}

// --- all together --------------------------------------------------------------------------------

TEST_F(BudgetFolder, TheSmallestWins) {
    const int machine = budget().affinity;
    ASSERT_GE(machine, 1);
    member_of("0::/job\n");
    const auto set_quota = [this](int percent) {
        write("job/cpu.max", std::to_string(percent * 1000) + " 100000");
    };
    set_quota(100 * machine + 500);
    EXPECT_EQ(budget().cpus, machine);
    set_quota(100);
    EXPECT_EQ(budget().cpus, 1);
    EXPECT_EQ(budget(machine + 3).cpus, 1);
    set_quota(30);  // below one CPU there is still one thread
    EXPECT_EQ(budget().cpus, 1);
    EXPECT_DOUBLE_EQ(budget().quota, 0.3);
    set_quota(100 * machine + 500);
    EXPECT_EQ(budget(1).cpus, 1);
    EXPECT_EQ(budget(1).option, 1);
    EXPECT_EQ(budget(100'000).cpus, machine);
    EXPECT_EQ(budget(0).option, 0);
}

TEST(Budget, SaysWhichLimitIsInForce) {
    EXPECT_EQ(make_budget(8, 0.0, 0.0, 0).limit, BudgetLimit::affinity);
    EXPECT_EQ(make_budget(8, 8.0, 8.0, 8).limit, BudgetLimit::affinity);
    EXPECT_EQ(make_budget(8, 3.5, 0.0, 0).limit, BudgetLimit::quota);
    EXPECT_EQ(make_budget(8, 3.5, 2.0, 0).limit, BudgetLimit::share);
    EXPECT_EQ(make_budget(8, 3.5, 2.0, 1).limit, BudgetLimit::option);
    EXPECT_EQ(make_budget(8, 3.5, 2.0, 1).cpus, 1);
    EXPECT_EQ(make_budget(0, 0.0, 0.0, 0).cpus, 1);
    EXPECT_EQ(make_budget(2, 1e300, 1e300, 0).cpus, 2);
}

TEST(Budget, AShareCountsLikeAQuota) {
    const Budget budget = make_budget(64, 4.0, 2.5, 0);
    EXPECT_EQ(budget.cpus, 3);
    EXPECT_EQ(budget.allowed, 3);
    EXPECT_EQ(make_budget(64, 4.0, 0.0, 0).cpus, 4);
    EXPECT_EQ(make_budget(64, 0.0, 0.25, 0).cpus, 1);
    EXPECT_EQ(make_budget(2, 4.0, 0.0, 0).allowed, 4);  // whatever the mask
}

// --- what the kernel took away -------------------------------------------------------------------

TEST(Throttling, ReadsBothVersions) {
    const Throttling one = throttling_of("nr_periods 30\nnr_throttled 12\nthrottled_time 2500000000\n");
    EXPECT_EQ(one.periods, 30U);
    EXPECT_EQ(one.throttled, 12U);
    EXPECT_DOUBLE_EQ(one.seconds, 2.5);
    const Throttling two = throttling_of(
        "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 7\nnr_throttled 3\nthrottled_usec 1500000\n");
    EXPECT_EQ(two.periods, 7U);
    EXPECT_EQ(two.throttled, 3U);
    EXPECT_DOUBLE_EQ(two.seconds, 1.5);
    for (const char* text : {"", "nr_periods", "nr_periods x nr_throttled -3", "throttled_time 5x"}) {
        EXPECT_EQ(throttling_of(text).periods, 0U) << text;
        EXPECT_EQ(throttling_of(text).seconds, 0.0) << text;
    }
}

TEST_F(BudgetFolder, TheGroupThatWaitedLongestIsTold) {
    member_of("4:cpu:/pod/container\n");
    write("cpu/pod/cpu.stat", "nr_periods 50\nnr_throttled 20\nthrottled_time 3000000000");
    write("cpu/pod/container/cpu.stat", "nr_periods 50\nnr_throttled 2\nthrottled_time 1000000000");
    EXPECT_EQ(throttling().throttled, 20U);
    write("cpu/pod/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 0");
    EXPECT_EQ(throttling().throttled, 2U);
}

TEST_F(BudgetFolder, ALongPathIsNoLimit) {
    member_of("0::/" + std::string(20000, 'x') + "\n0::/job\n");
    write("job/cpu.max", "300000 100000");
    EXPECT_EQ(quota(), 0.0);  // the list is cut there
    member_of("0::/" + std::string(5000, 'x') + "\n0::/job\n");
    EXPECT_DOUBLE_EQ(quota(), 3.0);
}

TEST_F(BudgetFolder, AFractionIsRoundedUp) {
    if (budget().affinity < 2) GTEST_SKIP() << "needs two CPUs";
    member_of("0::/\n");
    write("cpu.max", "150000 100000");
    EXPECT_EQ(budget().cpus, 2);
    write("cpu.max", "110000 100000");
    EXPECT_EQ(budget().cpus, 2);
    write("cpu.max", "100500 100000");  // rounding of whoever wrote it, not half a percent of a second CPU
    EXPECT_EQ(budget().cpus, 1);
}

TEST_F(BudgetFolder, TheAffinityMaskCounts) {
    const int machine = budget().affinity;
    Budget seen;
    std::thread([&] {  // a mask belongs to a thread: that of the test stays as it is
        cpu_set_t mask;
        CPU_ZERO(&mask);
        ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
        int first = 0;
        while (!CPU_ISSET(first, &mask)) ++first;
        CPU_ZERO(&mask);
        CPU_SET(first, &mask);
        ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
        seen = budget(8);
    })
        .join();
    EXPECT_EQ(seen.affinity, 1);
    EXPECT_EQ(seen.cpus, 1);
    EXPECT_EQ(budget().affinity, machine);
}

}  // namespace
}  // namespace corun
