// SPDX-License-Identifier: Apache-2.0
// When ops ask the gate, and by which costs it decides then: in arms that have one, and, with CORUN_GATE,
// where more threads than CPUs run ops side by side, who then take turns.
#pragma once

#include <cstddef>

#include "policy/controller.h"

namespace corun {

/// Not thread-safe: whoever calls holds the driver's lock.
class GateChoice {
  public:
    /// Whether ops ask the gate under `directive`; it has the costs by then. Allocates where it has not.
    bool choose(const policy::Controller& controller, const policy::Directive& directive);
    void forget() { arm_ = policy::kPassThrough, turns_ = false; }  ///< its costs are others, or it is gone

  private:
    bool take_turns(const policy::Controller& controller);

    policy::ArmId arm_ = policy::kPassThrough;  ///< whose costs the gate has; that one has none: nobody's
    std::size_t ops_ = 0;                       ///< that it knows
    bool turns_ = false;                        ///< its costs are those of ops that take turns
};

}  // namespace corun
