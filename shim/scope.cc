// SPDX-License-Identifier: Apache-2.0
// What a source asks and tells of the scope that this thread is in, off the path of an op.
#include "shim/scope.h"

#include "shim/core.h"
#include "shim/process.h"
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

int width_now(const void* frame) noexcept {
    const ThreadState* thread = this_thread;
    if (thread == nullptr) return 0;
    const std::uint32_t depth = thread->depth.load(std::memory_order_relaxed);
    if (depth == 0) return 0;
    const Entry& entry = thread->stack[depth - 1];
    if (entry.frame <= frame) return 0;  // was left
    if (entry.width == 0 || (entry.flags & kEntryContainer) != 0) return 0;
    return (entry.record->flags.load(std::memory_order_relaxed) & kAsked) != 0 ? entry.width : 0;
}

// TensorFlow keeps the 1,024 primitives of a thread that were used last: with twice as many in use, each
// would be built anew in each step. An op key has one or two.
int width_kept(const void* frame) noexcept {
    constexpr std::uint32_t kMostKept = 256;
    return globals.asked_count.load(std::memory_order_relaxed) > kMostKept ? 0 : width_now(frame);
}

bool op_region() noexcept {
    const ThreadState* const thread = this_thread;
    if (thread == nullptr) return false;
    const std::uint32_t depth = thread->depth.load(std::memory_order_relaxed);
    if (depth == 0) return false;
    const Entry& entry = thread->stack[depth - 1];
    const bool own = (entry.flags & kEntryJudged) != 0;
    if (own) entry.record->flags.fetch_or(kOwnRegion, std::memory_order_relaxed);
    return own || (entry.flags & kEntryInner) != 0;
}

bool source_awake() noexcept {
    if (globals.active.load(std::memory_order_relaxed)) [[likely]]
        return true;
    process_passive_op();
    return false;
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
