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

#define LOOP(id, fact)                                                                   \
    bool corun_##id(long first, long end, long step, long chunk, long* from, long* to) { \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id);                      \
        adaptive_loop(policy::fact);                                                     \
        return id##_of(runtime)(first, end, step, chunk, from, to);                      \
    }
#define LOOP_RUNTIME(id)                                                     \
    bool corun_##id(long first, long end, long step, long* from, long* to) { \
        const Runtime& runtime = runtime_asked(CALLER, OpenMp::id);          \
        adaptive_loop(policy::kLoopRuntime);                                 \
        return id##_of(runtime)(first, end, step, from, to);                 \
    }

LOOP(for_static, kLoopStatic)
LOOP(for_dynamic, kLoopDynamic)
LOOP(for_guided, kLoopGuided)
LOOP(for_nonmonotonic_dynamic, kLoopDynamic)
LOOP(for_nonmonotonic_guided, kLoopGuided)
LOOP_RUNTIME(for_runtime)
LOOP_RUNTIME(for_nonmonotonic_runtime)
LOOP_RUNTIME(for_maybe_nonmonotonic_runtime)
}  // extern "C"
}  // namespace corun::gomp
