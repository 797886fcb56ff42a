// SPDX-License-Identifier: Apache-2.0
#include "shim/cpu_wait.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace corun {
namespace {

constexpr int kMostThreads = 64;
constexpr char kFolder[] = "/proc/self/task";

struct Entry {  // as getdents64 gives it
    ino64_t inode;
    off64_t next;
    unsigned short length;
    unsigned char type;
    char name[1];  // and more
};

// "nanoseconds on a CPU, nanoseconds waiting for one, time slices"
void add_thread(int folder, const char* thread, CpuWait& sum) {
    char path[40];
    std::snprintf(path, sizeof path, "%s/schedstat", thread);
    const int file = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    char text[80];
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return;
    text[length] = '\0';
    char* rest = nullptr;
    sum.ran += 1e-9 * static_cast<double>(std::strtoull(text, &rest, 10));
    sum.waited += 1e-9 * static_cast<double>(std::strtoull(rest, nullptr, 10));
}

}  // namespace

CpuWait cpu_wait_now() noexcept {
    CpuWait sum;
    const int folder = open(kFolder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return sum;
    alignas(Entry) char entries[2048];
    int threads = 0;
    for (long length = 0; (length = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
        for (long at = 0; at < length;) {
            const auto* const entry = reinterpret_cast<const Entry*>(entries + at);
            at += entry->length;
            if (entry->name[0] != '.' && threads++ < kMostThreads) add_thread(folder, entry->name, sum);
        }
    close(folder);
    return sum;
}

}  // namespace corun
