// SPDX-License-Identifier: Apache-2.0
// The whole controller on fake programs: how often it decides right, how soon, and what it costs.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/unit/controller_program.h"

namespace corun::policy::simulation {
namespace {

Scenario one(FakeModel model) {
    Scenario scenario;
    scenario.models.push_back(std::move(model));
    return scenario;
}

/// Many runs of one program.
struct Figures {
    std::vector<double> decided, first_minute, afterwards, chosen, gap;
    int stood_down = 0;
    int undecided = 0;

    void print(const char* name) const {
        std::printf("%-22s decided: median %5.1f p90 %5.1f s; stood down %d, undecided %d of %zu; speed of the chosen arm %.3f "
                    "(worst gap to the best arm %.3f); first 60 s %.3f (worst %.3f), after the decision %.3f (worst %.3f)\n",
                    name, quantile(decided, 0.5), quantile(decided, 0.9), stood_down, undecided, decided.size(),
                    quantile(chosen, 0.5), quantile(gap, 1.0), quantile(first_minute, 0.5), quantile(first_minute, 0.0),
                    quantile(afterwards, 0.5), quantile(afterwards, 0.0));
    }
    [[nodiscard]] double within(double share) const {
        return static_cast<double>(std::count_if(gap.begin(), gap.end(), [&](double g) { return g <= share; })) /
               static_cast<double>(gap.size());
    }
};

Figures run_many(const Scenario& scenario, int runs, double seconds, const char* name, ControllerSettings settings = {}) {
    Figures figures;
    for (int seed = 1; seed <= runs; ++seed) {
        Simulation simulation(scenario, settings, static_cast<std::uint64_t>(seed));
        simulation.run(seconds);
        const auto decision = simulation.decision();
        const Phase* phase = simulation.controller().longest();
        const ArmId arm = phase != nullptr ? phase->arm() : kPassThrough;
        figures.decided.push_back(decision ? decision->time : seconds);
        figures.undecided += decision ? 0 : 1;
        figures.stood_down += simulation.controller().state() == State::stood_down ? 1 : 0;
        figures.first_minute.push_back(simulation.speed(0.0, 60.0));
        figures.afterwards.push_back(simulation.speed(decision ? decision->time + 1.0 : 0.0, seconds));
        figures.chosen.push_back(simulation.true_speed(0, arm));
        figures.gap.push_back(1.0 - simulation.true_speed(0, arm) / simulation.best_arm_speed(0));
    }
    figures.print(name);
    return figures;
}

TEST(ControllerSimulation, Lstm) {
    const Figures figures = run_many(one(lstm_like()), 10, 60.0, "lstm");
    EXPECT_GE(figures.within(0.02), 0.95);
}

TEST(ControllerSimulation, Resnet) {
    const Figures figures = run_many(one(resnet_like()), 10, 120.0, "resnet 47 ms");
    EXPECT_GE(figures.within(0.02), 0.95);
}

}  // namespace
}  // namespace corun::policy::simulation
