// SPDX-License-Identifier: Apache-2.0
// A library that starts a thread when it is loaded and waits for what it finds out. The loader's lock is held
// meanwhile, for dlopen() by the thread that waits.
#include <omp.h>
#include <pthread.h>
#include <stdio.h>

static void* work(void* unused) {
    int entered = 0;
    (void)unused;
    const int told = omp_get_max_threads();
#pragma omp parallel num_threads(2)
    __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
    printf("told %d team %d\n", told, entered);
    return NULL;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) == 0) pthread_join(thread, NULL);
}
