// SPDX-License-Identifier: Apache-2.0
// One BLAS call: its key, its limit, its scope, and the lever around it. Built as the hooks are.
#include <algorithm>
#include <atomic>
#include <cstdio>

#include "policy/thread_share.h"
#include "shim/blas.h"
#include "shim/clock.h"
#include "shim/process.h"
#include "shim/state.h"
#include "shim/undisturbed.h"

namespace corun {
namespace {

constexpr long kWaitNanoseconds = 50000;

enum class State { unknown, deciding, active, off };
constinit std::atomic<State> state{State::unknown};
constinit bool limits_wanted = false;  // what is known without measuring is applied
constinit bool cap_wanted = false;     // the program's own number is cut down to the budget

constinit policy::RecentCallers crowd{};
constinit std::uint64_t crowd_ticks = 0;

// The outermost call of this thread, as it may be left by a jump or come back to us from inside.
constinit thread_local BlasCall* outermost __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local BlasStay outermost_stay __attribute__((tls_model("initial-exec"))) = {};

int argument(const BlasWord* head, int place, bool by_value) {
    if (place == 0) return 0;
    // The lower half is the number in libraries with 64-bit integers too: nothing is larger.
    return by_value ? static_cast<int>(head[place]) : *reinterpret_cast<const int*>(head[place - 1]);
}

void read_sizes(BlasCall& call, const BlasWord* head, bool by_value) {
    const BlasOperation& operation = *call.operation;
    call.sizes = {argument(head, operation.m, by_value), argument(head, operation.n, by_value),
                  argument(head, operation.k, by_value)};
    call.job = operation.job != 0 ? *reinterpret_cast<const char*>(head[operation.job - 1]) : '\0';
}

std::uint32_t shape_of(const BlasCall& call) {
    const std::uint32_t classes = policy::blas_size_class(call.sizes.m) << 12U |
                                  policy::blas_size_class(call.sizes.n) << 6U |
                                  policy::blas_size_class(call.sizes.k);
    return static_cast<std::uint32_t>(static_cast<unsigned char>(call.job)) << 18U | classes;
}

void describe(const void*, const void* data, OpText& text) {
    const auto& call = *static_cast<const BlasCall*>(data);
    std::snprintf(text.kind, sizeof text.kind, "%s", call.operation->name);
    int at = std::snprintf(text.shapes, sizeof text.shapes, "(");
    double product = 1.0;
    int largest = 1;
    if (call.job != '\0') at += std::snprintf(text.shapes + at, sizeof text.shapes - at, "%c,", call.job);
    for (const int size : {call.sizes.m, call.sizes.n, call.sizes.k}) {
        if (size <= 0) continue;
        const int rounded = policy::blas_class_size(policy::blas_size_class(size));
        at += std::snprintf(text.shapes + at, sizeof text.shapes - at, "%d,", rounded);
        product *= size;
        largest = std::max(largest, size);
    }
    text.shapes[at > 1 ? at - 1 : at++] = ')';
    text.shapes[at] = '\0';
    text.elements = product * largest;
}

void after_fork() {
    State deciding = State::deciding;  // by a thread that is not here
    state.compare_exchange_strong(deciding, State::unknown);
    blas_libraries_after_fork();
}

bool try_activate(BlasLibrary& library) {
    static const SourceTable table{.name = "blas",
                                   .describe = describe,
                                   .lever_get = nullptr,
                                   .lever_set = nullptr,
                                   .beside = Beside::counts};
    if (source_unwanted(Source::blas)) return false;
    const Options& options = process_options();
    cap_wanted = pool_limit() != 0;
    limits_wanted = process_limits_widths() && options.boolean(OptionId::blas_limits);
    crowd_ticks = static_cast<std::uint64_t>(policy::RecentCallers::kSeconds * clock_ticks_per_second());
    if (!source_activate(Source::blas, table)) return false;
    source_tell(Source::blas, "blas", "active", library.name, "");
    if (limits_wanted)
        lever_in_force("BLAS limits", "by the sizes of a call, and by the callers side by side",
                       "CORUN_BLAS_LIMITS");
    return true;
}

// One thread decides; others wait for it, for they would be inside without being counted.
[[gnu::noinline]] bool activate(BlasLibrary& library) {
    if (source_early()) return false;
    source_after_fork(Source::blas, after_fork);  // first: a child would wait for ever for who decides
    State now = State::unknown;
    if (state.compare_exchange_strong(now, State::deciding)) {
        const Undisturbed quiet;
        state.store(try_activate(library) ? State::active : State::off, std::memory_order_release);
    }
    while ((now = state.load(std::memory_order_acquire)) == State::deciding) nap(kWaitNanoseconds);
    return now == State::active;
}

// While others are inside at a number that is none for this call.
template <typename Held>
[[gnu::noinline]] void wait_for_others(const BlasCall& call, Held held) {
    const double waits = 1e9 * policy::blas_patience(call.operation->cost, call.sizes) / kWaitNanoseconds;
    for (int i = 0; i < static_cast<int>(waits) && held(); ++i) nap(kWaitNanoseconds);
}

// Small calls that follow one another closely would hold the number down for as long as they go on: they ask
// for what a large one waits for. An arm that gives all the same width is not to be disturbed.
void wait_for_room(const BlasCall& call, BlasLibrary& library, int width) {
    const auto held = [&] { return blas_is_held_below(library, width); };
    if (!held() || globals.decision.load(std::memory_order_relaxed).arm != policy::kPassThrough) return;
    const Undisturbed quiet;  // a jump out of a handler would leave the mark
    blas_wait_begins(library, width);
    wait_for_others(call, held);
    blas_wait_ends(library);
}

// Threads that this call may have at most; 0: nothing is known against the program's own number.
int limit_of(const BlasCall& call, BlasLibrary& library, int budget) {
    const int useful = policy::blas_useful_width(call.operation->cost, call.sizes, budget);
    const int others = blas_callers();
    int share = budget;
    if (others != 0 || crowd.any()) {
        share = policy::share_of(budget, crowd.note(others, ticks(), crowd_ticks));
        if (useful > share) wait_for_others(call, [&] { return blas_is_held_wide(library); });
    }
    const int beside = globals.width_beside.load(std::memory_order_relaxed);  // PyTorch's threads as well
    if (beside != 0 && ticks() < globals.beside_until.load(std::memory_order_relaxed))
        share = std::min(share, beside);
    const int limit = std::min(useful, share) < budget ? std::min(useful, share) : 0;
    if (others != 0 && budget > 1 && limit != 1) wait_for_room(call, library, limit);
    return limit;
}

// Whether calls are looked at: not while corun is off.
bool ready(BlasLibrary& library) {
    const State now = state.load(std::memory_order_acquire);
    if (now == State::active || (now != State::off && activate(library))) return true;
    if (library.width.load(std::memory_order_relaxed) != 0) blas_put_back(library);
    return false;
}

void enter(BlasCall& call, BlasLibrary& library, const BlasWord* head, bool by_value) {
    const BlasOperation& operation = *call.operation;
    if (operation.work != 0 && argument(head, operation.work, by_value) == -1) return;
    if (outermost != nullptr) [[unlikely]] {
        if (outermost > &call) return;  // LAPACK calls BLAS: the outermost call decides
        blas_leave(outermost_stay);     // that one was left by a jump
        outermost = nullptr;
    }
    if (blas_in_team(library)) return;
    call.scope.depth = 0;
    read_sizes(call, head, by_value);
    const bool open = op_open(&call.scope);  // an op of another runtime has its own lever
    if (policy::blas_stays_on_one_thread(operation.cost, call.sizes)) {
        if (!open) op_begin(call.scope, Source::blas, &operation, shape_of(call), &call);
        call.stay.library = nullptr;
        call.open = true;
        return;
    }
    const int budget = globals.budget.load(std::memory_order_relaxed);
    int width = 0;
    if (!open) {
        const int limit = limits_wanted ? limit_of(call, library, budget) : 0;
        width = op_begin(call.scope, Source::blas, &operation, shape_of(call), &call, limit);
    }
    const int given = blas_enter(call.stay, library, width, cap_wanted ? budget : 0);
    if (given != (width != 0 ? width : budget)) op_width(call.scope, given);
    outermost = &call;
    outermost_stay = call.stay;
    call.open = true;
}

}  // namespace

void* blas_begin(BlasCall& call, const BlasOperation& operation, const BlasWord* head, bool by_value,
                 BlasCallers& bound, const char* symbol, const void* caller) {
    call.operation = &operation;
    call.open = false;
    const BlasBinding& binding = blas_binding(bound, symbol, caller);
    // Its own copy: what is kept for one call only may be gone when the next begins.
    void* const function = binding.function;
    BlasLibrary* const library = binding.library;
    if (library != nullptr && ready(*library)) enter(call, *library, head, by_value);
    return function;
}

void blas_end(BlasCall& call) noexcept {
    if (!call.open) return;
    if (call.stay.library != nullptr) {
        blas_leave(call.stay);
        outermost = nullptr;
    }
    op_end(call.scope);
}

}  // namespace corun
