// SPDX-License-Identifier: Apache-2.0
// What an exec'd child sees.
#include "victim.h"

int main() {
    for (int i = 0; i < 20; ++i) victim::limit_inside();
    std::printf("exec'd: inside %d\n", victim::limit_inside());
    return 4;
}
