/* SPDX-License-Identifier: Apache-2.0 */
/* A program without TensorFlow that looks at everything a preloaded library could have changed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

extern char** environ;

static void at_exit(void) {
    printf("at exit: errno %d\n", errno);
}

int main(int argc, char** argv) {
    printf("errno %d, %d arguments, %s\n", errno, argc, argc > 1 ? argv[1] : "-");
    for (char** entry = environ; *entry != NULL; ++entry)
        if (strncmp(*entry, "LD_PRELOAD=", 11) != 0) printf("%s\n", *entry);
    for (int fd = 0; fd < 64; ++fd)
        if (fcntl(fd, F_GETFD) >= 0) printf("fd %d: flags %d\n", fd, fcntl(fd, F_GETFD));
    for (int kind = 0; kind < RLIM_NLIMITS; ++kind) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)kind, &limit) == 0)
            printf("limit %d: %llu %llu\n", kind, (unsigned long long)limit.rlim_cur,
                   (unsigned long long)limit.rlim_max);
    }
    for (int number = 1; number < NSIG; ++number) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            printf("signal %d\n", number);
    }
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int number = 1; number < NSIG; ++number)
        if (sigismember(&blocked, number) == 1) printf("blocked %d\n", number);
    cpu_set_t cpus;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) printf("%d CPUs\n", CPU_COUNT(&cpus));
    int tasks = 0;
    DIR* folder = opendir("/proc/self/task");
    for (struct dirent* entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        tasks += entry->d_name[0] != '.';
    if (folder != NULL) closedir(folder);
    printf("%d threads, priority %d\n", tasks, getpriority(PRIO_PROCESS, 0));
    fprintf(stderr, "to stderr\n");
    atexit(at_exit);
    errno = 33;
    return 6;
}
