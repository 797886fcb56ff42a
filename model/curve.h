// SPDX-License-Identifier: Apache-2.0
// What one op key costs at each width: robust samples, the fitted law and the best points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace corun::model {

/// One measured duration of an op.
struct Sample {
    int width = 0;         ///< threads the op was given (>= 1)
    bool solo = false;     ///< true when no other scope was open at any moment of it
    double seconds = 0.0;  ///< duration
};

/// Median and spread of the newest samples of one (op, width, solo or not). Holds at most `capacity`
/// values, the oldest is replaced; never allocates. Durations that are not finite and > 0 are ignored.
class RobustSamples {
  public:
    static constexpr std::size_t capacity = 15;

    void add(double seconds);
    void clear();
    [[nodiscard]] std::size_t count() const { return count_; }  ///< samples held (<= capacity)
    [[nodiscard]] std::uint64_t seen() const { return seen_; }  ///< samples ever added
    [[nodiscard]] std::optional<double> median() const;         ///< seconds
    [[nodiscard]] std::optional<double> spread() const;         ///< 1.4826 * MAD, seconds

  private:
    std::array<float, capacity> values_{};
    std::uint8_t count_ = 0;
    std::uint8_t next_ = 0;
    std::uint64_t seen_ = 0;
};

/// A point of a curve.
struct Point {
    int width = 0;
    double seconds = 0.0;
};

/// T(n) = serial + parallel / n + per_thread * n, all terms >= 0 (Amdahl with a linear overhead term).
struct Law {
    double serial = 0.0;
    double parallel = 0.0;
    double per_thread = 0.0;
    double residual = 0.0;  ///< largest relative error over the points that it was fitted to

    [[nodiscard]] double at(int width) const;
    [[nodiscard]] double optimum(
        double max_width) const;  ///< sqrt(parallel / per_thread), clamped to [1, max]
};

/// Non-negative least squares in relative error. Needs two distinct widths at least (three for all terms).
[[nodiscard]] std::optional<Law> fit_law(std::span<const Point> points);

/// The narrowest of `points` whose time is within `deadband` (0.05 = 5 %) of the fastest; nothing of none.
[[nodiscard]] std::optional<int> narrowest_within(std::span<const Point> points, double deadband);

/// The curve of one op key. Answers rest on solo samples only; those taken beside other ops are kept apart.
class Curve {
  public:
    /// Solo samples that make a width *measured*: below that its median is no basis for anything.
    static constexpr int default_measured_from = 3;

    explicit Curve(int measured_from = default_measured_from) : measured_from_(measured_from) {}

    void add(const Sample& sample);
    void clear();

    [[nodiscard]] std::optional<double> solo(int width) const;  ///< median of the solo samples (1 is enough)
    [[nodiscard]] std::optional<double> beside(int width) const;  ///< median of the others, seconds
    [[nodiscard]] std::size_t solo_count(int width) const;
    [[nodiscard]] std::size_t beside_count(int width) const;
    [[nodiscard]] std::vector<Point> solo_points() const;  ///< the measured widths, ascending

    /// Seconds at `width`: the median where measured, else a line between the measured neighbours
    /// (Liu et al., IPDPS 2019, section on hill climbing), else the law. Nothing when nothing is known.
    [[nodiscard]] std::optional<double> predict(int width) const;

    /// The (at most three) fastest of `widths` by predict(), fastest first. Only widths between the narrowest
    /// and the widest measured one: where nothing was seen the law is a guess, good for predict() alone.
    [[nodiscard]] std::vector<Point> best(std::span<const int> widths) const;

    /// The narrowest of `widths` (those that best() would consider) whose predicted time is within `deadband`
    /// (0.05 = 5 %) of the fastest one; nothing when fewer than two of the widths were measured.
    [[nodiscard]] std::optional<int> optimum(std::span<const int> widths, double deadband) const;

  private:
    struct PerWidth {
        int width = 0;
        RobustSamples solo;
        RobustSamples beside;
    };
    [[nodiscard]] const PerWidth* find(int width) const;

    int measured_from_;
    std::vector<PerWidth> widths_;  // ascending; a handful, so that a linear search beats a map
};

}  // namespace corun::model
