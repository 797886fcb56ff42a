// SPDX-License-Identifier: Apache-2.0
// A library that uses OpenMP before any other constructor has run.
#include "early_openmp.h"

#include <omp.h>

int early_told, early_team;

int team_now(void) {
    int size = 0;
#pragma omp parallel
    {
#pragma omp atomic write
        size = omp_get_num_threads();
    }
    return size;
}

__attribute__((constructor(101))) static void early(void) {
    early_told = omp_get_max_threads();
    early_team = team_now();
}
