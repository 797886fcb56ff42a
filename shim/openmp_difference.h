// SPDX-License-Identifier: Apache-2.0
// What LLVM's runtime does otherwise than gcc's although it has the name. Each line was seen to happen with
// LLVM 14 and with Intel's 2025.0; tests/victims/openmp/differs.c shows them. Pure; shared with the command.
#pragma once

#include <array>
#include <string_view>

namespace corun {

/// Whether a symbol is of an OpenMP (or OpenACC) runtime, by its name.
[[nodiscard]] constexpr bool is_openmp_name(std::string_view name) {
    for (const std::string_view start : {"GOMP_", "GOACC_", "omp_", "__kmpc_", "kmp_", "acc_"})
        if (name.substr(0, start.size()) == start) return true;
    return false;
}

/// Why code that gcc made must not come to LLVM's runtime with this call; empty when it may.
[[nodiscard]] constexpr std::string_view openmp_difference(std::string_view name) {
    constexpr auto none = std::string_view::npos;
    if (name.substr(0, 5) != "GOMP_") return {};
    // The direction of the loop is taken from the sign of an unsigned step: no iteration is run.
    if (name.substr(0, 14) == "GOMP_loop_ull_") return "leaves out loops that count down";
    if (name.find("doacross") != none) return "crashes in a team of one thread";
    if (name.substr(0, 13) == "GOMP_taskloop") return "crashes when a loop is empty or counts down";
    if (name == "GOMP_loop_start" || name == "GOMP_loop_ordered_start") return "ends the program at a scan";
    if (name.substr(0, 11) == "GOMP_target") return "does not run the region";
    if (name.substr(0, 10) == "GOMP_teams") return "makes another number of teams";
    return {};
}

/// Variables that pin threads. gcc's runtime, which is loaded as well, pins the first thread as soon as it is
/// loaded; LLVM's starts later, takes that thread's CPU for all there are and makes teams of one thread.
inline constexpr std::array<const char*, 3> kPinningVariables{"OMP_PROC_BIND", "OMP_PLACES",
                                                              "GOMP_CPU_AFFINITY"};

/// Whether such a variable with this value (empty: unset) pins.
[[nodiscard]] constexpr bool pins_threads(std::string_view value) {
    return !value.empty() && value != "false" && value != "FALSE";
}

}  // namespace corun
