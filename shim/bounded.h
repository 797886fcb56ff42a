// SPDX-License-Identifier: Apache-2.0
// Several threads run ops that each bring a team of their own, as PyTorch's do: together they are to be no
// more than the budget. An op gets what the others leave of it, at least one CPU, and never waits.
#pragma once

#include "shim/state.h"

namespace corun {

/// Whether ops of `source` are bounded now.
inline bool bounded(Source source) {
    return (globals.bounded.load(std::memory_order_relaxed) >> static_cast<unsigned>(source) & 1U) != 0;
}

/// Enters an op that was to be `width` wide (0: its thread's own number) into the ledger if it is `timed`;
/// what is not, as it is brief, goes by it. @return its width
std::uint16_t bounded_enter(const ThreadState& thread, Entry& entry, std::uint16_t width, bool timed);

/// Looks which sources are to be bounded: one thread alone has no use for it. Under the driver's lock.
void bounded_look();

}  // namespace corun
