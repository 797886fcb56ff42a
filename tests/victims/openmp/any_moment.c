// SPDX-License-Identifier: Apache-2.0
// Threads that may be cancelled at any moment are, while they ask a library (argv[1]) that was just opened.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

typedef int Ask(void);
static Ask* asks;

static void* work(void* nothing) {
    int type = 0;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    for (;;) asks();
    return nothing;
}

int main(int argc, char** argv) {
    int cancelled = 0;
    for (int i = 0; argc > 1 && i < 400; i++) {
        void* const library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL);
        if (library == NULL) return 1;
        asks = (Ask*)dlsym(library, "tail_asked");
        pthread_t thread;
        void* result = NULL;
        if (pthread_create(&thread, NULL, work, NULL) != 0) return 1;
        usleep((useconds_t)(30 * (i % 9)));
        pthread_cancel(thread);
        pthread_join(thread, &result);
        cancelled += result == PTHREAD_CANCELED;
        dlclose(library);
    }
    printf("cancelled %d\ndone\n", cancelled);
    return 0;
}
