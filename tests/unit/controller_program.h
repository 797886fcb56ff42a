// SPDX-License-Identifier: Apache-2.0
// Fake programs for the controller: ops with known costs at each width, run step after step under FakeShim.
#pragma once

#include <array>

#include "tests/unit/controller_simulation.h"

namespace corun::policy::simulation {

/// An op key of a fake program.
struct FakeOp {
    std::string kind;
    std::string shapes;
    double elements = 0.0;
    std::vector<double> seconds;  ///< at width 1, 2, ... budget
};

struct FakeModel {
    std::string name;
    std::vector<FakeOp> ops;
    std::vector<std::size_t> step;  ///< which ops a step runs, in order
    double wait = 0.0;              ///< seconds that each step waits for input first

    [[nodiscard]] double seconds(const std::function<int(std::size_t op)>& width) const {
        double sum = 0.0;
        for (const std::size_t op : step) {
            const auto& costs = ops[op].seconds;
            const int w = width(op);
            sum += w > 0 ? costs[static_cast<std::size_t>(w) - 1] : costs.back();
        }
        return sum;
    }
};

struct Scenario {
    std::vector<FakeModel> models;
    /// Which model step number `step`, that begins at `now`, belongs to. May change the models.
    std::function<std::size_t(std::vector<FakeModel>& models, long step, double now)> next =
        [](std::vector<FakeModel>&, long, double) { return std::size_t{0}; };
    int budget = 2;
    std::size_t threads = 1;  ///< that dispatch ops side by side
    bool new_keys = false;    ///< no op key ever comes back
    bool new_shapes = false;  ///< no shape does
    bool rests = false;       ///< ops come from a source that can rest
    Noise noise{};
    double op_noise = 0.15;  ///< lognormal, of every op
    double dispatch = 2e-6;  ///< seconds between two ops of a thread
};

class Simulation {
  public:
    Simulation(Scenario scenario, ControllerSettings settings, std::uint64_t seed,
               std::optional<model::Profile> profile = std::nullopt)
        : scenario_(std::move(scenario)),
          shim_(make(settings, scenario_.budget, seed, std::move(profile)), scenario_.budget,
                static_cast<int>(scenario_.threads)),
          random_(seed * 7919 + 17) {
        shim_.rests(scenario_.rests);
        for (float& factor : op_noise_)
            factor = static_cast<float>(std::exp(scenario_.op_noise * normal_(random_)));
        records_.resize(scenario_.models.size());
        phase_ = 6.28 * std::uniform_real_distribution<double>()(random_);
        burst_begins_ = exponential(scenario_.noise.burst_every);
        burst_ends_ = burst_begins_ + exponential(scenario_.noise.burst_seconds);
    }

    void run(double until) {
        while (now_ < until) {
            const std::size_t model = scenario_.next(scenario_.models, steps_, now_);
            step(model);
            ++steps_;
        }
    }

    Controller& controller() { return shim_.controller(); }
    [[nodiscard]] const FakeShim& shim() const { return shim_; }
    [[nodiscard]] double now() const { return now_; }
    [[nodiscard]] long steps() const { return steps_; }
    std::vector<FakeModel>& models() { return scenario_.models; }

    /// Time that the ops between two seconds would have taken at their own width over what they took, without
    /// the machine's noise: 1.1 is 10 % faster than without corun. Ops that run beside others count at their
    /// slowed time.
    [[nodiscard]] double speed(double from, double to) const {
        double plain = 0.0;
        double actual = 0.0;
        for (auto s = static_cast<std::size_t>(from);
             s < std::min(static_cast<std::size_t>(to), plain_.size()); ++s)
            plain += plain_[s], actual += actual_[s];
        return actual > 0.0 ? plain / actual : 1.0;
    }

    /// The same for one model under an arm's table as it is now, one op at a time.
    [[nodiscard]] double true_speed(std::size_t model, ArmId arm) const {
        const FakeModel& fake = scenario_.models[model];
        const double plain = fake.seconds([](std::size_t) { return 0; });
        return plain / fake.seconds([&](std::size_t op) {
            const auto& known = records_[model];
            if (op >= known.size() || !known[op]) return 0;
            return static_cast<int>(shim_.controller().row(*known[op], arm)[idle_bucket(scenario_.budget)]);
        });
    }
    [[nodiscard]] double best_arm_speed(std::size_t model) const {
        double best = 0.0;
        for (std::size_t arm = 0; arm < shim_.controller().arms().size(); ++arm)
            best = std::max(best, true_speed(model, static_cast<ArmId>(arm)));
        return best;
    }
    /// With every op at its true optimum.
    [[nodiscard]] double ideal_speed(std::size_t model) const {
        const FakeModel& fake = scenario_.models[model];
        const double plain = fake.seconds([](std::size_t) { return 0; });
        return plain / fake.seconds([&](std::size_t op) {
            const auto& costs = fake.ops[op].seconds;
            return static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin()) + 1;
        });
    }
    /// When some phase was first decided: an arm is guarded, or the program left as it is.
    [[nodiscard]] std::optional<FakeShim::Event> decision(double from = 0.0,
                                                          std::optional<PhaseId> phase = {}) const {
        for (const FakeShim::Event& event : shim_.events()) {
            const bool decided = event.state == State::guard || event.state == State::stood_down ||
                                 event.state == State::fixed;
            if (event.time >= from && decided && (!phase || event.phase == phase)) return event;
        }
        return std::nullopt;
    }

  private:
    struct Thread {
        std::vector<std::size_t> queue;
        std::size_t at = 0;
        double free_at = 0.0;  ///< its op ends, or its next op may begin
        std::optional<FakeShim::Running> running;
    };

    static std::unique_ptr<Controller> make(ControllerSettings settings, int budget, std::uint64_t seed,
                                            std::optional<model::Profile> profile) {
        settings.budget = settings.explorer.max_width = budget;
        settings.seed = seed;
        auto controller = std::make_unique<Controller>(settings, 0.0);
        if (profile) controller->restore(std::move(*profile));
        return controller;
    }

    double exponential(double mean) { return std::exponential_distribution<double>(1.0 / mean)(random_); }

    void step(std::size_t model) {
        const FakeModel& fake = scenario_.models[model];
        now_ += fake.wait;
        const double factor = machine_factor();
        std::vector<Thread> threads(scenario_.threads);
        for (Thread& thread : threads) thread.free_at = now_;
        for (std::size_t i = 0; i < fake.step.size(); ++i)
            threads[i % threads.size()].queue.push_back(fake.step[i]);
        while (true) {
            Thread* next = nullptr;
            for (Thread& thread : threads) {
                const bool busy = thread.running || thread.at < thread.queue.size();
                if (busy && (next == nullptr || thread.free_at < next->free_at)) next = &thread;
            }
            if (next == nullptr) break;
            advance(*next, static_cast<std::size_t>(next - threads.data()), model, factor);
        }
        for (const Thread& thread : threads) now_ = std::max(now_, thread.free_at);
    }

    void advance(Thread& thread, std::size_t index, std::size_t model, double factor) {
        if (thread.running) {
            shim_.end(index, *thread.running, thread.free_at);
            thread.running.reset();
            thread.free_at += scenario_.dispatch;
            return;
        }
        const std::size_t op = thread.queue[thread.at++];
        const OpId record = resolve(model, op);
        const std::vector<double>& costs = scenario_.models[model].ops[op].seconds;
        const int beside = shim_.open_widths();
        thread.running = shim_.begin(index, record, thread.free_at);
        const int width = thread.running->width > 0 ? thread.running->width : scenario_.budget;
        // More threads than CPUs share them.
        const double crowd = std::max(1.0, static_cast<double>(beside + width) / scenario_.budget);
        const double alone = std::max(1.0, static_cast<double>(beside + scenario_.budget) / scenario_.budget);
        const double actual = costs[static_cast<std::size_t>(width) - 1] * crowd;
        const auto second = static_cast<std::size_t>(thread.free_at);
        if (second >= plain_.size()) plain_.resize(second + 60), actual_.resize(second + 60);
        plain_[second] += costs.back() * alone;
        actual_[second] += actual;
        thread.free_at += actual * factor * static_cast<double>(op_noise_[noise_at_++ % op_noise_.size()]);
    }

    OpId resolve(std::size_t model, std::size_t op) {
        const FakeModel& fake = scenario_.models[model];
        auto& known = records_[model];
        if (known.size() < fake.ops.size()) known.resize(fake.ops.size());
        if (known[op] && !scenario_.new_keys && !scenario_.new_shapes) return *known[op];
        OpInfo info{"fake", fake.ops[op].kind, fake.ops[op].shapes, fake.name, fake.ops[op].elements, false};
        if (scenario_.new_keys) info.kind += std::to_string(++fresh_);
        if (scenario_.new_shapes) info.shapes += std::to_string(++fresh_);
        return *(known[op] = shim_.resolve(info));
    }

    double machine_factor() {
        const Noise& noise = scenario_.noise;
        const double kept = std::exp(-(now_ - wandered_at_) / noise.wander_seconds);
        wander_ = kept * wander_ + std::sqrt(1.0 - kept * kept) * noise.wander * normal_(random_);
        wandered_at_ = now_;
        double factor = std::exp(noise.step * normal_(random_) + wander_);
        factor *= 1.0 + noise.drift * std::sin(phase_ + 6.283 * now_ / noise.drift_seconds);
        while (now_ > burst_ends_) {
            burst_begins_ = burst_ends_ + exponential(noise.burst_every);
            burst_ends_ = burst_begins_ + exponential(noise.burst_seconds);
        }
        return now_ >= burst_begins_ ? 2.0 * factor : factor;
    }

    Scenario scenario_;
    FakeShim shim_;
    Random random_;
    std::normal_distribution<double> normal_;
    std::array<float, 4093> op_noise_{};
    std::size_t noise_at_ = 0;
    std::vector<std::vector<std::optional<OpId>>> records_;  ///< [model][op]
    long fresh_ = 0;
    double now_ = 0.0;
    long steps_ = 0;
    double phase_ = 0.0, wander_ = 0.0, wandered_at_ = -100.0, burst_begins_ = 0.0, burst_ends_ = 0.0;
    std::vector<double> plain_, actual_;  ///< by second
};

// --- programs ------------------------------------------------------------------------------------

inline Scenario one_model(FakeModel model) {
    Scenario scenario;
    scenario.models.push_back(std::move(model));
    return scenario;
}

/// Many tiny ops in a loop inside the step; waking a second thread costs more than it brings. 20 ms a step.
inline FakeModel lstm_like(int budget = 2, double scale = 1.0) {
    FakeModel model;
    model.name = "lstm";
    Random random(11);
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    const auto add = [&](const std::string& kind, double serial, double parallel, double per_thread) {
        FakeOp op{kind, "(" + std::to_string(model.ops.size()) + ")", parallel * 1e9, {}};
        for (int w = 1; w <= budget; ++w)
            op.seconds.push_back(scale * (serial + parallel / w + per_thread * (w - 1)));
        model.ops.push_back(op);
        return model.ops.size() - 1;
    };
    std::vector<std::size_t> body;
    for (int i = 0; i < 16; ++i)
        body.push_back(add("Cell" + std::to_string(i % 5), 3e-6, 14e-6 * uniform(random), 15e-6));
    for (int i = 0; i < 4; ++i) body.push_back(add("MatMul", 5e-6, 70e-6 * uniform(random), 24e-6));
    for (int i = 0; i < 10; ++i) model.step.push_back(add("Head", 10e-6, 160e-6 * uniform(random), 10e-6));
    for (int i = 0; i < 30; ++i) model.step.insert(model.step.end(), body.begin(), body.end());
    for (int i = 0; i < 10; ++i) model.step.push_back(add("Update", 2e-6, 40e-6 * uniform(random), 12e-6));
    return model;
}

/// Convolutions that want every CPU and small ops that do not care. 47 ms a step at scale 1.
inline FakeModel resnet_like(int budget = 2, double scale = 1.0) {
    FakeModel model;
    model.name = "resnet";
    Random random(23);
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    for (int i = 0; i < 60; ++i) {
        const bool conv = i % 3 == 0;
        const double parallel = (conv ? 3.4e-3 : 0.12e-3) * uniform(random) * scale;
        const double serial = (conv ? 0.15e-3 : 0.1e-3) * scale;
        FakeOp op{conv ? "Conv2D" : "Small" + std::to_string(i % 4),
                  "(" + std::to_string(i) + ")",
                  parallel * 1e9,
                  {}};
        for (int w = 1; w <= budget; ++w)
            op.seconds.push_back(serial + parallel / w + (conv ? 8e-6 : 50e-6 * scale) * (w - 1));
        model.ops.push_back(op);
        model.step.push_back(static_cast<std::size_t>(i));
    }
    return model;
}

/// The width changes nothing.
inline FakeModel neutral(int budget = 2) {
    FakeModel model = resnet_like(budget);
    model.name = "neutral";
    for (FakeOp& op : model.ops)
        op.kind = "N" + op.kind, op.seconds.assign(op.seconds.size(), op.seconds.back());
    return model;
}

}  // namespace corun::policy::simulation
