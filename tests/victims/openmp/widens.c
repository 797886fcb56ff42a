// SPDX-License-Identifier: Apache-2.0
// Starts itself on one CPU, allows itself all of them, and then opens a library (argv[1]) that asks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
    cpu_set_t all;
    cpu_set_t one;
    if (argc < 2 || sched_getaffinity(0, sizeof all, &all) != 0) return 1;
    if (argc == 2) {
        int cpu = 0;
        while (!CPU_ISSET(cpu, &all)) cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) != 0) return 1;
        execl(argv[0], argv[0], argv[1], "again", (char*)NULL);
        return 1;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) CPU_SET(cpu, &all);
    if (sched_setaffinity(0, sizeof all, &all) != 0 || sched_getaffinity(0, sizeof all, &all) != 0) return 1;
    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return 1;
    const int told = -((int (*)(void))dlsym(library, "tail_asked"))();
    ((void (*)(void))dlsym(library, "tail_region"))();
    const int team = ((int (*)(void))dlsym(library, "tail_entered"))();
    printf("told %s, team %s\ndone\n", told == CPU_COUNT(&all) ? "all" : "less",
           team == told ? "as told" : "another");
    return 0;
}
