// SPDX-License-Identifier: Apache-2.0
// Where the calls of openmp_bench come from: an object of its own, as the program must not be the library
// itself. With NAMED it has a name that is not hooked, which tells its runtime.
#include "tests/bench/openmp_caller.h"

#ifdef NAMED
extern "C" void GOMP_barrier();
[[gnu::visibility("default")]] void (*named)() = GOMP_barrier;
#endif

extern "C" [[gnu::visibility("default")]] void openmp_caller(Parallel* parallel, void (*body)(void*),
                                                             void* data, unsigned threads, int times) {
    for (int i = 0; i < times; ++i) parallel(body, data, threads, 0);
}
