// SPDX-License-Identifier: Apache-2.0
// The page through which a running process can be told to stand down and to come back (`corun ctl`).
// It lies in /dev/shm as corun-UID-PID-SPACE, mode 0600, and is made when the first source becomes active.
// SPACE tells PID namespaces apart: containers that share that folder have the same few pids.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>

namespace corun {

inline constexpr std::uint64_t kControlMagic = 0x6c7274636e757263;  // "crunctrl"
inline constexpr std::uint32_t kControlVersion = 1;
inline constexpr char kControlFolder[] = "/dev/shm";

/// The name of the page of process `pid` of user `uid`. @param space node_segment.h's pid_space()
inline void control_page_name(char (&name)[80], uid_t uid, pid_t pid, std::uint64_t space) {
    std::snprintf(name, sizeof name, "corun-%lu-%ld-%llu", static_cast<unsigned long>(uid),
                  static_cast<long>(pid), static_cast<unsigned long long>(space));
}
/// Whose page it is. False: `name` is none of a page in PID namespace `space`.
inline bool control_page_owner(const char* name, std::uint64_t space, uid_t& uid, pid_t& pid) {
    unsigned long u = 0;
    unsigned long long s = 0;
    long p = 0;
    char rest = 0;
    if (std::sscanf(name, "corun-%lu-%ld-%llu%c", &u, &p, &s, &rest) != 3 || p <= 0 || s != space)
        return false;
    uid = static_cast<uid_t>(u);
    pid = static_cast<pid_t>(p);
    return true;
}

enum class Command : std::uint32_t { on = 0, off = 1 };

/// Written by the process, except `command`, which `corun ctl` writes. Nothing in it is trusted by either
/// side: an unknown command counts as `on`, the status text is bounded and its end is forced.
struct ControlPage {
    std::uint64_t magic;
    std::uint32_t version;
    std::int32_t pid;
    std::uint64_t start_time;             ///< field 22 of /proc/PID/stat: tells a reused pid
    std::atomic<std::uint32_t> command;   ///< Command
    std::atomic<std::uint32_t> obeyed;    ///< the last command that took effect
    std::atomic<std::uint32_t> sequence;  ///< of status: odd while it is being written
    char status[3900];                    ///< JSON: {"state":…,"arm":…,"gain":…,…}, NUL-terminated
};

static_assert(sizeof(ControlPage) <= 4096);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace corun
