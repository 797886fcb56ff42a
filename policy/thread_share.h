// SPDX-License-Identifier: Apache-2.0
// Threads of one process that run ops side by side, each with a team of its own: how many there are, and so
// how wide the ops of each may be. A steady number, as runtimes make and end threads when a team's size
// changes; an average, as a thread that is seldom inside an op takes nothing from the others. Pure.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

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

/// Callers that have come side by side are taken to go on doing so for a while: they do other things between
/// two calls. As many as there were at most in this stretch and in the one before: a crowd that was there
/// once is not kept alive by two that stay. From any thread. Constant-initialised.
class RecentCallers {
  public:
    static constexpr double kSeconds = 0.25;

    /// @param others that are inside a call now  @param now in any unit  @param lasting kSeconds in that unit
    /// @return callers that share the CPUs, the one that asks among them: >= 1
    int note(int others, std::uint64_t now, std::uint64_t lasting) noexcept {
        const std::uint64_t until = until_.load(std::memory_order_relaxed);
        if (now >= until) {
            const bool follows = until != 0 && now < until + lasting;
            const int last = follows ? callers_.load(std::memory_order_relaxed) : 1;
            before_.store(last, std::memory_order_relaxed);
            callers_.store(1, std::memory_order_relaxed);
            until_.store(others != 0 || last > 1 ? now + lasting : 0, std::memory_order_relaxed);
        }
        if (others + 1 > callers_.load(std::memory_order_relaxed))
            callers_.store(others + 1, std::memory_order_relaxed);
        return std::max(callers_.load(std::memory_order_relaxed), before_.load(std::memory_order_relaxed));
    }
    /// False: a caller that nobody is beside need not ask.
    [[nodiscard]] bool any() const noexcept { return until_.load(std::memory_order_relaxed) != 0; }

  private:
    std::atomic<std::uint64_t> until_{0};  ///< end of this stretch; 0: there is none
    std::atomic<int> callers_{1};          ///< in it
    std::atomic<int> before_{1};           ///< in the stretch before
};

}  // namespace corun::policy
