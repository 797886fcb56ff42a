// SPDX-License-Identifier: Apache-2.0
// A library with a region of its own that calls another library, whose calls of a runtime are jumps.
int outer(void (*other)(void)) {
    int entered = 0;
#pragma omp parallel
    __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
    other();
    return entered;
}
