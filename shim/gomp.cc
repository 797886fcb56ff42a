// SPDX-License-Identifier: Apache-2.0
// OpenMP as gcc calls it, whichever runtime serves it (LLVM's does too), and the questions that every
// compiler's code may ask. The hooks decide nothing and change no argument. Built without exceptions and
// without destructors, so that pthread_exit and longjmp of the program pass through.
#include <climits>

#include "shim/adaptive.h"

namespace corun {
bool openmp_hooked() noexcept {
    return true;
}
}  // namespace corun

namespace corun::gomp {
extern "C" {
#define X(id, symbol, result, parameters) \
    [[gnu::visibility("default")]] result corun_##id parameters __asm__(symbol);
CORUN_GOMP_HOOKED(X)
#undef X

#define CALLER __builtin_return_address(0)
#define REGION_RUNTIME(id) runtime_of_body(reinterpret_cast<const void*>(body), CALLER, OpenMp::id)

// In the place of the program's body, of the few calls that are looked at closely.
static void watched_body(void* data) {
    auto& call = *static_cast<WatchedCall*>(data);
    const std::uint64_t begin = ticks();
    call.body(call.data);
    const std::uint64_t work = ticks() - begin;
    call.work.fetch_add(work, std::memory_order_relaxed);
    std::uint64_t longest = call.longest.load(std::memory_order_relaxed);
    while (longest < work && !call.longest.compare_exchange_weak(longest, work, std::memory_order_relaxed)) {
    }
}

static inline void watch(OpenRegion& region, const Runtime& runtime, RegionBody*& body, void*& data) {
    if (region.timed == nullptr || !openmp_watch.load(std::memory_order_relaxed)) [[likely]]
        return;
    region.watched = region_watch(runtime, body, data);
    if (region.watched == nullptr) return;
    body = watched_body;
    data = region.watched;
}

// A region that CORUN_OPENMP=adaptive looks at gets a body of ours around its own, and its width.
static inline void look_into(AdaptiveCall& call, RegionBody*& body, void*& data, unsigned& threads) {
    if (call.width != 0) [[unlikely]]
        threads = static_cast<unsigned>(call.width);
    if (call.region == nullptr) [[likely]]
        return;
    call.member.data = data;
    body = corun_member;
    data = &call.member;
}

// The chunk of a region that is one dynamic loop.
static inline long chunk_of(AdaptiveCall& call, const Runtime& runtime, long first, long end, long step,
                            long chunk) {
    if (call.region == nullptr || chunk < 1) [[likely]]
        return chunk;
    const std::uint64_t own = static_cast<std::uint64_t>(chunk);
    return static_cast<long>(adaptive_combined_chunk(call, runtime, loop_iterations(first, end, step), own));
}

// The same of one with schedule(runtime); 0: it stays what it is.
static inline long runtime_chunk_of(AdaptiveCall& call, const Runtime& runtime, long first, long end,
                                    long step) {
    if (call.region == nullptr || (call.member.chunk & kFreeRuntime) == 0) [[likely]]
        return 0;
    const long chunk = chunk_of(call, runtime, first, end, step, 1);
    return chunk > 1 ? chunk : 0;
}

// A region from its begin to its end, with a loop of the kind that is said here.
#define REGION(id, loop, parameters, ...)                                                                  \
    void corun_##id parameters {                                                                           \
        const Runtime& runtime = REGION_RUNTIME(id);                                                       \
        OpenRegion region;                                                                                 \
        region_begin(region, runtime, reinterpret_cast<const void*>(body), threads, CALLER);               \
        AdaptiveCall call;                                                                                 \
        adaptive_begin(call, region, runtime, reinterpret_cast<const void*>(body), CALLER, threads, loop); \
        look_into(call, body, data, threads);                                                              \
        if (call.region == nullptr) watch(region, runtime, body, data);                                    \
        __VA_ARGS__;                                                                                       \
        adaptive_end(call);                                                                                \
        region_end(region);                                                                                \
    }

#define LOOP_PARAMETERS                                                                            \
    (RegionBody * body, void* data, unsigned threads, long first, long end, long step, long chunk, \
     unsigned flags)
#define LOOP(id, loop)                        \
    REGION(id, policy::loop, LOOP_PARAMETERS, \
           id##_of(runtime)(body, data, threads, first, end, step, chunk, flags))
#define LOOP_DYNAMIC(id)                                             \
    REGION(id, policy::kLoopDynamic, LOOP_PARAMETERS,                \
           chunk = chunk_of(call, runtime, first, end, step, chunk); \
           id##_of(runtime)(body, data, threads, first, end, step, chunk, flags))
#define LOOP_RUNTIME_PARAMETERS \
    (RegionBody * body, void* data, unsigned threads, long first, long end, long step, unsigned flags)
#define LOOP_RUNTIME(id)                                                                      \
    REGION(id, policy::kLoopRuntime, LOOP_RUNTIME_PARAMETERS,                                 \
           if (const long chunk = runtime_chunk_of(call, runtime, first, end, step))          \
               loop_dynamic_of(runtime)(body, data, threads, first, end, step, chunk, flags); \
           else id##_of(runtime)(body, data, threads, first, end, step, flags))

REGION(parallel, 0, (RegionBody * body, void* data, unsigned threads, unsigned flags),
       parallel_of(runtime)(body, data, threads, flags))
REGION(parallel_sections, 0,
       (RegionBody * body, void* data, unsigned threads, unsigned sections, unsigned flags),
       parallel_sections_of(runtime)(body, data, threads, sections, flags))
LOOP(loop_static, kLoopStatic)
LOOP_DYNAMIC(loop_dynamic)
LOOP(loop_guided, kLoopGuided)
LOOP_DYNAMIC(loop_nonmonotonic_dynamic)
LOOP(loop_nonmonotonic_guided, kLoopGuided)
LOOP_RUNTIME(loop_runtime)
LOOP_RUNTIME(loop_nonmonotonic_runtime)
LOOP_RUNTIME(loop_maybe_nonmonotonic_runtime)

// The runtime itself reads its data: never watched.
unsigned corun_parallel_reductions(RegionBody* body, void* data, unsigned threads, unsigned flags) {
    const Runtime& runtime = REGION_RUNTIME(parallel_reductions);
    OpenRegion region;
    region_begin(region, runtime, reinterpret_cast<const void*>(body), threads, CALLER);
    const unsigned result = parallel_reductions_of(runtime)(body, data, threads, flags);
    region_end(region);
    return result;
}

// What gcc before 4.9 made: the program itself runs the body and ends the region, which is only counted.
#define REGION_START(id, parameters, ...)                                                    \
    void corun_##id parameters {                                                             \
        const Runtime& runtime = REGION_RUNTIME(id);                                         \
        OpenRegion region;                                                                   \
        region_count(region, runtime, reinterpret_cast<const void*>(body), threads, CALLER); \
        id##_of(runtime)(__VA_ARGS__);                                                       \
    }

#define LOOP_START_PARAMETERS \
    (RegionBody * body, void* data, unsigned threads, long first, long end, long step, long chunk)
#define LOOP_START(id) REGION_START(id, LOOP_START_PARAMETERS, body, data, threads, first, end, step, chunk)

REGION_START(parallel_start, (RegionBody * body, void* data, unsigned threads), body, data, threads)
REGION_START(sections_start, (RegionBody * body, void* data, unsigned threads, unsigned sections), body, data,
             threads, sections)
LOOP_START(loop_static_start)
LOOP_START(loop_dynamic_start)
LOOP_START(loop_guided_start)
REGION_START(loop_runtime_start,
             (RegionBody * body, void* data, unsigned threads, long first, long end, long step), body, data,
             threads, first, end, step)

// --- how wide a region may be. Here the width in force of an op scope will be the answer.
// ------------------------------

static inline const Runtime& settled_runtime(const void* caller, OpenMp function) {
    const Runtime& runtime = runtime_asked(caller, function);
    if ((openmp_thread.settled & runtime.bit) == 0) [[unlikely]]
        openmp_settle(runtime);
    return runtime;
}

int corun_get_max() {
    const Runtime& runtime = settled_runtime(CALLER, OpenMp::get_max);
    adaptive_planned(runtime, policy::kAskedOutside, CALLER);
    return get_max_of(runtime)();
}

std::int32_t corun_get_max_fortran() {
    const Runtime& runtime = settled_runtime(CALLER, OpenMp::get_max_fortran);
    adaptive_planned(runtime, policy::kAskedOutsideFortran, CALLER);
    return get_max_fortran_of(runtime)();
}

// What follows is noted last: the options may have been read only now.
int corun_get_procs() {
    const Runtime& runtime = runtime_asked(CALLER, OpenMp::get_procs);
    const int processors = openmp_processors(runtime, get_procs_of(runtime)());
    adaptive_planned(runtime, policy::kAskedOutside, CALLER);
    return processors;
}

std::int32_t corun_get_procs_fortran() {
    const Runtime& runtime = runtime_asked(CALLER, OpenMp::get_procs_fortran);
    const std::int32_t processors = openmp_processors(runtime, get_procs_fortran_of(runtime)());
    adaptive_planned(runtime, policy::kAskedOutsideFortran, CALLER);
    return processors;
}

void corun_set_threads(int threads) {
    const Runtime& runtime = runtime_asked(CALLER, OpenMp::set_threads);
    set_threads_of(runtime)(openmp_own(runtime, threads));
    adaptive_planned(runtime, policy::kSetNumber, CALLER);
}

void corun_set_threads_fortran(const std::int32_t* threads) {
    const Runtime& runtime = runtime_asked(CALLER, OpenMp::set_threads_fortran);
    const std::int32_t own = openmp_own(runtime, *threads);
    set_threads_fortran_of(runtime)(&own);
    adaptive_planned(runtime, policy::kSetNumber, CALLER);
}

void corun_set_threads_fortran_8(const std::int64_t* threads) {
    const Runtime& runtime = runtime_asked(CALLER, OpenMp::set_threads_fortran_8);
    const int wanted = static_cast<int>(*threads < 0 ? 0 : *threads > INT_MAX ? INT_MAX : *threads);
    const int given = openmp_own(runtime, wanted);
    const std::int64_t own = given != wanted ? given : *threads;
    set_threads_fortran_8_of(runtime)(&own);
    adaptive_planned(runtime, policy::kSetNumber, CALLER);
}
}  // extern "C"
}  // namespace corun::gomp
