// SPDX-License-Identifier: Apache-2.0
// The Universal Scalability Law, as a diagnosis beside the fitted law: how much of an op is serial, and how
// much its threads cost each other.
#pragma once

#include <optional>
#include <span>

#include "model/curve.h"

namespace corun::model {

/// T(n) = seconds * (1 + serial (n - 1) + coherency n (n - 1)) / n (Gunther). Both shares >= 0.
struct ScalabilityLaw {
    double seconds = 0.0;    ///< at width 1
    double serial = 0.0;     ///< share that does not run side by side
    double coherency = 0.0;  ///< cost of each pair of threads, as a share
    double residual = 0.0;   ///< largest relative error over the points that it was fitted to

    [[nodiscard]] double at(int width) const;
    [[nodiscard]] double peak(double max_width) const;  ///< sqrt((1 - serial) / coherency), clamped
};

/// Non-negative least squares in relative error; needs three distinct widths, six are better.
[[nodiscard]] std::optional<ScalabilityLaw> fit_scalability(std::span<const Point> points);

/// A law is believed between its points only when no point lies further off than this; else a line between
/// the neighbours is the better answer.
inline constexpr double kTrustedResidual = 0.05;
[[nodiscard]] inline bool trusted(double residual) {
    return residual <= kTrustedResidual;
}

}  // namespace corun::model
