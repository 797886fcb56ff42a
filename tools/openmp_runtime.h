// SPDX-License-Identifier: Apache-2.0
// CORUN_OPENMP_RUNTIME: one runtime of LLVM's or Intel's under every object of a program. The loader binds
// all names of OpenMP to it when it is preloaded; whether it can stand in for the program's own is looked at
// here, before the program is started, as afterwards nothing can be taken back.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/elf_symbols.h"
#include "tools/launch.h"

namespace corun::tools {

/// A file that the loader maps, at its place in the order of search.
struct LoadedFile {
    std::filesystem::path path;
    ElfFile elf;
};

/// Why the file cannot be preloaded as an OpenMP runtime ("it is no OpenMP runtime: ..."), or empty.
[[nodiscard]] std::string unusable_runtime(const std::filesystem::path& runtime);

/// Why a program of these files cannot have `runtime`, one of them, for its OpenMP runtime, or empty.
/// `library` is ours: it hands on what it is asked.
[[nodiscard]] std::string refusal(const std::vector<LoadedFile>& files, const std::filesystem::path& runtime,
                                  const std::filesystem::path& library);

/// What add_openmp_runtime() may set.
inline constexpr std::array<const char*, 4> kRuntimeVariables{"CORUN_OPENMP_RUNTIME", "LD_PRELOAD",
                                                              "OMP_SCHEDULE", "KMP_WARNINGS"};

/// Preloads the runtime that CORUN_OPENMP_RUNTIME of the environment names, behind `library` and all other
/// preloads, when the program can have it. When not, removes the option and returns the sentence that says
/// why: the program then runs with its own.
[[nodiscard]] std::string add_openmp_runtime(Environment& environment, const std::filesystem::path& library,
                                             const std::string& program);

}  // namespace corun::tools
