// SPDX-License-Identifier: Apache-2.0
// A library that the program opens: with names that tell its runtime, or (plugin_bare.c) with hooked ones
// only.
#include <omp.h>

// Asks for `want` threads and runs a team. Its size, negative when the runtime that ran it is not the one
// that answers questions about it; `told` is what it was told before.
int plugin_team(int want, int* told) {
    int size = 0, ids = 0, entered = 0;
    if (want > 0) omp_set_num_threads(want);
    *told = omp_get_max_threads();
#pragma omp parallel
    {
#pragma omp atomic
        entered++;
#pragma omp atomic
        ids |= 1 << omp_get_thread_num();
#pragma omp atomic write
        size = omp_get_num_threads();
    }
    return entered == size && ids == (1 << size) - 1 ? size : -entered;
}
