// SPDX-License-Identifier: Apache-2.0
// Non-negative least squares with three terms, exact. Private to the fitted laws.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace corun::model {

inline constexpr std::size_t kTerms = 3;
using Terms = std::array<double, kTerms>;

/// Rows of terms whose weighted sum should be 1 (relative error: each row is divided by what was measured).
class NonNegativeFit {
  public:
    void add(const Terms& row);
    /// The non-negative weights of least error over the terms in `mask` (bit i: term i); nothing when the
    /// rows do not determine any.
    [[nodiscard]] std::optional<Terms> solve(unsigned mask = 0b111U) const;

  private:
    [[nodiscard]] std::optional<Terms> unconstrained(unsigned mask) const;

    std::array<Terms, kTerms> matrix_{};
    Terms right_{};
    double rows_ = 0.0;
};

}  // namespace corun::model
