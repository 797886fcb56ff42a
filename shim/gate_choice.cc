// SPDX-License-Identifier: Apache-2.0
#include "shim/gate_choice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "shim/gate.h"
#include "shim/process.h"
#include "shim/state.h"

namespace corun {

// At one thread each, whatever more of them would bring: the CPUs are all taken.
bool GateChoice::take_turns(const policy::Controller& controller) {
    std::vector<policy::KeyCosts> costs = controller.references();
    const auto known = static_cast<std::size_t>(
        std::count_if(costs.begin(), costs.end(), [](const auto& key) { return !key.seconds.empty(); }));
    if (!turns_ || known != ops_) gate_adopt(std::move(costs), "idle", controller.budget(), !turns_);
    forget();
    turns_ = true;
    ops_ = known;
    return true;
}

bool GateChoice::choose(const policy::Controller& controller, const policy::Directive& directive) {
    const bool crowd = globals.width_beside.load(std::memory_order_relaxed) != 0;
    if (crowd && !process_options().is(OptionId::gate, "off")) return take_turns(controller);
    const policy::Arm& arm = controller.arms()[static_cast<std::size_t>(directive.arm)];
    if (arm.gate.empty() || directive.explore || directive.record_all) return false;
    const std::size_t ops = controller.op_count();  // those that came later have to be known as well
    if (arm_ != directive.arm || ops_ != ops)
        gate_adopt(controller.costs(), arm.gate, controller.budget(), arm_ == policy::kPassThrough);
    forget();
    arm_ = directive.arm;
    ops_ = ops;
    return true;
}

}  // namespace corun
