// SPDX-License-Identifier: Apache-2.0
// The runtime's functions as programs see them.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef void Body(void*);
typedef void Outlined(int*, int*, ...);

extern int fake_quiet;
extern void (*fake_at_level)(void);

int omp_get_thread_num(void);
int omp_get_max_threads(void);
int omp_get_max_threads_(void);
int omp_get_num_procs(void);
int omp_get_num_procs_(void);
void omp_set_num_threads(int n);
void omp_set_num_threads_(const int32_t* n);
void omp_set_num_threads_8_(const int64_t* n);
void GOMP_parallel(Body* body, void* data, unsigned n, unsigned flags);
unsigned GOMP_parallel_reductions(Body* body, void* data, unsigned n, unsigned flags);
void GOMP_parallel_sections(Body* body, void* data, unsigned n, unsigned count, unsigned flags);
#define LOOP(name)                                                                                    \
    void GOMP_parallel_loop_##name(Body* body, void* data, unsigned n, long from, long to, long step, \
                                   long chunk, unsigned flags);
#define LOOP_RUNTIME(name)                                                                            \
    void GOMP_parallel_loop_##name(Body* body, void* data, unsigned n, long from, long to, long step, \
                                   unsigned flags);
LOOP(static)
LOOP(dynamic)
LOOP(guided)
LOOP(nonmonotonic_dynamic)
LOOP(nonmonotonic_guided)
LOOP_RUNTIME(runtime)
LOOP_RUNTIME(nonmonotonic_runtime)
LOOP_RUNTIME(maybe_nonmonotonic_runtime)
void GOMP_parallel_start(Body* body, void* data, unsigned n);
void GOMP_parallel_sections_start(Body* body, void* data, unsigned n, unsigned count);
void GOMP_parallel_loop_static_start(Body* body, void* data, unsigned n, long from, long to, long step,
                                     long chunk);
void GOMP_parallel_loop_dynamic_start(Body* body, void* data, unsigned n, long from, long to, long step,
                                      long chunk);
void GOMP_parallel_loop_guided_start(Body* body, void* data, unsigned n, long from, long to, long step,
                                     long chunk);
void GOMP_parallel_loop_runtime_start(Body* body, void* data, unsigned n, long from, long to, long step);
void __kmpc_fork_call(const void* place, int count, Outlined* body, ...);
void __kmpc_fork_call_if(const void* place, int count, Outlined* body, int condition, void* argument);
void __kmpc_serialized_parallel(const void* place, int thread);
void __kmpc_push_num_threads(const void* place, int thread, int n);
void __kmpc_push_num_threads_strict(const void* place, int thread, int n, int severity, const char* message);
void __kmpc_push_num_threads_list(const void* place, int thread, unsigned length, int* n);
void __kmpc_push_num_threads_list_strict(const void* place, int thread, unsigned length, int* n, int severity,
                                         const char* message);

#ifdef __cplusplus
}
#endif
