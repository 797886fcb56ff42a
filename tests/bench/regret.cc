// SPDX-License-Identifier: Apache-2.0
// How good are the models that choose a width? For every op of a step graph on a simulated machine: what the
// chosen width loses against the best one, how well widths that were not sampled are predicted, and how many
// samples that took. Prints a table in Markdown. Simulated: the true costs are those of `corun sim`.
//
//   regret MACHINE GRAPH...
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "model/active.h"
#include "model/walk.h"
#include "tools/sim/cost.h"

namespace {

using namespace corun;
using tools::sim::Graph;
using tools::sim::GraphKey;
using tools::sim::Machine;

constexpr double kDeadband = 0.0;
constexpr int kRepeats = 5;

struct Method {
    const char* name;
    std::unique_ptr<model::Walk> (*make)(double noise);
    int measured_from;
    bool belief;  // the active choice answers by its belief, the others by the curve
};

template <int step, int samples, bool confirm>
std::unique_ptr<model::Walk> step_walk(double /*noise*/) {
    return model::make_step_walk(step, samples, confirm);
}

constexpr Method kMethods[] = {
    {"walk, x = 2", step_walk<2, 1, false>, 1, false},
    {"walk, x = 4 (the paper's)", step_walk<4, 1, false>, 1, false},
    {"walk, x = 8", step_walk<8, 1, false>, 1, false},
    {"walk, x = 16", step_walk<16, 1, false>, 1, false},
    {"walk, x = 4, medians of 3, rise confirmed", step_walk<4, 3, true>, 3, false},
    {"fitted law, local check", [](double) { return model::make_fitted_walk(3); }, 3, false},
    {"active choice", [](double noise) { return model::make_active_walk(noise); }, 1, true},
};

struct Score {
    double regret = 0.0;    // mean over ops
    double weighted = 0.0;  // by the time that an op takes at its best
    double weight = 0.0;
    double accuracy = 0.0;
    std::size_t held_out = 0;
    double samples = 0.0;
    std::size_t ops = 0;
};

void judge(const Method& method, const std::vector<double>& truth, double noise, std::mt19937_64& random,
           Score& score) {
    const int most = static_cast<int>(truth.size());
    std::normal_distribution<double> normal;
    model::Curve curve(method.measured_from);
    const auto walk = method.make(noise);
    int samples = 0;
    for (; samples < 1000; ++samples) {
        const auto width = walk->next(curve, most);
        if (!width) break;
        const double factor = std::exp(noise * normal(random) - 0.5 * noise * noise);
        curve.add({*width, true, truth[static_cast<std::size_t>(*width) - 1] * factor});
    }
    std::vector<int> widths;
    for (int width = 1; width <= most; ++width) widths.push_back(width);
    const model::WidthBelief belief(curve, most, noise);
    const auto chosen =
        method.belief ? model::believed_best(belief, widths) : curve.optimum(widths, kDeadband);
    const double best = *std::min_element(truth.begin(), truth.end());
    const double loss = truth[static_cast<std::size_t>(chosen.value_or(1)) - 1] / best - 1.0;
    score.regret += loss;
    score.weighted += loss * best;
    score.weight += best;
    score.samples += samples;
    ++score.ops;
    for (const int width : widths) {
        if (curve.solo_count(width) > 0) continue;
        const auto predicted = method.belief ? std::optional(belief.at(width).seconds) : curve.predict(width);
        if (!predicted) continue;
        const double real = truth[static_cast<std::size_t>(width) - 1];
        score.accuracy += std::max(0.0, 1.0 - std::fabs(*predicted - real) / real);
        ++score.held_out;
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: regret MACHINE GRAPH...\n");
        return 2;
    }
    try {
        const Machine machine = tools::sim::read_machine(argv[1]);
        std::vector<std::vector<double>> truths;
        for (int i = 2; i < argc; ++i) {
            for (const GraphKey& key : tools::sim::read_graph(argv[i]).keys) {
                if (key.parts < 2) continue;
                std::vector<double> truth;
                for (int width = 1; width <= machine.cores; ++width)
                    truth.push_back(solo_seconds(machine, key, width, model::Placement::spread));
                truths.push_back(std::move(truth));
            }
        }
        fmt::print("{} kinds of ops on {}, {} times each\n\n", truths.size(), machine.name, kRepeats);
        fmt::print(
            "| noise | method | loss, mean | loss by time | accuracy, widths not sampled | samples |\n");
        fmt::print("| ---: | --- | ---: | ---: | ---: | ---: |\n");
        for (const double noise : {0.05, 0.15}) {
            for (const Method& method : kMethods) {
                std::mt19937_64 random(1);
                Score score;
                for (int repeat = 0; repeat < kRepeats; ++repeat) {
                    for (const auto& truth : truths) judge(method, truth, noise, random, score);
                }
                fmt::print("| {:.0f} % | {} | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} |\n", 100 * noise,
                           method.name, 100 * score.regret / static_cast<double>(score.ops),
                           100 * score.weighted / score.weight,
                           100 * score.accuracy / static_cast<double>(score.held_out),
                           score.samples / static_cast<double>(score.ops));
            }
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "regret: %s\n", error.what());
        return 1;
    }
}
