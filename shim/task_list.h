// SPDX-License-Identifier: Apache-2.0
// The threads of this process as the kernel lists them. By system calls alone: what libc offers is hooked,
// and allocates.
#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace corun {

/// Calls action(folder, name) for each: a descriptor of /proc/self/task, and a thread's number in it as text.
template <typename Action>
void for_each_task(Action action) noexcept {
    struct Entry {  // of getdents64
        std::uint64_t inode;
        std::int64_t offset;
        std::uint16_t length;
        unsigned char type;
        char name[1];  // and more
    };
    const auto folder = static_cast<int>(
        syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder < 0) return;
    alignas(Entry) char entries[2048];
    for (long bytes = 0; (bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
        for (long at = 0; at < bytes;) {
            const auto* const entry = reinterpret_cast<const Entry*>(entries + at);
            at += entry->length;
            if (entry->name[0] != '.') action(folder, static_cast<const char*>(entry->name));
        }
    syscall(SYS_close, folder);
}

}  // namespace corun
