// SPDX-License-Identifier: Apache-2.0
// Stencil: Jacobi sweeps with five points over a square. Each value is computed from the same four whoever
// does it: exact.
#include "kernels.h"

static long side;
static double *from, *to;

static void setup(long size) {
    side = size;
    from = get_memory((size_t)((side + 2) * (side + 2)), sizeof *from);
    to = get_memory((size_t)((side + 2) * (side + 2)), sizeof *to);
    for (long i = 0; i < (side + 2) * (side + 2); ++i) from[i] = to[i] = uniform((uint64_t)i);
}

static void step(void) {
    const long width = side + 2;
#pragma omp parallel for schedule(SCHEDULE(8))
    for (long row = 1; row <= side; ++row) {
        const double* in = from + row * width;
        double* out = to + row * width;
        for (long i = 1; i <= side; ++i)
            out[i] = 0.25 * (in[i - 1] + in[i + 1] + in[i - width] + in[i + width]);
    }
    double* const other = from;
    from = to;
    to = other;
}

static double checksum(void) {
    double sum = 0;
    for (long i = 0; i < (side + 2) * (side + 2); ++i) sum += from[i] * (double)(i % 7 + 1);
    return sum;
}

const struct kernel stencil_kernel = {"stencil", 700, "rows", 1, 80, setup, step, checksum};
