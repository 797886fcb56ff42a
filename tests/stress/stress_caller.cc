// SPDX-License-Identifier: Apache-2.0
// A library that has a runtime: by a name that the loader binds, or, without NAMED, only by what it needs.
#ifdef NAMED
extern "C" int omp_get_thread_num();
[[gnu::visibility("default")]] int (*named)() = omp_get_thread_num;
#else
extern "C" int stress_runtime_mark;
[[gnu::visibility("default")]] int* needed = &stress_runtime_mark;
#endif

extern "C" [[gnu::visibility("default")]] int stress_caller() {
    return 0;
}
