// SPDX-License-Identifier: Apache-2.0
// What the kernel counts of this process's threads and of the machine's CPUs.
#pragma once

#include <cstdint>

namespace corun {

/// Seconds that the threads of this process have run so far, and that they could have run but another task
/// did. Threads that have ended no longer count; where the kernel does not tell both are 0.
struct CpuWait {
    double ran = 0.0;
    double waited = 0.0;
};

/// Reads a file for each thread, of the first 64: some microseconds each. No allocation, no lock.
CpuWait cpu_wait_now() noexcept;

/// Seconds that the calling thread could have run so far but another task did; negative where that cannot be
/// read. Reads a file: some microseconds. Leaves errno as it is.
double thread_waited_now() noexcept;

/// Clock ticks of all CPUs of the machine since its start; all 0 where /proc does not tell.
struct CpuTimes {
    std::uint64_t all = 0;
    std::uint64_t stolen = 0;  ///< given to others by the hypervisor
};
CpuTimes cpu_times_now() noexcept;

/// At the start of the process, for the next one. Some microseconds.
void cpu_use_start() noexcept;
/// CPUs of the machine that others have used since then, on average. Negative: not known, or it is not
/// `least` seconds ago.
double used_by_others_since_start(double least) noexcept;

}  // namespace corun
