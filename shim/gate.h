// SPDX-License-Identifier: Apache-2.0
// Where an op that is about to run asks for its turn and its width, and waits if policy/gate.h has it wait:
// bounded, on a thread of the program. Only in arms that have a gate; see CORUN_GATE.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/cost_table.h"
#include "shim/state.h"

namespace corun {

/// Decides by these costs from now on; `anew`: they have changed. Allocates; under the driver's lock.
void gate_adopt(std::vector<policy::KeyCosts> costs, const std::string& strategy, int cpus, bool anew);

/// An op that is no container begins: enters it into the ledger at the width that it gets.
/// @param own    its width without the gate, 0: the program's own
/// @param limit  what it may not exceed, nor the `ceiling`; 0: none
/// @param waits  false: it begins at once
/// @return false: it was not entered, there is no gate now
bool gate_enter(ThreadState& thread, Entry& entry, std::uint16_t own, int limit, int ceiling, bool waits);

/// It ends, whether it has finished or was left. @return whether it was alone
bool gate_leave(ThreadState& thread, Entry& entry) noexcept;

void gate_after_fork() noexcept;  ///< in any child: nobody is there who could wait or run

struct GateFigures {
    std::uint64_t entered = 0;
    std::uint64_t waited = 0;       ///< ops
    std::uint64_t expired = 0;      ///< of them, those whose wait ran out
    double seconds = 0.0;           ///< that they waited, all together
    std::uint64_t opened = 0;       ///< by the watchdog: 0 or 1
    std::uint64_t differences = 0;  ///< between ledger and running scopes, where that is checked: a fault
};
GateFigures gate_figures() noexcept;

/// Compares the ledger with the scopes that run at every change. Debug builds do so by themselves.
void gate_check(bool wanted) noexcept;

}  // namespace corun
