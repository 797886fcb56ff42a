// SPDX-License-Identifier: Apache-2.0
// Notices that the mix of ops has changed, and whether this mix was seen before.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "policy/window.h"

namespace corun::policy {

using PhaseId = int;

/// A phase is a mix of ops that the program stays in for a while (training, evaluation, another model).
/// Fed with the histogram of every window, it answers which phase the program is in.
class EpochWatch {
  public:
    /// The work shares of the window that has just ended (also of windows that the race or guard will
    /// discard). Returns the phase when it is certain: at once when the mix is that of a phase already known
    /// (nearest within kPhaseDistance), after kPhaseConfirm windows alike when it is new; nothing while
    /// uncertain or in transition. A window with more than kUnreferencedShare of its work in bucket 0 says
    /// nothing and changes nothing: its ops have yet to get their reference costs, and what it did reference
    /// need not be typical.
    std::optional<PhaseId> add(const Histogram& work);

    [[nodiscard]] std::optional<PhaseId> current() const {
        return current_;
    }  ///< the last one that was certain
    [[nodiscard]] int phases() const { return static_cast<int>(known_.size()); }
    [[nodiscard]] const Histogram& mix(PhaseId phase) const {
        return known_.at(static_cast<std::size_t>(phase));
    }
    /// From a profile. Returns the phase already known when the mix is that of one; -1 when it is empty.
    PhaseId restore(const Histogram& mix);

  private:
    [[nodiscard]] std::optional<PhaseId> nearest(const Histogram& shares) const;
    std::optional<PhaseId> confirm(const Histogram& shares);
    PhaseId learn(const Histogram& mix);

    std::vector<Histogram>
        known_;  ///< shares of referenced work, sum 1, slowly averaged while the phase is current
    std::optional<PhaseId> current_;
    Histogram candidate_{};  ///< sum of the shares of the windows alike so far
    int candidate_count_ = 0;
};

}  // namespace corun::policy
