// SPDX-License-Identifier: Apache-2.0
#include "model/active.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace corun::model {
namespace {

// The prior, relative to the cost of the first sample, in units that make the terms comparable at any
// number of CPUs: serial 1, parallel m / n, overhead n / m with m the widest. Broad: it only says that a cost
// has these parts and that what the law misses is some percent and changes slowly from width to width.
constexpr double kMeanSerial = 0.3;
constexpr double kSpreadSerial = 0.5;
constexpr double kSpreadParallel = 1.0;
constexpr double kSpreadOverhead = 0.5;
constexpr double kMisfit = 0.06;
constexpr double kReach = 1.0;   // of the misfit, in doublings of the width
constexpr int kCandidates = 24;  // widths that are looked at, evenly in log n

std::vector<int> candidates(int most) {
    std::vector<int> widths;
    for (int i = 0; i < kCandidates; ++i) {
        const double exponent = static_cast<double>(i) / (kCandidates - 1);
        const int width = static_cast<int>(std::lround(std::pow(most, exponent)));
        if (widths.empty() || widths.back() != width) widths.push_back(width);
    }
    return widths;
}

class ActiveWalk final : public Walk {
  public:
    ActiveWalk(double noise, double worth, int most)
        : noise_(std::max(noise, 1e-3)), worth_(worth), most_samples_(std::max(most, 2)) {}

  protected:
    [[nodiscard]] std::optional<int> choose(const Curve& curve, int max_width,
                                            std::span<const int> given_up) const override {
        const int most = std::max(1, max_width);
        const auto open = [&](int width) {
            return curve.solo_count(width) < RobustSamples::capacity &&
                   std::find(given_up.begin(), given_up.end(), width) == given_up.end();
        };
        for (const int width : {most, 1, static_cast<int>(std::lround(std::sqrt(most)))}) {
            if (curve.solo_count(width) == 0 && open(width)) return width;
        }
        const std::vector<int> widths = candidates(most);
        std::size_t used = 0;
        for (const int width : sampled_widths(curve, most)) used += curve.solo_count(width);
        const WidthBelief belief(curve, most, noise_);
        if (!belief.known() || used >= static_cast<std::size_t>(most_samples_)) return std::nullopt;
        const auto best = believed_best(belief, widths);
        if (!best) return std::nullopt;
        const double cost = belief.at(*best).seconds;
        std::optional<int> next;
        double largest = worth_ * cost;
        for (const int width : widths) {
            if (!open(width)) continue;
            const double gain = expected_gain(belief.at(width), cost);
            if (gain > largest) largest = gain, next = width;
        }
        return next;
    }

  private:
    static std::vector<int> sampled_widths(const Curve& curve, int most) {
        std::vector<int> widths;
        for (int width = 1; width <= most; ++width) {
            if (curve.solo_count(width) > 0) widths.push_back(width);
        }
        return widths;
    }

    double noise_;
    double worth_;
    int most_samples_;
};

}  // namespace

WidthBelief::WidthBelief(const Curve& curve, int max_width, double noise)
    : max_width_(std::max(1, max_width)) {
    for (int width = 1; width <= max_width_; ++width) {
        const std::size_t count = curve.solo_count(width);
        if (count == 0) continue;
        points_.push_back({width, *curve.solo(width), noise * noise / static_cast<double>(count)});
    }
    if (points_.empty()) return;
    scale_ = std::min_element(points_.begin(), points_.end(), [](const Sampled& a, const Sampled& b) {
                 return a.relative < b.relative;
             })->relative;
    for (Sampled& point : points_) {
        point.relative /= scale_;
        point.variance *= point.relative * point.relative;
    }
    const std::size_t size = points_.size();
    factor_.assign(size * size, 0.0);
    for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
            double sum = covariance(points_[i].width, points_[j].width);
            if (i == j) sum += points_[i].variance;
            for (std::size_t k = 0; k < j; ++k) sum -= factor_[i * size + k] * factor_[j * size + k];
            factor_[i * size + j] = i == j ? std::sqrt(std::max(sum, 1e-9)) : sum / factor_[j * size + j];
        }
    }
    weights_.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
        double sum = points_[i].relative - kMeanSerial;
        for (std::size_t k = 0; k < i; ++k) sum -= factor_[i * size + k] * weights_[k];
        weights_[i] = sum / factor_[i * size + i];
    }
    for (std::size_t i = size; i-- > 0;) {
        for (std::size_t k = i + 1; k < size; ++k) weights_[i] -= factor_[k * size + i] * weights_[k];
        weights_[i] /= factor_[i * size + i];
    }
}

double WidthBelief::covariance(int one, int other) const {
    const double m = max_width_;
    const double a = one;
    const double b = other;
    const double apart = std::log2(a / b) / kReach;
    // Where an op is slow the law may miss by more, in proportion.
    const double level = std::sqrt((1.0 + m / a * 0.1) * (1.0 + m / b * 0.1));
    return kSpreadSerial * kSpreadSerial + kSpreadParallel * kSpreadParallel * (m / a) * (m / b) +
           kSpreadOverhead * kSpreadOverhead * (a / m) * (b / m) +
           kMisfit * kMisfit * level * std::exp(-0.5 * apart * apart);
}

Belief WidthBelief::at(int width) const {
    const std::size_t size = points_.size();
    double mean = kMeanSerial;
    double variance = covariance(width, width);
    std::vector<double> half(size);
    for (std::size_t i = 0; i < size; ++i) {
        const double between = covariance(width, points_[i].width);
        mean += between * weights_[i];
        double sum = between;
        for (std::size_t k = 0; k < i; ++k) sum -= factor_[i * size + k] * half[k];
        half[i] = sum / factor_[i * size + i];
        variance -= half[i] * half[i];
    }
    return {mean * scale_, std::sqrt(std::max(variance, 0.0)) * scale_};
}

double expected_gain(const Belief& belief, double best) {
    const double ahead = best - belief.seconds;
    if (belief.deviation <= 0.0) return std::max(ahead, 0.0);
    const double z = ahead / belief.deviation;
    const double density = std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi);
    const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
    return ahead * below + belief.deviation * density;
}

std::unique_ptr<Walk> make_active_walk(double noise, double worth, int most) {
    return std::make_unique<ActiveWalk>(noise, worth, most);
}

std::optional<int> believed_best(const WidthBelief& belief, std::span<const int> widths) {
    if (!belief.known()) return std::nullopt;
    std::optional<int> best;
    double lowest = 0.0;
    for (const int width : widths) {
        const double seconds = belief.at(width).seconds;
        if (!best || seconds < lowest) best = width, lowest = seconds;
    }
    return best;
}

}  // namespace corun::model
