// SPDX-License-Identifier: Apache-2.0
// How many CPUs a process can be expected to use, by what it has used lately: it says so to the others on its
// machine, which need not leave it more. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

namespace corun::policy {

class RecentUse {
  public:
    static constexpr double kMemory = 5.0;  ///< seconds that are remembered, at least; twice at most
    static constexpr double kFirst = 0.5;   ///< seconds until something is known
    /// Of its share: who uses that much may want kGrowth times as much, and so has soon what it needs.
    static constexpr double kFull = 0.6;
    static constexpr double kGrowth = 2.0;
    static constexpr double kKeep = 0.4;  ///< of its share: who uses more keeps it, it may be wide in turns
    static constexpr double kFall = 0.4;  ///< what is wanted falls to this much of it or stays

    /// Between two visits of `seconds`, `use` CPUs were in use of the `share` that it had; time in which it
    /// waited for a CPU counts as use.
    void note(double seconds, double use, double share) noexcept {
        if (!(seconds > 0.0) || !(use >= 0.0)) return;
        double wish = use < 1.0 ? use : std::ceil(use - 0.25);
        if (use >= kFull * share)
            wish = kGrowth * use;
        else if (use > kKeep * share)
            wish = std::max(wish, share);
        now_ = std::max(now_, wish);
        since_ += seconds;
        known_ = known_ || since_ >= kFirst;
        const double most = std::clamp(std::max(before_, now_), kLeast, kMost);
        // In powers of two: with each step of this the shares of others change, and they learn anew.
        if (most > level_ || most <= kFall * level_)
            level_ = most > 1.0 ? std::bit_ceil(static_cast<unsigned>(std::ceil(most))) : most;
        if (since_ < kMemory) return;
        before_ = now_;
        now_ = since_ = 0.0;
    }

    /// @return CPUs; 0: not known
    [[nodiscard]] double wanted() const noexcept { return known_ ? level_ : 0.0; }

  private:
    static constexpr double kLeast = 1e-3;  // lest nothing look like not known
    static constexpr double kMost = 65536.0;

    double now_ = 0.0;     // the most since the memory was begun
    double before_ = 0.0;  // ... in the one before
    double since_ = 0.0;
    double level_ = 0.0;
    bool known_ = false;
};

}  // namespace corun::policy
