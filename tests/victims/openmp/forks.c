// SPDX-License-Identifier: Apache-2.0
// Uses OpenMP, forks, and uses it in the child, which ends by a signal if it waits for threads that only the
// parent has. Words: what the child sets ("0": nothing); "thread": the child does it on a thread of its own;
// "narrow": the parent's teams have one thread.
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int team(void) {
    int size = 0;
#pragma omp parallel
    {
#pragma omp atomic write
        size = omp_get_num_threads();
    }
    return size;
}

static int wanted;
static void* in_child(void* nothing) {
    if (wanted > 0) omp_set_num_threads(wanted);
    printf("child: told %d", omp_get_max_threads());
    fflush(stdout);
    printf(", team %d\n", team());
    fflush(stdout);
    return nothing;
}

int main(int argc, char** argv) {
    int on_thread = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "thread") == 0)
            on_thread = 1;
        else if (strcmp(argv[i], "narrow") == 0)
            omp_set_num_threads(1);
        else
            wanted = atoi(argv[i]);
    }
    printf("parent: team %d\n", team());
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(2);
        pthread_t thread;
        if (!on_thread)
            in_child(NULL);
        else if (pthread_create(&thread, NULL, in_child, NULL) == 0)
            pthread_join(thread, NULL);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("\nchild: %s\n", WTERMSIG(status) == SIGALRM ? "waits for ever" : "killed");
    printf("parent: team %d\n", team());
    return 0;
}
