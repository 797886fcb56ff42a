// SPDX-License-Identifier: Apache-2.0
#include "policy/blas_width.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace corun::policy {
namespace {

// Where a second thread begins to pay, as the side of a square problem. Measured in one process with 1 and 2
// threads in turn (OpenBLAS 0.3.30 of the numpy wheel, 2 CPUs, double; tests/bench/blas.py probe), then
// taken a step lower, since this is a limit: at these sizes and below two threads were never more than 2 %
// faster, and up to 25 % slower (qr, svd, eig at 128), or three times (Cholesky at 192).
constexpr double kMultiply = 64.0;  // OpenBLAS itself stays on one thread up to here
constexpr double kTriangle = 64.0;
constexpr double kLu = 200.0;  // of which OpenBLAS makes a rule: m x n < 40,000
constexpr double kCholesky = 200.0;
constexpr double kQr = 144.0;             // 0.89 at 128, 1.14 at 192
constexpr double kSvd = 200.0;            // 0.89 at 192, 1.09 at 256
constexpr double kEigen = 224.0;          // 0.93 at 192, 1.0 at 256
constexpr double kEigenSymmetric = 32.0;  // 1.06 at 32, 1.1 to 1.36 above

double cube(double side) {
    return side * side * side;
}

// A thread is worth having for each such part of the work.
int by_work(double work, double side, int budget) {
    const double threads = std::floor(2.0 * work / cube(side));
    return threads >= budget ? budget : std::max(1, static_cast<int>(threads));
}

}  // namespace

int blas_useful_width(BlasCost cost, const BlasSizes& sizes, int budget) {
    const double m = std::max(sizes.m, 0);
    const double n = std::max(sizes.n, 0);
    const double k = std::max(sizes.k, 0);
    // Of an oblong matrix the smaller side counts twice; where there is one size, it is square.
    const double oblong = m > 0.0 && n > 0.0 ? m * n * std::min(m, n) : cube(std::max(m, n));
    const double square = cube(std::max(m, n));
    switch (cost) {
        case BlasCost::multiply:
            return by_work(m * n * k, kMultiply, budget);
        case BlasCost::rank:
            return by_work(n * n * k, kMultiply, budget);
        case BlasCost::triangle:
            return by_work(m * n * std::max(m, n), kTriangle, budget);
        case BlasCost::vector:
            return budget;
        case BlasCost::lu:
            return by_work(oblong, kLu, budget);
        case BlasCost::lu_solve:
            return std::max(by_work(square, kLu, budget), by_work(n * n * k, kTriangle, budget));
        case BlasCost::solve:
            return by_work(n * n * k, kTriangle, budget);
        case BlasCost::cholesky:
            return by_work(square, kCholesky, budget);
        case BlasCost::qr:
            return by_work(oblong, kQr, budget);
        case BlasCost::svd:
            return by_work(oblong, kSvd, budget);
        case BlasCost::eigen:
            return by_work(square, kEigen, budget);
        case BlasCost::eigen_symmetric:
            return by_work(square, kEigenSymmetric, budget);
    }
    return budget;
}

// Measured beside the above, at 384, double: seconds for each unit of m x n x k.
double blas_likely_seconds(BlasCost cost, const BlasSizes& sizes) {
    const double m = std::max(sizes.m, 0);
    const double n = std::max(sizes.n, 0);
    const double k = std::max(sizes.k, 0);
    const double oblong = m > 0.0 && n > 0.0 ? m * n * std::min(m, n) : cube(std::max(m, n));
    switch (cost) {
        case BlasCost::multiply:
            return 3e-11 * m * n * k;
        case BlasCost::rank:
        case BlasCost::solve:
            return 2e-11 * n * n * k;
        case BlasCost::triangle:
            return 2e-11 * m * n * std::min(m, n);
        case BlasCost::vector:
            return 1e-10 * m * n;
        case BlasCost::lu:
        case BlasCost::cholesky:
            return 2e-11 * oblong;
        case BlasCost::lu_solve:
            return 2e-11 * (n * n * n + n * n * k);
        case BlasCost::qr:
            return 5e-11 * oblong;
        case BlasCost::svd:
            return 4e-10 * oblong;
        case BlasCost::eigen:
            return 9e-10 * oblong;
        case BlasCost::eigen_symmetric:
            return 2e-10 * oblong;
    }
    return 0.0;
}

double blas_patience(BlasCost cost, const BlasSizes& sizes) {
    return std::min(0.1, 0.5 * blas_likely_seconds(cost, sizes));
}

std::uint32_t blas_size_class(int size) {
    if (size <= 4) return static_cast<std::uint32_t>(std::max(size, 0));
    // (2^e, 1.5 * 2^e] and (1.5 * 2^e, 2^(e+1)]
    const auto below = static_cast<std::uint32_t>(size - 1);
    const auto exponent = static_cast<std::uint32_t>(std::bit_width(below)) - 1;
    const std::uint32_t upper = (below >> (exponent - 1)) & 1U;
    return 5 + 2 * (exponent - 2) + upper;
}

int blas_class_size(std::uint32_t size_class) {
    if (size_class <= 4) return static_cast<int>(size_class);
    const std::uint32_t exponent = 2 + (size_class - 5) / 2;
    const double size = std::ldexp((size_class - 5) % 2 == 0 ? 1.5 : 2.0, static_cast<int>(exponent));
    return static_cast<int>(std::min(size, 2147483647.0));
}

}  // namespace corun::policy
