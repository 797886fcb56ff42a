// SPDX-License-Identifier: Apache-2.0
// A thread that may be cancelled at any moment is, while corun asks the runtime for itself. Without corun
// nobody asks, and it comes in the middle of the thread's own work.
#include <pthread.h>
#include <stdio.h>

#include "fake_openmp.h"

static int was_asked;
static void cancel(void) {
    was_asked = 1;
    pthread_cancel(pthread_self());
}

static void body(void* data) {
    (void)data;
}

static void* work(void* region) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    fake_at_level = cancel;
    for (volatile int i = 0; i < 10; i++)
        region != NULL ? GOMP_parallel(body, NULL, 0, 0) : (void)omp_get_max_threads();
    pthread_cancel(pthread_self());
    return NULL;
}

int main(void) {
    fake_quiet = 1;
    for (int region = 0; region < 2; region++) {
        pthread_t thread;
        void* result = NULL;
        if (pthread_create(&thread, NULL, work, region ? &thread : NULL) != 0) return 2;
        pthread_join(thread, &result);
        printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "ended");
        fake_at_level = NULL;
    }
    fprintf(stderr, "%d\n", was_asked);
    return 0;
}
