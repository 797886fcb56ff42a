// SPDX-License-Identifier: Apache-2.0
// Calls from code that no object holds, as a compiler makes while the program runs.
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);

static int entered;
static void body(void* data) {
    (void)data;
    __atomic_fetch_add(&entered, 1, __ATOMIC_RELAXED);
}

int main(void) {
    // sub $8, %rsp; movabs $function, %rax; call *%rax; add $8, %rsp; ret
    unsigned char code[] = {0x48, 0x83, 0xec, 8,    0x48, 0xb8, 0,    0,    0, 0,   0,
                            0,    0,    0,    0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3};
    void* function = (void*)GOMP_parallel;
    memcpy(code + 6, &function, sizeof function);
    void* memory = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    omp_set_num_threads(3);
    ((void (*)(void (*)(void*), void*, unsigned, unsigned))memory)(body, 0, 0, 0);
    printf("team %d\n", entered);
    return entered != 3;
}
