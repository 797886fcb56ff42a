// SPDX-License-Identifier: Apache-2.0
// A tool that is preloaded in front of libcorun.so. Runtimes read the number that the user has set, as if
// they had been asked before it was lowered: what caps it then is the hooks alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

// gcc's runtime counts CPUs before it reads: nobody else hears of it.
int pthread_getaffinity_np(pthread_t thread, size_t size, cpu_set_t* mask) {
    void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return ((int (*)(pthread_t, size_t, cpu_set_t*))dlsym(libc, "pthread_getaffinity_np"))(thread, size,
                                                                                           mask);
}

// LLVM's reads with the first call. libcorun.so, behind us, is initialised before.
__attribute__((constructor)) static void put_back(void) {
    const char* const number = getenv("VICTIM_NUMBER");
    if (number != NULL) setenv("OMP_NUM_THREADS", number, 1);
}
