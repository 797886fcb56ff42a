// SPDX-License-Identifier: Apache-2.0
// TensorFlow (tensorflow-cpu wheels): op dispatch as the source, Eigen's per-thread limit as the told lever,
// the pool's NumThreads() as the asked lever of oneDNN kernels. The hooks decide nothing. Built without
// exceptions and without destructors, so that exceptions, pthread_exit and longjmp of the program pass
// through.
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "shim/originals.h"
#include "shim/scope.h"
#include "shim/tensorflow_layout.h"
#include "shim/tensorflow_symbols.h"
#include "shim/undisturbed.h"

namespace corun::tensorflow {

constexpr char kLibrary[] = "libtensorflow_framework.so.2";
constexpr char kVersionLibrary[] = "libtensorflow_cc.so.2";  // for the report only

#define CORUN_TENSORFLOW_FUNCTIONS(X) \
    CORUN_TENSORFLOW_HOOKED(X)        \
    CORUN_TENSORFLOW_NEEDED(X)        \
    CORUN_TENSORFLOW_OPTIONAL_HOOKED(X)
CORUN_ORIGINALS(kLibrary, CORUN_TENSORFLOW_FUNCTIONS)

// --- source and told lever
// -----------------------------------------------------------------------------------

static int lever_get() {
    return real_get_parallelism()();
}
static void lever_set(int width) {
    real_set_parallelism()(width);
}

// The variable that both of them are about, if the build exports it: its address on this thread.
static int* lever_place() {
    lever_get();  // by which it is there
    return static_cast<int*>(variable_of_thread(kLibrary, "_ZN10tensorflow26per_thread_max_parallelismE"));
}

constinit std::atomic<int> state{0};  // 0 not looked at, 1 active, 2 refused or off
constinit const char* version = "unknown";

static void refuse(const char* reason) {
    state.store(2, std::memory_order_relaxed);
    source_tell(Source::tensorflow, "tensorflow", "refused", version, reason);
}

using FreeString = void(void*);
constinit FreeString* free_string = nullptr;

static void describe(const void* kernel, const void* context, OpText& text) {
    CxxString trace;  // made by TensorFlow's libstdc++, so freed by the operator delete that it uses
    real_trace_string()(&trace, kernel, context, true);
    layout_describe(trace, context, text);
    if (trace.data != trace.local && free_string != nullptr) free_string(trace.data);
    if (layout_holds()) return;
    text.kind[0] = '\0';
    if (state.load(std::memory_order_relaxed) == 1)
        refuse("the layout of OpKernelContext is not the one known");
}

// Right symbols, right effect: whatever is missing or odd means no source.
static const char* self_test() {
    for (std::size_t i = 0; i < static_cast<std::size_t>(Function::key_append); ++i)
        if (find(static_cast<Function>(i), nullptr) == nullptr) return kSymbols[i];
    if (auto* const tell =
            reinterpret_cast<const char* (*)()>(original_function(kVersionLibrary, "TF_Version", nullptr)))
        version = tell();
    free_string = reinterpret_cast<FreeString*>(global_function("_ZdlPv"));
    const int own = lever_get();
    lever_set(3);
    const int told = lever_get();
    const int* const place = lever_place();
    const bool there = place == nullptr || *place == 3;
    lever_set(own);
    return told == 3 && there && lever_get() == own ? nullptr : "the per-thread limit has no effect";
}

static bool try_activate() {
    static const SourceTable table{"tensorflow", describe, lever_get, lever_set, lever_place};
    int expected = 0;
    if (!state.compare_exchange_strong(expected, 2)) return state.load(std::memory_order_relaxed) == 1;
    if (source_unwanted(Source::tensorflow)) return false;
    if (const char* reason = self_test()) return refuse(reason), false;
    source_runtime(loaded_path(kLibrary));
    if (!source_activate(Source::tensorflow, table)) return false;
    source_tell(Source::tensorflow, "tensorflow", "active", version, "");
    lever_reached(Source::tensorflow, "Eigen's per-thread limit");
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

// The asked lever is known to be reached when the first oneDNN kernel has asked.
constinit std::atomic<bool> asked{false};
[[gnu::noinline]] static void note_asked() {
    const Undisturbed quiet;
    if (!asked.exchange(true)) lever_reached(Source::tensorflow, "oneDNN's number of threads");
}

// TensorFlow asks the environment only where the program has chosen no number; the pool comes right after.
constinit thread_local bool nobody_chose __attribute__((tls_model("initial-exec"))) = false;

// The two pools whose size is a matter of speed alone; tf.data's and others are not ours. Ops may block in
// the dispatch pool until another op has run, so it keeps two threads; where nobody chose it and ops wait at
// the gate it has room for those.
static int sized(const CxxString& name, int threads) {
    const std::string_view pool(name.data, name.size);
    const bool dispatch = pool == "Compute";
    const bool chosen = !dispatch || !nobody_chose;
    if (dispatch) nobody_chose = false;
    const int limit = dispatch || pool == "numa_-1_Eigen" ? pool_limit() : 0;
    const int given = limit == 0 ? threads : (dispatch && limit < 2 ? 2 : limit);
    const int room = chosen ? 0 : pool_room(given < threads ? given : threads);
    if (room > 0) {
        if (room != threads) pool_capped("Compute", threads, room);
        return room;
    }
    if (given >= threads) return threads;
    pool_capped(dispatch ? "Compute" : "numa_-1_Eigen", threads, given);
    return given;
}

}  // namespace corun::tensorflow

// --- hooks
// ---------------------------------------------------------------------------------------------------

namespace corun::tensorflow {
extern "C" {
#define X(id, symbol, result, parameters) \
    [[gnu::visibility("default")]] result corun_##id parameters __asm__(symbol);
CORUN_TENSORFLOW_HOOKED(X)
CORUN_TENSORFLOW_OPTIONAL_HOOKED(X)
#undef X

#define CALLER __builtin_return_address(0)

void corun_compute(void* device, void* kernel, void* context) {
    auto* const real = real_compute(CALLER);
    if (!ready()) return real(device, kernel, context);
    Scope scope;
    op_begin(scope, Source::tensorflow, kernel, layout_shape(context), context);
    real(device, kernel, context);
    op_end(scope);
}

void corun_compute_async(void* device, void* kernel, void* context, void* done) {
    auto* const real = real_compute_async(CALLER);
    if (ready()) op_async(Source::tensorflow);
    real(device, kernel, context, done);
}

void corun_kernel_end(void* kernel) {
    auto* const real = real_kernel_end(CALLER);
    identity_freed(kernel);
    real(kernel);
}

void corun_kernel_end_complete(void* kernel) {
    auto* const real = real_kernel_end_complete(CALLER);
    identity_freed(kernel);
    real(kernel);
}

int corun_inter_op() {
    const int threads = real_inter_op(CALLER)();
    nobody_chose = threads <= 0;
    return threads;
}

int corun_num_threads(const void* pool) {
    const int own = real_num_threads(CALLER)(pool);
    const int width = width_now();
    if (width <= 0 || width >= own) return own;
    if (!asked.load(std::memory_order_relaxed)) note_asked();
    return width;
}

// The key under which a thread keeps a oneDNN primitive. It says nothing of the number of threads that the
// primitive was built for, so one built for another width would be run. Its first piece is followed by the
// width.
void corun_key_append(CxxString* creator, std::size_t length, const char* piece) {
    auto* const real = real_key_append(CALLER);
    const int width = creator->size == 0 && ready() ? width_kept() : 0;
    real(creator, length, piece);
    if (width > 0) real(creator, sizeof width, reinterpret_cast<const char*>(&width));
}

// Whoever asks or sets after an exception or a jump out of an op must not meet the width of that op.
int corun_get_parallelism() {
    scopes_left();
    return real_get_parallelism(CALLER)();
}

void corun_set_parallelism(int width) {
    scopes_left();
    real_set_parallelism(CALLER)(width);
}

void corun_pool(void* pool, void* env, const void* options, const CxxString* name, int threads,
                bool low_latency, void* allocator) {
    real_pool(CALLER)(pool, env, options, name, sized(*name, threads), low_latency, allocator);
}

void corun_pool_complete(void* pool, void* env, const void* options, const CxxString* name, int threads,
                         bool low_latency, void* allocator) {
    real_pool_complete(CALLER)(pool, env, options, name, sized(*name, threads), low_latency, allocator);
}
}  // extern "C"
}  // namespace corun::tensorflow
