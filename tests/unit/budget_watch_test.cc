// SPDX-License-Identifier: Apache-2.0
#include "shim/budget_watch.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "shim/clock.h"
#include "shim/cpu_wait.h"

namespace corun {
namespace {

cpu_set_t mask_of_this_thread() {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    sched_getaffinity(0, sizeof mask, &mask);
    return mask;
}

// @return the CPU that this thread has then
int pin_to_first_of(const cpu_set_t& mask) {
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    return first;
}

TEST(BudgetWatch, AForkedChildHasNotTheShareOfItsParent) {
    budget_start("/nonexistent", 0, false, 0);
    const int all = budget_now().cpus;
    budget_share_set(1.0, 3);
    budget_refresh();
    EXPECT_EQ(budget_now().cpus, 1);
    EXPECT_EQ(budget_slot(), 3);
    budget_after_fork();
    EXPECT_EQ(budget_now().cpus, all);
    budget_refresh();
    EXPECT_EQ(budget_now().cpus, all);
    EXPECT_LT(budget_slot(), 0);
}

// OMP_PROC_BIND=true: the runtime pins the thread that it was called by, and the others elsewhere.
TEST(BudgetWatch, APinnedFirstThreadIsNotTheWholeProcess) {
    const cpu_set_t before = mask_of_this_thread();
    if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "needs two CPUs";
    std::atomic<bool> over{false};
    std::thread other([&] {
        while (!over) std::this_thread::yield();
    });
    pin_to_first_of(before);
    budget_start("/nonexistent", 0, false, 0);
    policy::CpuSet cpus;
    ASSERT_TRUE(budget_cpu_set(cpus));
    EXPECT_EQ(cpus.count(), CPU_COUNT(&before));
    EXPECT_EQ(budget_now().affinity, CPU_COUNT(&before));
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    over = true;
    other.join();
}

// The same where the team comes later, as it does.
TEST(BudgetWatch, ThreadsThatComeLaterAreSeen) {
    const cpu_set_t before = mask_of_this_thread();
    if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "needs two CPUs";
    budget_start("/nonexistent", 0, false, 0);
    const int first = pin_to_first_of(before);
    budget_start("/nonexistent", 0, false, 0);
    EXPECT_EQ(budget_now().affinity, 1);
    std::atomic<bool> over{false};
    std::thread other([&] {
        cpu_set_t rest = before;
        CPU_CLR(first, &rest);
        sched_setaffinity(0, sizeof rest, &rest);
        while (!over) usleep(1000);
    });
    const double deadline = clock_seconds() + 5.0;
    while (budget_now().affinity == 1 && clock_seconds() < deadline) {
        usleep(20'000);
        budget_refresh();
    }
    EXPECT_EQ(budget_now().affinity, CPU_COUNT(&before));
    ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
    over = true;
    other.join();
}

TEST(CpuWait, OthersAreCounted) {
    if (cpu_times_now().all == 0) GTEST_SKIP() << "no /proc/stat";
    const pid_t other = fork();
    if (other == 0) alarm(20);
    if (other == 0)
        for (volatile bool forever = true; forever;) {
        }
    cpu_use_start();
    EXPECT_LT(used_by_others_since_start(0.3), 0.0);  // too soon
    usleep(400'000);
    EXPECT_GT(used_by_others_since_start(0.3), 0.3);
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
}

TEST(CpuWait, ThisProcessIsNotCounted) {
    if (cpu_times_now().all == 0) GTEST_SKIP() << "no /proc/stat";
    const unsigned machine = std::thread::hardware_concurrency();
    std::atomic<bool> over{false};
    std::vector<std::thread> busy;
    for (unsigned i = 0; i < machine; ++i)
        busy.emplace_back([&] {
            while (!over) {
            }
        });
    const double before = cpu_seconds();
    const double begin = clock_seconds();
    cpu_use_start();
    usleep(400'000);
    const double others = used_by_others_since_start(0.3);
    const double own = (cpu_seconds() - before) / (clock_seconds() - begin);
    EXPECT_LT(others + own, machine + 0.25);
    over = true;
    for (std::thread& one : busy) one.join();
}

}  // namespace
}  // namespace corun
