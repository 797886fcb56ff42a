// SPDX-License-Identifier: Apache-2.0
// Loops of clang's regions, and data that a region keeps by thread: see gomp_team.cc. Built as gomp.cc is.
#if defined(__x86_64__)
#include "shim/adaptive.h"

namespace corun::kmp {
namespace {

// The runtime's numbers of schedules; above them bits that say how chunks may follow each other, and an
// ordered loop has 32 more.
enum Schedule { kDynamic = 35, kGuided = 36, kRuntime = 37 };

std::uint32_t loop_fact(int schedule) {
    switch (schedule & 0xFFFF) {
        case kDynamic:
            return policy::kLoopDynamic;
        case kGuided:
            return policy::kLoopGuided;
        case kRuntime:
            return policy::kLoopRuntime;
        default:
            return 0;  // ordered, or of a kind that nobody has looked at
    }
}

// LLVM's runtime counts chunks, so that all threads of a team must say the same: see adaptive.cc.
template <typename S>
void choose_chunk(const Runtime& runtime, const void* site, std::uint32_t fact, std::uint64_t iterations,
                  int& schedule, S& chunk) {
    if (fact == policy::kLoopDynamic) {
        chunk = adaptive_chunk(runtime, site, iterations, chunk);
    } else if (fact == policy::kLoopRuntime) {
        const std::uint64_t wanted = adaptive_runtime_chunk(runtime, site, iterations);
        if (wanted == 0) return;
        schedule += kDynamic - kRuntime;
        chunk = static_cast<S>(wanted);
    }
}

}  // namespace

extern "C" {
#define X(id, symbol, result, parameters) \
    [[gnu::visibility("default")]] result corun_##id parameters __asm__(symbol);
CORUN_KMP_ADAPTIVE_LOOPS(X)
#undef X

#define CALLER __builtin_return_address(0)

#define STATIC_INIT(id, T)                                                                                 \
    void corun_##id(const void* place, int thread, int schedule, int* last, T* lower, T* upper, T* stride, \
                    T step, T chunk) {                                                                     \
        const Runtime& runtime = runtime_of_place(place, CALLER, OpenMp::id);                              \
        adaptive_loop(policy::kLoopStatic);                                                                \
        id##_of(runtime)(place, thread, schedule, last, lower, upper, stride, step, chunk);                \
    }
STATIC_INIT(static_init_4, std::int32_t)
STATIC_INIT(static_init_4u, std::int32_t)
STATIC_INIT(static_init_8, std::int64_t)
STATIC_INIT(static_init_8u, std::int64_t)

#define DISPATCH_INIT(id, T, S)                                                                       \
    void corun_##id(const void* place, int thread, int schedule, T lower, T upper, S step, S chunk) { \
        const Runtime& runtime = runtime_of_place(place, CALLER, OpenMp::id);                         \
        const std::uint32_t fact = loop_fact(schedule);                                               \
        adaptive_loop(fact);                                                                          \
        choose_chunk(runtime, CALLER, fact, loop_iterations_to(lower, upper, step), schedule, chunk); \
        id##_of(runtime)(place, thread, schedule, lower, upper, step, chunk);                         \
    }
DISPATCH_INIT(dispatch_init_4, std::int32_t, std::int32_t)
DISPATCH_INIT(dispatch_init_4u, std::uint32_t, std::int32_t)
DISPATCH_INIT(dispatch_init_8, std::int64_t, std::int64_t)
DISPATCH_INIT(dispatch_init_8u, std::uint64_t, std::int64_t)

void* corun_threadprivate(const void* place, int thread, void* data, std::size_t size, void*** cache) {
    adaptive_fact(policy::kKeepsPerThread);
    return threadprivate_of(runtime_of_place(place, CALLER, OpenMp::threadprivate))(place, thread, data, size,
                                                                                    cache);
}
}  // extern "C"
}  // namespace corun::kmp
#endif
