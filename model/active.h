// SPDX-License-Identifier: Apache-2.0
// Active choice of the next sample: where the outcome is uncertain and matters, not where a walk comes by.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/walk.h"

namespace corun::model {

/// What is believed of a width before it is sampled.
struct Belief {
    double seconds = 0.0;
    double deviation = 0.0;  ///< of the mean cost at that width, noise not included; seconds
};

/// Seconds by which a cost is expected to lie below `best`, counting only the cases in which it does.
[[nodiscard]] double expected_gain(const Belief& belief, double best);

/// A Gaussian process over widths: the terms of the fitted law plus what the law does not explain (smooth in
/// log n), under noise in proportion to the cost. Stateless: everything is read off the curve's samples.
class WidthBelief {
  public:
    /// @param noise standard deviation of one sample, as a share of the cost
    WidthBelief(const Curve& curve, int max_width, double noise);
    [[nodiscard]] bool known() const { return !points_.empty(); }
    [[nodiscard]] Belief at(int width) const;

  private:
    [[nodiscard]] double covariance(int one, int other) const;

    struct Sampled {
        int width = 0;
        double relative = 0.0;  // cost over scale_
        double variance = 0.0;  // of that mean, by noise
    };
    int max_width_;
    double scale_ = 1.0;
    std::vector<Sampled> points_;
    std::vector<double> factor_;   // lower triangle of the Cholesky factor, row by row
    std::vector<double> weights_;  // (covariance + noise)^-1 (cost - prior mean)
};

/// Samples max_width, 1 and round(sqrt(max_width)), then whatever has the largest expected gain over the best
/// width believed in, until that is below `worth` of its cost or `most` samples are used. Gives one sample at
/// a time.
[[nodiscard]] std::unique_ptr<Walk> make_active_walk(double noise = 0.15, double worth = 0.01, int most = 15);

/// The width of `widths` with the lowest believed cost; nothing when nothing was sampled.
[[nodiscard]] std::optional<int> believed_best(const WidthBelief& belief, std::span<const int> widths);

}  // namespace corun::model
