// SPDX-License-Identifier: Apache-2.0
// A library that counts CPUs in its constructor, as BLAS libraries do: before those of what is preloaded.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

long early_online, early_mask;

__attribute__((constructor)) static void count(void) {
    cpu_set_t mask;
    early_online = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof mask, &mask) == 0) early_mask = CPU_COUNT(&mask);
    close(open("/sys/devices/system/cpu/online", O_RDONLY));
    if (sched_getcpu() < 0) early_mask = -1;
}
