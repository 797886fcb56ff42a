// SPDX-License-Identifier: Apache-2.0
#include "shim/cpu_wait.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/budget.h"
#include "shim/clock.h"
#include "shim/task_list.h"

namespace corun {
namespace {

constexpr int kMostThreads = 64;

// "nanoseconds on a CPU, nanoseconds waiting for one, time slices"
void add_thread(int folder, const char* thread, CpuWait& sum) {
    char path[40];
    std::snprintf(path, sizeof path, "%s/schedstat", thread);
    const auto file = static_cast<int>(syscall(SYS_openat, folder, path, O_RDONLY | O_CLOEXEC));
    if (file < 0) return;
    char text[80];
    const long length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    if (length <= 0) return;
    text[length] = '\0';
    char* rest = nullptr;
    sum.ran += 1e-9 * static_cast<double>(std::strtoull(text, &rest, 10));
    sum.waited += 1e-9 * static_cast<double>(std::strtoull(rest, nullptr, 10));
}

}  // namespace

CpuWait cpu_wait_now() noexcept {
    CpuWait sum;
    int threads = 0;
    for_each_task([&](int folder, const char* name) {
        if (threads++ < kMostThreads) add_thread(folder, name, sum);
    });
    return sum;
}

// "cpu  user nice system idle iowait irq softirq steal ...": the first line, which is made before all others.
CpuTimes cpu_times_now() noexcept {
    char text[256];
    read_file("/proc/stat", text, sizeof text);
    CpuTimes times;
    if (std::strncmp(text, "cpu ", 4) != 0) return times;
    char* at = text + 4;
    for (int field = 0; field < 8; ++field) {
        const std::uint64_t value = std::strtoull(at, &at, 10);
        times.all += value;
        if (field == 3 || field == 4) times.idle += value;
        if (field == 7) times.stolen = value;
    }
    return times;
}

double cpus_used_by_others(double seconds) noexcept {
    const CpuTimes before = cpu_times_now();
    const double own = cpu_seconds();
    const std::uint64_t begin = monotonic_nanoseconds();
    nap(static_cast<long>(1e9 * seconds));
    const double passed = 1e-9 * static_cast<double>(monotonic_nanoseconds() - begin);
    const CpuTimes now = cpu_times_now();
    const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
    if (before.all == 0 || now.all <= before.all || now.idle < before.idle || passed < 0.5 * seconds)
        return -1.0;
    const double used = static_cast<double>(now.all - before.all - (now.idle - before.idle)) * tick;
    return std::max(0.0, used - (cpu_seconds() - own)) / passed;
}

}  // namespace corun
