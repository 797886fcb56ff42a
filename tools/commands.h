// SPDX-License-Identifier: Apache-2.0
// The subcommands of `corun`. Each declares its options on its own CLI::App and returns what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace corun::tools {

using Words = std::vector<std::string>;

/// Exit codes; those of `corun run` follow env(1) and timeout(1).
inline constexpr int kError = 1;            ///< it did not work
inline constexpr int kUsage = 2;            ///< the command line is wrong
inline constexpr int kLauncherFault = 125;  ///< corun itself failed before the program began
inline constexpr int kCannotExecute = 126;  ///< the program was found and could not be executed
inline constexpr int kNotFound = 127;       ///< the program was not found

struct Subcommand {
    CLI::App* app = nullptr;
    bool takes_program = false;  ///< the words from the first operand (or after --) are a program's
    std::function<int(const Words& program)> run;
};

[[nodiscard]] Subcommand add_run(CLI::App& parent);
[[nodiscard]] Subcommand add_compare(CLI::App& parent);
[[nodiscard]] Subcommand add_options(CLI::App& parent);
[[nodiscard]] Subcommand add_report(CLI::App& parent);
[[nodiscard]] Subcommand add_ctl(CLI::App& parent);
[[nodiscard]] Subcommand add_top(CLI::App& parent);
[[nodiscard]] Subcommand add_sim(CLI::App& parent);

/// A wrong command line that only a subcommand can see: one sentence on stderr and exit code 2.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace corun::tools
