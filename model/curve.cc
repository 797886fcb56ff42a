// SPDX-License-Identifier: Apache-2.0
#include "model/curve.h"

#include <algorithm>
#include <cmath>

#include "model/least_squares.h"

namespace corun::model {
namespace {

// The middle of the first `count` values, which are reordered; the mean of the two middle ones when even.
double middle(std::array<float, RobustSamples::capacity>& values, std::size_t count) {
    const auto begin = values.begin();
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    const auto half = begin + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(begin, half, end);
    if (count % 2 == 1) return *half;
    return (static_cast<double>(*half) + *std::max_element(begin, half)) / 2.0;
}

bool usable(const Point& point) {
    return point.width >= 1 && std::isfinite(point.seconds) && point.seconds > 0.0;
}

std::size_t distinct_widths(std::span<const Point> points) {
    std::vector<int> widths;
    for (const Point& point : points) {
        if (usable(point)) widths.push_back(point.width);
    }
    std::sort(widths.begin(), widths.end());
    return static_cast<std::size_t>(std::unique(widths.begin(), widths.end()) - widths.begin());
}

// What predict() rests on, gathered once for many widths. `points` ascend.
class Known {
  public:
    explicit Known(std::vector<Point> points) : points_(std::move(points)), law_(fit_law(points_)) {}

    [[nodiscard]] std::optional<double> at(int width) const {
        const auto above = std::lower_bound(points_.begin(), points_.end(), width,
                                            [](const Point& point, int w) { return point.width < w; });
        if (above != points_.end() && above->width == width) return above->seconds;
        if (above != points_.end() && above != points_.begin()) {
            const Point& below = *(above - 1);
            const double part = static_cast<double>(width - below.width) / (above->width - below.width);
            return below.seconds + part * (above->seconds - below.seconds);
        }
        if (!law_ || width < 1) return std::nullopt;
        return law_->at(width);
    }
    // Without the widths beyond the measured ones: a law through noisy points must not send an op to a width
    // at which nothing was ever seen, and least of all past a rise at which a walk has stopped.
    [[nodiscard]] std::vector<Point> within(std::span<const int> widths) const {
        std::vector<Point> answers;
        if (points_.empty()) return answers;
        answers.reserve(widths.size());
        for (const int width : widths) {
            if (width < points_.front().width || width > points_.back().width) continue;
            if (const auto seconds = at(width)) answers.push_back({width, *seconds});
        }
        return answers;
    }

  private:
    std::vector<Point> points_;
    std::optional<Law> law_;
};

}  // namespace

void RobustSamples::add(double seconds) {
    const auto value = static_cast<float>(seconds);  // 7 digits are plenty, and a cache line is saved
    if (!(value > 0.0F) || !std::isfinite(value)) return;
    values_[next_] = value;
    next_ = static_cast<std::uint8_t>((next_ + 1U) % capacity);
    if (count_ < capacity) ++count_;
    ++seen_;
}

void RobustSamples::clear() {
    *this = RobustSamples{};
}

std::optional<double> RobustSamples::median() const {
    if (count_ == 0) return std::nullopt;
    auto values = values_;
    return middle(values, count_);
}

std::optional<double> RobustSamples::spread() const {
    if (count_ == 0) return std::nullopt;
    auto values = values_;
    const auto center = static_cast<float>(middle(values, count_));
    for (float& value : values) value = std::fabs(value - center);
    return 1.4826 * middle(values, count_);  // makes it the standard deviation where the noise is normal
}

double Law::at(int width) const {
    return serial + parallel / width + per_thread * width;
}

double Law::optimum(double max_width) const {
    const double most = std::max(1.0, max_width);
    if (parallel <= 0.0) return 1.0;
    if (per_thread <= 0.0) return most;
    return std::clamp(std::sqrt(parallel / per_thread), 1.0, most);
}

std::optional<Law> fit_law(std::span<const Point> points) {
    const std::size_t distinct = distinct_widths(points);
    if (distinct < 2) return std::nullopt;
    NonNegativeFit fit;
    for (const Point& point : points) {
        if (usable(point))
            fit.add({1.0 / point.seconds, 1.0 / point.width / point.seconds, point.width / point.seconds});
    }
    const auto terms = fit.solve(distinct == 2 ? 0b011U : 0b111U);
    if (!terms) return std::nullopt;
    Law law{(*terms)[0], (*terms)[1], (*terms)[2]};
    for (const Point& point : points) {
        if (usable(point))
            law.residual = std::max(law.residual, std::fabs(law.at(point.width) / point.seconds - 1.0));
    }
    return law;
}

std::optional<int> narrowest_within(std::span<const Point> points, double deadband) {
    if (points.empty()) return std::nullopt;
    const auto fastest = std::min_element(
        points.begin(), points.end(), [](const Point& a, const Point& b) { return a.seconds < b.seconds; });
    const double limit = fastest->seconds * (1.0 + deadband);
    int narrowest = fastest->width;
    for (const Point& point : points) {
        if (point.seconds <= limit) narrowest = std::min(narrowest, point.width);
    }
    return narrowest;
}

void Curve::add(const Sample& sample) {
    if (sample.width < 1) return;
    auto at = widths_.begin();
    while (at != widths_.end() && at->width < sample.width) ++at;
    if (at == widths_.end() || at->width != sample.width)
        at = widths_.insert(at, PerWidth{sample.width, {}, {}});
    (sample.solo ? at->solo : at->beside).add(sample.seconds);
}

void Curve::clear() {
    widths_.clear();
}

const Curve::PerWidth* Curve::find(int width) const {
    for (const PerWidth& each : widths_) {
        if (each.width == width) return &each;
    }
    return nullptr;
}

std::optional<double> Curve::solo(int width) const {
    const PerWidth* found = find(width);
    return found ? found->solo.median() : std::nullopt;
}

std::optional<double> Curve::beside(int width) const {
    const PerWidth* found = find(width);
    return found ? found->beside.median() : std::nullopt;
}

std::size_t Curve::solo_count(int width) const {
    const PerWidth* found = find(width);
    return found ? found->solo.count() : 0;
}

std::size_t Curve::beside_count(int width) const {
    const PerWidth* found = find(width);
    return found ? found->beside.count() : 0;
}

std::vector<Point> Curve::solo_points() const {
    std::vector<Point> points;
    points.reserve(widths_.size());
    const auto least = static_cast<std::size_t>(std::max(1, measured_from_));
    for (const PerWidth& each : widths_) {
        if (each.solo.count() >= least) points.push_back({each.width, *each.solo.median()});
    }
    return points;
}

std::optional<double> Curve::predict(int width) const {
    return Known(solo_points()).at(width);
}

std::vector<Point> Curve::best(std::span<const int> widths) const {
    std::vector<Point> points = Known(solo_points()).within(widths);
    const std::size_t most = std::min<std::size_t>(3, points.size());
    std::partial_sort(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(most), points.end(),
                      [](const Point& a, const Point& b) {
                          return a.seconds != b.seconds ? a.seconds < b.seconds : a.width < b.width;
                      });
    points.resize(most);
    return points;
}

std::optional<int> Curve::optimum(std::span<const int> widths, double deadband) const {
    std::vector<Point> points = solo_points();
    const auto measured = std::count_if(points.begin(), points.end(), [&](const Point& point) {
        return std::find(widths.begin(), widths.end(), point.width) != widths.end();
    });
    if (measured < 2) return std::nullopt;
    return narrowest_within(Known(std::move(points)).within(widths), deadband);
}

}  // namespace corun::model
