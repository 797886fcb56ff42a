// SPDX-License-Identifier: Apache-2.0
// A library that has a runtime: by a name that the loader binds, or, without NAMED, by names alone that are
// hooked, so that nothing but the loader's order tells it.
extern "C" void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);
[[gnu::visibility("default")]] void (*hooked)(void (*)(void*), void*, unsigned, unsigned) = GOMP_parallel;
extern "C" int stress_runtime_mark;
[[gnu::visibility("default")]] int* needed = &stress_runtime_mark;
#ifdef NAMED
extern "C" void GOMP_barrier();
[[gnu::visibility("default")]] void (*named)() = GOMP_barrier;
#endif

extern "C" [[gnu::visibility("default")]] int stress_caller() {
    return 0;
}
