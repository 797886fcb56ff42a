// SPDX-License-Identifier: Apache-2.0
// What a region may ask about its team, and the loops inside that the runtime hands out. Everything is
// answered by the runtime; a thread of a region that CORUN_OPENMP=adaptive looks at leaves a mark on it.
// Built as gomp.cc is.
#include "shim/adaptive.h"

namespace corun {
bool adaptive_hooked() noexcept {
    return true;
}
}  // namespace corun

namespace corun::gomp {
extern "C" {
#define X(id, symbol, result, parameters) \
    [[gnu::visibility("default")]] result corun_##id parameters __asm__(symbol);
CORUN_GOMP_ADAPTIVE_QUESTIONS(X)
CORUN_GOMP_ADAPTIVE_LOOPS(X)
CORUN_GOMP_ADAPTIVE_SCHEDULES(X)
#undef X

#define CALLER __builtin_return_address(0)

#define QUESTION(id, fact, result, parameters, ...)                 \
    result corun_##id parameters {                                  \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id); \
        adaptive_asked(policy::fact, runtime, CALLER);              \
        return id##_of(runtime)(__VA_ARGS__);                       \
    }

QUESTION(thread_num, kAskedThread, int, (), )
QUESTION(thread_num_fortran, kAskedThread, std::int32_t, (), )
QUESTION(team_number, kAskedTeam, int, (), )
QUESTION(team_number_fortran, kAskedTeam, std::int32_t, (), )
QUESTION(ancestor, kAskedThread, int, (int level), level)
QUESTION(ancestor_fortran, kAskedThread, std::int32_t, (const std::int32_t* level), level)
QUESTION(ancestor_fortran_8, kAskedThread, std::int32_t, (const std::int64_t* level), level)
QUESTION(team_size, kAskedTeam, int, (int level), level)
QUESTION(team_size_fortran, kAskedTeam, std::int32_t, (const std::int32_t* level), level)
QUESTION(team_size_fortran_8, kAskedTeam, std::int32_t, (const std::int64_t* level), level)
QUESTION(in_parallel, kAskedParallel, int, (), )
QUESTION(in_parallel_fortran, kAskedParallel, std::int32_t, (), )
QUESTION(active_level, kAskedParallel, int, (), )
QUESTION(active_level_fortran, kAskedParallel, std::int32_t, (), )

// The chunk of a dynamic schedule that nobody has chosen may be another one, in the whole team alike.
#define LOOP(id, fact)                                                                   \
    bool corun_##id(long first, long end, long step, long chunk, long* from, long* to) { \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id);                      \
        adaptive_loop(policy::fact);                                                     \
        return id##_of(runtime)(first, end, step, chunk, from, to);                      \
    }
#define LOOP_DYNAMIC(id)                                                                   \
    bool corun_##id(long first, long end, long step, long chunk, long* from, long* to) {   \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id);                        \
        adaptive_loop(policy::kLoopDynamic);                                               \
        chunk = adaptive_chunk(runtime, CALLER, loop_iterations(first, end, step), chunk); \
        return id##_of(runtime)(first, end, step, chunk, from, to);                        \
    }
#define LOOP_RUNTIME(id)                                                                               \
    bool corun_##id(long first, long end, long step, long* from, long* to) {                           \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id);                                    \
        adaptive_loop(policy::kLoopRuntime);                                                           \
        const auto chunk = adaptive_runtime_chunk(runtime, CALLER, loop_iterations(first, end, step)); \
        if (chunk != 0)                                                                                \
            return for_dynamic_of(runtime)(first, end, step, static_cast<long>(chunk), from, to);      \
        return id##_of(runtime)(first, end, step, from, to);                                           \
    }

LOOP(for_static, kLoopStatic)
LOOP_DYNAMIC(for_dynamic)
LOOP(for_guided, kLoopGuided)
LOOP_DYNAMIC(for_nonmonotonic_dynamic)
LOOP(for_nonmonotonic_guided, kLoopGuided)
LOOP_RUNTIME(for_runtime)
LOOP_RUNTIME(for_nonmonotonic_runtime)
LOOP_RUNTIME(for_maybe_nonmonotonic_runtime)

// Loops over unsigned 64-bit numbers. Those that count down step by a number that has wrapped around.
static std::uint64_t unsigned_iterations(bool up, Unsigned first, Unsigned end, Unsigned step) {
    return up ? loop_iterations(first, end, step) : loop_iterations(end, first, Unsigned{0} - step);
}

#define UNSIGNED_LOOP(id, fact)                                                                           \
    bool corun_##id(bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned chunk, Unsigned* from, \
                    Unsigned* to) {                                                                       \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id);                                       \
        adaptive_loop(policy::fact);                                                                      \
        return id##_of(runtime)(up, first, end, step, chunk, from, to);                                   \
    }
#define UNSIGNED_DYNAMIC(id)                                                                              \
    bool corun_##id(bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned chunk, Unsigned* from, \
                    Unsigned* to) {                                                                       \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id);                                       \
        adaptive_loop(policy::kLoopDynamic);                                                              \
        chunk = adaptive_chunk(runtime, CALLER, unsigned_iterations(up, first, end, step), chunk);        \
        return id##_of(runtime)(up, first, end, step, chunk, from, to);                                   \
    }
#define UNSIGNED_RUNTIME(id)                                                                              \
    bool corun_##id(bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned* from, Unsigned* to) { \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id);                                       \
        adaptive_loop(policy::kLoopRuntime);                                                              \
        const Unsigned chunk =                                                                            \
            adaptive_runtime_chunk(runtime, CALLER, unsigned_iterations(up, first, end, step));           \
        if (chunk != 0) return ull_dynamic_of(runtime)(up, first, end, step, chunk, from, to);            \
        return id##_of(runtime)(up, first, end, step, from, to);                                          \
    }

UNSIGNED_LOOP(ull_static, kLoopStatic)
UNSIGNED_DYNAMIC(ull_dynamic)
UNSIGNED_LOOP(ull_guided, kLoopGuided)
UNSIGNED_DYNAMIC(ull_nonmonotonic_dynamic)
UNSIGNED_LOOP(ull_nonmonotonic_guided, kLoopGuided)
UNSIGNED_RUNTIME(ull_runtime)
UNSIGNED_RUNTIME(ull_nonmonotonic_runtime)
UNSIGNED_RUNTIME(ull_maybe_nonmonotonic_runtime)

#define SET_SCHEDULE(id, parameters, ...)                           \
    void corun_##id parameters {                                    \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id); \
        adaptive_schedule_set();                                    \
        id##_of(runtime)(__VA_ARGS__);                              \
    }
SET_SCHEDULE(set_schedule, (int kind, int chunk), kind, chunk)
SET_SCHEDULE(set_schedule_fortran, (const std::int32_t* kind, const std::int32_t* chunk), kind, chunk)
SET_SCHEDULE(set_schedule_fortran_8, (const std::int32_t* kind, const std::int64_t* chunk), kind, chunk)
}  // extern "C"
}  // namespace corun::gomp
