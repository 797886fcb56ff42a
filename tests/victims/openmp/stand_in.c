// SPDX-License-Identifier: Apache-2.0
// A library that has some functions of OpenMP for programs without a runtime.
static int number = 7;
int omp_get_max_threads(void) {
    return number;
}
void omp_set_num_threads(int threads) {
    number = 10 * threads;
}
