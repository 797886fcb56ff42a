// SPDX-License-Identifier: Apache-2.0
#include "model/least_squares.h"

#include <algorithm>
#include <cmath>

namespace corun::model {

void NonNegativeFit::add(const Terms& row) {
    for (std::size_t i = 0; i < kTerms; ++i) {
        for (std::size_t j = 0; j < kTerms; ++j) matrix_[i][j] += row[i] * row[j];
        right_[i] += row[i];
    }
    rows_ += 1.0;
}

// Least squares over the terms in `mask` alone, from the normal equations; nothing when they are singular.
std::optional<Terms> NonNegativeFit::unconstrained(unsigned mask) const {
    std::array<std::size_t, kTerms> used{};
    std::size_t size = 0;
    for (std::size_t term = 0; term < kTerms; ++term) {
        if (mask >> term & 1U) used[size++] = term;
    }
    // Scaled to a unit diagonal, since n * n and 1 / n / n are seven orders apart at 68 CPUs.
    Terms scale{};
    std::array<std::array<double, kTerms + 1>, kTerms> rows{};
    for (std::size_t i = 0; i < size; ++i) scale[i] = 1.0 / std::sqrt(matrix_[used[i]][used[i]]);
    for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < size; ++j) rows[i][j] = matrix_[used[i]][used[j]] * scale[i] * scale[j];
        rows[i][kTerms] = right_[used[i]] * scale[i];
    }
    for (std::size_t i = 0; i < size; ++i) {  // symmetric and positive definite: no pivoting needed
        if (!(rows[i][i] > 1e-12)) return std::nullopt;
        for (std::size_t k = i + 1; k < size; ++k) {
            const double factor = rows[k][i] / rows[i][i];
            for (std::size_t j = i; j <= kTerms; ++j) rows[k][j] -= factor * rows[i][j];
        }
    }
    Terms found{};
    for (std::size_t i = size; i-- > 0;) {
        double value = rows[i][kTerms];
        for (std::size_t j = i + 1; j < size; ++j) value -= rows[i][j] * found[used[j]] / scale[j];
        found[used[i]] = value / rows[i][i] * scale[i];
    }
    return found;
}

// Exact for three terms: the constrained optimum is the best of the non-negative optima of all subsets.
std::optional<Terms> NonNegativeFit::solve(unsigned mask) const {
    std::optional<Terms> best;
    double best_error = 0.0;
    for (unsigned subset = 1; subset <= mask; ++subset) {
        if ((subset & ~mask) != 0) continue;
        const auto found = unconstrained(subset);
        if (!found || std::any_of(found->begin(), found->end(), [](double term) { return term < 0.0; }))
            continue;
        double error = rows_;  // of sum (row . terms - 1)^2
        for (std::size_t i = 0; i < kTerms; ++i) {
            error -= 2.0 * (*found)[i] * right_[i];
            for (std::size_t j = 0; j < kTerms; ++j) error += (*found)[i] * matrix_[i][j] * (*found)[j];
        }
        if (!best || error < best_error) best = found, best_error = error;
    }
    return best;
}

}  // namespace corun::model
