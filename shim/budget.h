// SPDX-License-Identifier: Apache-2.0
// How many CPUs this process may use: affinity mask, cgroup quota (v1 and v2), CORUN_CPUS; the smallest wins.
#pragma once

#include <climits>
#include <string>

namespace corun {

struct Budget {
    int cpus = 1;           ///< what is in force, >= 1
    int affinity = 1;       ///< CPUs in the mask
    double quota = 0.0;     ///< CPUs by cgroup quota; 0: none
    int option = 0;         ///< CORUN_CPUS; 0: not set
    int allowed = INT_MAX;  ///< by quota and CORUN_CPUS alone, whatever the mask; INT_MAX: any number
};

/// @param cgroup_root where the hierarchies are mounted ("/sys/fs/cgroup")
/// @param membership  a file like /proc/self/cgroup
/// @param affinity    CPUs in the mask; 0: in that of the calling thread now
/// Unreadable files count as "no limit". May allocate.
[[nodiscard]] Budget find_budget(const std::string& cgroup_root, const std::string& membership,
                                 int cpus_option, int affinity = 0);

/// CPUs in the mask of the calling thread, at least 1. Does not allocate.
[[nodiscard]] int affinity_count() noexcept;

/// The smallest quota (CPUs) on the way from the process's groups up to the root; 0 when there is none.
[[nodiscard]] double find_quota(const std::string& cgroup_root, const std::string& membership);

}  // namespace corun
