// SPDX-License-Identifier: Apache-2.0
// What LLVM's runtime does otherwise than gcc's although it has the names (shim/openmp_difference.h): one
// program for each -DKIND_..., which prints how many of its values are wrong. Built as a library it is one that
// a program opens.
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { kCount = 100 };
static int seen[kCount];
// Not static, lest the compiler knows them and counts up instead.
volatile unsigned long long first = kCount, last = 0;

static inline int wrong(void) {
    int bad = 0;
    for (int i = 0; i < kCount; ++i) bad += seen[i] != 1;
    return bad;
}

#if defined KIND_unsigned
static int differs(void) {
    const unsigned long long from = first, to = last;
#pragma omp parallel for schedule(dynamic, 3)
    for (unsigned long long i = from; i > to; --i)
#pragma omp atomic
        seen[i - 1]++;
    return wrong();
}
#elif defined KIND_taskloop
static int differs(void) {
    const long from = (long)first, to = (long)last;
    int after = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskloop
        for (long i = from; i < to; ++i) after++;
#pragma omp taskloop
        for (long i = from; i > to; --i)
#pragma omp atomic
            seen[i - 1]++;
    }
    return wrong() + after;
}
#elif defined KIND_doacross
static int differs(void) {
    static int chain[kCount];
#pragma omp parallel for ordered(1) schedule(dynamic)
    for (int i = 1; i < kCount; ++i) {
#pragma omp ordered depend(sink : i - 1)
        chain[i] = chain[i - 1] + 1;
#pragma omp ordered depend(source)
    }
    return chain[kCount - 1] != kCount - 1;
}
#elif defined KIND_scan
static int differs(void) {
    int sum = 0, bad = 0;
#pragma omp parallel for reduction(inscan, + : sum)
    for (int i = 0; i < kCount; ++i) {
        sum += i;
#pragma omp scan inclusive(sum)
        seen[i] = sum;
    }
    for (int i = 0; i < kCount; ++i) bad += seen[i] != i * (i + 1) / 2;
    return bad;
}
#elif defined KIND_target
static int differs(void) {
#pragma omp target teams distribute parallel for map(tofrom : seen)
    for (int i = 0; i < kCount; ++i) seen[i]++;
    return wrong();
}
#elif defined KIND_teams
static int differs(void) {
    int teams = 0;
#pragma omp teams reduction(+ : teams)
    teams += 1;
    return teams != 3;  // what gcc's runtime makes of nothing said
}
#elif defined KIND_allocator
static int differs(void) {
    char* block = omp_alloc(kCount, omp_default_mem_alloc);
    memset(block, 1, kCount);
    omp_free(block, omp_default_mem_alloc);
    return 0;
}
#endif

#if defined KIND_own
int omp_get_max_threads(void) {
    return 77;
}
static int differs(void) {
    return omp_get_max_threads() != 77;
}
#endif

#if defined LIBRARY
int plugin_team(int want, int* told) {
    int size = 0;
    (void)want;
    *told = differs();
#pragma omp parallel num_threads(2)
#pragma omp atomic
    size++;
    return size;
}
#else
int main(void) {
    printf("wrong %d\n", differs());
    return 0;
}
#endif
