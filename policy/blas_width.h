// SPDX-License-Identifier: Apache-2.0
// What is known of a BLAS or LAPACK call before it was ever measured: from its sizes, how many threads can be
// of use; from who else is calling, how many are its share. Both are upper limits, and err to the wide side.
#pragma once

#include <cstdint>

namespace corun::policy {

/// How the work of a routine grows with its sizes, and how well threads serve it.
enum class BlasCost : std::uint8_t {
    multiply,         ///< gemm and what is made of it: m x n x k
    rank,             ///< syrk, syr2k: n x n x k
    triangle,         ///< symm, trmm, trsm: m x n x the larger
    vector,           ///< gemv: bound by memory; the library's own rule is right
    lu,               ///< getrf, getri, sytrf: n x n x n
    lu_solve,         ///< gesv: that, and n x n x right-hand sides
    solve,            ///< getrs: the latter alone
    cholesky,         ///< potrf, potri
    qr,               ///< geqrf, orgqr, gels
    svd,              ///< gesdd, gesvd, gelsd
    eigen,            ///< geev, gees, gehrd
    eigen_symmetric,  ///< syevd, heevd, sytrd
};

/// Sizes as the routine has them; one that it does not have is 0.
struct BlasSizes {
    int m = 0;
    int n = 0;
    int k = 0;
};

/// Threads that a call can use at most, by its sizes. @param budget CPUs, >= 1. @return 1..budget
[[nodiscard]] int blas_useful_width(BlasCost cost, const BlasSizes& sizes, int budget);

/// About what the call takes on one thread, in seconds: the order of magnitude, and rather less.
[[nodiscard]] double blas_likely_seconds(BlasCost cost, const BlasSizes& sizes);

/// Seconds that a call waits at most for those inside to leave, so that all can go narrow: a wide call has
/// the CPUs anyway, and OpenBLAS lets one in at a time. Half of what it takes itself, and not for ever.
[[nodiscard]] double blas_patience(BlasCost cost, const BlasSizes& sizes);

/// So small that OpenBLAS runs it on one thread whatever its number says, in less time than it would take to
/// set that. Only products: what LAPACK does is longer.
[[nodiscard]] constexpr bool blas_stays_on_one_thread(BlasCost cost, const BlasSizes& sizes) {
    constexpr int kSide = 32;  // its own limit is 64 x 64 x 64 for gemm, 9,216 elements for gemv
    return (cost == BlasCost::multiply || cost == BlasCost::vector) && sizes.m <= kSide && sizes.n <= kSide &&
           sizes.k <= kSide;
}

/// A size for the op key: two classes to each doubling, so that calls of one key differ by 1.4 in a size at
/// most. Sizes up to 4 are classes of their own; negative ones (an error that the library reports) are 0.
/// @return 0..63
[[nodiscard]] std::uint32_t blas_size_class(int size);

/// The largest size of a class, for people.
[[nodiscard]] int blas_class_size(std::uint32_t size_class);

}  // namespace corun::policy
