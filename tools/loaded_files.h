// SPDX-License-Identifier: Apache-2.0
// Which files the loader would map for a program, found without running anything of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/launch.h"

namespace corun::tools {

/// The program that the kernel would run for `file`: itself, or the interpreter of a script (and what env(1)
/// would run for that). Empty when it cannot be told.
[[nodiscard]] std::filesystem::path executed_file(const std::filesystem::path& file);

/// The program and, in the order of its search, what the loader would map with it at its start in this
/// environment, preloads included. Asks the program's own loader (ld.so --list). Empty when it does not tell.
[[nodiscard]] std::vector<std::filesystem::path> loaded_files(const std::filesystem::path& program,
                                                              const std::string& interpreter,
                                                              Environment& environment);

/// The paths in what `ld.so --list` prints, in their order.
[[nodiscard]] std::vector<std::filesystem::path> listed_paths(const std::string& text);

}  // namespace corun::tools
