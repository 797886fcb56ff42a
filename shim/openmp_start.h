// SPDX-License-Identifier: Apache-2.0
// What is decided once in a process that uses OpenMP, before the program's first question or region: how many
// threads it may have at most, from the budget and from earlier runs, and how they wait for each other.
#pragma once

#include <atomic>
#include <climits>

#include "policy/wait_policy.h"

namespace corun {

struct OpenMpStart {
    bool wanted = false;         ///< the hooks do their work
    bool follows_forks = false;  ///< a child is kept from waiting for its parent's threads
    int affinity = 0;            ///< CPUs in the mask at start
    double quota = 0.0;          ///< CPUs by cgroup quota; 0: none
    int environment = 0;         ///< outermost OMP_NUM_THREADS that the program was started with; 0: none
    int limit = INT_MAX;         ///< threads, of what nobody chose: budget or start width
    int processors = INT_MAX;    ///< CPUs that the program may be told of: the budget
    policy::WaitKind wait = policy::WaitKind::leave;
    int width = 1;  ///< what teams have that nobody chose: the least of default and limit
};

/// Decided on the first call, by one thread; others wait for it, asleep. Allocates and reads files then.
const OpenMpStart& openmp_start() noexcept;

/// The outermost number of OMP_NUM_THREADS as it is now; 0: none, or no plain list.
int openmp_environment_number() noexcept;

/// At the end of process_start(). Where a runtime is among the objects that the program was started with,
/// decides, and lowers OMP_NUM_THREADS in place for those who read it themselves.
void openmp_process_started() noexcept;

/// gcc's runtime counts CPUs: it is about to read its environment when that is the first time.
void openmp_counts_cpus(const void* caller) noexcept;

/// Whether a runtime is among the objects that the program was started with.
bool openmp_runtime_at_start() noexcept;

/// Takes back what was put into the environment for a runtime that has read it by now.
void openmp_environment_back() noexcept;

/// How threads wait has been changed: said in the report.
void openmp_tell_wait() noexcept;

void openmp_start_after_fork() noexcept;  ///< in the child: nobody is left who would finish a decision

/// Whether the program has chosen a number that is not the width in force.
extern constinit std::atomic<bool> openmp_own_word;

/// Whether how long threads work in regions is of use later.
extern constinit std::atomic<bool> openmp_watch;

}  // namespace corun
