// SPDX-License-Identifier: Apache-2.0
// Many tiny regions: each shares 64 additions. Integers: exact.
#include "tiny.h"

static long regions;
static uint32_t values[tiny_length];
static uint32_t number;

void tiny_region(uint32_t* array, uint32_t round) {
#pragma omp parallel for schedule(SCHEDULE(8))
    for (int i = 0; i < tiny_length; ++i) array[i] = array[i] * 5 + round + (uint32_t)i;
}

static void setup(long size) {
    regions = size;
    number = 0;
    for (int i = 0; i < tiny_length; ++i) values[i] = (uint32_t)i;
}

static void step(void) {
    for (long i = 0; i < regions; ++i) tiny_region(values, ++number);
}

static double checksum(void) {
    double sum = 0;
    for (int i = 0; i < tiny_length; ++i) sum += values[i];
    return sum;
}

const struct kernel tiny_kernel = {"tiny", 200, "regions", 1, 40, setup, step, checksum};
