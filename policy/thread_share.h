// SPDX-License-Identifier: Apache-2.0
// Threads of one process that run ops side by side, each with a team of its own: how many there are, and so
// how wide the ops of each may be. A steady number, as runtimes make and end threads when a team's size
// changes; an average, as a thread that is seldom inside an op takes nothing from the others. Pure.
#pragma once

namespace corun::policy {

class ThreadShare {
  public:
    static constexpr double kStretchSeconds = 0.1;  ///< between two notes, or more
    static constexpr double kValidSeconds = 0.3;    ///< after the last note nothing is known any more

    /// @param inside threads that were inside ops in the stretch that has ended, on average
    void note(double inside, double seconds = kStretchSeconds) noexcept;
    /// @return threads that are taken to be inside ops at once, >= 1
    [[nodiscard]] int callers() const noexcept { return callers_; }
    /// Widest that an op may be, 1..budget: nobody is made to wait, so 1 for each of more callers than CPUs.
    [[nodiscard]] int width(int budget) const noexcept;

  private:
    double inside_ = 1.0;
    int callers_ = 1;
};

}  // namespace corun::policy
