// SPDX-License-Identifier: Apache-2.0
// The controller on programs that change: phases, epochs, profiles of earlier runs, retries; and the modes in
// which it must not decide.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "tests/unit/controller_program.h"

namespace corun::policy::simulation {
namespace {

using Seen = FakeShim::Event;

/// LSTM and ResNet in turn, `seconds` each.
Scenario mixed(double seconds) {
    Scenario scenario = one_model(lstm_like());
    scenario.models.push_back(resnet_like());
    scenario.next = [seconds](std::vector<FakeModel>&, long, double now) {
        return static_cast<std::size_t>(std::fmod(now, 2.0 * seconds) >= seconds);
    };
    return scenario;
}

std::string arm_name(Simulation& simulation, ArmId arm) {
    return simulation.controller().arms()[static_cast<std::size_t>(arm)].name;
}

int count_states(const Simulation& simulation, State state) {
    int count = 0;
    std::optional<State> last;
    for (const Seen& event : simulation.shim().events()) {
        if (event.state == state && last != state) ++count;
        last = event.state;
    }
    return count;
}

// --- phases --------------------------------------------------------------------------------------

TEST(ControllerPhases, AMixedProgramHasTwoPhasesWithADecisionEach) {
    constexpr int kSeeds = 10;
    int best = 0;
    double lstm_speed = 0.0;
    double resnet_speed = 0.0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
        Simulation simulation(mixed(4.0), {}, static_cast<std::uint64_t>(seed));
        simulation.run(240.0);
        ASSERT_EQ(simulation.controller().phases().size(), 2U);
        const auto& phases = simulation.controller().phases();
        ASSERT_TRUE(phases[0]->decided_after());
        ASSERT_TRUE(phases[1]->decided_after());
        // A race may end on an arm that is second best: 2 in 100 do.
        const double speed = simulation.true_speed(0, phases[0]->arm());
        EXPECT_GE(speed, 1.05) << "seed " << seed;
        best += speed >= 1.15 ? 1 : 0;
        EXPECT_GE(simulation.true_speed(1, phases[1]->arm()), 0.98) << "seed " << seed;
        for (double at = 200.0; at < 240.0; at += 8.0) {
            lstm_speed += simulation.speed(at, at + 4.0) / kSeeds / 5.0;
            resnet_speed += simulation.speed(at + 4.0, at + 8.0) / kSeeds / 5.0;
        }
    }
    EXPECT_GE(best, kSeeds - 1);
    std::printf("mixed every 4 s, after 200 s: lstm %.3f, resnet %.3f\n", lstm_speed, resnet_speed);
    EXPECT_GE(lstm_speed, 1.12);
    EXPECT_GE(resnet_speed, 0.97);
}

TEST(ControllerPhases, APhaseSeenBeforeIsDecidedAtOnce) {
    for (const double turn : {4.0, 20.0}) {
        Simulation simulation(mixed(turn), {}, 3);
        simulation.run(240.0);
        double slowest = 0.0;
        std::optional<PhaseId> before;
        for (const Seen& event : simulation.shim().events()) {
            const bool changed = event.phase != before;
            before = event.phase;
            if (event.time < 200.0 || !changed) continue;
            EXPECT_EQ(event.phase, std::fmod(event.time, 2.0 * turn) < turn ? 0 : 1);
            slowest =
                std::max(slowest, std::fmod(event.time, turn));  // since the program went on to this phase
        }
        std::printf("turns of %2.0f s: a known phase is recognised after at most %.2f s\n", turn, slowest);
        EXPECT_GT(slowest, 0.0);
        EXPECT_LE(slowest, 1.0);
    }
}

TEST(ControllerPhases, AnEvaluationNowAndThenDoesNotDisturb) {
    Scenario scenario = one_model(lstm_like());
    FakeModel evaluation = lstm_like();
    evaluation.name = "evaluation";
    evaluation.step.resize(evaluation.step.size() / 2);  // forwards only
    scenario.models.push_back(evaluation);
    scenario.next = [](std::vector<FakeModel>&, long step, double) { return std::size_t{step % 200 >= 185}; };
    for (int seed = 1; seed <= 10; ++seed) {
        Simulation simulation(scenario, {}, static_cast<std::uint64_t>(seed));
        simulation.run(90.0);
        const auto decision = simulation.decision();
        ASSERT_TRUE(decision);
        EXPECT_LE(decision->time, 45.0);
        EXPECT_GE(simulation.speed(60.0, 90.0), 1.12) << "seed " << seed;
    }
}

TEST(ControllerPhases, AThirdModelIsANewEpoch) {
    Scenario scenario = mixed(10.0);
    scenario.models.push_back(neutral());
    scenario.models.back().name = "third";
    const auto before = scenario.next;
    scenario.next = [before](std::vector<FakeModel>& models, long step, double now) {
        return now >= 120.0 ? std::size_t{2} : before(models, step, now);
    };
    Simulation simulation(scenario, {}, 2);
    simulation.run(120.0);
    EXPECT_EQ(simulation.controller().phases().size(), 2U);
    simulation.run(200.0);
    ASSERT_EQ(simulation.controller().phases().size(), 3U);
    EXPECT_EQ(simulation.controller().current(), simulation.controller().phases()[2].get());
    const auto decision = simulation.decision(120.0, 2);
    ASSERT_TRUE(decision);
    EXPECT_LE(decision->time, 190.0);
    EXPECT_GE(simulation.speed(123.0, 200.0), 0.98);
}

// --- change --------------------------------------------------------------------------------------

TEST(ControllerPhases, AnArmThatTurnsBadIsStoodDown) {
    double lost = 0.0;
    for (int seed = 1; seed <= 10; ++seed) {
        Simulation simulation(one_model(lstm_like()), {}, static_cast<std::uint64_t>(seed));
        simulation.run(60.0);
        ASSERT_NE(simulation.controller().longest()->arm(), kPassThrough);
        for (FakeOp& op : simulation.models()[0].ops) std::swap(op.seconds[0], op.seconds[1]);
        simulation.run(60.0 + 90.0);
        const auto& events = simulation.shim().events();
        const auto down = std::find_if(events.begin(), events.end(), [](const Seen& event) {
            return event.time > 60.0 && event.arm == kPassThrough;
        });
        ASSERT_NE(down, events.end()) << "seed " << seed;
        EXPECT_LE(down->time, 130.0) << "seed " << seed;
        lost += simulation.speed(60.0, 150.0) / 10.0;
    }
    std::printf("the arm turns bad: speed of the 90 s after that %.3f\n", lost);
}

TEST(ControllerPhases, AProgramThatComesToProfitIsTakenUpAgain) {
    Scenario scenario = one_model(lstm_like());
    for (FakeOp& op : scenario.models[0].ops) std::swap(op.seconds[0], op.seconds[1]);
    scenario.models[0].name = "swapped";
    for (const bool rests : {false, true}) {
        scenario.rests = rests;
        int taken_up = 0;
        for (int seed = 1; seed <= 10; ++seed) {
            Simulation simulation(scenario, {}, static_cast<std::uint64_t>(seed));
            simulation.run(60.0);
            for (FakeOp& op : simulation.models()[0].ops) std::swap(op.seconds[0], op.seconds[1]);
            simulation.run(300.0);
            if (simulation.speed(280.0, 300.0) > 1.1) ++taken_up;
        }
        EXPECT_GE(taken_up, 9) << rests;
    }
}

// --- rests: what nobody needs is not looked at ---------------------------------------------------

TEST(ControllerPhases, WhatStandsDownIsSeenAQuarterOfTheTime) {
    Scenario scenario = one_model(resnet_like());
    scenario.rests = true;
    Simulation simulation(scenario, {}, 1);
    simulation.run(80.0);
    const auto decided = simulation.decision();
    ASSERT_TRUE(decided && decided->state == State::stood_down);
    EXPECT_GT(simulation.shim().rested(), 0.6 * (80.0 - decided->time));
    EXPECT_GT(simulation.controller().longest()->seconds(), 75.0);  // they are of the phase's time
}

TEST(ControllerPhases, WhatGainsIsSeenAllTheTime) {
    Scenario scenario = one_model(lstm_like());
    scenario.rests = true;
    Simulation simulation(scenario, {}, 1);
    simulation.run(60.0);
    EXPECT_EQ(simulation.controller().state(), State::guard);
    EXPECT_EQ(simulation.shim().rested(), 0.0);
}

TEST(ControllerPhases, AnotherPhaseIsFoundInSpiteOfRests) {
    Scenario scenario = one_model(resnet_like());
    scenario.models.push_back(lstm_like());
    scenario.rests = true;
    scenario.next = [](std::vector<FakeModel>&, long, double now) {
        return std::size_t{now < 60.0 ? 0U : 1U};
    };
    Simulation simulation(scenario, {}, 1);
    simulation.run(60.0);
    const double rested = simulation.shim().rested();
    simulation.run(140.0);
    EXPECT_GT(simulation.speed(110.0, 140.0), 1.1);
    EXPECT_LT(simulation.shim().rested() - rested, 3.0);  // with two of them there is none
}

// --- arms that are worse by far, and mixes that are none -----------------------------------------

// A step of 0.1 s on 32 CPUs takes 3.2 s on one: a window under that holds less than a step.
TEST(ControllerPhases, AnArmUnderWhichTheProgramCrawlsIsDropped) {
    FakeModel model;
    model.name = "wide";
    Random random(5);
    std::uniform_real_distribution<double> uniform(0.2, 1.8);
    for (int i = 0; i < 40; ++i) {
        FakeOp op{"Conv" + std::to_string(i % 7), "(" + std::to_string(i) + ")", 1e7, {}};
        const double serial = 0.08 * uniform(random);
        for (int w = 1; w <= 32; ++w) op.seconds.push_back(serial / w);
        model.ops.push_back(op);
        model.step.push_back(static_cast<std::size_t>(i));
    }
    Scenario scenario = one_model(std::move(model));
    scenario.budget = 32;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Simulation simulation(scenario, {}, seed);
        simulation.run(300.0);
        std::printf("on 32 CPUs: speed %.3f in the first minute, %.3f after two\n",
                    simulation.speed(0.0, 60.0), simulation.speed(120.0, 300.0));
        EXPECT_GT(simulation.speed(0.0, 60.0), 0.5) << "seed " << seed;
        EXPECT_GT(simulation.speed(120.0, 300.0), 0.93) << "seed " << seed;
    }
}

TEST(ControllerPhases, WhatSlowsTheWholeProgramDropsNothing) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Simulation simulation(one_model(lstm_like()), {}, seed);
        simulation.run(60.0);
        ASSERT_EQ(simulation.controller().state(), State::guard) << "seed " << seed;
        for (FakeOp& op : simulation.models()[0].ops)
            for (double& seconds : op.seconds) seconds *= 5.0;
        simulation.run(75.0);
        EXPECT_GT(simulation.speed(62.0, 75.0), 1.1) << "seed " << seed;
    }
}

TEST(ControllerPhases, WhatWasChosenIsNotInForceInAMixThatIsNone) {
    Scenario scenario = one_model(lstm_like());
    Random random(3);
    const std::size_t ops = scenario.models[0].ops.size();
    scenario.next = [random, ops](std::vector<FakeModel>& models, long, double now) mutable {
        if (now < 60.0) return std::size_t{0};
        // Of the same ops never the same mix twice.
        models[0].step.clear();
        for (int part = 0; part < 3; ++part)
            models[0].step.insert(models[0].step.end(), 2000, random() % ops);
        return std::size_t{0};
    };
    Simulation simulation(scenario, {}, 2);
    simulation.run(60.0);
    ASSERT_NE(simulation.controller().directive().arm, kPassThrough);
    int in_force = 0;
    for (double now = 80.0; now < 120.0; now += 1.0) {
        simulation.run(now);
        in_force += simulation.controller().directive().arm != kPassThrough;
    }
    EXPECT_LE(in_force, 4);
}

// --- standing down and trying again --------------------------------------------------------------

TEST(ControllerPhases, RetriesAfterOneTwoAndFourMinutesAreCheap) {
    constexpr int kSeeds = 6;
    double cost = 0.0;
    std::size_t retries = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
        Simulation simulation(one_model(resnet_like()), {}, static_cast<std::uint64_t>(seed));
        simulation.run(900.0);
        std::vector<double> waits;
        double down_since = -1.0;
        for (const Seen& event : simulation.shim().events()) {
            if (event.state == State::stood_down && down_since < 0.0) down_since = event.time;
            if (event.state == State::explore && down_since > 0.0) {
                waits.push_back(event.time - down_since);
                down_since = -1.0;
            }
        }
        retries += waits.size();
        for (std::size_t i = 0; i < std::min<std::size_t>(waits.size(), 3); ++i)
            EXPECT_LE(waits[i], 60.0 * (1 << i) + 3.0);
        EXPECT_LE(waits.size(), 6U);  // three, and what was doubted
        cost += (1.0 - simulation.speed(60.0, 900.0)) / kSeeds;
        // What was surely bad is not tried again.
        const ArmId narrow = 1;
        ASSERT_EQ(arm_name(simulation, narrow), "uniform-1");
        const auto use = simulation.controller().longest()->use().find(narrow);
        if (use != simulation.controller().longest()->use().end()) {
            EXPECT_LE(use->second.seconds, 10.0);
        }
    }
    std::printf("retries: cost of 14 minutes %.2f %%\n", 100.0 * cost);
    EXPECT_LE(cost, 0.01);
    EXPECT_GE(retries, 6U);
}

TEST(ControllerPhases, ExplorationStaysWithinItsShare) {
    for (const double share : {0.01, 0.05, 0.20}) {
        ControllerSettings settings;
        settings.explorer.share = share;
        Simulation simulation(one_model(resnet_like()), settings, 4);
        bool explored = false;
        while (simulation.now() < 60.0 && !(explored && simulation.controller().state() == State::race)) {
            simulation.run(simulation.now() + 0.1);
            explored = explored || simulation.controller().state() == State::explore;
            // One step at most is under way when the bound is reached.
            EXPECT_LE(simulation.controller().explorer().spent(), share * simulation.now() + 0.05);
        }
        EXPECT_TRUE(explored);
    }
}

// --- profiles ------------------------------------------------------------------------------------

model::Profile learned(FakeModel model, std::uint64_t seed) {
    Simulation simulation(one_model(std::move(model)), {}, seed);
    simulation.run(60.0);
    return simulation.controller().export_profile({"cpu", 2, {}});
}

TEST(ControllerProfile, ASecondRunDecidesForTheSameArmWithinSeconds) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const model::Profile profile = learned(lstm_like(), seed);
        ASSERT_EQ(profile.phases.size(), 1U);
        ASSERT_NE(profile.phases[0].arm, "pass-through");
        Simulation second(one_model(lstm_like()), {}, seed + 100, profile);
        second.run(5.0);
        const auto decision = second.decision();
        ASSERT_TRUE(decision);
        EXPECT_EQ(arm_name(second, decision->arm), profile.phases[0].arm);
        EXPECT_LE(decision->time, 3.0);
        second.run(60.0);
        EXPECT_GE(second.speed(5.0, 60.0), 1.15);
    }
}

TEST(ControllerProfile, OneThatLiesIsCorrected) {
    int corrected = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        model::Profile profile = learned(resnet_like(), seed);
        for (model::ProfileOp& op : profile.ops) {
            op.reference *= 3.0;
            op.width = 1;
            for (model::Point& point : op.solo) point.seconds *= point.width == 1 ? 0.2 : 2.0;
        }
        ASSERT_FALSE(profile.phases.empty());
        profile.phases[0].arm = "s1";  // by these curves: width 1 for all
        Simulation second(one_model(resnet_like()), {}, seed + 100, profile);
        second.run(120.0);
        const Phase* phase = second.controller().longest();
        ASSERT_NE(phase, nullptr);
        if (second.true_speed(0, phase->arm()) >= 0.98) ++corrected;
        EXPECT_GE(second.speed(60.0, 120.0), 0.95) << "seed " << seed;
    }
    EXPECT_GE(corrected, 9);
}

TEST(ControllerProfile, WhatDoesNotHoldIsDecidedAnewAtOnce) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        model::Profile profile = learned(lstm_like(), seed);
        profile.phases.at(0).arm = "uniform-1";
        FakeModel swapped = lstm_like();  // where most ops want both CPUs
        for (FakeOp& op : swapped.ops) std::swap(op.seconds[0], op.seconds[1]);
        Simulation second(one_model(swapped), {}, seed, profile);
        second.run(60.0);
        EXPECT_GE(count_states(second, State::race), 1) << "a minute without a race, seed " << seed;
        EXPECT_GE(second.speed(40.0, 60.0), 0.93);  // racing
    }
}

TEST(ControllerProfile, ReplayTakesWidthsFromTheProfileAlone) {
    model::Profile profile = learned(lstm_like(), 1);
    profile.ops[3].width = 1;
    profile.ops[4].width = 0;
    ControllerSettings settings;
    settings.replay = true;
    Simulation replay(one_model(lstm_like()), settings, 9, profile);
    const std::set<ArmId> only{static_cast<ArmId>(replay.controller().arms().size() - 1)};
    const auto check = [&] {
        for (OpId op = 0; op < replay.controller().op_count(); ++op) {
            const std::string key = replay.controller().op(op).info.key();
            const auto saved = std::find_if(profile.ops.begin(), profile.ops.end(),
                                            [&](const model::ProfileOp& each) { return each.name == key; });
            ASSERT_NE(saved, profile.ops.end());
            EXPECT_EQ(replay.controller().row(op, *only.begin())[0], saved->width) << key;
        }
    };
    replay.run(0.5);
    check();
    for (FakeOp& op : replay.models()[0].ops) std::swap(op.seconds[0], op.seconds[1]);
    replay.run(120.0);
    check();
    for (const auto& [arm, windows] : replay.shim().directives())
        EXPECT_TRUE(only.contains(arm)) << arm_name(replay, arm);
    EXPECT_TRUE(replay.controller().assignments().empty());
    EXPECT_EQ(count_states(replay, State::explore), 0);
}

TEST(ControllerProfile, OpsOfAnotherPhaseKeepThatPhasesWidth) {
    Simulation simulation(mixed(10.0), {}, 1);
    simulation.run(200.0);
    const model::Profile profile = simulation.controller().export_profile({"cpu", 2, {}});
    EXPECT_EQ(profile.phases.size(), 2U);
    double narrowed_lstm = 0.0;
    double narrowed_resnet = 0.0;
    for (const model::ProfileOp& op : profile.ops) {
        if (op.name.find("Conv2D") != std::string::npos) narrowed_resnet += op.width == 1 ? 1.0 : 0.0;
        if (op.name.find("Cell") != std::string::npos) narrowed_lstm += op.width == 1 ? 1.0 : 0.0;
    }
    EXPECT_GE(narrowed_lstm, 14.0);
    EXPECT_EQ(narrowed_resnet, 0.0);
}

// --- modes that do not decide --------------------------------------------------------------------

TEST(ControllerModes, ObserveNeverTriesAnotherArm) {
    ControllerSettings settings;
    settings.observe = true;
    Simulation simulation(one_model(lstm_like()), settings, 1);
    simulation.run(120.0);
    EXPECT_EQ(simulation.shim().directives().size(), 1U);
    EXPECT_EQ(simulation.shim().directives().begin()->first, kPassThrough);
    EXPECT_TRUE(simulation.controller().assignments().empty());
    EXPECT_DOUBLE_EQ(simulation.speed(0.0, 120.0), 1.0);
    EXPECT_EQ(simulation.controller().state(), State::fixed);
    EXPECT_FALSE(simulation.controller().directive().record_all);
}

TEST(ControllerModes, AFixedArmHoldsFromTheFirstOp) {
    ControllerSettings settings;
    settings.policy = "uniform-1";
    Simulation simulation(one_model(lstm_like()), settings, 1);
    simulation.run(30.0);
    ASSERT_EQ(simulation.shim().directives().size(), 1U);
    EXPECT_EQ(arm_name(simulation, simulation.shim().directives().begin()->first), "uniform-1");
    EXPECT_NEAR(simulation.speed(0.0, 30.0),
                simulation.true_speed(0, simulation.shim().directives().begin()->first), 1e-3);
    EXPECT_EQ(simulation.controller().state(), State::fixed);
}

TEST(ControllerModes, AFixedArmWithCurvesComesAfterExploring) {
    for (const char* policy : {"s1", "idle", "price-0.05", "price-0.3"}) {
        ControllerSettings settings;
        settings.policy = policy;
        Simulation simulation(one_model(lstm_like()), settings, 1);
        simulation.run(40.0);
        ASSERT_EQ(simulation.controller().state(), State::fixed) << policy;
        EXPECT_EQ(arm_name(simulation, simulation.controller().current()->arm()), policy);
        EXPECT_EQ(count_states(simulation, State::race), 0) << policy;
        EXPECT_GE(simulation.speed(10.0, 40.0), 1.1) << policy;
    }
}

// --- programs that say nothing -------------------------------------------------------------------

TEST(ControllerModes, AProgramInWhichNothingRepeatsIsLeftAlone) {
    Scenario scenario = one_model(lstm_like(2, 100.0));  // slow: the table must not be full at once
    scenario.new_keys = true;
    Simulation simulation(scenario, {}, 1);
    simulation.run(45.0);
    EXPECT_FALSE(simulation.decision());
    EXPECT_EQ(simulation.controller().phases().size(), 0U);
    EXPECT_FALSE(simulation.controller().directive().record_all);
    EXPECT_DOUBLE_EQ(simulation.speed(0.0, 45.0), 1.0);
    simulation.run(300.0);  // the table is full: from then on everything new has one key
    EXPECT_LE(simulation.controller().op_count(), 16384U - 1022U);
    EXPECT_FALSE(simulation.controller().directive().record_all);
    EXPECT_GE(simulation.speed(45.0, 300.0), 0.97);
}

TEST(ControllerModes, ShapesThatNeverRepeatAreTakenTogether) {
    Scenario scenario = one_model(lstm_like());
    scenario.new_shapes = true;
    Simulation simulation(scenario, {}, 1);
    simulation.run(120.0);
    EXPECT_LE(simulation.controller().op_count(), 700U);  // 64 and one more of each kind
    EXPECT_GE(simulation.speed(0.0, 120.0), 0.98);
    EXPECT_FALSE(simulation.controller().directive().record_all);
}

}  // namespace
}  // namespace corun::policy::simulation
