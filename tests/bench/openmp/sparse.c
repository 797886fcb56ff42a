// SPDX-License-Identifier: Apache-2.0
// Sparse matrix-vector product: compressed rows of uneven length; each row is one sum in one order: exact.
#include "kernels.h"

enum { longest = 32 };

static long rows;
static long* first;
static int* column;
static double *value, *x, *y;

static void setup(long size) {
    rows = size;
    first = get_memory((size_t)rows + 1, sizeof *first);
    for (long row = 0; row < rows; ++row)
        first[row + 1] = first[row] + 4 + (long)(scramble((uint64_t)row) % (longest - 4));
    column = get_memory((size_t)first[rows], sizeof *column);
    value = get_memory((size_t)first[rows], sizeof *value);
    x = get_memory((size_t)rows, sizeof *x);
    y = get_memory((size_t)rows, sizeof *y);
    for (long row = 0; row < rows; ++row) {
        x[row] = 1 + uniform((uint64_t)row + 1);
        for (long k = first[row]; k < first[row + 1]; ++k) {
            // Most neighbours are near, some are anywhere, as in the graph of a mesh.
            const uint64_t random = scramble((uint64_t)k ^ 0x5555U);
            const long near = row + (long)(random % 201) - 100;
            const long any = (long)(random % (uint64_t)rows);
            const long wanted = random >> 61 ? near : any;
            column[k] = (int)((wanted % rows + rows) % rows);
            value[k] = uniform((uint64_t)k) - 0.5;
        }
    }
}

// The constant keeps the numbers from fading away: subnormal ones take twice the time.
static void step(void) {
#pragma omp parallel for schedule(SCHEDULE(64))
    for (long row = 0; row < rows; ++row) {
        double sum = 0;
        for (long k = first[row]; k < first[row + 1]; ++k) sum += value[k] * x[column[k]];
        y[row] = sum;
    }
#pragma omp parallel for schedule(SCHEDULE(512))
    for (long row = 0; row < rows; ++row) x[row] = 0.9 * x[row] + 0.01 * y[row] + 0.1;
}

static double checksum(void) {
    double sum = 0;
    for (long row = 0; row < rows; ++row) sum += x[row] * (double)(row % 5 + 1);
    return sum;
}

const struct kernel sparse_kernel = {"sparse", 40000, "rows", 1, 40, setup, step, checksum};
