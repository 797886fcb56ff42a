// SPDX-License-Identifier: Apache-2.0
// The race on a simulated program: how often it finds a good arm and how long it takes.
#include "tests/unit/policy_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>
#include <vector>

#include "policy/race.h"

namespace corun::policy::simulation {
namespace {

struct RaceFigures {
    double good = 0.0;        ///< share of runs that chose an arm within 2 % of the best
    double first_look = 0.0;  ///< share of runs that dropped an arm at the first look
    std::vector<double> seconds;

    void print(const char* noise, const char* arms) const {
        std::printf(
            "race  %s  %-18s good %5.1f %%  dropped at first look %5.1f %%  seconds: median %5.1f p90 %5.1f"
            " max %5.1f\n",
            noise, arms, 100.0 * good, 100.0 * first_look, quantile(seconds, 0.5), quantile(seconds, 0.9),
            quantile(seconds, 1.0));
    }
};

RaceFigures race_many(const std::vector<double>& speeds, Noise noise = {}) {
    RaceFigures figures;
    const double best = *std::max_element(speeds.begin(), speeds.end());
    for (int run = 0; run < kRuns; ++run) {
        Program program(speeds, static_cast<std::uint64_t>(run) + 1, noise);
        std::vector<ArmId> arms;
        for (std::size_t i = 0; i < speeds.size(); ++i) arms.push_back(static_cast<ArmId>(i));
        Race race(arms, Random(static_cast<std::uint64_t>(run) + 77));
        bool dropped_early = false;
        while (!race.finished()) {
            race.add(program.run(race.next()));
            dropped_early =
                dropped_early || (race.rounds() <= kRaceLooks[0] && race.live().size() < speeds.size());
        }
        const double won = speeds.at(static_cast<std::size_t>(race.winner()));
        if (won >= best / (1.0 + kIndifference)) figures.good += 1.0 / kRuns;
        figures.first_look += dropped_early ? 1.0 / kRuns : 0.0;
        figures.seconds.push_back(program.now());
    }
    return figures;
}

struct RaceCase {
    const char* name;
    std::vector<double> speeds;
};

void PrintTo(const RaceCase& race, std::ostream* out) {
    *out << race.name;
}

class RaceSimulation : public testing::TestWithParam<RaceCase> {};

TEST_P(RaceSimulation, FindsOneBesideARoughNeighbour) {
    const RaceFigures figures = race_many(GetParam().speeds, kRough);
    figures.print("rough", GetParam().name);
    EXPECT_GE(figures.good, 0.95);
}

TEST_P(RaceSimulation, FindsAnArmWithinTwoPercentOfTheBest) {
    const RaceFigures figures = race_many(GetParam().speeds);
    figures.print("usual", GetParam().name);
    EXPECT_GE(figures.good, 0.95);
}

INSTANTIATE_TEST_SUITE_P(
    All, RaceSimulation,
    testing::Values(RaceCase{"lstm", {1.0, 0.7, 1.4, 1.36, 1.1}}, RaceCase{"convnet", {1.0, 0.98, 0.8, 0.75}},
                    RaceCase{"alike", {1.0, 1.01, 0.99, 1.005, 0.995, 1.01}},
                    RaceCase{"two good", {1.0, 1.20, 1.25}},
                    RaceCase{"two good of five", {1.0, 0.9, 1.2, 1.25, 0.6}},
                    RaceCase{"nine", {1.0, 1.43, 1.36, 1.25, 1.1, 0.9, 0.7, 0.5, 1.3}},
                    RaceCase{"seven, two equal", {1.0, 1.15, 1.16, 1.05, 0.95, 0.8, 0.65}},
                    RaceCase{"slight gain", {1.0, 1.06, 1.0, 0.95, 0.9}},
                    RaceCase{"clear loser", {1.0, 0.7}}),
    [](const testing::TestParamInfo<RaceCase>& info) {
        std::string name = info.param.name;
        std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
        return name;
    });

}  // namespace
}  // namespace corun::policy::simulation
