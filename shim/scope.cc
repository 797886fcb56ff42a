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

// This thread was quiet for long: were all? Then nobody had a scope open since the latest of their ends.
void core_note_quiet(std::uint64_t now) noexcept {
    std::uint64_t latest = globals.quiet_until.load(std::memory_order_relaxed);
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
        const ThreadState* thread = globals.threads[i].load(std::memory_order_relaxed);
        if (thread == nullptr) continue;
        if (thread->depth.load(std::memory_order_relaxed) > 0) return;
        const std::uint64_t last = thread->last.load(std::memory_order_relaxed);
        if (last > latest) latest = last;
    }
    if (now <= latest || now - latest < globals.gap) return;
    globals.quiet_until.store(now, std::memory_order_relaxed);
    globals.quiet.fetch_add(now - latest, std::memory_order_relaxed);
}

}  // namespace corun
