// SPDX-License-Identifier: Apache-2.0
// The op records that the hooks read: one for each op key, filled from what the controller knows of it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "policy/controller.h"
#include "shim/state.h"

namespace corun {

/// Not thread-safe: whoever calls holds the driver's lock.
class OpTable {
  public:
    /// @param tick seconds
    OpTable(policy::Controller& controller, double tick) : controller_(&controller), tick_(tick) {}

    /// The records become those of another controller, which hears of all ops that it does not know yet.
    void rebind(policy::Controller& controller);

    /// The record of the op that `text` describes, made if need be.
    OpRecord* resolve(Source source, OpText& text);
    /// Copies the widths of all arms if the controller has others now. @return whether it had
    bool apply_tables();
    /// The ops that are to be sampled at a width.
    void apply_assignments();
    /// Ops whose reference cost the controller has just frozen: it appends to them, settle_frozen() takes
    /// them.
    std::vector<model::OpId>& frozen() { return frozen_; }
    void settle_frozen();

  private:
    void apply_row(model::OpId op);

    policy::Controller* controller_;
    double tick_;
    std::unordered_map<std::string, std::unordered_set<std::string>>
        variants_;  ///< shapes with a key of their own
    std::vector<model::OpId> frozen_;
    std::vector<model::OpId> assigned_;
};

}  // namespace corun
