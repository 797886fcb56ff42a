// SPDX-License-Identifier: Apache-2.0
// The guard on a simulated program: how surely and how soon it tells a good arm from a bad one.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "policy/guard.h"
#include "tests/unit/policy_simulation.h"

namespace corun::policy::simulation {
namespace {

constexpr ArmId kArm = 1;
constexpr int kAllLooks = 384;  ///< blocks: the planned looks and two late ones

struct GuardFigures {
    int runs = 0;
    int stood_down = 0;
    int harm = 0;
    int within_ten_seconds = 0;
    int gain = 0;                ///< last verdict, not stood down
    double plain_seconds = 0.0;  ///< share of the time that ran under pass-through
    std::vector<int> by_ground = std::vector<int>(5, 0);
    std::vector<double> seconds;  ///< to the standing down
    std::vector<double> to_gain;  ///< seconds to the first verdict of gain

    [[nodiscard]] double share(int count) const { return static_cast<double>(count) / runs; }
    void print(const char* name) const {
        std::printf(
            "guard %-24s down %5.1f %% (harm %5.1f %%; totals %d, tails %d, recent %d)  kept as gain %5.1f %%"
            "  plain %4.1f %%  down after s: median %5.1f p95 %5.1f  gain after s: median %5.1f\n",
            name, 100.0 * share(stood_down), 100.0 * share(harm), by_ground[2], by_ground[3], by_ground[4],
            100.0 * share(gain), 100.0 * plain_seconds / runs, quantile(seconds, 0.5),
            quantile(seconds, 0.95), quantile(to_gain, 0.5));
    }
};

void guard_once(Program& program, int blocks, GuardFigures& figures, std::uint64_t seed) {
    Guard guard(kArm, Random(seed));
    double plain = 0.0;
    bool gained = false;
    while (!guard.stand_down() && guard.blocks() < blocks) {
        const double before = program.now();
        const ArmId arm = guard.next();
        guard.add(guard.in_block() ? program.run(arm) : program.skip(arm));
        if (arm == kPassThrough) plain += program.now() - before;
        if (!gained && guard.verdict() == Verdict::gain) {
            gained = true;
            figures.to_gain.push_back(program.now());
        }
    }
    ++figures.runs;
    figures.plain_seconds += plain / program.now();
    figures.gain += guard.verdict() == Verdict::gain;
    if (!guard.stand_down()) return;
    ++figures.stood_down;
    figures.harm += guard.verdict() == Verdict::harm;
    figures.within_ten_seconds += program.now() <= 10.0;
    ++figures.by_ground.at(static_cast<std::size_t>(guard.ground()));
    figures.seconds.push_back(program.now());
}

GuardFigures guard_many(
    double speed, int blocks, Noise noise = {},
    const std::function<void(Program&)>& prepare = [](Program&) {}) {
    GuardFigures figures;
    for (std::uint64_t run = 0; run < kRuns; ++run) {
        Program program({1.0, speed}, 1000 + run, noise);
        prepare(program);
        guard_once(program, blocks, figures, 5000 + run);
    }
    return figures;
}

class GuardKeeps : public testing::TestWithParam<double> {};

TEST_P(GuardKeeps, AnArmThatGains) {
    const GuardFigures figures = guard_many(GetParam(), kAllLooks);
    figures.print(("gain " + std::to_string(GetParam()).substr(0, 4)).c_str());
    EXPECT_LE(figures.share(figures.stood_down), 0.02);
}

TEST_P(GuardKeeps, AnArmThatGainsBesideARoughNeighbour) {
    const GuardFigures figures = guard_many(GetParam(), kAllLooks, kRough);
    figures.print(("rough, gain " + std::to_string(GetParam()).substr(0, 4)).c_str());
    EXPECT_LE(figures.share(figures.stood_down), 0.02);
}

INSTANTIATE_TEST_SUITE_P(All, GuardKeeps, testing::Values(1.03, 1.05, 1.10, 1.20, 1.30));

TEST(GuardSimulation, StandsDownAHarmfulArmWithinTenSeconds) {
    const GuardFigures figures = guard_many(0.90, kAllLooks);
    figures.print("harm 0.90");
    std::printf("guard harm 0.90 within 10 s: %.1f %%\n", 100.0 * figures.share(figures.within_ten_seconds));
    EXPECT_GE(figures.share(figures.within_ten_seconds), 0.95);
}

TEST(GuardSimulation, SeldomCallsANeutralArmHarmful) {
    const GuardFigures figures = guard_many(1.0, kAllLooks);
    figures.print("neutral 1.00");
    EXPECT_LE(figures.share(figures.harm), 0.05);
    EXPECT_GE(figures.share(figures.stood_down), 0.90);  // and does not keep what gains nothing
}

TEST(GuardSimulation, TellsHarmfulFromNeutralBesideARoughNeighbour) {
    const GuardFigures harmful = guard_many(0.90, kAllLooks, kRough);
    harmful.print("rough, harm 0.90");
    std::printf("guard rough, harm 0.90 within 10 s: %.1f %%\n",
                100.0 * harmful.share(harmful.within_ten_seconds));
    const GuardFigures neutral = guard_many(1.0, kAllLooks, kRough);
    neutral.print("rough, neutral 1.00");
    EXPECT_GE(harmful.share(harmful.stood_down),
              0.99);  // later than ten seconds: the bursts take twice the time
    EXPECT_LE(neutral.share(neutral.harm), 0.05);
}

TEST(GuardSimulation, FindsRareStallsByUntrimmedTotals) {
    const GuardFigures figures =
        guard_many(1.10, kAllLooks, {}, [](Program& program) { program.set_stalls(kArm, 0.012, 30.0); });
    figures.print("stalls");  // true ratio 0.82, without them 1.10
    EXPECT_GE(figures.share(figures.by_ground.at(static_cast<std::size_t>(Ground::totals))), 0.90);
}

TEST(GuardSimulation, FindsAnArmThatTurnsBad) {
    GuardFigures figures;
    for (std::uint64_t run = 0; run < kRuns / 4; ++run) {
        Program program({1.0, 1.25}, run);
        Guard guard(kArm, Random(run));
        while (!guard.stand_down() && guard.blocks() < 64) {
            guard.add(guard.in_block() ? program.run(guard.next()) : program.skip(guard.next()));
        }
        program.set_speed(kArm, 0.80);
        const double turned = program.now();
        while (!guard.stand_down() && guard.blocks() < 160) {
            guard.add(guard.in_block() ? program.run(guard.next()) : program.skip(guard.next()));
        }
        ++figures.runs;
        figures.stood_down += guard.stand_down();
        figures.harm += guard.verdict() == Verdict::harm;
        ++figures.by_ground.at(static_cast<std::size_t>(guard.ground()));
        figures.seconds.push_back(program.now() - turned);
    }
    figures.print("turned bad");
    EXPECT_GE(figures.share(figures.stood_down), 0.95);
}

}  // namespace
}  // namespace corun::policy::simulation
