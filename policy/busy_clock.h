// SPDX-License-Identifier: Apache-2.0
// Time in which a program was at it: what may be spent, and when something is looked at again, goes by how
// long regions came, not by how long the process was stopped or waited for input. A third of the run time
// would else be spent on trials by a process that is stopped for six seconds of seven. Pure.
#pragma once

#include <algorithm>

namespace corun::policy {

class BusyClock {
  public:
    /// Looks at the clock of the world. Since the last look it counts for `most` seconds at most.
    void look(double now, double most) {
        if (looked_ && now - last_ > most) idle_ += now - last_ - most;
        if (looked_ && now < last_) idle_ -= last_ - now;  // the world's clock was set back
        looked_ = true;
        last_ = now;
    }
    /// A time of the world's, not before the last look but one.
    [[nodiscard]] double at(double time) const { return time - idle_; }

    /// For look(): of a program whose longest calls take `call` seconds.
    [[nodiscard]] static double most(double call) { return std::max(kGap, 4.0 * call); }
    static constexpr double kGap = 0.1;  // seconds without a region that are the program's own doing

  private:
    bool looked_ = false;
    double last_ = 0.0;
    double idle_ = 0.0;
};

}  // namespace corun::policy
