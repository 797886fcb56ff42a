// SPDX-License-Identifier: Apache-2.0
// Uses OpenMP where there is a runtime. There is none.
#include <stdio.h>

#pragma weak omp_get_max_threads
#pragma weak omp_set_num_threads
#pragma weak omp_get_num_procs
int omp_get_max_threads(void);
int omp_get_num_procs(void);
void omp_set_num_threads(int threads);

int main(void) {
    if (omp_set_num_threads) omp_set_num_threads(4);
    printf("threads %d, processors %d\n", omp_get_max_threads ? omp_get_max_threads() : 1,
           omp_get_num_procs ? omp_get_num_procs() : 1);
    return 0;
}
