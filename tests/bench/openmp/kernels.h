// SPDX-License-Identifier: Apache-2.0
// OpenMP kernels in the classes of the NAS parallel benchmarks; own code. main.c runs them.
//
// Nothing here asks OpenMP for anything: no thread numbers, no sizes, no clauses that name one. What a region
// is (DESIGN S5) then depends on compiler and schedule alone: gcc inlines the static one and asks in each
// region, the others are handed out by the runtime, as all of clang's are.
#ifndef CORUN_TESTS_BENCH_OPENMP_KERNELS_H
#define CORUN_TESTS_BENCH_OPENMP_KERNELS_H

#include <stdint.h>
#include <stdlib.h>

// Built once for each schedule: -DSCHEDULE_static (what a loop without a clause has), _dynamic, _guided or
// _runtime (then OMP_SCHEDULE says which). `chunk` is what a careful programmer would write.
#if defined SCHEDULE_runtime
#define SCHEDULE(chunk) runtime
#elif defined SCHEDULE_guided
#define SCHEDULE(chunk) guided, chunk
#elif defined SCHEDULE_dynamic
#define SCHEDULE(chunk) dynamic, chunk
#elif defined SCHEDULE_static
#define SCHEDULE(chunk) static
#endif

struct kernel {
    const char* name;
    long size;         // default
    const char* unit;  // of the size
    int exact;         // the checksum is the same to the last bit at any number of threads
    int check_steps;   // after which the checksum is taken
    void (*setup)(long size);
    void (*step)(void);
    double (*checksum)(void);
};

extern const struct kernel parallel_kernel, stencil_kernel, sparse_kernel, reduction_kernel, irregular_kernel,
    fine_kernel, tiny_kernel, mixed_kernel;

// Ends the program when there is no memory.
void* get_memory(size_t count, size_t size);

// Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014), its mixing function.
static inline uint64_t scramble(uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

// In [0, 1).
static inline double uniform(uint64_t x) {
    return (double)(scramble(x) >> 11) * 0x1p-53;
}

#endif
