// SPDX-License-Identifier: Apache-2.0
#include "shim/cpu_wait.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/budget.h"
#include "shim/clock.h"
#include "shim/task_list.h"

namespace corun {
namespace {

constexpr int kMostThreads = 64;

// "nanoseconds on a CPU, nanoseconds waiting for one, time slices". What the running thread itself has run is
// counted at its ticks only.
bool add_thread(int folder, const char* path, CpuWait& sum) {
    const auto file = static_cast<int>(syscall(SYS_openat, folder, path, O_RDONLY | O_CLOEXEC));
    if (file < 0) return false;
    char text[80];
    const long length = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    if (length <= 0) return false;
    text[length] = '\0';
    char* rest = nullptr;
    sum.ran += 1e-9 * static_cast<double>(std::strtoull(text, &rest, 10));
    sum.waited += 1e-9 * static_cast<double>(std::strtoull(rest, nullptr, 10));
    return true;
}

constinit double idle_at_start = -1.0;  // of all CPUs together; negative: not known
constinit double own_at_start = 0.0;
constinit std::uint64_t start_nanoseconds = 0;

// "uptime idle", in seconds. Cheaper than /proc/stat, which counts interrupts.
double idle_seconds() {
    char text[80];
    read_file("/proc/uptime", text, sizeof text);
    const char* const space = std::strchr(text, ' ');
    return space != nullptr ? std::strtod(space, nullptr) : -1.0;
}

}  // namespace

CpuWait cpu_wait_now() noexcept {
    CpuWait sum;
    int threads = 0;
    for_each_task([&](int folder, const char* name) {
        if (threads++ >= kMostThreads) return;
        char path[40];
        std::snprintf(path, sizeof path, "%s/schedstat", name);
        add_thread(folder, path, sum);
    });
    return sum;
}

double thread_waited_now() noexcept {
    const int saved = errno;
    CpuWait own;
    const bool told = add_thread(AT_FDCWD, "/proc/thread-self/schedstat", own);
    errno = saved;
    return told ? own.waited : -1.0;
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
        if (field == 7) times.stolen = value;
    }
    return times;
}

void cpu_use_start() noexcept {
    idle_at_start = idle_seconds();
    start_nanoseconds = monotonic_nanoseconds();
    own_at_start = cpu_seconds();
}

double used_by_others_since_start(double least) noexcept {
    const double passed = 1e-9 * static_cast<double>(monotonic_nanoseconds() - start_nanoseconds);
    if (start_nanoseconds == 0 || idle_at_start < 0.0 || passed < least) return -1.0;
    const double idle = idle_seconds() - idle_at_start;
    const auto cpus = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
    return std::max(0.0, cpus - (idle + cpu_seconds() - own_at_start) / passed);
}

}  // namespace corun
