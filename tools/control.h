// SPDX-License-Identifier: Apache-2.0
// The pages through which running processes are told to stand down and to come back.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "shim/control_page.h"

namespace corun::tools {

/// Field 22 of /proc/PID/stat in clock ticks; 0 when there is no such process or it is a zombie.
[[nodiscard]] std::uint64_t start_time_of(pid_t pid);

/// One mapped page. Everything in it was written by another process and is checked before it is believed.
class Page {
  public:
    enum class State { live, stale, foreign };  ///< foreign: not ours to use (`problem` says why)

    explicit Page(std::filesystem::path path, pid_t pid);
    ~Page();
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;

    [[nodiscard]] State state() const { return state_; }
    [[nodiscard]] const std::string& problem() const { return problem_; }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] corun::Command command() const;
    [[nodiscard]] std::string status() const;  ///< the JSON text; empty when it cannot be read whole

    void tell(corun::Command command);
    /// Waits until the command has taken effect; false after `milliseconds`.
    [[nodiscard]] bool wait_obeyed(corun::Command command, int milliseconds) const;

  private:
    void map();
    void check();

    std::filesystem::path path_;
    pid_t pid_;
    State state_ = State::foreign;
    std::string problem_;
    ControlPage* page_ = nullptr;
};

/// The pages of this user (of every user, for root), in the order of their pids; stale ones are removed.
[[nodiscard]] std::vector<std::unique_ptr<Page>> find_pages();

}  // namespace corun::tools
