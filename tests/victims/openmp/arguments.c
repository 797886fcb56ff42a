// SPDX-License-Identifier: Apache-2.0
// Every function that is hooked, each argument another number: the runtime prints what arrives.
#include <stdio.h>

#include "fake_openmp.h"

static int bodies;
static void body(void* data) {
    bodies += *(int*)data;
}
static void outlined(int* thread, int* bound, ...) {
    bodies += *thread + *bound + 1;
}
#define P(n) ((void*)(uintptr_t)(n))

static void loops(void) {
    int one = 1;
    GOMP_parallel_loop_static(body, &one, 3, 10, 20, 2, 5, 9);
    GOMP_parallel_loop_dynamic(body, &one, 3, -10, 20, 2, 5, 9);
    GOMP_parallel_loop_guided(body, &one, 3, 10, -20, -2, 5, 9);
    GOMP_parallel_loop_nonmonotonic_dynamic(body, &one, 3, 1L << 40, 1L << 41, 2, 1L << 33, 9);
    GOMP_parallel_loop_nonmonotonic_guided(body, &one, 3, 11, 21, 3, 6, 8);
    GOMP_parallel_loop_runtime(body, &one, 3, 12, 22, 4, 7);
    GOMP_parallel_loop_nonmonotonic_runtime(body, &one, 3, 13, 23, 5, 6);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(body, &one, 3, 14, 24, 6, 5);
    GOMP_parallel_loop_static_start(body, &one, 3, 15, 25, 7, 4);
    GOMP_parallel_loop_dynamic_start(body, &one, 3, 16, 26, 8, 3);
    GOMP_parallel_loop_guided_start(body, &one, 3, 17, 27, 9, 2);
    GOMP_parallel_loop_runtime_start(body, &one, 3, 18, 28, 10);
}

int main(void) {
    int one = 1, list[] = {5, 6};
    const int32_t three = 3;
    const int64_t five = 5;
    GOMP_parallel(body, &one, 3, 7);
    printf("%u\n", GOMP_parallel_reductions(body, &one, 3, 7));
    GOMP_parallel_sections(body, &one, 3, 6, 7);
    GOMP_parallel_start(body, &one, 3);
    GOMP_parallel_sections_start(body, &one, 3, 6);
    loops();
    omp_set_num_threads(2);
    printf("%d %d\n", omp_get_max_threads(), omp_get_max_threads_());
    omp_set_num_threads_(&three);
    printf("%d %d\n", omp_get_max_threads(), omp_get_max_threads_());
    omp_set_num_threads_8_(&five);
    printf("%d %d\n", omp_get_max_threads(), omp_get_max_threads_());
    for (int i = 0; i < 3; i++) {
        __kmpc_fork_call(P(1), 0, outlined);
        __kmpc_fork_call(P(1), 1, outlined, P(11));
        __kmpc_fork_call(P(1), 3, outlined, P(11), P(12), 13.5);
        __kmpc_fork_call(P(1), 15, outlined, P(1), P(2), P(3), P(4), P(5), P(6), P(7), P(8), P(9), P(10),
                         P(11), P(12), P(13), P(14), 1.25);
        __kmpc_fork_call(P(1), 16, outlined, P(1), P(2), P(3), P(4), P(5), P(6), P(7), P(8), P(9), P(10),
                         P(11), P(12), P(13), P(14), P(15), P(~0UL));
    }
    __kmpc_fork_call_if(P(1), 1, outlined, 17, P(18));
    __kmpc_serialized_parallel(P(1), 19);
    __kmpc_push_num_threads(P(1), 20, 21);
    __kmpc_push_num_threads_strict(P(1), 22, 23, 24, "text");
    __kmpc_push_num_threads_list(P(1), 25, 2, list);
    __kmpc_push_num_threads_list_strict(P(1), 26, 2, list, 27, "text");
    printf("%d bodies, thread %d\n", bodies, omp_get_thread_num());
    return 0;
}
