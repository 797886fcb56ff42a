// SPDX-License-Identifier: Apache-2.0
// Has an allocator of its own, as jemalloc and tcmalloc are linked in: it counts CPUs when it is first used,
// and must not be entered again before it is done.
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

static char memory[1 << 25] __attribute__((aligned(16)));
static size_t used;
static int state;  // 0 never used, 1 counting, 2 ready
static int entered_again;
static long counted;

static void count_cpus(void) {
    state = 1;
    cpu_set_t mask;
    counted = sysconf(_SC_NPROCESSORS_ONLN) + get_nprocs();
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) counted += CPU_COUNT(&mask);
    state = 2;
}

void* malloc(size_t size) {
    if (state == 1) ++entered_again;
    if (state == 0) count_cpus();
    const size_t at = __atomic_fetch_add(&used, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED);
    if (at + size + 32 > sizeof memory) return NULL;
    memcpy(memory + at, &size, sizeof size);
    return memory + at + 16;
}
void free(void* old) {
    (void)old;
}
void* calloc(size_t count, size_t size) {
    void* const made = malloc(count * size);
    return made == NULL ? NULL : memset(made, 0, count * size);
}
void* realloc(void* old, size_t size) {
    void* const made = malloc(size);
    size_t before = 0;
    if (old != NULL) memcpy(&before, (char*)old - 16, sizeof before);
    if (made != NULL && old != NULL) memcpy(made, old, before < size ? before : size);
    return made;
}

// Before any constructor.
static void use_early(void) {
    free(malloc(1));
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = use_early;

int main(void) {
    printf("counted: %s, entered again %d times\n", counted > 0 ? "yes" : "no", entered_again);
    return 0;
}
