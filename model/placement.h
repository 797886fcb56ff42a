// SPDX-License-Identifier: Apache-2.0
// Where the threads of an op lie, as far as it changes the cost: a curve for each class (Liu et al.,
// IPDPS 2019: two threads on a tile's cache, or one).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/curve.h"
#include "model/walk.h"

namespace corun::model {

enum class Placement {
    spread,   ///< one thread on each shared cache: the widest is the number of caches
    compact,  ///< caches filled one after another: widths are multiples of what shares one
};

/// What of a machine matters here; whoever has read it passes it in.
struct Topology {
    int cpus = 1;
    int cpus_per_cache = 1;  ///< cores on one shared cache; 1: there is only one class

    [[nodiscard]] int caches() const { return (cpus + cpus_per_cache - 1) / cpus_per_cache; }
    [[nodiscard]] int widest(Placement placement) const;
};

struct PlacedPoint {
    int width = 0;
    Placement placement = Placement::spread;
    double seconds = 0.0;
};

/// The curves of one op key, one a class.
class PlacedCurves {
  public:
    /// @param measured_from as Curve's
    explicit PlacedCurves(const Topology& topology, int measured_from = Curve::default_measured_from);

    void add(Placement placement, const Sample& sample);
    [[nodiscard]] const Curve& curve(Placement placement) const;

    /// The faster class at a width, by Curve::predict() of each class that reaches it.
    [[nodiscard]] std::optional<PlacedPoint> predict(int width) const;
    /// The (at most three) fastest pairs of width and class over `widths`, fastest first.
    [[nodiscard]] std::vector<PlacedPoint> best(std::span<const int> widths) const;
    [[nodiscard]] const Topology& topology() const { return topology_; }

  private:
    Topology topology_;
    Curve spread_;
    Curve compact_;
};

/// make_step_walk() that begins at width `first`.
[[nodiscard]] std::unique_ptr<Walk> make_step_walk_from(int first, int step, int samples, bool confirm);

/// The paper's hill climb in each class in turn, with interval `step`: spread 1, 1 + x, ...; compact from one
/// full cache on, in multiples of it. The other arguments as make_step_walk()'s; the defaults are the
/// paper's.
class PlacementWalk {
  public:
    explicit PlacementWalk(int step, int samples = 1, bool confirm = false)
        : step_(step), samples_(samples), confirm_(confirm) {}
    /// What to sample next (seconds is 0); nothing when both climbs have ended.
    [[nodiscard]] std::optional<PlacedPoint> next(const PlacedCurves& curves) const;

  private:
    int step_;
    int samples_;
    bool confirm_;
};

}  // namespace corun::model
