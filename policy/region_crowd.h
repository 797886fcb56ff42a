// SPDX-License-Identifier: Apache-2.0
// CORUN_OPENMP=adaptive on a crowded machine: whether others want the CPUs that this process's threads run
// on, by how long those had to wait for one, and what a region that may be resized should run at then. A team
// with more threads than there are free CPUs waits for a time slice of somebody else's again and again, which
// says nothing of the region. Pure: time is passed in.
#pragma once

#include <span>

#include "model/curve.h"

namespace corun::policy {

class RegionCrowd {
  public:
    /// Seconds that all threads of the process have run so far, and have waited for a CPU while they could.
    /// @param now    the program's own time (busy_clock.h), by which a crowd lasts
    /// @param world  seconds of a clock that never stops, over which threads run and wait
    void seen(double now, double world, double ran, double waited);

    [[nodiscard]] bool crowded() const { return crowded_; }
    [[nodiscard]] double cpus() const { return cpus_; }        ///< that it had when it was last found crowded
    [[nodiscard]] int times() const { return times_; }         ///< it became crowded
    [[nodiscard]] double seconds() const { return seconds_; }  ///< that it was

    static constexpr double kInterval = 0.05;  // seconds between looks, at least: some time slices
    static constexpr double kWaits = 0.2;      // threads that wait, on average: the machine's own are less
    static constexpr double kCalm = 0.1;       // fewer: it may be over
    static constexpr double kFirst = 0.25;     // seconds that it counts as crowded, doubled whenever ...
    static constexpr double kLast = 16.0;      // ... it is crowded again at once, up to this

  private:
    bool known_ = false;
    double at_ = 0.0, ran_ = 0.0, waited_ = 0.0;
    double world_ = 0.0;
    bool crowded_ = false;
    double cpus_ = 0.0;
    double until_ = 0.0;
    double lasts_ = kFirst;
    double ended_at_ = 0.0;
    int times_ = 0;
    double seconds_ = 0.0;
};

/// A region that takes `work` seconds of all its threads together, and at the widths of `curve` alone so
/// much: the one of `widths` (ascending, not empty) that costs least where `cpus` are free.
[[nodiscard]] int crowd_width(std::span<const int> widths, std::span<const model::Point> curve, double work,
                              double cpus);

/// What a team with more threads waits: a time slice of who has the CPU. 100 us regions with gaps of 100 took
/// 31 ms beside one neighbour on 2 CPUs with gcc's spinning threads, 0.9 with some that sleep
/// (wait_policy.h).
inline constexpr double kCrowdSlice = 3e-3;

}  // namespace corun::policy
