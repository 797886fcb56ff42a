// SPDX-License-Identifier: Apache-2.0
// A simulated program for the comparison of arms: steps of 20 ms with the noise that was seen on shared
// machines.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

#include "policy/window.h"

namespace corun::policy::simulation {

inline constexpr int kRuns = 400;  ///< of each scenario
inline constexpr double kStep = 0.020;

/// Noise of the machine, the same for every arm.
struct Noise {
    double step = 0.15;           ///< lognormal, each step on its own
    double drift = 0.10;          ///< amplitude of a slow wave
    double drift_seconds = 60.0;  ///< its period
    double wander = 0.03;         ///< noise that stays for wander_seconds (another process, frequency)
    double wander_seconds = 1.0;
    double burst_every = 10.0;  ///< seconds between bursts, mean; in one everything takes twice as long
    double burst_seconds = 0.5;
};

/// A worse neighbour: noise that outlasts a whole block, and bursts of several seconds for a fifth of the
/// time.
inline constexpr Noise kRough{
    .wander = 0.06, .wander_seconds = 8.0, .burst_every = 16.0, .burst_seconds = 4.0};

/// The program under whatever arm is asked for. Time is its own.
class Program {
  public:
    /// @param speeds work rate of each arm, by arm id; pass-through is 1
    Program(std::vector<double> speeds, std::uint64_t seed, Noise noise = {})
        : speeds_(std::move(speeds)), noise_(noise), random_(seed) {
        phase_ = uniform() * 2.0 * std::numbers::pi;
        burst_starts_ = exponential(noise_.burst_every);
        burst_ends_ = burst_starts_ + exponential(noise_.burst_seconds);
    }

    /// One window: two settling periods after a switch (not counted, still as fast as the arm before), then
    /// periods until the window's length is over.
    Window run(ArmId arm) {
        if (arm != arm_) {
            for (int i = 0; i < kSettlePeriods; ++i) step(arm_);
            arm_ = arm;
        }
        Window window;
        window.arm = arm;
        const double length = window_length(kStep, random_);
        while (window.wall < length) {
            const double seconds = step(arm);
            window.wall += seconds;
            window.slowest_period = std::max(window.slowest_period, seconds);
            ++window.periods;
        }
        window.open = window.wall;
        window.work[1] = 0.014 * window.periods;
        window.work[2] = 0.006 * window.periods;
        return window;
    }

    /// Lets a window that nobody will look at pass in one go.
    Window skip(ArmId arm) {
        arm_ = arm;
        now_ += kWindowSeconds + 0.5 * kStep;
        Window window;
        window.arm = arm;
        return window;
    }

    [[nodiscard]] double now() const { return now_; }
    void set_speed(ArmId arm, double speed) { speeds_.at(static_cast<std::size_t>(arm)) = speed; }

    /// Makes steps of `arm` stall: with this probability they take this many times as long.
    void set_stalls(ArmId arm, double probability, double times) {
        stall_arm_ = arm;
        stall_ = std::bernoulli_distribution(probability);
        stall_times_ = times;
    }

  private:
    double uniform() { return std::uniform_real_distribution<double>()(random_); }
    double exponential(double mean) { return std::exponential_distribution<double>(1.0 / mean)(random_); }

    double step(ArmId arm) {
        wander(now_ - wandered_at_);
        double seconds = kStep / speeds_.at(static_cast<std::size_t>(arm));
        seconds *= std::exp(noise_.step * normal_(random_) + wander_);
        seconds *=
            1.0 + noise_.drift * std::sin(phase_ + 2.0 * std::numbers::pi * now_ / noise_.drift_seconds);
        while (now_ > burst_ends_) {
            burst_starts_ = burst_ends_ + exponential(noise_.burst_every);
            burst_ends_ = burst_starts_ + exponential(noise_.burst_seconds);
        }
        if (now_ >= burst_starts_) seconds *= 2.0;
        if (arm == stall_arm_ && stall_(random_)) seconds *= stall_times_;
        now_ += seconds;
        return seconds;
    }

    void wander(double seconds) {
        const double kept = std::exp(-seconds / noise_.wander_seconds);
        wander_ = kept * wander_ + std::sqrt(1.0 - kept * kept) * noise_.wander * normal_(random_);
        wandered_at_ = now_;
    }

    std::vector<double> speeds_;
    Noise noise_;
    Random random_;
    std::normal_distribution<double> normal_;
    std::bernoulli_distribution stall_{0.0};
    ArmId arm_ = kPassThrough;
    ArmId stall_arm_ = -1;
    double stall_times_ = 1.0;
    double now_ = 0.0;
    double phase_ = 0.0;
    double wander_ = 0.0;
    double wandered_at_ = -100.0;
    double burst_starts_ = 0.0;
    double burst_ends_ = 0.0;
};

inline double quantile(std::vector<double> values, double q) {
    if (values.empty()) return 0.0;
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

}  // namespace corun::policy::simulation
