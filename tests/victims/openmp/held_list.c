// SPDX-License-Identifier: Apache-2.0
// Forks while another thread holds the lock of the loader's list, as profilers and collectors do, which the
// child finds held for ever. The child asks a library that has asked nothing before (argv[1]).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_held[2];
static int may_go[2];

static int hold(struct dl_phdr_info* info, size_t size, void* nothing) {
    (void)info, (void)size, (void)nothing;
    char byte = 0;
    if (write(is_held[1], &byte, 1) != 1 || read(may_go[0], &byte, 1) != 1) perror("pipe");
    return 1;
}

static void* holder(void* nothing) {
    dl_iterate_phdr(hold, NULL);
    return nothing;
}

int main(int argc, char** argv) {
    void* const library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL || pipe(is_held) != 0 || pipe(may_go) != 0) return 1;
    int (*const asks)(void) = (int (*)(void))dlsym(library, "tail_asked");
    pthread_t thread;
    char byte = 0;
    if (pthread_create(&thread, NULL, holder, NULL) != 0 || read(is_held[0], &byte, 1) != 1) return 1;
    const pid_t child = fork();
    if (child == 0) {
        printf("child: told %d\n", -asks());
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    int tries = 0;
    for (; tries < 100 && waitpid(child, &status, WNOHANG) == 0; tries++) usleep(50000);
    if (tries == 100) {
        printf("child: waits for ever\n");
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    if (write(may_go[1], &byte, 1) != 1) return 1;
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}
