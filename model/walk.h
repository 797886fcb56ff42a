// SPDX-License-Identifier: Apache-2.0
// In which order the widths of one op are sampled.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "model/curve.h"

namespace corun::model {

/// Chooses the next width to sample from what the curve holds. Stateless: everything is read off the curve.
class Walk {
  public:
    virtual ~Walk() = default;
    /// The width that should be sampled next, or nothing when the walk is done.
    /// @param max_width the widest that is allowed (the budget), >= 1
    /// @param given_up widths that could not be sampled: never asked for, the walk goes on without them
    [[nodiscard]] std::optional<int> next(const Curve& curve, int max_width,
                                          std::span<const int> given_up = {}) const {
        return choose(curve, max_width, given_up);
    }

  protected:
    [[nodiscard]] virtual std::optional<int> choose(const Curve& curve, int max_width,
                                                    std::span<const int> given_up) const = 0;
};

/// The default: points at max_width, 1 and round(sqrt(max_width)), two refits of the law with a sample at its
/// optimum each, then the neighbours of the best point (DESIGN: fitted law + local check). `samples` solo
/// samples a point.
[[nodiscard]] std::unique_ptr<Walk> make_fitted_walk(int samples = 3);

/// The paper's hill climb (Liu et al., IPDPS 2019): 1, 1 + step, 1 + 2 step, ... until the time rises or
/// max_width is reached (max_width itself is the last point). With `confirm` a rise counts only when the
/// medians of two points in a row lie above the best one so far (first-rise stopping is a noise trap);
/// confirm = false and samples = 1 is the paper to the letter.
[[nodiscard]] std::unique_ptr<Walk> make_step_walk(int step, int samples = 3, bool confirm = true);

}  // namespace corun::model
