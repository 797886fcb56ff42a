// SPDX-License-Identifier: Apache-2.0
// Irregular: how long Collatz sequences are. Short iterations of very different cost, handed out one by one,
// as anybody would who has not measured it. Never static. Integers: exact.
#include "kernels.h"

#ifdef SCHEDULE_static
#define OWN_SCHEDULE dynamic
#else
#define OWN_SCHEDULE SCHEDULE(1)
#endif

static long numbers;
static long total;
static uint64_t offset;

static void setup(long size) {
    numbers = size;
    total = 0;
    offset = 0;
}

static void step(void) {
    long sum = 0;
    const uint64_t base = offset;
#pragma omp parallel for schedule(OWN_SCHEDULE) reduction(+ : sum)
    for (long i = 0; i < numbers; ++i) {
        uint64_t value = base + (uint64_t)i + 1;
        long length = 0;
        for (; value != 1; ++length) value = value % 2 == 0 ? value / 2 : 3 * value + 1;
        sum += length;
    }
    total = (total + sum) % 1000003;
    offset = (offset + 1) % 1000;
}

static double checksum(void) {
    return (double)total;
}

const struct kernel irregular_kernel = {"irregular", 5000, "numbers", 1, 60, setup, step, checksum};
