// SPDX-License-Identifier: Apache-2.0
// What the program is told of the machine's CPUs where a quota or a share allows it fewer than there are: the
// budget. Runtimes that hide all else make their pools by it. Async-signal-safe, no allocation, keeps errno.
//
// What is told of, and what is not: a count of CPUs, the set of them, and the files that list those that are
// there now, as containers have shown smaller ones for years. How many there could ever be (possible,
// _SC_NPROCESSORS_CONF) stays true: data that is kept for each CPU is sized by it and found by the CPU's
// number, which the kernel writes into the program's memory (rseq). And who was told a count does not see
// itself on a CPU numbered beyond it.
#pragma once

#include <cstddef>

#include "shim/cpu_mask.h"

namespace corun {

/// At the start of the process; until then, and if not `wanted`, every answer is the truth.
/// @param always also where a mask alone makes the count of the machine's CPUs a lie
void cpu_view_start(bool wanted, bool always) noexcept;

/// Whether answers may differ from the truth, in a hook that is called by `caller`. Starts the process's part
/// of ours if need be, but not from within an allocator, which we would come back to.
bool cpu_view_awake(const void* caller) noexcept;

/// `cpus` of the machine, as they are to be told.
int cpu_view_count(int cpus) noexcept;

/// Whether a thread's id, as given to sched_getaffinity(), is of this process.
bool cpu_view_is_ours(int thread) noexcept;

/// A mask that the kernel has just given for a thread of this process becomes the one to be told.
void cpu_view_mask(void* mask, std::size_t bytes) noexcept;

/// The program has set `mask` for one of its threads: it is told that one as it is.
void cpu_view_own_mask(const void* mask, std::size_t bytes) noexcept;
void cpu_view_after_fork() noexcept;  ///< in the child

/// Whether `mask` was told in place of another; `real` is that one then.
bool cpu_view_was_told(const void* mask, std::size_t bytes, CpuMask& real) noexcept;

/// `cpu` is where the caller runs; what it is told of that.
int cpu_view_number(int cpu) noexcept;

/// The program has opened `path` (or not: negative). If that tells of CPUs, `file` now tells of ours.
void cpu_view_opened(const char* path, int file) noexcept;

/// How many CPUs the program was told of at least; 0: the truth. For the report.
int cpu_view_told() noexcept;

}  // namespace corun
