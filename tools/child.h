// SPDX-License-Identifier: Apache-2.0
// Runs a program once, measures it and keeps what it printed.
#pragma once

#include <string>
#include <vector>

#include "tools/launch.h"

namespace corun::tools {

struct ChildResult {
    enum class End { exited, signalled, not_started, timed_out, interrupted };
    End end = End::not_started;
    int code = 0;              ///< exit code, signal number or errno, by `end`
    double wall_seconds = 0;   ///< from the start of the program to its end
    double cpu_seconds = 0;    ///< user and system, children that it waited for included
    double max_rss_bytes = 0;  ///< of the largest process
    std::string output;        ///< stdout; of more than 64 MiB the beginning is lost
    std::string errors;        ///< stderr, likewise

    [[nodiscard]] bool good() const { return end == End::exited && code == 0; }
    [[nodiscard]] std::string sentence() const;  ///< how it ended
};

/// From here on SIGINT and SIGTERM end the run in progress and make `interrupted` true.
void catch_interrupts();
[[nodiscard]] bool interrupted();

/// Runs `words` with stdin from /dev/null, in a process group of its own that is ended after
/// `timeout_seconds` (0: never). Never throws for what the program does.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& words, Environment& environment,
                                    double timeout_seconds);

}  // namespace corun::tools
