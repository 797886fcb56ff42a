// SPDX-License-Identifier: Apache-2.0
// Started without stderr, it opens a file, which gets descriptor 2. Only its own text may come into that
// file.
#include <fcntl.h>
#include <unistd.h>

#include "victim.h"

int main(int argc, char** argv) {
    const int file = open(victim::argument(argc, argv, 1, "/dev/null"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(file, "data\n", 5) != 5) return 1;
    for (int i = 0; i < 100; ++i) victim::limit_inside();
    std::printf("descriptor %d\n", file);
    return victim::finish();
}
