// SPDX-License-Identifier: Apache-2.0
// plugin.c with a name that is never hooked, so that a word of the loader's tells its runtime.
#include "plugin.c"

double plugin_time(void) {
    return omp_get_wtime();
}
