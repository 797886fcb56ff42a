// SPDX-License-Identifier: Apache-2.0
// What makes a library a runtime of OpenMP, no more.
extern "C" {
[[gnu::visibility("default")]] int stress_runtime_mark = 0;
[[gnu::visibility("default")]] int omp_get_level() {
    return 0;
}
[[gnu::visibility("default")]] int omp_get_thread_num() {
    return 0;
}
[[gnu::visibility("default")]] int omp_get_max_threads() {
    return 4;
}
[[gnu::visibility("default")]] int omp_get_num_procs() {
    return 4;
}
[[gnu::visibility("default")]] void omp_set_num_threads(int) {}
[[gnu::visibility("default")]] void GOMP_barrier() {}
[[gnu::visibility("default")]] void GOMP_parallel(void (*body)(void*), void* data, unsigned, unsigned) {
    body(data);
}
}
