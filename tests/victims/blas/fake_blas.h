// SPDX-License-Identifier: Apache-2.0
// A library with all the names of BLAS and LAPACK that corun hooks, and the number of threads of an OpenBLAS.
// It computes nothing: it notes what it was given.
#pragma once

#include <cstdint>

using Word = std::uintptr_t;
constexpr int kWords = 26;

struct FakeCall {
    const char* name;
    Word words[kWords];
    double x, y;
    int width;  ///< threads that it would have used
};

extern "C" {
extern int fake_on_openmp;           ///< what openblas_get_parallel() says: 1 or 2
const FakeCall* fake_last();         ///< of this thread
void fake_during(void (*action)());  ///< called in the middle of each call of this thread
int fake_changes_inside();           ///< how often the number was set while somebody was inside
int fake_uneven();                   ///< calls in which the number changed
int fake_own_calls();                ///< of this copy of the library
void openblas_set_num_threads(int threads);
int openblas_get_num_threads();
int openblas_get_parallel();
}
