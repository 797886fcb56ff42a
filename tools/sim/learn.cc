// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/learn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>

#include "model/active.h"
#include "model/walk.h"
#include "tools/sim/cost.h"

namespace corun::tools::sim {
namespace {

using model::Placement;

constexpr int kMostSamples = 10'000;  // of a walk: a fault if it asks for more

// The walk of one class, and how many samples make a width measured.
struct Method {
    bool exact = false;
    int step = 0;  // 0: not the paper's
    std::unique_ptr<model::Walk> walk;
    int measured_from = 1;
    double noise = 0.0;  // > 0: the active choice, whose belief answers
};

Method method_of(const std::string& model, double noise) {
    Method method;
    if (model == "exact") {
        method.exact = true;
    } else if (model == "fitted") {
        method.walk = model::make_fitted_walk(3);
        method.measured_from = 3;
    } else if (model == "active") {
        method.noise = std::max(noise, 0.02);
        method.walk = model::make_active_walk(method.noise);
    } else if (model.rfind("step-", 0) == 0) {
        method.step = std::atoi(model.c_str() + 5);
        if (method.step < 1 || model != "step-" + std::to_string(method.step)) method.step = -1;
    } else {
        method.step = -1;
    }
    if (method.step < 0)
        throw std::runtime_error(
            fmt::format("there is no model '{}'; there are: exact, fitted, active, step-<x>", model));
    return method;
}

class Learner {
  public:
    Learner(const Machine& machine, const Method& method, std::uint64_t seed)
        : machine_(machine), method_(method), random_(seed) {}

    // Seconds by width, and in which class; counts its samples.
    void learn(const GraphKey& key, std::vector<double>& seconds, std::vector<bool>& spread) {
        const model::Topology topology = machine_.topology();
        seconds.assign(static_cast<std::size_t>(machine_.cores), 0.0);
        spread.assign(seconds.size(), true);
        if (method_.exact || key.parts < 2) {  // what cannot be cut has one width; its time is known at once
            for (int width = 1; width <= machine_.cores; ++width) {
                const bool fits = width <= topology.widest(Placement::spread);
                set(seconds, width,
                    solo_seconds(machine_, key, width, fits ? Placement::spread : Placement::compact));
            }
            return;
        }
        model::PlacedCurves curves(topology, method_.measured_from);
        if (method_.step > 0) {
            const model::PlacementWalk walk(method_.step);
            for (int i = 0; i < kMostSamples; ++i) {
                const auto next = walk.next(curves);
                if (!next) break;
                curves.add(next->placement, sample(key, next->width, next->placement));
            }
        } else {
            for (const Placement placement : {Placement::spread, Placement::compact}) {
                const int most = topology.widest(placement);
                if (most < 1) continue;
                for (int i = 0; i < kMostSamples; ++i) {
                    const auto width = method_.walk->next(curves.curve(placement), most);
                    if (!width) break;
                    curves.add(placement, sample(key, *width, placement));
                }
            }
        }
        answer(curves, seconds, spread);
    }
    [[nodiscard]] std::size_t samples() const { return samples_; }

  private:
    static void set(std::vector<double>& seconds, int width, double value) {
        seconds[static_cast<std::size_t>(width) - 1] = value;
    }

    model::Sample sample(const GraphKey& key, int width, Placement placement) {
        ++samples_;
        const double sigma = machine_.noise;
        const double factor = std::exp(sigma * normal_(random_) - 0.5 * sigma * sigma);
        return {width, true, solo_seconds(machine_, key, width, placement) * factor};
    }

    // Widths past what a class has sampled are not predicted: they count as slow as can be.
    void answer(const model::PlacedCurves& curves, std::vector<double>& seconds, std::vector<bool>& spread) {
        const model::Topology& topology = curves.topology();
        double slowest = 0.0;
        for (const Placement placement : {Placement::spread, Placement::compact}) {
            const int most = topology.widest(placement);
            const model::Curve& curve = curves.curve(placement);
            std::vector<int> widths;
            for (int width = 1; width <= (placement == Placement::spread ? most : topology.cpus); ++width)
                if (most > 0) widths.push_back(width);
            const model::WidthBelief belief(curve, std::max(most, 1), method_.noise);
            const auto points = curve.solo_points();
            if (points.empty()) continue;
            for (const int width : widths) {
                const bool seen = width >= points.front().width && width <= points.back().width;
                if (!seen && width != 1) continue;
                const auto predicted =
                    method_.noise > 0.0 ? std::optional(belief.at(width).seconds) : curve.predict(width);
                if (!predicted || !(*predicted > 0.0)) continue;
                slowest = std::max(slowest, *predicted);
                double& known = seconds[static_cast<std::size_t>(width) - 1];
                if (known > 0.0 && known <= *predicted) continue;
                known = *predicted;
                spread[static_cast<std::size_t>(width) - 1] = placement == Placement::spread;
            }
        }
        for (double& each : seconds) {
            if (!(each > 0.0)) each = 2.0 * slowest;
        }
    }

    const Machine& machine_;
    const Method& method_;
    std::mt19937_64 random_;
    std::normal_distribution<double> normal_;
    std::size_t samples_ = 0;
};

}  // namespace

Learned learn(const Machine& machine, const Graph& graph, const std::string& model, std::uint64_t seed) {
    const Method method = method_of(model, machine.noise);
    Learner learner(machine, method, seed);
    std::vector<policy::KeyCosts> costs(graph.keys.size());
    std::vector<std::vector<bool>> spread(graph.keys.size());
    for (std::size_t key = 0; key < graph.keys.size(); ++key) {
        costs[key].type = graph.keys[key].type;
        learner.learn(graph.keys[key], costs[key].seconds, spread[key]);
    }
    const policy::TeamCosts teams{1e-6 * machine.switch_us, 1e-6 * machine.switch_per_thread_us};
    return {policy::CostTable(costs, teams), std::move(spread), learner.samples()};
}

}  // namespace corun::tools::sim
