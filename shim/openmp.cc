// SPDX-License-Identifier: Apache-2.0
#include "shim/openmp.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "shim/adaptive_engine.h"
#include "shim/message.h"
#include "shim/process.h"
#include "shim/undisturbed.h"

namespace corun {

constinit thread_local OpenMpThread openmp_thread __attribute__((tls_model("initial-exec"))){};
constinit std::atomic<OpenMpState> openmp_state{OpenMpState::unseen};

namespace {

constinit std::atomic<int> limit{INT_MAX};  // of what nobody chose
constinit std::atomic<bool> forks_followed{
    false};  // then a child is kept from waiting for its parent's threads
constinit std::atomic<std::uint32_t> threads_seen{0};
constinit std::atomic<int> environment_at_start{0};

// OMP_NUM_THREADS may be a list, one number for each level of nesting.
int number_in_environment() {
    const char* const text = std::getenv("OMP_NUM_THREADS");
    return text != nullptr ? static_cast<int>(std::strtol(text, nullptr, 10)) : 0;
}

// Hooks are entered before our constructors: a thread that asks now must hear what it will hear later.
OpenMpState look_at_options() {
    if (source_early()) process_start();
    if (source_early()) return OpenMpState::unseen;  // another thread is at it
    const Options& options = process_options();
    const bool wanted =
        !process_off() && options.has_word(OptionId::hooks, "openmp") && !options.is(OptionId::openmp, "off");
    if (wanted && !options.is(OptionId::mode, "observe")) limit.store(process_start_budget().cpus);
    forks_followed.store(wanted && options.is(OptionId::follow, "fork"));
    environment_at_start.store(number_in_environment());
    // Nothing is explored where results have to repeat, or where nothing is to be changed.
    if (wanted && options.is(OptionId::openmp, "adaptive") && options.is(OptionId::mode, "tune") &&
        !options.boolean(OptionId::reproducible))
        adaptive_engine_start({options.number(OptionId::explore) / 100.0, options[OptionId::regions].data(),
                               options.is(OptionId::policy, "random")});
    const auto state = wanted ? OpenMpState::active : OpenMpState::off;
    openmp_state.store(state, std::memory_order_release);
    return state;
}

// Whether the environment or the machine explains the number. One that does not come from there the program
// has set by a way that does not lead through us, and it may have cut its work accordingly.
bool is_environments(int own) {
    return own == environment_at_start.load(std::memory_order_relaxed) || own == number_in_environment();
}
bool is_default(const Runtime& runtime, int own) {
    return own == get_procs_of(runtime)() || own == process_start_budget().affinity || is_environments(own);
}

const char* file_name(const Runtime& runtime) {
    const char* const path = runtime.object.name;
    const char* const slash = path != nullptr ? std::strrchr(path, '/') : nullptr;
    return slash != nullptr ? slash + 1 : path != nullptr && path[0] != '\0' ? path : "the program";
}

void set_number(const Runtime& runtime, int own, int given, const char* lever, const char* option) {
    set_threads_of(runtime)(given);
    char effect[200];
    std::snprintf(effect, sizeof effect, "%s %d -> %d threads", file_name(runtime), own, given);
    lever_in_force(lever, effect, option);
}

void cap(const Runtime& runtime, OpenMpThread& thread) {
    const int own = get_max_of(runtime)();
    if ((thread.held & runtime.bit) != 0) {
        if (own > 1) set_number(runtime, own, 1, "OpenMP in a forked child", "CORUN_FOLLOW");
        return;
    }
    const int most = limit.load(std::memory_order_relaxed);
    if (own <= most || !is_default(runtime, own)) return;
    thread.capped |= runtime.bit;
    set_number(runtime, own, most, "OpenMP cap", "CORUN_OPENMP");
}

// A region that is not hooked on this machine could be as wide as before, whatever we say.
bool can_be_capped(const Runtime& runtime) {
#if defined(__x86_64__)
    return runtime.kind != RuntimeKind::none;
#else
    return runtime.kind == RuntimeKind::gomp;
#endif
}

OpenMpState state_now() {
    const OpenMpState state = openmp_state.load(std::memory_order_acquire);
    return state != OpenMpState::unseen ? state : look_at_options();
}

// Our own slow path, which a call back from it (of the program's allocator) does not enter again.
template <typename Action>
void once(OpenMpThread& thread, Action action) {
    if (thread.busy) return;
    const Undisturbed quiet;
    thread.busy = true;
    try {
        action();
    } catch (const std::exception& error) {  // of memory: it stays as it is, and the next call tries again
        message_fault(error.what());
    }
    thread.busy = false;
}

void settle(const Runtime& runtime, OpenMpThread& thread) {
    const OpenMpState state = state_now();
    if (state == OpenMpState::unseen) return;
    if (state == OpenMpState::active) {
        if (get_level_of(runtime)() > 0)
            return;  // it opened the region before we were asked: not in the middle
        if (can_be_capped(runtime)) cap(runtime, thread);
    }
    thread.settled |= runtime.bit;
}

}  // namespace

void openmp_settle(const Runtime& runtime) {
    OpenMpThread& thread = openmp_thread;
    if (runtime.bit == 0) return;
    // Inside a region the number is the one that was inherited. A thread of a team gets here with every call.
    if (openmp_state.load(std::memory_order_acquire) == OpenMpState::active && get_level_of(runtime)() > 0)
        return;
    once(thread, [&] { settle(runtime, thread); });
}

void openmp_before_region(const Runtime& runtime, long threads) {
    OpenMpThread& thread = openmp_thread;
    if ((thread.settled & runtime.bit) == 0) {
        // It has set its number and asks nobody: it may have cut its work by it.
        if ((thread.repeated & runtime.bit) != 0)
            thread.settled |= runtime.bit;
        else
            openmp_settle(runtime);
    }
    if ((thread.settled & runtime.bit) == 0) return;
    if (forks_followed.load(std::memory_order_relaxed) && runtime.kind == RuntimeKind::gomp) {
        if (threads == 1 || (threads == 0 && get_max_of(runtime)() <= 1)) return;  // no pool yet
        thread.pool |= runtime.bit;
    }
    if (thread.shard == 0) thread.shard = 1 + threads_seen.fetch_add(1, std::memory_order_relaxed);
    thread.ready |= runtime.bit;
}

int openmp_own(const Runtime& runtime, int threads) {
    OpenMpThread& thread = openmp_thread;
    if (openmp_state.load(std::memory_order_acquire) == OpenMpState::unseen)
        once(thread, [] { look_at_options(); });
    if ((thread.held & runtime.bit) != 0 && threads > 1) return 1;
    const int most = limit.load(std::memory_order_relaxed);
    const bool repeats = threads > most && is_environments(threads);
    if (repeats && (thread.capped & runtime.bit) != 0) return most;
    if (get_level_of(runtime)() > 0) return threads;  // ends with the region
    thread.repeated = repeats ? thread.repeated | runtime.bit : thread.repeated & ~runtime.bit;
    thread.settled = repeats ? thread.settled & ~runtime.bit : thread.settled | runtime.bit;
    if (repeats) thread.ready &= ~runtime.bit;
    return threads;
}

int openmp_processors(const Runtime& runtime, int own) {
    if (openmp_state.load(std::memory_order_acquire) == OpenMpState::unseen)
        once(openmp_thread, [] { look_at_options(); });
    const int most = limit.load(std::memory_order_relaxed);
    const bool ours = openmp_state.load(std::memory_order_acquire) == OpenMpState::active;
    return ours && can_be_capped(runtime) && own > most ? most : own;
}

std::uint32_t region_look(RegionRecord& record, const Runtime& runtime, long threads, std::uint64_t call,
                          const void* caller) noexcept {
    record.caller.store(caller, std::memory_order_relaxed);
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
    if (!followed) return openmp_state.store(OpenMpState::off, std::memory_order_relaxed);
    thread.held |= thread.pool;
    thread.settled &= ~thread.held;
    thread.ready &= ~thread.held;
}

}  // namespace corun
