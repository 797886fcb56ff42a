// SPDX-License-Identifier: Apache-2.0
// OpenMP as clang and Intel's compilers call it: the one list of what is hooked, see tensorflow_symbols.h.
// These hooks are a few instructions of x86-64 assembly each; on other machines they are not exported.
#pragma once

#include <cstddef>
#include <cstdint>

// X(id, symbol, result, parameters)
// clang-format off
// Loops of a region that the runtime hands out, and data that it keeps by thread: see gomp_symbols.h.
#define CORUN_KMP_ADAPTIVE_LOOPS(X)                                                                                        \
    X(static_init_4, "__kmpc_for_static_init_4",                                                                  \
      void, (const void* place, int thread, int schedule, int* last, std::int32_t* lower, std::int32_t* upper, std::int32_t* stride, std::int32_t step, std::int32_t chunk)) \
    X(static_init_4u, "__kmpc_for_static_init_4u",                                                                \
      void, (const void* place, int thread, int schedule, int* last, std::int32_t* lower, std::int32_t* upper, std::int32_t* stride, std::int32_t step, std::int32_t chunk)) \
    X(static_init_8, "__kmpc_for_static_init_8",                                                                  \
      void, (const void* place, int thread, int schedule, int* last, std::int64_t* lower, std::int64_t* upper, std::int64_t* stride, std::int64_t step, std::int64_t chunk)) \
    X(static_init_8u, "__kmpc_for_static_init_8u",                                                                \
      void, (const void* place, int thread, int schedule, int* last, std::int64_t* lower, std::int64_t* upper, std::int64_t* stride, std::int64_t step, std::int64_t chunk)) \
    X(dispatch_init_4, "__kmpc_dispatch_init_4",                                                                  \
      void, (const void* place, int thread, int schedule, std::int32_t lower, std::int32_t upper, std::int32_t step, std::int32_t chunk)) \
    X(dispatch_init_4u, "__kmpc_dispatch_init_4u",                                                                \
      void, (const void* place, int thread, int schedule, std::uint32_t lower, std::uint32_t upper, std::int32_t step, std::int32_t chunk)) \
    X(dispatch_init_8, "__kmpc_dispatch_init_8",                                                                  \
      void, (const void* place, int thread, int schedule, std::int64_t lower, std::int64_t upper, std::int64_t step, std::int64_t chunk)) \
    X(dispatch_init_8u, "__kmpc_dispatch_init_8u",                                                                \
      void, (const void* place, int thread, int schedule, std::uint64_t lower, std::uint64_t upper, std::int64_t step, std::int64_t chunk)) \
    X(threadprivate, "__kmpc_threadprivate_cached",                                                               \
      void*, (const void* place, int thread, void* data, std::size_t size, void*** cache))

#define CORUN_KMP_HOOKED(X)                                                                                       \
    X(fork_call, "__kmpc_fork_call", void, (const void* place, int count, void* body, ...))                       \
    X(fork_call_if, "__kmpc_fork_call_if", void, (const void* place, int count, void* body, int condition, void* arguments)) \
    X(serialized, "__kmpc_serialized_parallel", void, (const void* place, int thread))                            \
    X(push_threads, "__kmpc_push_num_threads", void, (const void* place, int thread, int threads))                \
    X(push_threads_strict, "__kmpc_push_num_threads_strict",                                                      \
      void, (const void* place, int thread, int threads, int severity, const char* message))                      \
    X(push_threads_list, "__kmpc_push_num_threads_list",                                                          \
      void, (const void* place, int thread, unsigned length, int* threads))                                       \
    X(push_threads_list_strict, "__kmpc_push_num_threads_list_strict",                                            \
      void, (const void* place, int thread, unsigned length, int* threads, int severity, const char* message))    \
    CORUN_KMP_ADAPTIVE_LOOPS(X)
// clang-format on
