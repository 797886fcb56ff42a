// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace corun {

/// Whether 8 bytes there can be read: the kernel copies the set before it refuses the request for being none.
/// A system call; may change errno.
inline bool readable(const void* address) noexcept {
    return syscall(SYS_rt_sigprocmask, ~0, address, nullptr, 8) == 0 || errno != EFAULT;
}

}  // namespace corun
