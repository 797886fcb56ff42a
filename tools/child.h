// SPDX-License-Identifier: Apache-2.0
// Runs a program, measures it and keeps what it printed.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "tools/launch.h"

namespace corun::tools {

using Clock = std::chrono::steady_clock;

[[nodiscard]] double seconds_since(Clock::time_point start);

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

/// From here on SIGINT, SIGTERM and a SIGHUP that is not ignored end the run in progress and make
/// `interrupted` true.
void catch_interrupts();
[[nodiscard]] bool interrupted();

/// A file descriptor that closes itself.
class File {
  public:
    explicit File(int number = -1) : number_(number) {}
    ~File() { reset(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    [[nodiscard]] int get() const { return number_; }
    void reset(int number = -1);
    [[nodiscard]] int release() { return std::exchange(number_, -1); }

  private:
    int number_;
};

/// A program that was started with stdin from /dev/null, in a process group of its own. The group gets
/// SIGKILL when the program has ended, when this object goes, and (the program alone) when this process dies.
class Child {
  public:
    /// Throws std::runtime_error when no process can be made. A program that cannot be executed has ended at
    /// once.
    Child(const std::vector<std::string>& words, Environment& environment);
    ~Child();
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    [[nodiscard]] pid_t group() const { return pid_; }  ///< also the pid of its first process
    [[nodiscard]] Clock::time_point start() const { return start_; }
    void signal(int number) const;  ///< to the whole group; nothing once it has ended
    void wait_for_news() const;     ///< until it has printed, has ended, or a moment has passed
    void read();                    ///< takes what is in the pipes into the result; never waits
    [[nodiscard]] bool ended();     ///< never waits; once true, the result is complete
    [[nodiscard]] ChildResult& result() { return result_; }

  private:
    void reap();

    pid_t pid_ = -1;
    Clock::time_point start_;
    File pidfd_;
    File output_;
    File errors_;
    bool ended_ = false;
    int start_error_ = 0;
    ChildResult result_;
};

/// Waits for the end of the program, or ends it after `timeout_seconds` (0: never) or when interrupted.
[[nodiscard]] ChildResult run_to_end(Child& child, double timeout_seconds);

}  // namespace corun::tools
