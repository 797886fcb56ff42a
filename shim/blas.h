// SPDX-License-Identifier: Apache-2.0
// What the BLAS hooks call around the program's own function.
#pragma once

#include <cstdint>

#include "policy/blas_width.h"
#include "shim/blas_binding.h"
#include "shim/scope.h"

namespace corun {

using BlasWord = std::uintptr_t;  ///< an argument that is no floating-point number

/// A routine for one type of number.
struct BlasOperation {
    char name[8];                     ///< "dgemm"
    std::uint8_t job, m, n, k, work;  ///< places of arguments, see blas_symbols.h
    policy::BlasCost cost;
};

/// One call, in the hook's frame.
struct BlasCall {
    const BlasOperation* operation;
    policy::BlasSizes sizes;
    char job;  ///< '\0': none
    bool open;
    Scope scope;
    BlasStay stay;
};

/// Finds the program's own function, begins the scope and pulls the lever, where there is one and corun is
/// on.
/// @param head the first arguments, as far as the operation looks. @param by_value CBLAS
/// @param bound of this name, called `symbol`. @param caller the hook's return address
/// @return the function, to be called between this and blas_end()
void* blas_begin(BlasCall& call, const BlasOperation& operation, const BlasWord* head, bool by_value,
                 BlasCallers& bound, const char* symbol, const void* caller);
void blas_end(BlasCall& call) noexcept;

}  // namespace corun
