// SPDX-License-Identifier: Apache-2.0
// PyTorch (CPU wheels): records of its dispatcher as the source, the number of threads of the OpenMP runtime
// that libtorch uses as the told lever. Built as tensorflow.cc is.
//
// The dispatcher asks getStepCallbacksUnlessEmpty() before each op whether anybody wants a record of it. We
// call the program's own and, for an op that is inside no other, add ourselves to its answer. So a label and
// an op inside another cost next to nothing, and nothing of torch's own state is changed (as it would be by
// addGlobalCallback(), for all records).
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "shim/openmp.h"
#include "shim/originals.h"
#include "shim/resolver.h"
#include "shim/scope.h"
#include "shim/torch_layout.h"
#include "shim/torch_symbols.h"
#include "shim/undisturbed.h"

namespace corun::torch {

constexpr char kLibrary[] = "libtorch_cpu.so";

#define CORUN_TORCH_FUNCTIONS(X) \
    CORUN_TORCH_HOOKED(X)        \
    CORUN_TORCH_NEEDED(X)        \
    CORUN_TORCH_OPTIONAL_NEEDED(X)
CORUN_ORIGINALS(kLibrary, CORUN_TORCH_FUNCTIONS)

constexpr std::size_t kRequired = static_cast<std::size_t>(Function::abi_version);

// A place in libtorch that asks on behalf of one operator. Where there was never anything to be said of it (a
// view, a container), most of its records are not made: they would cost ten times what such a place does.
struct Site {
    std::atomic<const void*> place;
    std::atomic<const void*> schema;
    std::atomic<std::uint32_t> idle;   ///< calls in a row with nothing to be said; kNever: there was
    std::atomic<std::uint32_t> calls;  ///< since then
    std::atomic<bool> works;           ///< its ops are short, where others only hold some
};
constexpr std::size_t kSites = 8192;
constexpr std::uint32_t kIdleEnough = 64;     ///< calls
constexpr std::uint32_t kUnknown = 1U << 16;  ///< from here on: since an op that was not known
constexpr std::uint32_t kIdleAgain = kUnknown + 4096;
constexpr std::uint32_t kLookEvery = 64;  ///< of a place that is idle
constexpr std::uint32_t kNever = ~std::uint32_t{0};
constinit std::array<Site, kSites> sites{};
static_assert(kSites == 8192);

static inline Site& site_of(const void* place) {
    return sites[(reinterpret_cast<std::uintptr_t>(place) * 0x9E3779B97F4A7C15ULL) >> 51];
}

static inline bool is_idle(Site& site, const void* place) {
    const std::uint32_t idle = site.idle.load(std::memory_order_relaxed);
    if (idle != kIdleEnough || site.place.load(std::memory_order_relaxed) != place) return false;
    // Short as it is: beside others its threads would wait for each other.
    if (widths_bounded() && site.works.load(std::memory_order_relaxed)) [[unlikely]]
        return false;
    const std::uint32_t calls = site.calls.load(std::memory_order_relaxed) + 1;
    site.calls.store(calls, std::memory_order_relaxed);
    // At odd intervals, as ops come in turn (a 32-bit mixing function).
    std::uint32_t mixed = (calls ^ calls >> 16) * 0x21F0AAADU;
    mixed = (mixed ^ mixed >> 15) * 0x735A2D97U;
    return (mixed >> 16) % kLookEvery != 0;
}

// Two places may share a Site, and some ask for any operator: both never fall idle.
static void note_idle(Site& site, const void* place, const void* schema, Begun begun) {
    const std::uint32_t idle = site.idle.load(std::memory_order_relaxed);
    if (idle == kNever) return;
    const void* known = site.schema.load(std::memory_order_relaxed);
    if (known == nullptr) {
        site.place.store(place, std::memory_order_relaxed);
        site.schema.store(known = schema, std::memory_order_relaxed);
    }
    const bool same = known == schema && site.place.load(std::memory_order_relaxed) == place;
    if (same && begun == Begun::inside) return;
    // Small tensors are known long before large ones, of which there are fewer: where one of those is seen
    // that is still to be known, idle is only what stays so for long.
    const bool nothing = begun == Begun::cheap || begun == Begun::trivial || begun == Begun::container;
    if (begun == Begun::cheap) site.works.store(true, std::memory_order_relaxed);
    const bool unknown = begun == Begun::open || begun == Begun::fresh;
    const std::uint32_t more = idle == kIdleEnough || idle == kIdleAgain ? kIdleEnough : idle + 1;
    const std::uint32_t next = nothing                       ? more
                               : unknown && idle != 0        ? kUnknown
                               : unknown || widths_bounded() ? 0
                                                             : kNever;
    site.idle.store(same ? next : kNever, std::memory_order_relaxed);
}

struct Thread {
    const void* inside;  ///< the record of the op that this thread is in; what is in it need not be told
    Site* site;          ///< where the dispatcher has asked last ...
    const void* place;   ///< ... and whose that is
    RestLook rest;
    bool settled;       ///< its number of threads was looked at
    bool setting;       ///< torch is setting it
    bool mkl_capped;    ///< ... and with it MKL's, which then hides what torch tells MKL later
    bool mkl_narrowed;  ///< MKL's own number is not the program's now ...
    int mkl_own;        ///< ... but this
};
constinit thread_local Thread thread __attribute__((tls_model("initial-exec"))) = {};

// --- told lever
// ---------------------------------------------------------------------------------------------------

constinit const Runtime* runtime = nullptr;  // of libtorch, see resolver.h
constinit mkl_threads_type* mkl_threads = nullptr;
constinit mkl_set_threads_type* mkl_set_threads = nullptr;

static int lever_get() {
    return get_max_of(*runtime)();
}

// MKL follows the runtime's number, unless the program or MKL_NUM_THREADS has given it one of its own.
static void lever_set(int width) {
    set_threads_of (*runtime)(width);
    if (mkl_threads == nullptr || mkl_threads() <= width) return;
    const int own = mkl_set_threads(width);
    if (!thread.mkl_narrowed) thread.mkl_own = own;
    thread.mkl_narrowed = true;
}

static void lever_restore(int width, int own) {
    if (lever_get() == width) set_threads_of (*runtime)(own);
    if (!thread.mkl_narrowed) return;
    thread.mkl_narrowed = false;
    mkl_set_threads(thread.mkl_own);
}

// --- the program's own number
// --------------------------------------------------------------------------------------------

static int capped(int threads) {
    const int limit = pool_limit();
    if (limit == 0 || threads <= limit) return threads;
    pool_capped("torch", threads, limit);
    return limit;
}

// A new thread has what the environment says, whatever torch was told before. Once a thread, before its first
// op or region.
[[gnu::noinline]] static void settle() {
    const Undisturbed quiet;
    thread.settled = true;
    const int own = lever_get();
    const int given = capped(own);
    if (given < own) set_threads_of (*runtime)(given);
    if (mkl_threads == nullptr) return;
    const int mkl_own = mkl_threads();
    if (const int mkl_given = capped(mkl_own); mkl_given < mkl_own) {
        mkl_set_threads(mkl_given);
        thread.mkl_capped = true;
    }
}

// The program's own word to MKL follows, which is for all threads. In a forked child as well.
static void uncap_mkl() {
    if (mkl_set_threads == nullptr || !std::exchange(thread.mkl_capped, false)) return;
    mkl_set_threads(0);
}

// --- source
// ---------------------------------------------------------------------------------------------------

constinit std::atomic<int> state{0};  // 0 not looked at, 1 active, 2 refused or off
constinit char version[32] = "unknown";

static void refuse(const char* reason) {
    state.store(2, std::memory_order_relaxed);
    source_tell(Source::torch, "torch", "refused", version, reason);
}

static void describe(const void*, const void* record, OpText& text) {
    if (layout_describe(record, real_record_name()(record), real_record_inputs()(record), text)) return;
    text.kind[0] = '\0';
    if (state.load(std::memory_order_relaxed) == 1) refuse("a record does not have the layout that is known");
}

// A label, a record that lies on no stack, and ops of a team's members are none of ours.
constexpr std::uintptr_t kNear = 1U << 16;
static void* on_begin(void* result, const void* record) {
    *static_cast<void**>(result) = nullptr;  // no context of ours
    const auto distance = reinterpret_cast<std::uintptr_t>(record) -
                          reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    const void* const schema = layout_schema(record);
    if (schema == nullptr || distance > kNear) return result;
    if (!thread.settled) [[unlikely]]
        settle();
    Begun begun = Begun::inside;
    if (get_level_of(*runtime)() == 0) {
        begun = op_begin_at(record, Source::torch, schema,
                            layout_shape(schema, record, real_record_inputs()(record)), record);
        note_idle(*thread.site, thread.place, schema, begun);
    }
    if (begun == Begun::open) openmp_look_again();
    if (begun != Begun::open && begun != Begun::container) thread.inside = record;
    return result;
}

static void on_end(const void* record, void*) {
    thread.inside = nullptr;
    op_end_at(record);
}

static void add_ourselves(StepCallbacks& callbacks) {
    if (!callbacks.has_value) {
        callbacks.pairs = callbacks.room;
        callbacks.count = 0;
        callbacks.capacity = StepCallbacks::kRoom;
        callbacks.thread = 0;
        callbacks.scope = kScopeFunction;
        callbacks.needs_outputs = callbacks.needs_ids = false;
        callbacks.has_value = true;
    }
    if (callbacks.count >= callbacks.capacity) return;
    callbacks.needs_inputs = true;
    callbacks.pairs[callbacks.count++] = {reinterpret_cast<const void*>(&on_begin),
                                          reinterpret_cast<const void*>(&on_end)};
}

// Right symbols, known version, right effect: whatever is missing or odd means no source.
static const char* self_test() {
    for (std::size_t i = 0; i < kRequired; ++i)
        if (find(static_cast<Function>(i), nullptr) == nullptr) return kSymbols[i];
    const std::uint64_t number = real_abi_version() != nullptr ? real_abi_version()() : 0;
    if (number == 0) return "it does not tell its version";
    std::snprintf(version, sizeof version, "%u.%u.%u", static_cast<unsigned>(number >> 56),
                  static_cast<unsigned>(number >> 48 & 0xFF), static_cast<unsigned>(number >> 40 & 0xFF));
    if ((number & kVersionMask) != kKnownVersion) return "its layout is not known";
    // As libtorch itself would ask.
    runtime = &runtime_asked(reinterpret_cast<const void*>(real_init_threads()), OpenMp::set_threads);
    if (runtime->kind == RuntimeKind::none) return "it has no OpenMP runtime";
    if (real_mkl_threads() != nullptr && real_mkl_set_threads() != nullptr) {
        mkl_threads = real_mkl_threads();
        mkl_set_threads = real_mkl_set_threads();
    }
    // Of the runtime alone: MKL would ask it, and a number above the budget be capped.
    const int own = lever_get();
    set_threads_of (*runtime)(own + 1);
    const int told = lever_get();
    set_threads_of (*runtime)(own);
    return told == own + 1 && lever_get() == own ? nullptr : "its number of threads cannot be set";
}

static bool try_activate() {
    static const SourceTable table{.name = "torch",
                                   .describe = describe,
                                   .lever_get = lever_get,
                                   .lever_set = lever_set,
                                   .lever_restore = lever_restore,
                                   .nests = true,
                                   .coarse = true,
                                   .beside = Beside::bounded,
                                   .rests = true};
    int expected = 0;
    if (!state.compare_exchange_strong(expected, 2)) return state.load(std::memory_order_relaxed) == 1;
    if (source_unwanted(Source::torch)) return false;
    if (const char* reason = self_test()) return refuse(reason), false;
    source_runtime(loaded_path(kLibrary));
    if (!source_activate(Source::torch, table)) return false;
    source_tell(Source::torch, "torch", "active", version, "");
    lever_reached(Source::torch, mkl_threads != nullptr ? "OpenMP's number of threads, which MKL follows"
                                                        : "OpenMP's number of threads");
    state.store(1, std::memory_order_release);
    return true;
}

[[gnu::noinline]] static bool activate() {
    if (source_early()) return false;
    const Undisturbed quiet;
    return try_activate();
}

static inline bool ready() {
    const int now = state.load(std::memory_order_relaxed);
    return now == 1 || (now == 0 && activate());
}

}  // namespace corun::torch

// --- hooks
// ---------------------------------------------------------------------------------------------------

namespace corun::torch {
extern "C" {
#define X(id, symbol, result, parameters) \
    [[gnu::visibility("default")]] result corun_torch_##id parameters __asm__(symbol);
CORUN_TORCH_HOOKED(X)
#undef X

#define CALLER __builtin_return_address(0)

void* corun_torch_step_callbacks(void* result, std::uint8_t scope) {
    real_step_callbacks(CALLER)(result, scope);
    if (scope != kScopeFunction || !ready()) return result;
    const void* const inside = thread.inside;
    if (inside != nullptr && inside >= __builtin_frame_address(0)) return result;
    if (thread.settled && source_rests(thread.rest)) return result;
    Site& site = site_of(CALLER);
    if (is_idle(site, CALLER) || !source_awake()) return result;
    thread.site = &site;
    thread.place = CALLER;
    add_ourselves(*static_cast<StepCallbacks*>(result));
    return result;
}

void corun_torch_init_threads() {
    auto* const real = real_init_threads(CALLER);
    if (!ready()) return real();
    lever_out(Source::torch);  // it goes by the number that is in force
    thread.setting = true;
    real();
    thread.setting = false;
    settle();
    lever_in(Source::torch);
}

void corun_torch_set_threads(int threads) {
    auto* const real = real_set_threads(CALLER);
    if (!ready() || thread.setting) {
        uncap_mkl();
        return real(ready() ? capped(threads) : threads);
    }
    lever_out(Source::torch);
    uncap_mkl();
    real(capped(threads));
    lever_in(Source::torch);
}
}  // extern "C"
}  // namespace corun::torch
