// SPDX-License-Identifier: Apache-2.0
#include "shim/clock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace corun {

bool clock_uses_tsc = false;

namespace {
std::uint64_t origin_ticks = 0;
std::uint64_t origin_nanoseconds = 0;

bool tsc_is_invariant() {
#if defined(__x86_64__)
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1U << 8)) != 0;
#else
    return false;
#endif
}
}  // namespace

void nap(long nanoseconds) noexcept {
    const int saved = errno;
    const timespec time{0, nanoseconds};
    syscall(SYS_nanosleep, &time, nullptr);  // not libc's, which a cancellation may end
    errno = saved;
}

void clock_start() {
    if (origin_nanoseconds != 0) return;
    clock_uses_tsc = tsc_is_invariant();
    origin_ticks = ticks();
    origin_nanoseconds = monotonic_nanoseconds();
}

double clock_ticks_per_second() {
    if (!clock_uses_tsc) return 1e9;
    clock_start();
    std::uint64_t now = monotonic_nanoseconds();
    while (now - origin_nanoseconds < 5'000'000) now = monotonic_nanoseconds();
    return static_cast<double>(ticks() - origin_ticks) * 1e9 / static_cast<double>(now - origin_nanoseconds);
}

double clock_seconds() {
    return 1e-9 * static_cast<double>(monotonic_nanoseconds() - origin_nanoseconds);
}

}  // namespace corun
