// SPDX-License-Identifier: Apache-2.0
// OpenMP as clang and Intel's compilers call it: the one list of what is hooked, see tensorflow_symbols.h.
// These hooks are a few instructions of x86-64 assembly each; on other machines they are not exported.
#pragma once

// X(id, symbol, result, parameters)
// clang-format off
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
      void, (const void* place, int thread, unsigned length, int* threads, int severity, const char* message))
// clang-format on
