// SPDX-License-Identifier: Apache-2.0
// Threads that may be cancelled at any moment are, while they ask. (What the runtime allocates for would hang
// without us.)
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int kind;

static void* work(void* nothing) {
    int type = 0;
    int sum = 0;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    for (;;) {
        sum += kind == 0 ? omp_get_num_procs() : omp_get_max_threads();
    }
    return nothing;
}

int main(void) {
    int cancelled[2] = {0, 0};
    for (kind = 0; kind < 2; kind++)
        for (int i = 0; i < 500; i++) {
            pthread_t thread;
            void* result = NULL;
            if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
            usleep((useconds_t)(20 * (i % 9)));
            pthread_cancel(thread);
            pthread_join(thread, &result);
            cancelled[kind] += result == PTHREAD_CANCELED;
        }
    printf("cancelled %d %d\ndone\n", cancelled[0], cancelled[1]);
    return 0;
}
