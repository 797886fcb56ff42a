// SPDX-License-Identifier: Apache-2.0
#include "shim/cpu_wait.h"

#include <cstdio>
#include <cstdlib>

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

}  // namespace corun
