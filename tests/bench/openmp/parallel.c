// SPDX-License-Identifier: Apache-2.0
// Embarrassingly parallel: pairs of random numbers, those within the unit circle counted by ring. Integers
// only come out of it: exact.
#include "kernels.h"

enum { rings = 10, pairs = 64 };  // pairs a block

static long blocks;
static long counts[rings];
static uint64_t round_number;

static void setup(long size) {
    blocks = size;
    round_number = 0;
    for (int i = 0; i < rings; ++i) counts[i] = 0;
}

static void step(void) {
    const uint64_t base = ++round_number << 32;
#pragma omp parallel for schedule(SCHEDULE(16)) reduction(+ : counts)
    for (long block = 0; block < blocks; ++block) {
        for (int i = 0; i < pairs; ++i) {
            const uint64_t number = base + ((uint64_t)block * pairs + (uint64_t)i) * 2;
            const double x = 2 * uniform(number) - 1;
            const double y = 2 * uniform(number + 1) - 1;
            const double square = x * x + y * y;
            if (square < 1) ++counts[(int)(square * rings)];
        }
    }
}

static double checksum(void) {
    double sum = 0;
    for (int i = 0; i < rings; ++i) sum += (double)(counts[i] * (i + 1));
    return sum;
}

const struct kernel parallel_kernel = {"parallel", 4000, "blocks", 1, 15, setup, step, checksum};
