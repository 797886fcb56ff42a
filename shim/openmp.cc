// SPDX-License-Identifier: Apache-2.0
#include "shim/openmp.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>

#include "policy/openmp_cap.h"
#include "shim/adaptive_engine.h"
#include "shim/call_path.h"
#include "shim/message.h"
#include "shim/process.h"
#include "shim/undisturbed.h"

namespace corun {

constinit thread_local OpenMpThread openmp_thread __attribute__((tls_model("initial-exec"))){};
constinit std::atomic<OpenMpState> openmp_state{OpenMpState::unseen};

namespace {

constinit std::atomic<std::uint32_t> threads_seen{0};
constinit std::array<WatchedCall, 64> watched_calls{};

// Nothing is explored where results have to repeat, or where nothing is to be changed.
bool is_adaptive() {
    const Options& options = process_options();
    return adaptive_hooked != nullptr && options.is(OptionId::openmp, "adaptive") &&
           options.is(OptionId::mode, "tune") && !options.boolean(OptionId::reproducible);
}

// Hooks are entered before our constructors: a thread that asks now must hear what it will hear later.
OpenMpState look_at_options() {
    if (source_early()) process_start();
    if (source_early()) return OpenMpState::unseen;  // another thread is at it
    const bool wanted = openmp_start().wanted;
    const Options& options = process_options();
    if (wanted && is_adaptive())
        adaptive_engine_start({options.number(OptionId::explore) / 100.0, options[OptionId::regions].data(),
                               options.is(OptionId::policy, "random"), options.boolean(OptionId::chunk)});
    const auto state = wanted ? OpenMpState::active : OpenMpState::off;
    openmp_state.store(state, std::memory_order_release);
    return state;
}

// `counted` by the runtime now: the mask may have grown since the start.
int limit_now(int limit, int counted) {
    const OpenMpStart& start = openmp_start();
    return counted > start.affinity ? std::max(limit, std::min(counted, start.processors)) : limit;
}

policy::NumberSources sources_now(const Runtime& runtime) {
    const OpenMpStart& start = openmp_start();
    return {get_procs_of(runtime)(), start.affinity, start.environment, start.environment};
}

void tell(const Runtime& runtime, int own, const policy::Cap& given) {
    char effect[200];
    std::snprintf(effect, sizeof effect, "%s %d -> %d threads (%s)", file_name(runtime.object), own,
                  given.threads, policy::reason_name(given.reason));
    const bool held = given.reason == policy::CapReason::held;
    lever_in_force(held ? "OpenMP in a forked child" : "OpenMP cap", effect,
                   held ? "CORUN_FOLLOW" : "CORUN_OPENMP");
}

int limit_of(const Runtime& runtime, const OpenMpThread& thread) {
    return (thread.held & runtime.bit) != 0 ? 1 : openmp_start().limit;
}

void cap(const Runtime& runtime, OpenMpThread& thread) {
    policy::NumberFacts facts;
    facts.own = get_max_of(runtime)();
    facts.held = (thread.held & runtime.bit) != 0;
    facts.sources = sources_now(runtime);
    facts.limit = limit_now(openmp_start().limit, facts.sources.processors);
    policy::Cap given = policy::cap_number(facts);
    if (given.reason == policy::CapReason::program) {
        // Only now, for another thread may be changing the environment.
        facts.sources.environment_now = openmp_environment_number();
        given = policy::cap_number(facts);
    }
    if (given.reason == policy::CapReason::program) openmp_own_word.store(true, std::memory_order_relaxed);
    if (!given.changes()) return;
    thread.capped |= runtime.bit;
    set_threads_of(runtime)(given.threads);
    // A child that is not followed writes no report, and our lock may be that of a thread it has not got.
    if (!process_off()) tell(runtime, facts.own, given);
}

// LLVM's and Intel's runtimes have a function for it, of the calling thread and its teams. Another time than
// their default the program has chosen.
void set_block_time(const Runtime& runtime) {
    const policy::WaitKind wait = openmp_start().wait;
    if (runtime.kind != RuntimeKind::libomp || wait == policy::WaitKind::leave) return;
    constexpr int kDefault = 200;  // milliseconds; 1 is the least above 0
    const DynamicSection section(runtime.object);
    auto* const get = reinterpret_cast<int (*)()>(section.symbol("kmp_get_blocktime"));
    auto* const set = reinterpret_cast<void (*)(int)>(section.symbol("kmp_set_blocktime"));
    if (get == nullptr || set == nullptr || get() != kDefault) return;
    set(wait == policy::WaitKind::bounded || wait == policy::WaitKind::limited ? 1 : 0);
    if (!process_off()) openmp_tell_wait();
}

// A region that is not hooked on this machine could be as wide as before, whatever we say.
bool can_be_capped(const Runtime& runtime) {
#if defined(__x86_64__)
    return runtime.kind != RuntimeKind::none;
#else
    return runtime.kind == RuntimeKind::gomp;
#endif
}

// Forwarding alone makes no call of the system: the program may have forbidden it to itself.
OpenMpState state_seen() {
    const OpenMpState state = openmp_state.load(std::memory_order_acquire);
    if (state != OpenMpState::unseen || source_early() || !process_off()) return state;
    openmp_state.store(OpenMpState::off, std::memory_order_release);
    return OpenMpState::off;
}

OpenMpState state_now() {
    const OpenMpState state = state_seen();
    return state != OpenMpState::unseen ? state : look_at_options();
}

// Our own slow path, which a call back from it (of the program's allocator) does not enter again.
template <typename Action>
void once(OpenMpThread& thread, Action action) {
    if (thread.busy) return;
    struct Call {
        OpenMpThread& thread;
        Action& action;
    } call{thread, action};
    undisturbed(
        [](void* self) {
            const Call& one = *static_cast<Call*>(self);
            one.thread.busy = true;
            // Where it fails it stays as it is, and the next call tries again.
            guarded([](void* again) { static_cast<const Call*>(again)->action(); }, self);
            one.thread.busy = false;
        },
        &call);
}

void settle(const Runtime& runtime, OpenMpThread& thread) {
    const OpenMpState state = state_now();
    if (state == OpenMpState::unseen) return;
    if (state == OpenMpState::active) {
        if (get_level_of(runtime)() > 0)
            return;  // it opened the region before we were asked: not in the middle
        if (can_be_capped(runtime)) cap(runtime, thread);
        set_block_time(runtime);
        openmp_environment_back();
    }
    thread.settled |= runtime.bit & ~thread.capped;
}

// Nothing is to be done: the cap is in force here, or the program has set this very number.
bool is_capped_here(const Runtime& runtime, const OpenMpThread& thread) {
    if ((thread.capped & runtime.bit) == 0) return false;
    const int now = get_max_of(runtime)();
    return now <= limit_of(runtime, thread) || ((thread.held & runtime.bit) == 0 && now == thread.word);
}

}  // namespace

void openmp_settle(const Runtime& runtime) {
    OpenMpThread& thread = openmp_thread;
    if (runtime.bit == 0 || is_capped_here(runtime, thread)) return;
    if (state_seen() == OpenMpState::off) {
        thread.settled |= runtime.bit;
        return;
    }
    // Inside a region the number is the one that was inherited. A thread of a team gets here with every call.
    if (openmp_state.load(std::memory_order_acquire) == OpenMpState::active && get_level_of(runtime)() > 0)
        return;
    once(thread, [&] { settle(runtime, thread); });
}

void openmp_before_region(const Runtime& runtime, long threads) {
    OpenMpThread& thread = openmp_thread;
    if ((thread.settled & runtime.bit) == 0) {
        // It has set its number and asks nobody: it may have cut its work by it.
        if ((thread.repeated & runtime.bit) == 0) {
            openmp_settle(runtime);
        } else if ((thread.capped & runtime.bit) == 0) {
            thread.settled |= runtime.bit;
        } else {
            thread.repeated &= ~runtime.bit;
            thread.word = get_max_of(runtime)();
        }
    }
    if (((thread.settled | thread.capped) & runtime.bit) == 0) return;
    if (openmp_start().follows_forks && runtime.kind == RuntimeKind::gomp) {
        if (threads == 1 || (threads == 0 && get_max_of(runtime)() <= 1)) return;  // no pool yet
        thread.pool |= runtime.bit;
    }
    if (thread.shard == 0) thread.shard = 1 + threads_seen.fetch_add(1, std::memory_order_relaxed);
    thread.ready |= runtime.bit & thread.settled;
}

int openmp_own(const Runtime& runtime, int threads) {
    OpenMpThread& thread = openmp_thread;
    if (state_seen() == OpenMpState::unseen) once(thread, [] { look_at_options(); });
    if (openmp_state.load(std::memory_order_acquire) != OpenMpState::active) return threads;
    policy::SetFacts facts;
    facts.wanted = threads;
    facts.limit = openmp_start().limit;
    facts.held = (thread.held & runtime.bit) != 0;
    facts.inside = get_level_of(runtime)() > 0;
    facts.sources.environment = openmp_start().environment;
    if (threads > facts.limit) facts.sources.environment_now = openmp_environment_number();
    const policy::SetNumber given = policy::set_number(facts);
    if (given.reason != policy::SetReason::region && given.threads != openmp_start().width)
        openmp_own_word.store(true, std::memory_order_relaxed);
    if (given.reason == policy::SetReason::own) {
        thread.repeated &= ~runtime.bit;
        thread.settled |= runtime.bit & ~thread.capped;
        thread.word = given.threads;
    } else if (given.reason == policy::SetReason::repeats) {
        thread.repeated |= runtime.bit;
        thread.word = 0;
        thread.settled &= ~runtime.bit;
        thread.ready &= ~runtime.bit;
    }
    return given.threads;
}

void openmp_loaded() noexcept {
    openmp_environment_back();  // runtimes that the program was linked with have read it
    // Regions of objects that are opened later are never resized.
    if (!process_off() && openmp_runtime_at_start() && openmp_start().wanted && is_adaptive())
        call_path_start();
}

int openmp_processors(const Runtime& runtime, int own) {
    if (state_seen() == OpenMpState::unseen) once(openmp_thread, [] { look_at_options(); });
    if (openmp_state.load(std::memory_order_acquire) != OpenMpState::active) return own;
    const int most = openmp_start().processors;
    return can_be_capped(runtime) && own > most ? most : own;
}

// --- calls that are looked at closely
// ----------------------------------------------------------------------------

WatchedCall* region_watch(const Runtime& runtime, RegionBody* body, void* data) noexcept {
    if (!runtime.object.holds(runtime.functions[static_cast<std::size_t>(OpenMp::parallel)])) return nullptr;
    for (WatchedCall& call : watched_calls) {
        if (call.taken.exchange(true, std::memory_order_acquire)) continue;
        call.body = body;
        call.data = data;
        call.work.store(0, std::memory_order_relaxed);
        call.longest.store(0, std::memory_order_relaxed);
        return &call;
    }
    return nullptr;
}

void region_watched(const OpenRegion& region, RegionShard& shard) noexcept {
    WatchedCall& call = *region.watched;
    shard.work.fetch_add(call.work.load(std::memory_order_relaxed) * region.weight,
                         std::memory_order_relaxed);
    shard.longest.fetch_add(call.longest.load(std::memory_order_relaxed) * region.weight,
                            std::memory_order_relaxed);
    shard.watched.fetch_add(region.weight, std::memory_order_relaxed);
    call.taken.store(false, std::memory_order_release);
}

std::uint32_t region_look(RegionRecord& record, const Runtime& runtime, long threads,
                          std::uint64_t call) noexcept {
    const bool nested = get_level_of(runtime)() > 0;
    const std::uint32_t kind = threads > 0 ? kRegionNamed : kRegionRaw;
    record.classes.fetch_or(kind | (nested ? kRegionNested : 0U), std::memory_order_relaxed);
    const int width = threads > 0 ? static_cast<int>(threads) : get_max_of(runtime)();
    const int narrowest = record.narrowest.load(std::memory_order_relaxed);
    if (narrowest == 0 || width < narrowest) record.narrowest.store(width, std::memory_order_relaxed);
    if (width > record.widest.load(std::memory_order_relaxed))
        record.widest.store(width, std::memory_order_relaxed);
    // The very first make the threads and find cold caches: each stands for itself only.
    constexpr std::uint64_t kSelf = kLookFirst / 2;
    constexpr auto kUntilNext = static_cast<std::uint32_t>((kLookEvery - kSelf) / (kLookFirst - kSelf));
    return call < kSelf ? 1 : call < kLookFirst ? kUntilNext : static_cast<std::uint32_t>(kLookEvery);
}

// gcc's runtime does not know that it was forked: the next team of more than one thread on this thread would
// wait for those of the parent for ever.
void openmp_after_fork(bool followed) noexcept {
    OpenMpThread& thread = openmp_thread;
    engine_after_fork();
    if (openmp_state.load(std::memory_order_relaxed) == OpenMpState::unseen) return;
    if (!followed) {
        // What the parent was told holds for the child too, on all its threads: it has made room by it.
        if (openmp_start().limit == INT_MAX) openmp_state.store(OpenMpState::off, std::memory_order_relaxed);
        return;
    }
    thread.held |= thread.pool;
    thread.settled &= ~thread.held;
    thread.ready &= ~thread.held;
}

}  // namespace corun
