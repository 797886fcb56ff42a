// SPDX-License-Identifier: Apache-2.0
// Asks how many threads it may have when nothing but read, write and exit is allowed any more (seccomp).
#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <omp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0) return 77;
    omp_set_num_threads(3);
    const char out[] = {'t',  'o', 'l', 'd', ' ', (char)('0' + omp_get_max_threads()),
                        '\n', 'd', 'o', 'n', 'e', '\n'};
    syscall(SYS_exit, write(1, out, sizeof out) != sizeof out);
}
