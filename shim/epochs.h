// SPDX-License-Identifier: Apache-2.0
// One controller for each budget that the process has had: with another number of CPUs everything is learned
// anew, and what was learned comes back with the budget that it was learned at.
#pragma once

#include <memory>
#include <vector>

#include "policy/controller.h"

namespace corun {

/// Not thread-safe: whoever calls holds the driver's lock.
class Epochs {
  public:
    /// @param now seconds
    explicit Epochs(double now);

    [[nodiscard]] policy::Controller& current() const { return *epochs_.back(); }
    /// Looks at the budget. @return whether it is another one now, with another current()
    bool follow(double now);

    /// The profile is another one now: `fresh`, which has it, goes on with what current() has learned and
    /// takes its place. @return that one, or nothing where the budget is another one by now
    [[nodiscard]] std::unique_ptr<policy::Controller> renew(std::unique_ptr<policy::Controller> fresh);

    /// What the program had its time with.
    [[nodiscard]] policy::Controller& longest() const;
    [[nodiscard]] std::vector<const policy::Controller*> all() const;
    template <typename Visit>
    void each(Visit visit) const {
        for (const auto& epoch : epochs_) visit(*epoch);
    }

    /// A width that no op may exceed, as the program's own numbers are of a larger budget; 0: none.
    [[nodiscard]] int ceiling() const;

  private:
    std::vector<std::unique_ptr<policy::Controller>> epochs_;  ///< the last is in force
    const policy::Controller* first_;                          ///< has the profile, and stays
    int first_budget_;
};

}  // namespace corun
