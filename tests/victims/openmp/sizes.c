// SPDX-License-Identifier: Apache-2.0
// Teams of four and of two in turn: how many threads that takes.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kRounds = 50, kMost = 1000 };

int main(void) {
    static long known[kMost];
    int count = 0;
    for (int i = 0; i < kRounds; ++i) {
#pragma omp parallel num_threads(i % 2 == 0 ? 4 : 2)
#pragma omp critical
        {
            const long id = syscall(SYS_gettid);
            int at = 0;
            while (at < count && known[at] != id) ++at;
            if (at == count && count < kMost) known[count++] = id;
        }
    }
    printf("%s\n", count == 4 ? "4 threads" : "more threads");
    return 0;
}
