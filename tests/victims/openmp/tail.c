// SPDX-License-Identifier: Apache-2.0
// A library whose calls of the runtime are its functions' last: optimised, they become jumps, and the return
// address is that of whoever called the library. All its names are hooked ones.
#include <omp.h>

static int entered;

int tail_max(void) {
    return omp_get_max_threads();
}
// Not its last: minus what it was told.
int tail_asked(void) {
    return -omp_get_max_threads();
}
void tail_set(int threads) {
    omp_set_num_threads(threads);
}
void tail_region(void) {
#pragma omp parallel
    __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
}
int tail_entered(void) {
    return __atomic_exchange_n(&entered, 0, __ATOMIC_RELAXED);
}
