// SPDX-License-Identifier: Apache-2.0
// The budget of this process as it is now: looked at again when somebody comes by, at most four times a
// second. No thread of ours, no allocation, no lock that is waited for; keeps errno.
#pragma once

#include <cstddef>
#include <cstdint>

#include "policy/cpu_set.h"
#include "shim/budget.h"

namespace corun {

/// At the start of the process.
/// @param cgroup_root kept, not copied
/// @param frozen      what is found now stays in force
/// @param emulated    CPUs of a machine that is not there, in the mask's place; 0: none
void budget_start(const char* cgroup_root, int cpus_option, bool frozen, int emulated) noexcept;

/// Looks again if the last look is a quarter of a second old. @return nanoseconds of the monotonic clock
std::uint64_t budget_refresh() noexcept;

[[nodiscard]] Budget budget_now() noexcept;  ///< by the latest look

/// The cgroup whose quota that is, see CgroupReader; 0: none.
[[nodiscard]] std::uint64_t budget_group() noexcept;

/// Where its threads may run, all of them together: one that is pinned says nothing of the others. False, and
/// `cpus` is as it was, while another thread looks.
bool budget_cpu_set(policy::CpuSet& cpus) noexcept;

/// This process's share of the node, from now on: every lever follows within a second. From any thread.
/// @param cpus 0: all of them
/// @param slot which of the processes that share the machine this is, 0...: what is shown to the program of a
///             mask begins at another CPU for each; negative: by the process id
void budget_share_set(double cpus, int slot = -1) noexcept;
[[nodiscard]] int budget_slot() noexcept;

/// From this moment on, what the kernel took away is counted for the report.
void pressure_start() noexcept;
struct Pressure {
    Throttling throttling;     ///< since pressure_start()
    double steal_share = 0.0;  ///< of the machine's CPU time since then, what the hypervisor gave to others
};
[[nodiscard]] Pressure pressure_now() noexcept;  ///< not from a signal handler

struct BudgetChange {
    double seconds = 0.0;  ///< since the start of the process
    int cpus = 0;
    BudgetLimit limit = BudgetLimit::affinity;
};
inline constexpr std::size_t kBudgetChanges = 32;
/// The first kBudgetChanges values that it had, the one at start among them. @return how many
std::size_t budget_changes(BudgetChange (&changes)[kBudgetChanges]) noexcept;

void budget_after_fork() noexcept;  ///< in the child

}  // namespace corun
