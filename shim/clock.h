// SPDX-License-Identifier: Apache-2.0
// Ticks: the time stamp counter where it is invariant, else nanoseconds of CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace corun {

extern bool clock_uses_tsc;  ///< set by clock_start()

inline std::uint64_t monotonic_nanoseconds() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
}

inline std::uint64_t ticks() {
#if defined(__x86_64__)
    if (clock_uses_tsc) return __rdtsc();
#endif
    return monotonic_nanoseconds();
}

/// Sleeps. Keeps errno, and no cancellation ends it.
void nap(long nanoseconds) noexcept;

void clock_start();               ///< remembers the origin; as early as possible
double clock_ticks_per_second();  ///< measured since clock_start(); waits until 5 ms have passed since then

double clock_seconds();  ///< since clock_start()

/// CPU time that the process has used.
inline double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace corun
