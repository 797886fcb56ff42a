// SPDX-License-Identifier: Apache-2.0
// A guess for ops that were never sampled at a width: how ops of like kind and like work behave.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "model/curve.h"

namespace corun::model {

/// Over (op kind, floor(log2 work)): the median of T(width) / T(1), from the ops explored last (15 at most).
/// Between two known widths it is a line. Falls back to the same work bucket over all kinds, then to nothing.
class Prior {
  public:
    /// @param ratio T(width) / T(reference width 1), > 0
    void learn(const std::string& kind, double work, int width, double ratio);
    /// @param least observations that each width used must have
    [[nodiscard]] std::optional<double> ratio(const std::string& kind, double work, int width,
                                              int least = 1) const;
    void clear();

  private:
    using Ratios = std::map<int, RobustSamples>;  // width -> T(width) / T(1)
    std::map<std::pair<std::string, int>, Ratios> by_kind_;
    std::map<int, Ratios> by_work_;
};

}  // namespace corun::model
