// SPDX-License-Identifier: Apache-2.0
#include <omp.h>
#include <stdio.h>

#include "early_openmp.h"

int main(void) {
    printf("early: told %d, team %d; later: told %d, team %d\n", early_told, early_team,
           omp_get_max_threads(), team_now());
    return 0;
}
