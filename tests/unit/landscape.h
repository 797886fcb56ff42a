// SPDX-License-Identifier: Apache-2.0
// A simulated op for the tests of model/: a known cost at each width, under the noise of a real machine.
#pragma once

#include <cmath>
#include <random>

#include "model/curve.h"
#include "model/walk.h"

namespace corun::model {

/// Lognormal noise of 15 %, and every now and then a burst that doubles a duration.
class Noise {
  public:
    explicit Noise(unsigned seed, double sigma = 0.15, double bursts = 0.0)
        : engine_(seed), sigma_(sigma), bursts_(bursts) {}

    double operator()(double seconds) {
        const double factor = std::exp(sigma_ * normal_(engine_));
        return seconds * factor * (uniform_(engine_) < bursts_ ? 2.0 : 1.0);
    }
    double between(double low, double high) { return low + (high - low) * uniform_(engine_); }

  private:
    std::mt19937 engine_;
    std::normal_distribution<double> normal_;
    std::uniform_real_distribution<double> uniform_{0.0, 1.0};
    double sigma_;
    double bursts_;
};

/// The true optimum among 1 to most.
inline int true_optimum(const Law& law, int most) {
    int best = 1;
    for (int width = 2; width <= most; ++width) {
        if (law.at(width) < law.at(best)) best = width;
    }
    return best;
}

inline std::vector<int> widths_to(int most) {
    std::vector<int> widths;
    for (int width = 1; width <= most; ++width) widths.push_back(width);
    return widths;
}

/// Follows `walk` to its end and returns the number of samples that it took (-1: it does not end).
inline int follow(const Walk& walk, Curve& curve, const Law& truth, Noise& noise, int most) {
    for (int samples = 0; samples < 1000; ++samples) {
        const auto width = walk.next(curve, most);
        if (!width) return samples;
        curve.add({*width, true, noise(truth.at(*width))});
    }
    return -1;
}

/// Cost of the width that the curve chooses over the cost of the true optimum, minus 1.
inline double loss_of(const Curve& curve, const Law& truth, int most) {
    const auto chosen = curve.optimum(widths_to(most), 0.05);
    return chosen ? truth.at(*chosen) / truth.at(true_optimum(truth, most)) - 1.0 : 1e9;
}

}  // namespace corun::model
