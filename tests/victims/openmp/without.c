// SPDX-License-Identifier: Apache-2.0
// A program without a runtime that would open regions if there were one. It looks at the names (weak) or asks
// the loader for them (loader); "loop" means a region that needs a runtime to hand out its work. Any other
// word is a library that it opens first, which has a runtime for itself.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void Body(void*);
typedef void Parallel(Body*, void*, unsigned, unsigned);
typedef void Loop(Body*, void*, unsigned, long, long, long, long, unsigned);
typedef void Outlined(int*, int*, ...);
typedef void Fork(const void*, int, Outlined*, ...);
typedef int Ask(void);

#pragma weak GOMP_parallel
#pragma weak GOMP_parallel_loop_dynamic
#pragma weak __kmpc_fork_call
#pragma weak omp_get_max_threads
Parallel GOMP_parallel;
Loop GOMP_parallel_loop_dynamic;
Fork __kmpc_fork_call;
Ask omp_get_max_threads;

static long sum;
static void body(void* data) {
    sum += *(long*)data;
}
static void outlined(int* thread, int* bound, ...) {
    sum += 100 * (*thread + *bound + 1);
}
static void loop_body(void* data) {
    (void)data, sum += 5000;
}

int main(int argc, char** argv) {
    const int by_loader = argc > 1 && strcmp(argv[1], "loader") == 0;
    const int with_loop = argc > 2 && strcmp(argv[2], "loop") == 0;
    if (argc > 2 && !with_loop && dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) == NULL) return 2;
    Parallel* parallel = by_loader ? (Parallel*)dlsym(RTLD_DEFAULT, "GOMP_parallel") : GOMP_parallel;
    Fork* fork_call = by_loader ? (Fork*)dlsym(RTLD_DEFAULT, "__kmpc_fork_call") : __kmpc_fork_call;
    Ask* most = by_loader ? (Ask*)dlsym(RTLD_DEFAULT, "omp_get_max_threads") : omp_get_max_threads;
    long one = 1;
    for (int i = 0; i < 3; i++) {
        parallel != NULL ? parallel(body, &one, 0, 0) : body(&one);
        if (fork_call != NULL)
            fork_call(NULL, 2, outlined, &one, &one);
        else
            sum += 100;
    }
    printf("sum %ld, threads %d\n", sum, most != NULL ? most() : 1);
    fflush(stdout);
    Loop* loop =
        by_loader ? (Loop*)dlsym(RTLD_DEFAULT, "GOMP_parallel_loop_dynamic") : GOMP_parallel_loop_dynamic;
    if (with_loop && loop != NULL)
        loop(loop_body, NULL, 0, 0, 10, 1, 1, 0);
    else if (with_loop)
        sum = 10;
    if (with_loop) printf("loop %ld\n", sum);
    return 0;
}
