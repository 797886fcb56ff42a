// SPDX-License-Identifier: Apache-2.0
// The path of one op. Settled ops take no lock, no allocation and one clock read; all else is in driver.cc.
#include "shim/core.h"

#include <algorithm>

#include "shim/clock.h"
#include "shim/driver.h"
#include "shim/gate.h"
#include "shim/process.h"
#include "shim/side_by_side.h"
#include "shim/state.h"
#include "shim/undisturbed.h"

namespace corun {

constinit Globals globals{};
constinit thread_local ThreadState* this_thread __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

std::size_t slot_index(const void* identity, std::uint32_t shape) {
    const auto mixed = (reinterpret_cast<std::uintptr_t>(identity) ^ shape) * 0x9E3779B97F4A7C15ULL;
    return mixed >> 51;  // 13 bits: kSlots
}
static_assert(kSlots == 8192 && kBirths == 4096);

bool freed_since(const Slot& slot) {
    return slot.birth != globals.births[birth_index(slot.identity)].load(std::memory_order_relaxed);
}

// The slot of the key, or the one that it is to take: one never used, of a freed kernel, or any. Slots are
// emptied all at once only (end_thread), so a search may end at the first that was never used.
[[gnu::noinline]] Slot& probe(ThreadState& thread, Slot* first, const void* identity, std::uint32_t shape) {
    Slot* free = nullptr;
    for (Slot* slot = first; slot != first + kProbes; ++slot) {
        if (slot->identity == identity && slot->shape == shape) return *slot;
        if (slot->identity == nullptr) return free != nullptr ? *free : *slot;
        if (free == nullptr && freed_since(*slot)) free = slot;
    }
    return free != nullptr ? *free : first[thread.evicted++ % kProbes];
}

// Puts back what a scope has set. If the program itself set another number meanwhile, that one stays.
void restore_lever(const ThreadState& thread, const Entry& entry) {
    const auto index = static_cast<std::size_t>(entry.source);
    if (int* const place = thread.lever[index]) {
        if (*place == entry.width) *place = entry.saved;
        return;
    }
    const SourceTable& source = globals.sources[index];
    if (source.lever_restore != nullptr) return source.lever_restore(entry.width, entry.saved);
    if (source.lever_get() == entry.width) source.lever_set(entry.saved);
}

void pull_lever(const ThreadState& thread, Entry& entry) {
    const auto index = static_cast<std::size_t>(entry.source);
    const SourceTable& source = globals.sources[index];
    int* const place = thread.lever[index];
    if (place == nullptr && source.lever_set == nullptr) return;
    const int own = place != nullptr ? *place : source.lever_get();
    if (own <= entry.width) return;  // the program's own word is a ceiling
    if (place != nullptr)
        *place = entry.width;
    else
        source.lever_set(entry.width);
    entry.saved = own;
    entry.flags |= kEntryLever;
}

// @return whether nothing else was open
inline bool leave_ledger(ThreadState& thread, Entry& entry) {
    if ((entry.flags & kEntryGated) != 0) [[unlikely]]
        return gate_leave(thread, entry);
    return globals.ledger.end(entry.ticket, entry.counted);
}

// Takes the innermost scope off; `finished` is false when the program left it by a jump.
void drop_innermost(ThreadState& thread, bool finished) {
    const std::uint32_t depth = thread.depth.load(std::memory_order_relaxed) - 1;
    Entry& entry = thread.stack[depth];
    if ((entry.flags & kEntryLever) != 0) restore_lever(thread, entry);
    if ((entry.flags & kEntryTimed) != 0) {
        if (leave_ledger(thread, entry) && finished) entry.flags |= kEntrySolo;
    }
    thread.depth.store(depth, std::memory_order_relaxed);
}

[[gnu::noinline]] void drop_dead(ThreadState& thread, const void* frame) {
    while (true) {
        const std::uint32_t depth = thread.depth.load(std::memory_order_relaxed);
        if (depth == 0 || thread.stack[depth - 1].frame > frame) return;
        drop_innermost(thread, false);
    }
}

// A scope that turns out to hold others is a container: it gives its width back and counts for nothing.
[[gnu::noinline]] void become_container(ThreadState& thread, Entry& entry) {
    if ((entry.flags & kEntryLever) != 0) restore_lever(thread, entry);
    if ((entry.flags & kEntryTimed) != 0) leave_ledger(thread, entry);
    entry.flags = kEntryContainer;
    entry.record->flags.fetch_or(kContainer, std::memory_order_relaxed);
}

[[gnu::noinline]] ThreadState* attach() {
    const Undisturbed quiet;
    return driver_attach_thread();
}

[[gnu::noinline]] bool resolve(ThreadState& thread, Slot& slot, Source source, const void* identity,
                               std::uint32_t shape, const void* call) {
    const Undisturbed quiet;
    thread.busy = true;  // describing an op may run code of the program
    slot.settle();
    // In here, as every thread comes by before its first op of a source.
    int*& place = thread.lever[static_cast<std::size_t>(source)];
    const SourceTable& table = globals.sources[static_cast<std::size_t>(source)];
    if (place == nullptr && table.lever_place != nullptr) place = table.lever_place();
    const std::uint32_t birth = globals.births[birth_index(identity)].load(std::memory_order_relaxed);
    OpRecord* record = driver_resolve(source, identity, shape, call);
    slot.identity = identity;
    slot.shape = shape;
    slot.birth = birth;
    slot.record.store(record, std::memory_order_release);
    thread.busy = false;
    return record != nullptr;
}

[[gnu::noinline]] void visit_driver(ThreadState& thread, std::uint64_t now, const OpRecord* anchor) {
    const Undisturbed quiet;
    thread.busy = true;
    driver_visit(now, anchor);
    thread.busy = false;
}

std::uint16_t random_width(ThreadState& thread) {
    thread.random ^= thread.random << 13;
    thread.random ^= thread.random >> 7;
    thread.random ^= thread.random << 17;
    return static_cast<std::uint16_t>(1 + thread.random % globals.widest.load(std::memory_order_relaxed));
}

// Width in the arm's table, or what is being sampled.
std::uint16_t decide(ThreadState& thread, const OpRecord& record, std::uint32_t flags, Decision decision,
                     Entry& entry) {
    if (decision.random) return random_width(thread);
    if ((flags & kUnjudged) != 0 && !decision.uniform) return 0;  // see judge()
    const std::uint16_t budget = globals.budget.load(std::memory_order_relaxed);
    if (decision.exploring && (flags & kAssigned) != 0) {
        const std::uint16_t width = record.assigned.load(std::memory_order_relaxed);
        if (width > 0) {
            entry.flags |= kEntryAssigned;
            return width >= budget ? 0 : width;
        }
    }
    std::size_t bucket = 0;
    if (decision.dynamic) bucket = policy::idle_bucket(globals.ledger.idle(budget));
    return record.width[decision.arm][bucket].load(std::memory_order_relaxed);
}

// The first call at a width pays for what the runtime builds and keeps for it.
void note_built(Slot& slot, Entry& entry) {
    const std::uint64_t bit = std::uint64_t{1} << std::min<unsigned>(entry.width, 63);
    if ((slot.built & bit) == 0) entry.flags |= kEntryBuilds;
    slot.built |= bit;
}

void push_sample(ThreadState& thread, const Entry& entry, std::uint64_t duration) {
    const std::uint32_t head = thread.ring_head.load(std::memory_order_relaxed);
    const std::uint32_t tail = thread.ring_tail.load(std::memory_order_acquire);
    if (head - tail >= kRing) {
        thread.dropped.store(thread.dropped.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
    }
    thread.ring[head % kRing] = {entry.begin, duration,
                                 static_cast<std::uint32_t>(entry.record - globals.records), entry.width,
                                 entry.flags};
    thread.ring_head.store(head + 1, std::memory_order_release);
    // Half full: let the next op drain it.
    if (head - tail == kRing / 2) globals.due.store(0, std::memory_order_relaxed);
}

void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {  // one writer
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

// A step runs its ops in much the same order each time, and between two calls of an op the program's own data
// has pushed its slot out of the caches: most of what a settled op costs would be the wait for it.
inline void fetch_next(ThreadState& thread, Slot& slot, const OpRecord* record) {
    Slot* const previous = thread.previous;
    thread.previous = &slot;
    if (previous != nullptr && (previous->next != &slot || previous->next_record != record)) {
        previous->next = &slot;
        previous->next_record = record;
        previous->next_birth = &globals.births[birth_index(slot.identity)];
    }
    __builtin_prefetch(slot.next, 1);
    __builtin_prefetch(slot.next_record);
    __builtin_prefetch(slot.next_birth);
}

// The state of the calling thread, or null: nothing is done. `frame` is the op's own.
inline ThreadState* thread_of(const void* frame) {
    if (!globals.active.load(std::memory_order_acquire)) [[unlikely]] {
        scopes_left(frame);  // switched off after a jump: no width of ours stays behind
        process_passive_op();
        return nullptr;
    }
    ThreadState* thread = this_thread;
    if (thread == nullptr) [[unlikely]]
        thread = attach();
    return thread == nullptr || thread->busy ? nullptr : thread;
}

// Whether an op that begins at `frame` may decide; `depth`: the scopes that it is in. Not so inside one of a
// source that nests: its width stays as it is to its end, whoever is in it.
inline bool outside(ThreadState& thread, const void* frame, std::uint32_t& depth) {
    depth = thread.depth.load(std::memory_order_relaxed);
    if (depth == 0) [[likely]]
        return true;
    if (thread.stack[depth - 1].frame <= frame) drop_dead(thread, frame);
    depth = thread.depth.load(std::memory_order_relaxed);
    if (depth == kDepth) return false;
    if (depth == 0 || (thread.stack[depth - 1].flags & kEntryContainer) != 0) return true;
    Entry& outer = thread.stack[depth - 1];
    if (globals.sources[static_cast<std::size_t>(outer.source)].nests) return false;
    become_container(thread, outer);
    return true;
}

// The slot of the op, with its record; null: it is left alone.
inline Slot* slot_of(ThreadState& thread, Source source, const void* identity, std::uint32_t shape,
                     const void* call) {
    Slot* const first = &thread.slots[slot_index(identity, shape)];
    Slot& slot =
        first->identity == identity && first->shape == shape ? *first : probe(thread, first, identity, shape);
    if (slot.identity != identity || slot.shape != shape ||
        slot.record.load(std::memory_order_relaxed) == nullptr || freed_since(slot)) [[unlikely]] {
        if (!resolve(thread, slot, source, identity, shape, call)) return nullptr;
    }
    add(slot.calls, 1);
    fetch_next(thread, slot, slot.record.load(std::memory_order_relaxed));
    return &slot;
}

// Ticks now. Lets the driver do what is due.
inline std::uint64_t note_begin(ThreadState& thread, const OpRecord& record, std::uint32_t flags,
                                std::uint32_t depth) {
    const std::uint64_t now = ticks();
    const std::uint64_t last = thread.last.load(std::memory_order_relaxed);
    if (now - last > globals.gap && depth == 0) [[unlikely]]
        core_note_quiet(now);
    thread.last.store(now, std::memory_order_relaxed);
    if ((flags & kAnchor) != 0 || now >= globals.due.load(std::memory_order_relaxed)) [[unlikely]]
        visit_driver(thread, now, (flags & kAnchor) != 0 ? &record : nullptr);
    return now;
}

inline Entry& push(ThreadState& thread, const void* frame, OpRecord& record, Source source,
                   std::uint64_t now) {
    const std::uint32_t depth = thread.depth.load(std::memory_order_relaxed);
    Entry& entry = thread.stack[depth];
    entry.frame = frame;
    entry.record = &record;
    entry.begin = now;
    entry.inner = 0;
    entry.source = source;
    entry.width = 0;
    entry.flags = 0;
    thread.depth.store(depth + 1, std::memory_order_relaxed);
    return entry;
}

// An op that is no container: its width, and whether it is timed. `waits`: it may.
inline int begin_work(ThreadState& thread, Slot& slot, const OpRecord& record, std::uint32_t flags,
                      Entry& entry, bool waits, int limit = 0) {
    const Decision decision = globals.decision.load(std::memory_order_relaxed);
    std::uint16_t width = decide(thread, record, flags, decision, entry);
    if (width == 0) entry.flags |= kEntryPlain;
    if (limit > 0 && (width == 0 || width > limit) && !decision.random)
        width = static_cast<std::uint16_t>(limit);
    const bool judged = (flags & kUnjudged) != 0;  // few calls: others beside them do not count
    const std::uint16_t ceiling =
        judged ? decision.ceiling : ceiling_beside(entry.source, decision.ceiling, entry.begin);
    if (ceiling != 0 && (width == 0 || width > ceiling)) [[unlikely]] {
        width = ceiling;
        entry.flags &= static_cast<std::uint16_t>(~kEntryAssigned);
        entry.flags |= kEntryBounded;
    }
    const std::uint32_t untimed = decision.sparse ? kCheap | kBrief : kCheap;
    const bool timed = (flags & untimed) == 0 || decision.record_all;
    if (decision.gated && timed && gate_enter(thread, entry, width, limit, ceiling, waits)) [[unlikely]] {
        width = entry.counted < globals.budget.load(std::memory_order_relaxed) ? entry.counted : 0;
    } else if (timed) {
        entry.flags |= kEntryTimed;
        entry.counted = width != 0 ? width : globals.budget.load(std::memory_order_relaxed);
        entry.ticket = globals.ledger.begin(entry.counted);
    }
    if (width != 0) {
        entry.width = width;
        if ((flags & kAsked) != 0) note_built(slot, entry);
        pull_lever(thread, entry);
    }
    return width;
}

// At one thread an op opens no region, and would be judged by what it holds alone: until there are more it
// stays one that decides for all in it. A program that never had more CPUs has nothing to decide.
bool tells_what_it_does(const Entry& entry) {
    return entry.width != 1 || (globals.budget.load(std::memory_order_relaxed) <= 1 &&
                                globals.decision.load(std::memory_order_relaxed).ceiling == 0);
}

// Whether an op that holds others only holds them: by whose time it is.
[[gnu::noinline]] void judge(OpRecord& record, std::uint64_t duration, std::uint64_t inner) {
    const std::uint32_t call = record.judged_calls.fetch_add(1, std::memory_order_relaxed);
    if (call == 0) return;  // pays for what is made once
    const std::uint64_t all = record.judged.fetch_add(duration, std::memory_order_relaxed) + duration;
    const std::uint64_t held = record.inner.fetch_add(inner, std::memory_order_relaxed) + inner;
    if (call < kJudgedCalls) return;
    const bool works = (record.flags.load(std::memory_order_relaxed) & kOwnRegion) != 0;
    if (2 * held > all && !works) record.flags.fetch_or(kContainer, std::memory_order_relaxed);
    record.flags.fetch_and(~static_cast<std::uint32_t>(kUnjudged), std::memory_order_relaxed);
}

Entry* pulled_by(Source source) {
    ThreadState* thread = this_thread;
    if (thread == nullptr) return nullptr;
    for (std::uint32_t depth = thread->depth.load(std::memory_order_relaxed); depth > 0; --depth) {
        Entry& entry = thread->stack[depth - 1];
        if (entry.source == source && (entry.flags & kEntryLever) != 0) return &entry;
    }
    return nullptr;
}

// Ends the innermost scope, which is an op.
void finish(ThreadState& thread, Entry& entry) {
    OpRecord& record = *entry.record;
    const std::uint64_t reference = record.reference.load(std::memory_order_relaxed);
    drop_innermost(thread, true);
    if ((entry.flags & kEntryContainer) != 0) return;
    const std::uint32_t flags = record.flags.load(std::memory_order_relaxed);
    const SourceTable& table = globals.sources[static_cast<std::size_t>(entry.source)];
    const bool known = reference != 0 && !(table.nests && (flags & kCheap) != 0);
    const bool timed = (entry.flags & (kEntryTimed | kEntryJudged)) != 0;
    add(thread.ops[static_cast<std::size_t>(entry.source)], 1);
    if (known) add(thread.work[record.bucket], reference);
    if (table.beside != Beside::nothing && !timed) add(thread.inside, reference);
    if (!timed) return;
    const std::uint64_t now = ticks();
    const std::uint64_t duration = now - entry.begin;
    thread.last.store(now, std::memory_order_relaxed);
    if (table.beside != Beside::nothing) add(thread.inside, duration);
    if (reference == 0) add(thread.work[0], duration);
    if ((entry.flags & kEntryJudged) != 0) return judge(record, duration, entry.inner);
    const bool wanted = (flags & kWanted) != 0 || (entry.flags & kEntryAssigned) != 0 ||
                        globals.decision.load(std::memory_order_relaxed).record_all;
    if (wanted || (++thread.sampled % kSampleEvery) == 0) push_sample(thread, entry, duration);
}

}  // namespace

int op_begin(Scope& scope, Source source, const void* identity, std::uint32_t shape, const void* call,
             int limit) {
    scope.depth = 0;
    ThreadState* const thread = thread_of(&scope);
    if (thread == nullptr) return 0;
    std::uint32_t depth = 0;
    if (!outside(*thread, &scope, depth)) return 0;
    Slot* const slot = slot_of(*thread, source, identity, shape, call);
    if (slot == nullptr) return 0;
    OpRecord& record = *slot->record.load(std::memory_order_relaxed);
    const std::uint32_t flags = record.flags.load(std::memory_order_relaxed);
    const std::uint64_t now = note_begin(*thread, record, flags, depth);
    Entry& entry = push(*thread, &scope, record, source, now);
    scope.depth = depth + 1;
    if ((flags & kContainer) == 0) return begin_work(*thread, *slot, record, flags, entry, depth == 0, limit);
    entry.flags = kEntryContainer;
    return 0;
}

bool widths_bounded() noexcept {
    const Decision decision = globals.decision.load(std::memory_order_relaxed);
    return decision.ceiling != 0 || decision.uniform ||
           globals.width_beside.load(std::memory_order_relaxed) != 0;
}

Begun op_begin_at(const void* frame, Source source, const void* identity, std::uint32_t shape,
                  const void* call) {
    ThreadState* const thread = thread_of(frame);
    if (thread == nullptr) return Begun::open;
    std::uint32_t depth = 0;
    if (!outside(*thread, frame, depth)) {
        const Entry& outer = thread->stack[thread->depth.load(std::memory_order_relaxed) - 1];
        if ((outer.flags & kEntryJudged) != 0 && outer.frame > frame)
            push(*thread, frame, *outer.record, source, ticks()).flags = kEntryInner;
        return Begun::inside;
    }
    Slot* const slot = slot_of(*thread, source, identity, shape, call);
    if (slot == nullptr) return Begun::open;
    OpRecord& record = *slot->record.load(std::memory_order_relaxed);
    const std::uint32_t flags = record.flags.load(std::memory_order_relaxed);
    if ((flags & kContainer) != 0) return Begun::container;
    // What cannot gain counts as no work either, so there is nothing to do. A program of such ops alone has
    // to look at the clock all the same.
    const bool cheap = (flags & (kCheap | kAnchor)) == kCheap;
    const Begun known = (flags & kTrivial) != 0 ? Begun::trivial : Begun::cheap;
    // Beside others a team's threads may wait for each other, however short the op is without.
    const bool left = cheap && (known == Begun::trivial || !widths_bounded());
    if (left && ++thread->cheap % kCheapSkipped != 0) return known;
    const std::uint64_t now = note_begin(*thread, record, flags, depth);
    if (left) return known;
    Entry& entry = push(*thread, frame, record, source, now);
    begin_work(*thread, *slot, record, flags, entry, depth == 0 && (flags & kUnjudged) == 0);
    if (cheap) return Begun::cheap;
    if ((flags & kUnjudged) == 0) return (flags & kWanted) != 0 ? Begun::fresh : Begun::op;
    if (!tells_what_it_does(entry)) return Begun::fresh;
    entry.flags |= kEntryJudged;
    return Begun::open;
}

void op_end(Scope& scope) noexcept {
    if (scope.depth == 0) return;
    ThreadState* thread = this_thread;
    if (thread == nullptr) return;
    std::uint32_t depth = thread->depth.load(std::memory_order_relaxed);
    if (scope.depth > depth || thread->stack[scope.depth - 1].frame != &scope) return;  // was dropped
    while (depth > scope.depth) {  // left by a jump that ended above them
        drop_innermost(*thread, false);
        --depth;
    }
    finish(*thread, thread->stack[depth - 1]);
}

void op_end_at(const void* frame) noexcept {
    ThreadState* thread = this_thread;
    if (thread == nullptr) return;
    std::uint32_t depth = thread->depth.load(std::memory_order_relaxed);
    while (depth > 0 && thread->stack[depth - 1].frame < frame) {  // left by a jump
        drop_innermost(*thread, false);
        --depth;
    }
    if (depth == 0 || thread->stack[depth - 1].frame != frame) return;  // one that was not entered
    Entry& entry = thread->stack[depth - 1];
    if ((entry.flags & kEntryInner) == 0) return finish(*thread, entry);
    thread->stack[depth - 2].inner += ticks() - entry.begin;
    drop_innermost(*thread, true);
}

void lever_out(Source source) noexcept {
    if (const Entry* const entry = pulled_by(source)) restore_lever(*this_thread, *entry);
}

void lever_in(Source source) noexcept {
    Entry* const entry = pulled_by(source);
    if (entry == nullptr) return;
    const SourceTable& table = globals.sources[static_cast<std::size_t>(source)];
    entry->saved = table.lever_get();
    if (entry->saved > entry->width) table.lever_set(entry->width);
}

// A frame that asks lies below those of all scopes that it is in.
void scopes_left(const void* frame) noexcept {
    ThreadState* thread = this_thread;
    if (thread == nullptr || thread->busy) return;
    const std::uint32_t depth = thread->depth.load(std::memory_order_relaxed);
    if (depth > 0 && thread->stack[depth - 1].frame <= frame) [[unlikely]]
        drop_dead(*thread, frame);
}

void op_async(Source source) noexcept {
    if (!globals.active.load(std::memory_order_relaxed)) return;
    globals.async_ops[static_cast<std::size_t>(source)].fetch_add(1, std::memory_order_relaxed);
}

void identity_freed(const void* identity) noexcept {
    globals.births[birth_index(identity)].fetch_add(1, std::memory_order_relaxed);
}

void core_enter_again(ThreadState& thread) noexcept {
    const std::uint32_t depth = thread.depth.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < depth; ++i) {
        Entry& entry = thread.stack[i];
        if ((entry.flags & kEntryTimed) != 0) entry.ticket = globals.ledger.begin(entry.counted);
    }
}

void core_drop_all(ThreadState& thread) noexcept {
    while (thread.depth.load(std::memory_order_relaxed) > 0) drop_innermost(thread, false);
}

}  // namespace corun
