// SPDX-License-Identifier: Apache-2.0
// Fine: many iterations of a few nanoseconds, some much longer than others, handed out one by one: what
// schedule(dynamic) does where nobody names a chunk. Never static. Integers: exact.
#include "kernels.h"

#if defined SCHEDULE_static || defined SCHEDULE_dynamic
#define OWN_SCHEDULE dynamic
#else
#define OWN_SCHEDULE SCHEDULE(1)
#endif

static long items;
static uint32_t* values;
static uint32_t round_number;

static void setup(long size) {
    items = size;
    round_number = 0;
    values = get_memory((size_t)items, sizeof *values);
    for (long i = 0; i < items; ++i) values[i] = (uint32_t)i;
}

static void step(void) {
    const uint32_t round = ++round_number;
#pragma omp parallel for schedule(OWN_SCHEDULE)
    for (long i = 0; i < items; ++i) {
        uint32_t value = values[i] + round;
        for (int k = (int)(scramble((uint64_t)i) % 8); k >= 0; --k) value = value * 1664525U + 1013904223U;
        values[i] = value;
    }
}

static double checksum(void) {
    double sum = 0;
    for (long i = 0; i < items; ++i) sum += values[i];
    return sum;
}

const struct kernel fine_kernel = {"fine", 20000, "items", 1, 20, setup, step, checksum};
