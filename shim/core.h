// SPDX-License-Identifier: Apache-2.0
// What start, fork and thread end need of the path of an op.
#pragma once

#include "shim/state.h"

namespace corun {

extern constinit thread_local ThreadState* this_thread __attribute__((tls_model("initial-exec")));

/// Enters the open scopes of `thread` into a ledger that was cleared.
void core_enter_again(ThreadState& thread) noexcept;

/// A thread was quiet for long until `now`: looks whether all were, and counts that.
void core_note_quiet(std::uint64_t now) noexcept;

/// Ends every scope that is still open on `thread` (which has ended, or was left by pthread_exit).
void core_drop_all(ThreadState& thread) noexcept;

}  // namespace corun
