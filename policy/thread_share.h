// SPDX-License-Identifier: Apache-2.0
// Threads of one process that run ops side by side, each with a team of its own: how many there are, and so
// how wide the ops of each may be. A steady number, as runtimes make and end threads when a team's size
// changes; an average, as a thread that is seldom inside an op takes nothing from the others. Pure.
#pragma once

#include <algorithm>

namespace corun::policy {

/// Threads for each of `callers` that come side by side, 1..budget: nobody is made to wait, so 1 for each of
/// more callers than CPUs.
[[nodiscard]] constexpr int share_of(int budget, int callers) noexcept {
    return callers <= 1 ? std::max(budget, 1) : std::max(1, budget / callers);
}

class ThreadShare {
  public:
    static constexpr double kStretchSeconds = 0.1;  ///< between two notes, or more
    static constexpr double kValidSeconds = 0.3;    ///< after the last note nothing is known any more

    /// @param inside threads that were inside ops in the stretch that has ended, on average
    void note(double inside, double seconds = kStretchSeconds) noexcept;
    /// @return threads that are taken to be inside ops at once, >= 1
    [[nodiscard]] int callers() const noexcept { return callers_; }
    [[nodiscard]] int width(int budget) const noexcept { return share_of(budget, callers_); }

  private:
    double inside_ = 1.0;
    int callers_ = 1;
};

}  // namespace corun::policy
