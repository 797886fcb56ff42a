// SPDX-License-Identifier: Apache-2.0
// What a source asks and tells of the scope that this thread is in, off the path of an op.
#include "shim/scope.h"

#include "shim/core.h"
#include "shim/state.h"

namespace corun {

void op_width(const Scope& scope, int width) noexcept {
    ThreadState* const thread = this_thread;
    if (scope.depth == 0 || thread == nullptr) return;
    if (scope.depth > thread->depth.load(std::memory_order_relaxed)) return;
    Entry& entry = thread->stack[scope.depth - 1];
    if (entry.frame != &scope) return;
    entry.width =
        static_cast<std::uint16_t>(width >= globals.budget.load(std::memory_order_relaxed) ? 0 : width);
}

bool op_open(const void* frame) noexcept {
    const ThreadState* const thread = this_thread;
    if (thread == nullptr) return false;
    const std::uint32_t depth = thread->depth.load(std::memory_order_relaxed);
    if (depth == 0) return false;
    const Entry& entry = thread->stack[depth - 1];
    return entry.frame > frame && (entry.flags & kEntryContainer) == 0;
}

}  // namespace corun
