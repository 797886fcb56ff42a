// SPDX-License-Identifier: Apache-2.0
// A program without OpenMP that is linked with a library which has it.
#include <stdio.h>

int plugin_team(int want, int* told);

int main(void) {
    int wrong = 0;
    const int team = plugin_team(0, &wrong);
    printf("wrong %d, team %d\n", wrong, team);
    return 0;
}
