// SPDX-License-Identifier: Apache-2.0
// Uses OpenMP where there is a runtime. There is none. It looks at one name and uses others.
#include <stdio.h>

#pragma weak omp_get_max_threads
#pragma weak omp_set_num_threads
#pragma weak omp_get_num_procs
#pragma weak omp_init_lock
int omp_get_max_threads(void);
int omp_get_num_procs(void);
void omp_set_num_threads(int threads);
void omp_init_lock(void** lock);

int main(void) {
    void* lock = NULL;
    if (omp_set_num_threads) {
        omp_set_num_threads(4);
        omp_init_lock(&lock);
    }
    printf("threads %d, processors %d\n", omp_get_max_threads ? omp_get_max_threads() : 0,
           omp_get_num_procs ? omp_get_num_procs() : 0);
    return 0;
}
