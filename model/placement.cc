// SPDX-License-Identifier: Apache-2.0
#include "model/placement.h"

#include <algorithm>

namespace corun::model {

int Topology::widest(Placement placement) const {
    if (placement == Placement::spread) return caches();
    return cpus_per_cache > 1 ? cpus / cpus_per_cache * cpus_per_cache : 0;
}

PlacedCurves::PlacedCurves(const Topology& topology, int measured_from)
    : topology_(topology), spread_(measured_from), compact_(measured_from) {}

void PlacedCurves::add(Placement placement, const Sample& sample) {
    (placement == Placement::spread ? spread_ : compact_).add(sample);
}

const Curve& PlacedCurves::curve(Placement placement) const {
    return placement == Placement::spread ? spread_ : compact_;
}

std::optional<PlacedPoint> PlacedCurves::predict(int width) const {
    std::optional<PlacedPoint> best;
    for (const Placement placement : {Placement::spread, Placement::compact}) {
        // A width in between fills the caches but for the last one: it belongs to the compact class.
        const int most = placement == Placement::spread ? topology_.widest(placement) : topology_.cpus;
        if (width > most || (placement == Placement::compact && topology_.cpus_per_cache < 2)) continue;
        const auto seconds = curve(placement).predict(width);
        if (seconds && (!best || *seconds < best->seconds)) best = PlacedPoint{width, placement, *seconds};
    }
    return best;
}

std::vector<PlacedPoint> PlacedCurves::best(std::span<const int> widths) const {
    std::vector<PlacedPoint> points;
    for (const Placement placement : {Placement::spread, Placement::compact}) {
        for (const Point& point : curve(placement).best(widths))
            points.push_back({point.width, placement, point.seconds});
    }
    std::sort(points.begin(), points.end(), [](const PlacedPoint& a, const PlacedPoint& b) {
        return a.seconds != b.seconds ? a.seconds < b.seconds : a.width < b.width;
    });
    points.resize(std::min<std::size_t>(points.size(), 3));
    return points;
}

std::optional<PlacedPoint> PlacementWalk::next(const PlacedCurves& curves) const {
    const Topology& topology = curves.topology();
    for (const Placement placement : {Placement::spread, Placement::compact}) {
        const int most = topology.widest(placement);
        if (most < 1) continue;
        const int unit = placement == Placement::spread ? 1 : topology.cpus_per_cache;
        const int step = (std::max(step_, 1) + unit - 1) / unit * unit;
        const auto walk = make_step_walk_from(unit, step, samples_, confirm_);
        if (const auto width = walk->next(curves.curve(placement), most))
            return PlacedPoint{*width, placement, 0.0};
    }
    return std::nullopt;
}

}  // namespace corun::model
