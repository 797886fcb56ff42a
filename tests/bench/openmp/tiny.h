// SPDX-License-Identifier: Apache-2.0
// A loop that is too short to share.
#ifndef CORUN_TESTS_BENCH_OPENMP_TINY_H
#define CORUN_TESTS_BENCH_OPENMP_TINY_H

#include "kernels.h"

enum { tiny_length = 64 };

void tiny_region(uint32_t* values, uint32_t round);

#endif
