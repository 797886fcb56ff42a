// SPDX-License-Identifier: Apache-2.0
// Where the calls of openmp_bench come from: an object of its own, as the program must not be the library
// itself. It imports the hook, and with NAMED a name that is not hooked, which tells its runtime.
#include "tests/bench/openmp_caller.h"

extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
[[gnu::visibility("default")]] Parallel* imported = GOMP_parallel;
extern "C" LoopStart GOMP_loop_nonmonotonic_dynamic_start;
[[gnu::visibility("default")]] LoopStart* imported_loop = GOMP_loop_nonmonotonic_dynamic_start;
#ifdef NAMED
extern "C" void GOMP_barrier();
[[gnu::visibility("default")]] void (*named)() = GOMP_barrier;
#endif

static void body(void* data) {
    ++*static_cast<long*>(data);
}

extern "C" [[gnu::visibility("default")]] void openmp_caller(Parallel* parallel, void* data, unsigned threads,
                                                             int times) {
    for (int i = 0; i < times; ++i) parallel(body, data, threads, 0);
}

extern "C" [[gnu::visibility("default")]] void openmp_loop_caller(LoopStart* start, LoopEnd* end, int times) {
    for (int i = 0; i < times; ++i) {
        long from = 0;
        long to = 0;
        start(0, 1000, 1, 1, &from, &to);
        end();
    }
}
