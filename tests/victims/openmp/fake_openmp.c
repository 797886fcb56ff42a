// SPDX-License-Identifier: Apache-2.0
// A runtime that prints what it is called with and runs each region on the calling thread, by which
// exceptions and jumps may leave it.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

typedef void Body(void*);
int fake_quiet;
static int number = 4;
#define SAY(...) (fake_quiet ? 0 : printf(__VA_ARGS__))

void (*fake_at_level)(void);
int omp_get_level(void) {
    if (fake_at_level) fake_at_level();
    return 0;
}
int omp_get_thread_num(void) {
    return 0;
}
int omp_get_max_threads(void) {
    return number;
}
int omp_get_max_threads_(void) {
    return number;
}
int omp_get_num_procs(void) {
    return 8;
}
int omp_get_num_procs_(void) {
    return 8;
}
void omp_set_num_threads(int n) {
    SAY("omp_set_num_threads %d\n", n), number = n;
}
void omp_set_num_threads_(const int32_t* n) {
    SAY("omp_set_num_threads_ %d\n", *n), number = *n;
}
void omp_set_num_threads_8_(const int64_t* n) {
    SAY("omp_set_num_threads_8_ %ld\n", (long)*n), number = (int)*n;
}

void GOMP_parallel(Body* body, void* data, unsigned n, unsigned flags) {
    SAY("GOMP_parallel %u %u\n", n, flags);
    body(data);
}
unsigned GOMP_parallel_reductions(Body* body, void* data, unsigned n, unsigned flags) {
    SAY("GOMP_parallel_reductions %u %u\n", n, flags);
    body(data);
    return 4321;
}
void GOMP_parallel_sections(Body* body, void* data, unsigned n, unsigned count, unsigned flags) {
    SAY("GOMP_parallel_sections %u %u %u\n", n, count, flags);
    body(data);
}
#define LOOP(name)                                                                                    \
    void GOMP_parallel_loop_##name(Body* body, void* data, unsigned n, long from, long to, long step, \
                                   long chunk, unsigned flags) {                                      \
        SAY(#name " %u %ld %ld %ld %ld %u\n", n, from, to, step, chunk, flags);                       \
        body(data);                                                                                   \
    }
#define LOOP_RUNTIME(name)                                                                            \
    void GOMP_parallel_loop_##name(Body* body, void* data, unsigned n, long from, long to, long step, \
                                   unsigned flags) {                                                  \
        SAY(#name " %u %ld %ld %ld %u\n", n, from, to, step, flags);                                  \
        body(data);                                                                                   \
    }
LOOP(static)
LOOP(dynamic)
LOOP(guided)
LOOP(nonmonotonic_dynamic)
LOOP(nonmonotonic_guided)
LOOP_RUNTIME(runtime)
LOOP_RUNTIME(nonmonotonic_runtime)
LOOP_RUNTIME(maybe_nonmonotonic_runtime)

void GOMP_parallel_start(Body* body, void* data, unsigned n) {
    SAY("GOMP_parallel_start %u\n", n);
    (void)body, (void)data;
}
void GOMP_parallel_sections_start(Body* body, void* data, unsigned n, unsigned count) {
    SAY("GOMP_parallel_sections_start %u %u\n", n, count);
    (void)body, (void)data;
}
#define LOOP_START(name)                                                                           \
    void GOMP_parallel_loop_##name##_start(Body* body, void* data, unsigned n, long from, long to, \
                                           long step, long chunk) {                                \
        SAY(#name "_start %u %ld %ld %ld %ld\n", n, from, to, step, chunk);                        \
        (void)body, (void)data;                                                                    \
    }
LOOP_START(static)
LOOP_START(dynamic)
LOOP_START(guided)
void GOMP_parallel_loop_runtime_start(Body* body, void* data, unsigned n, long from, long to, long step) {
    SAY("runtime_start %u %ld %ld %ld\n", n, from, to, step);
    (void)body, (void)data;
}

// With an odd count of arguments the last is a double.
void __kmpc_fork_call(const void* place, int count, void (*body)(int*, int*, ...), ...) {
    int zero = 0;
    void* first = NULL;
    va_list list;
    va_start(list, body);
    SAY("__kmpc_fork_call %d:", count);
    for (int i = 0; i < count; i++) {
        if (i == count - 1 && count % 2 == 1 && count > 1) {
            const double last = va_arg(list, double);
            SAY(" %g", last);
            continue;
        }
        void* one = va_arg(list, void*);
        if (i == 0) first = one;
        SAY(" %lu", (unsigned long)(uintptr_t)one);
    }
    SAY("\n");
    va_end(list);
    (void)place;
    body(&zero, &zero, first);
}
void __kmpc_fork_call_if(const void* place, int count, void (*body)(int*, int*, ...), int condition,
                         void* argument) {
    int zero = 0;
    (void)place;
    SAY("__kmpc_fork_call_if %d %d\n", count, condition);
    body(&zero, &zero, argument);
}
void __kmpc_serialized_parallel(const void* place, int thread) {
    (void)place;
    SAY("__kmpc_serialized_parallel %d\n", thread);
}
void __kmpc_push_num_threads(const void* place, int thread, int n) {
    (void)place;
    SAY("__kmpc_push_num_threads %d %d\n", thread, n);
}
void __kmpc_push_num_threads_strict(const void* place, int thread, int n, int severity, const char* message) {
    (void)place;
    SAY("__kmpc_push_num_threads_strict %d %d %d %s\n", thread, n, severity, message);
}
void __kmpc_push_num_threads_list(const void* place, int thread, unsigned length, int* n) {
    (void)place;
    SAY("__kmpc_push_num_threads_list %d %u %d\n", thread, length, n[length - 1]);
}
void __kmpc_push_num_threads_list_strict(const void* place, int thread, unsigned length, int* n, int severity,
                                         const char* message) {
    (void)place;
    SAY("__kmpc_push_num_threads_list_strict %d %u %d %d %s\n", thread, length, n[length - 1], severity,
        message);
}
