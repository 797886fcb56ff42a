// SPDX-License-Identifier: Apache-2.0
// Asks whoever there is. With REGION it has one too, and needs a runtime.
#include <stdio.h>

int omp_get_max_threads(void);
void omp_set_num_threads(int threads);

int stood_for(void) {
    int entered = 0;
    const int told = omp_get_max_threads();
    omp_set_num_threads(3);
#ifdef REGION
#pragma omp parallel num_threads(2)
    __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
#endif
    printf("told %d, then %d, entered %d\n", told, omp_get_max_threads(), entered);
    return 0;
}
#ifndef LIBRARY
int main(void) {
    return stood_for();
}
#endif
