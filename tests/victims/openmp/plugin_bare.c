// SPDX-License-Identifier: Apache-2.0
// The only name of OpenMP in it is GOMP_parallel, or __kmpc_fork_call.
int plugin_bare(void) {
    int entered = 0;
#pragma omp parallel
    __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
    return entered;
}
