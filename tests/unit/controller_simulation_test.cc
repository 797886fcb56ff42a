// SPDX-License-Identifier: Apache-2.0
// The whole controller on fake programs: how often it decides right, how soon, and what it costs meanwhile.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/unit/controller_program.h"

namespace corun::policy::simulation {
namespace {

/// Many runs of one program.
struct Figures {
    std::vector<double> decided, first_minute, afterwards, chosen, gap, ideal_gap;
    int undecided = 0;

    void print(const char* name) const {
        std::printf(
            "%-14s decided after %4.1f s (p90 %4.1f); chosen arm %.3f, behind the best arm: mean %.3f max "
            "%.3f, behind "
            "the ideal: mean %.3f\n%-14s first 60 s %.3f (worst %.3f), after the decision %.3f (worst "
            "%.3f)\n",
            name, mean(decided), quantile(decided, 0.9), mean(chosen), mean(gap), quantile(gap, 1.0),
            mean(ideal_gap), "", mean(first_minute), quantile(first_minute, 0.0), mean(afterwards),
            quantile(afterwards, 0.0));
    }
    static double mean(const std::vector<double>& values) {
        double sum = 0.0;
        for (const double value : values) sum += value;
        return sum / static_cast<double>(values.size());
    }
    [[nodiscard]] double within(double most) const {
        const auto good = std::count_if(gap.begin(), gap.end(), [&](double g) { return g <= most; });
        return static_cast<double>(good) / static_cast<double>(gap.size());
    }
};

Figures run_many(const char* name, const Scenario& scenario, int runs, double seconds) {
    Figures figures;
    for (int seed = 1; seed <= runs; ++seed) {
        Simulation simulation(scenario, {}, static_cast<std::uint64_t>(seed));
        while (!simulation.decision() && simulation.now() < seconds) simulation.run(simulation.now() + 1.0);
        const auto decision = simulation.decision();
        if (!decision) {
            ++figures.undecided;
            continue;
        }
        const double truth = simulation.true_speed(0, decision->arm);
        figures.decided.push_back(decision->time);
        figures.chosen.push_back(truth);
        figures.gap.push_back(1.0 - truth / simulation.best_arm_speed(0));
        figures.ideal_gap.push_back(1.0 - truth / simulation.ideal_speed(0));
        simulation.run(seconds);
        figures.first_minute.push_back(simulation.speed(0.0, 60.0));
        figures.afterwards.push_back(simulation.speed(decision->time + 1.0, seconds));
    }
    figures.print(name);
    return figures;
}

// Steps that a program makes under corun over those that it makes alone, after `from` seconds, in the same
// noise. For programs that run ops side by side, where the sum of the ops' times is not the program's time.
double steps_ratio(const Scenario& scenario, int runs, double from, double until) {
    ControllerSettings observe;
    observe.observe = true;
    double log_ratio = 0.0;
    for (int seed = 1; seed <= runs; ++seed) {
        std::array<double, 2> steps{};
        for (const bool tuned : {false, true}) {
            Simulation simulation(scenario, tuned ? ControllerSettings{} : observe,
                                  static_cast<std::uint64_t>(seed));
            simulation.run(from);
            const long before = simulation.steps();
            simulation.run(until);
            steps.at(tuned) = static_cast<double>(simulation.steps() - before);
        }
        log_ratio += std::log(steps[1] / steps[0]) / runs;
    }
    return std::exp(log_ratio);
}

TEST(ControllerSimulation, LstmIsDecidedForANarrowArm) {
    const Figures figures = run_many("lstm 20 ms", one_model(lstm_like()), 40, 70.0);
    EXPECT_EQ(figures.undecided, 0);
    EXPECT_GE(figures.within(0.02), 0.95);
    EXPECT_LE(Figures::mean(figures.decided), 20.0);
    EXPECT_GE(Figures::mean(figures.first_minute), 1.15);
}

TEST(ControllerSimulation, LstmOnEightCpus) {
    Scenario scenario = one_model(lstm_like(8));
    scenario.budget = 8;
    const Figures figures = run_many("lstm, 8 CPUs", scenario, 20, 70.0);
    EXPECT_EQ(figures.undecided, 0);
    EXPECT_GE(figures.within(0.05), 0.95);
    EXPECT_LE(Figures::mean(figures.decided), 25.0);
}

// Threads that wait for one another on CPUs that others use: what there is to learn is not learned at that
// cost.
TEST(ControllerSimulation, ManyTimesSlowerAtItsOwnWidth) {
    FakeModel model = resnet_like();
    for (FakeOp& op : model.ops) op.seconds.back() *= 10.0;
    double early = 0.0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Simulation simulation(one_model(model), {}, seed);
        simulation.run(120.0);
        early += simulation.speed(20.0, 60.0) / 10.0;
        const Phase& phase = *simulation.controller().longest();
        EXPECT_EQ(phase.state(), State::guard) << "seed " << seed;
        EXPECT_GE(simulation.true_speed(0, phase.arm()), 0.97 * simulation.best_arm_speed(0))
            << "seed " << seed;
    }
    std::printf("10 times slower at its own width: seconds 20 to 60 at %.2f of the program as it is\n",
                early);
    EXPECT_GE(early, 3.0);
}

TEST(ControllerSimulation, ResnetIsLeftAsItIs) {
    const Figures figures = run_many("resnet 47 ms", one_model(resnet_like()), 40, 180.0);
    EXPECT_EQ(figures.undecided, 0);
    EXPECT_GE(figures.within(0.02), 0.95);
    EXPECT_LE(quantile(figures.decided, 0.9), 60.0);
    EXPECT_GE(Figures::mean(figures.first_minute), 0.97);
    EXPECT_GE(quantile(figures.afterwards, 0.0), 0.97);
}

TEST(ControllerSimulation, ResnetWithLongSteps) {
    const Figures figures = run_many("resnet 140 ms", one_model(resnet_like(2, 3.0)), 60, 180.0);
    EXPECT_EQ(figures.undecided, 0);
    EXPECT_GE(figures.within(0.02), 0.95);
    EXPECT_LE(quantile(figures.decided, 0.9), 120.0);
    EXPECT_GE(Figures::mean(figures.first_minute), 0.925);
    EXPECT_GE(quantile(figures.afterwards, 0.0), 0.96);
}

TEST(ControllerSimulation, ResnetOnEightCpus) {
    Scenario scenario = one_model(resnet_like(8));
    scenario.budget = 8;
    const Figures figures = run_many("resnet, 8 CPUs", scenario, 20, 90.0);
    EXPECT_EQ(figures.undecided, 0);
    EXPECT_GE(figures.within(0.02), 0.95);
}

TEST(ControllerSimulation, ANeutralProgramIsNotHarmed) {
    const Figures figures = run_many("neutral 45 ms", one_model(neutral()), 40, 180.0);
    EXPECT_EQ(figures.undecided, 0);
    EXPECT_GE(quantile(figures.afterwards, 0.0), 0.98);
}

TEST(ControllerSimulation, ARoughNeighbourDoesNotMisleadIt) {
    Scenario scenario = one_model(lstm_like());
    scenario.noise = kRough;
    const Figures rough = run_many("lstm, rough", scenario, 20, 90.0);
    EXPECT_GE(rough.within(0.05), 0.95);
    scenario.models = {resnet_like()};
    const Figures resnet = run_many("resnet, rough", scenario, 20, 180.0);
    EXPECT_GE(resnet.within(0.05), 0.95);
    EXPECT_GE(quantile(resnet.afterwards, 0.0), 0.95);
}

TEST(ControllerSimulation, TwoThreadsThatDispatchSideBySide) {
    Scenario scenario = one_model(lstm_like());
    scenario.threads = 2;
    const double lstm = steps_ratio(scenario, 4, 30.0, 90.0);
    scenario.models = {resnet_like()};
    const double early = steps_ratio(scenario, 20, 0.0, 60.0);
    const double resnet = steps_ratio(scenario, 20, 60.0, 180.0);
    std::printf("two threads: lstm %.3f; resnet: first 60 s %.3f, then %.3f of the steps alone\n", lstm,
                early, resnet);
    EXPECT_GE(lstm, 1.5);
    EXPECT_GE(early, 0.96);
    EXPECT_GE(resnet, 0.98);
}

TEST(ControllerSimulation, WaitingForInputHalfOfTheTime) {
    Scenario scenario = one_model(lstm_like());
    scenario.models[0].wait = 0.018;
    const Figures figures = run_many("lstm, waiting", scenario, 30, 120.0);
    EXPECT_EQ(figures.undecided, 0);
    EXPECT_GE(figures.within(0.05), 0.95);
    EXPECT_LE(Figures::mean(figures.decided), 40.0);
}

// Ops in an order and number that never repeat: there is no step. Work alone must do.
TEST(ControllerSimulation, ProgramsWithoutAnAnchor) {
    for (const bool narrow : {true, false}) {
        Scenario scenario = one_model(narrow ? lstm_like() : resnet_like());
        const std::vector<std::size_t> all = scenario.models[0].step;
        scenario.next = [all, random = Random(5)](std::vector<FakeModel>& models, long, double) mutable {
            models[0].step.resize(all.size() / 2 + random() % all.size());
            for (std::size_t& op : models[0].step) op = all[random() % all.size()];
            return std::size_t{0};
        };
        int undecided = 0;
        double worst = 10.0;
        double sum = 0.0;
        constexpr int kSeeds = 5;
        for (int seed = 1; seed <= kSeeds; ++seed) {
            Simulation simulation(scenario, {}, static_cast<std::uint64_t>(seed));
            simulation.run(240.0);
            undecided += simulation.decision() ? 0 : 1;
            worst = std::min(worst, simulation.speed(0.0, 240.0));
            sum += simulation.speed(120.0, 240.0);
            EXPECT_FALSE(simulation.controller().directive().record_all) << "everything is recorded for ever";
        }
        std::printf("no anchor, %s: undecided %d of %d, speed later %.3f, over all worst %.3f\n",
                    narrow ? "lstm" : "resnet", undecided, kSeeds, sum / kSeeds, worst);
        EXPECT_GE(worst, 0.97);
    }
}

}  // namespace
}  // namespace corun::policy::simulation
