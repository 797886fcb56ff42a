// SPDX-License-Identifier: Apache-2.0
// Reduction: two dot products and what follows from them. The order of a sum depends on the team: equal but
// for rounding.
#include "kernels.h"

static long length;
static double *a, *b;
static double last;

static void setup(long size) {
    length = size;
    last = 0;
    a = get_memory((size_t)length, sizeof *a);
    b = get_memory((size_t)length, sizeof *b);
    for (long i = 0; i < length; ++i) {
        a[i] = uniform((uint64_t)i);
        b[i] = uniform((uint64_t)(i + length));
    }
}

static void step(void) {
    double product = 0, square = 0;
#pragma omp parallel for schedule(SCHEDULE(2048)) reduction(+ : product, square)
    for (long i = 0; i < length; ++i) {
        product += a[i] * b[i];
        square += b[i] * b[i];
    }
    last = 0.5 * last + product / square;
}

static double checksum(void) {
    return last;
}

const struct kernel reduction_kernel = {"reduction", 200000, "elements", 0, 100, setup, step, checksum};
