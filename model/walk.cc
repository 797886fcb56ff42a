// SPDX-License-Identifier: Apache-2.0
#include "model/walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "model/placement.h"

namespace corun::model {
namespace {

constexpr std::size_t kRefits = 2;  // points that the law alone may choose
constexpr double kNear = 1.2;       // a refit that lands within this factor of a measured width adds nothing
constexpr int kReach = 4;           // neighbours lie at width -+ width / 4: one thread more drowns in noise
constexpr std::size_t kMostPoints = 9;  // by default 27 samples; only noise asks for more

bool contains(std::span<const int> widths, int width) {
    return std::find(widths.begin(), widths.end(), width) != widths.end();
}

// A curve keeps so many samples a width: a walk that waited for more would never end.
std::size_t clamp_samples(int samples) {
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(samples, 1)), 1,
                                   RobustSamples::capacity);
}

class FittedWalk final : public Walk {
  public:
    explicit FittedWalk(int samples) : samples_(clamp_samples(samples)) {}

  protected:
    [[nodiscard]] std::optional<int> choose(const Curve& curve, int max_width,
                                            std::span<const int> given_up) const override {
        const int most = std::max(1, max_width);
        const auto open = [&](int width) {
            return curve.solo_count(width) < samples_ && !contains(given_up, width);
        };
        const std::array<int, 3> anchors{most, 1, static_cast<int>(std::lround(std::sqrt(most)))};
        for (const int width : anchors) {
            if (open(width)) return width;
        }
        const std::vector<Point> points = measured(curve, most);
        if (points.empty() || points.size() >= kMostPoints) return std::nullopt;
        if (const auto law = fit_law(points)) {
            const auto width = static_cast<int>(std::lround(law->optimum(most)));
            const auto chosen = std::count_if(points.begin(), points.end(), [&](const Point& point) {
                return !contains(anchors, point.width);
            });
            if (open(width) && (static_cast<std::size_t>(chosen) < kRefits || !near(points, width)))
                return width;
        }
        return neighbour(points, most, open);
    }

  private:
    [[nodiscard]] std::vector<Point> measured(const Curve& curve, int most) const {
        std::vector<Point> points = curve.solo_points();
        std::erase_if(points, [&](const Point& point) {
            return point.width > most || curve.solo_count(point.width) < samples_;
        });
        return points;
    }

    static bool near(const std::vector<Point>& points, int width) {
        return std::any_of(points.begin(), points.end(), [&](const Point& point) {
            return std::max(point.width, width) <= kNear * std::min(point.width, width);
        });
    }

    // A side of the best point is checked once something within reach of it is measured.
    template <class Open>
    static std::optional<int> neighbour(const std::vector<Point>& points, int most, const Open& open) {
        const Point best =
            *std::min_element(points.begin(), points.end(),
                              [](const Point& a, const Point& b) { return a.seconds < b.seconds; });
        const int reach = std::max(1, (best.width + kReach / 2) / kReach);
        for (const int side : {std::max(1, best.width - reach), std::min(most, best.width + reach)}) {
            const bool seen = std::any_of(points.begin(), points.end(), [&](const Point& point) {
                return side < best.width ? point.width >= side && point.width < best.width
                                         : point.width > best.width && point.width <= side;
            });
            if (side != best.width && !seen && open(side)) return side;
        }
        return std::nullopt;
    }

    std::size_t samples_;
};

class StepWalk final : public Walk {
  public:
    StepWalk(int step, int samples, bool confirm, int first)
        : step_(std::max(1, step)),
          first_(std::max(1, first)),
          samples_(clamp_samples(samples)),
          rises_to_stop_(confirm ? 2 : 1) {}

  protected:
    [[nodiscard]] std::optional<int> choose(const Curve& curve, int max_width,
                                            std::span<const int> given_up) const override {
        const int most = std::max(1, max_width);
        std::optional<double> best;
        int rises = 0;  // in a row
        for (int width = std::min(first_, most);; width = width > most - step_ ? most : width + step_) {
            if (curve.solo_count(width) >= samples_) {
                const double seconds = *curve.solo(width);
                rises = best && seconds > *best ? rises + 1 : 0;
                if (rises == 0) best = seconds;
                if (rises == rises_to_stop_) return std::nullopt;
            } else if (!contains(given_up, width)) {
                return width;
            }
            if (width == most) return std::nullopt;
        }
    }

  private:
    int step_;
    int first_;
    std::size_t samples_;
    int rises_to_stop_;
};

}  // namespace

std::unique_ptr<Walk> make_fitted_walk(int samples) {
    return std::make_unique<FittedWalk>(samples);
}

std::unique_ptr<Walk> make_step_walk(int step, int samples, bool confirm) {
    return make_step_walk_from(1, step, samples, confirm);
}

std::unique_ptr<Walk> make_step_walk_from(int first, int step, int samples, bool confirm) {
    return std::make_unique<StepWalk>(step, samples, confirm, first);
}

}  // namespace corun::model
