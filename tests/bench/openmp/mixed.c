// SPDX-License-Identifier: Apache-2.0
// Wide and tiny regions in turn: a sweep over a large array, then a hundred tiny loops. No one number of
// threads is right for both. Exact.
#include "tiny.h"

enum { tiny_in_a_row = 100 };

static long length;
static double* field;
static uint32_t values[tiny_length];
static uint32_t number;

static void setup(long size) {
    length = size;
    number = 0;
    field = get_memory((size_t)length, sizeof *field);
    for (long i = 0; i < length; ++i) field[i] = uniform((uint64_t)i);
    for (int i = 0; i < tiny_length; ++i) values[i] = (uint32_t)i;
}

static void wide_region(void) {
#pragma omp parallel for schedule(SCHEDULE(4))
    for (long block = 0; block < length; block += 256) {
        const long end = block + 256 < length ? block + 256 : length;
        for (long i = block; i < end; ++i) {
            double x = field[i];
            for (int k = 0; k < 8; ++k) x = 3.7 * x * (1 - x);  // stays in [0, 1)
            field[i] = x;
        }
    }
}

static void step(void) {
    wide_region();
    for (int i = 0; i < tiny_in_a_row; ++i) tiny_region(values, ++number);
}

static double checksum(void) {
    double sum = 0;
    for (long i = 0; i < length; ++i) sum += field[i] * (double)(i % 3 + 1);
    for (int i = 0; i < tiny_length; ++i) sum += values[i];
    return sum;
}

const struct kernel mixed_kernel = {"mixed", 100000, "elements", 1, 40, setup, step, checksum};
