// SPDX-License-Identifier: Apache-2.0
// OpenMP as gcc calls it, and the questions that every compiler's code may ask: the one list of what is
// hooked and what is needed, see tensorflow_symbols.h. As few as the rules need, since each hook costs: what
// opens a region, and what tells or sets how wide one may be.
#pragma once

#include <cstdint>

namespace corun {
using RegionBody = void(void* data);
using Unsigned = unsigned long long;
}  // namespace corun

// X(id, symbol, result, parameters)
// clang-format off
// What a region may ask about its team, and the loops inside a region that the runtime hands out: by these
// CORUN_OPENMP=adaptive judges it. omp_get_level() is not among them: it says the same at any width.
#define CORUN_GOMP_ADAPTIVE_QUESTIONS(X)                                                                                   \
    X(thread_num, "omp_get_thread_num", int, ())                                                                  \
    X(thread_num_fortran, "omp_get_thread_num_", std::int32_t, ())                                                \
    X(team_number, "omp_get_num_threads", int, ())                                                                \
    X(team_number_fortran, "omp_get_num_threads_", std::int32_t, ())                                              \
    X(ancestor, "omp_get_ancestor_thread_num", int, (int level))                                                  \
    X(ancestor_fortran, "omp_get_ancestor_thread_num_", std::int32_t, (const std::int32_t* level))                \
    X(ancestor_fortran_8, "omp_get_ancestor_thread_num_8_", std::int32_t, (const std::int64_t* level))            \
    X(team_size, "omp_get_team_size", int, (int level))                                                           \
    X(team_size_fortran, "omp_get_team_size_", std::int32_t, (const std::int32_t* level))                         \
    X(team_size_fortran_8, "omp_get_team_size_8_", std::int32_t, (const std::int64_t* level))                     \
    X(in_parallel, "omp_in_parallel", int, ())                                                                    \
    X(in_parallel_fortran, "omp_in_parallel_", std::int32_t, ())                                                  \
    X(active_level, "omp_get_active_level", int, ())                                                              \
    X(active_level_fortran, "omp_get_active_level_", std::int32_t, ())

#define CORUN_GOMP_ADAPTIVE_LOOPS(X)                                                                                       \
    X(for_static, "GOMP_loop_static_start", bool, (long first, long end, long step, long chunk, long* from, long* to)) \
    X(for_dynamic, "GOMP_loop_dynamic_start", bool, (long first, long end, long step, long chunk, long* from, long* to)) \
    X(for_guided, "GOMP_loop_guided_start", bool, (long first, long end, long step, long chunk, long* from, long* to)) \
    X(for_nonmonotonic_dynamic, "GOMP_loop_nonmonotonic_dynamic_start", bool, (long first, long end, long step, long chunk, long* from, long* to)) \
    X(for_nonmonotonic_guided, "GOMP_loop_nonmonotonic_guided_start", bool, (long first, long end, long step, long chunk, long* from, long* to)) \
    X(for_runtime, "GOMP_loop_runtime_start", bool, (long first, long end, long step, long* from, long* to))      \
    X(for_nonmonotonic_runtime, "GOMP_loop_nonmonotonic_runtime_start", bool, (long first, long end, long step, long* from, long* to)) \
    X(for_maybe_nonmonotonic_runtime, "GOMP_loop_maybe_nonmonotonic_runtime_start", bool, (long first, long end, long step, long* from, long* to)) \
    X(ull_static, "GOMP_loop_ull_static_start", bool, (bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned chunk, Unsigned* from, Unsigned* to)) \
    X(ull_dynamic, "GOMP_loop_ull_dynamic_start", bool, (bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned chunk, Unsigned* from, Unsigned* to)) \
    X(ull_guided, "GOMP_loop_ull_guided_start", bool, (bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned chunk, Unsigned* from, Unsigned* to)) \
    X(ull_nonmonotonic_dynamic, "GOMP_loop_ull_nonmonotonic_dynamic_start", bool, (bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned chunk, Unsigned* from, Unsigned* to)) \
    X(ull_nonmonotonic_guided, "GOMP_loop_ull_nonmonotonic_guided_start", bool, (bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned chunk, Unsigned* from, Unsigned* to)) \
    X(ull_runtime, "GOMP_loop_ull_runtime_start", bool, (bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned* from, Unsigned* to)) \
    X(ull_nonmonotonic_runtime, "GOMP_loop_ull_nonmonotonic_runtime_start", bool, (bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned* from, Unsigned* to)) \
    X(ull_maybe_nonmonotonic_runtime, "GOMP_loop_ull_maybe_nonmonotonic_runtime_start", bool, (bool up, Unsigned first, Unsigned end, Unsigned step, Unsigned* from, Unsigned* to))

// The program's own word about its runtime schedules. (32 bits: an enumeration.)
#define CORUN_GOMP_ADAPTIVE_SCHEDULES(X)                                                                                  \
    X(set_schedule, "omp_set_schedule", void, (int kind, int chunk))                                               \
    X(set_schedule_fortran, "omp_set_schedule_", void, (const std::int32_t* kind, const std::int32_t* chunk))      \
    X(set_schedule_fortran_8, "omp_set_schedule_8_", void, (const std::int32_t* kind, const std::int64_t* chunk))

#define CORUN_GOMP_HOOKED(X)                                                                                      \
    X(parallel, "GOMP_parallel", void, (RegionBody* body, void* data, unsigned threads, unsigned flags))          \
    X(parallel_reductions, "GOMP_parallel_reductions",                                                            \
      unsigned, (RegionBody* body, void* data, unsigned threads, unsigned flags))                                 \
    X(parallel_sections, "GOMP_parallel_sections",                                                                \
      void, (RegionBody* body, void* data, unsigned threads, unsigned sections, unsigned flags))                  \
    X(loop_static, "GOMP_parallel_loop_static",                                                                   \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, long chunk, unsigned flags)) \
    X(loop_dynamic, "GOMP_parallel_loop_dynamic",                                                                 \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, long chunk, unsigned flags)) \
    X(loop_guided, "GOMP_parallel_loop_guided",                                                                   \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, long chunk, unsigned flags)) \
    X(loop_nonmonotonic_dynamic, "GOMP_parallel_loop_nonmonotonic_dynamic",                                       \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, long chunk, unsigned flags)) \
    X(loop_nonmonotonic_guided, "GOMP_parallel_loop_nonmonotonic_guided",                                         \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, long chunk, unsigned flags)) \
    X(loop_runtime, "GOMP_parallel_loop_runtime",                                                                 \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, unsigned flags))    \
    X(loop_nonmonotonic_runtime, "GOMP_parallel_loop_nonmonotonic_runtime",                                       \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, unsigned flags))    \
    X(loop_maybe_nonmonotonic_runtime, "GOMP_parallel_loop_maybe_nonmonotonic_runtime",                           \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, unsigned flags))    \
    X(parallel_start, "GOMP_parallel_start", void, (RegionBody* body, void* data, unsigned threads))              \
    X(sections_start, "GOMP_parallel_sections_start",                                                             \
      void, (RegionBody* body, void* data, unsigned threads, unsigned sections))                                  \
    X(loop_static_start, "GOMP_parallel_loop_static_start",                                                       \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, long chunk))        \
    X(loop_dynamic_start, "GOMP_parallel_loop_dynamic_start",                                                     \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, long chunk))        \
    X(loop_guided_start, "GOMP_parallel_loop_guided_start",                                                       \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step, long chunk))        \
    X(loop_runtime_start, "GOMP_parallel_loop_runtime_start",                                                     \
      void, (RegionBody* body, void* data, unsigned threads, long first, long end, long step))                    \
    X(get_max, "omp_get_max_threads", int, ())                                                                    \
    X(get_max_fortran, "omp_get_max_threads_", std::int32_t, ())                                                  \
    X(get_procs, "omp_get_num_procs", int, ())                                                                    \
    X(get_procs_fortran, "omp_get_num_procs_", std::int32_t, ())                                                  \
    X(set_threads, "omp_set_num_threads", void, (int threads))                                                    \
    X(set_threads_fortran, "omp_set_num_threads_", void, (const std::int32_t* threads))                           \
    X(set_threads_fortran_8, "omp_set_num_threads_8_", void, (const std::int64_t* threads))                       \
    CORUN_GOMP_ADAPTIVE_QUESTIONS(X)                                                                                       \
    CORUN_GOMP_ADAPTIVE_LOOPS(X)                                                                                          \
    CORUN_GOMP_ADAPTIVE_SCHEDULES(X)

#define CORUN_GOMP_NEEDED(X)                                                                                      \
    X(get_level, "omp_get_level", int, ())                                                                        \
    X(get_schedule, "omp_get_schedule", void, (int* kind, int* chunk))                                            \
    X(most_levels, "omp_get_max_active_levels", int, ())                                                          \
    X(global_thread, "__kmpc_global_thread_num", int, (const void* place))
// clang-format on
