// SPDX-License-Identifier: Apache-2.0
// What a comparison says about the machine: which it is and whether it is quiet.
#pragma once

#include <string>

namespace corun::tools {

[[nodiscard]] std::string cpu_model();  ///< "unknown" where the kernel does not tell
[[nodiscard]] int usable_cpus();        ///< CPUs in this process's affinity mask
[[nodiscard]] double load_average();    ///< of the last minute; 0 where unknown
[[nodiscard]] std::string time_text();  ///< now, as 2026-01-31T12:00:00Z

struct Quiet {
    double load = 0;   ///< average of the last minute
    double busy = 0;   ///< share of all CPU time used over one second, 0..1
    double steal = 0;  ///< share taken by the hypervisor, 0..1
    [[nodiscard]] bool is_quiet(int cpus) const;
    [[nodiscard]] std::string sentence(int cpus) const;
};

/// Looks at the whole machine for one second.
[[nodiscard]] Quiet look_at_machine();

}  // namespace corun::tools
