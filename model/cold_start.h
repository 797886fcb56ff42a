// SPDX-License-Identifier: Apache-2.0
// A width for an op that was hardly seen: from the cheapest model that is sure enough, from the next one only
// when it is not.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "model/active.h"
#include "model/prior.h"

namespace corun::model {

enum class ColdModel {
    prior,   ///< how ops of this kind and like work behaved: costs no sample
    belief,  ///< the Gaussian process over the op's own samples: costs those
};

struct ColdAnswer {
    int width = 0;
    double expected_loss = 0.0;  ///< by not taking the best width, as a share of the cost; below 0.5 or so
    ColdModel model = ColdModel::prior;
    bool sure = false;  ///< expected_loss is at most what was asked for
};

/// The expected loss of the width with the lowest believed cost against each other one alone: the largest.
[[nodiscard]] std::optional<ColdAnswer> most_likely(std::span<const int> widths,
                                                    std::span<const Belief> beliefs);

/// Asks the prior, whose answer is as uncertain as kinds of ops of like work differ, and the belief from
/// `curve` only when that is not sure; of two that are not sure the one with the smaller expected loss
/// answers. Nothing when neither knows two of the widths.
/// @param loss what counts as sure, as a share of the cost
[[nodiscard]] std::optional<ColdAnswer> cold_start(const Prior& prior, const std::string& kind, double work,
                                                   const Curve& curve, std::span<const int> widths,
                                                   double noise, double loss = 0.05);

}  // namespace corun::model
