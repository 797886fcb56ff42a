// SPDX-License-Identifier: Apache-2.0
// Another preloaded tool that counts regions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

static int regions;

void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
    void (*next)(void (*)(void*), void*, unsigned, unsigned) =
        (void (*)(void (*)(void*), void*, unsigned, unsigned))dlsym(RTLD_NEXT, "GOMP_parallel");
    regions++;
    next(body, data, threads, flags);
}

__attribute__((destructor)) static void tell(void) {
    fprintf(stderr, "tool: %d regions\n", regions);
}
