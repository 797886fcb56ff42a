// SPDX-License-Identifier: Apache-2.0
// What the BLAS hooks call around the program's own function.
#pragma once

#include <cstdint>

#include "policy/blas_width.h"
#include "shim/blas_library.h"
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

/// Begins the scope and pulls the lever. @param head the first arguments, as far as the operation looks.
/// @param by_value CBLAS
void blas_begin(BlasCall& call, const BlasOperation& operation, const BlasWord* head, bool by_value,
                BlasLibrary& library);
void blas_end(BlasCall& call) noexcept;

/// Whether calls are looked at: false while corun is off. Makes the source active on first use.
bool blas_ready(BlasLibrary& library);

void blas_after_fork() noexcept;  ///< in the child

}  // namespace corun
