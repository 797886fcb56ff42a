// SPDX-License-Identifier: Apache-2.0
// The strategies that see no further than a gate: TensorFlow's own, the paper's, and the share of what is
// idle.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <utility>

#include "policy/strategy.h"

namespace corun::policy {

void note_begun(std::vector<Running>& running) {
    const std::size_t fresh = running.size() - 1;
    for (std::size_t i = 0; i < fresh; ++i)
        running[i].paired = fresh == 1 && running[i].begins == running[1].begins;
    if (fresh != 1) return;
    running[0].beside = running[1].key;
    running[1].paired = true;
    running[1].beside = running[0].key;
}

void note_ended(std::vector<Running>& running) {
    for (Running& each : running) each.paired = false;
}

namespace {

// The first of them in the order in which they became ready.
template <typename Ready>
void take_out(Ready& ready, OpIndex op) {
    if (const auto at = std::find(ready.begin(), ready.end(), op); at != ready.end()) ready.erase(at);
}

class Grid final : public Strategy {
  public:
    Grid(int inter, int intra)
        : inter_(static_cast<std::size_t>(std::max(inter, 1))), intra_(std::max(intra, 1)) {}

    void begin_step() override { ready_.clear(); }
    void ready(OpIndex op) override { ready_.push_back(op); }
    void withdraw(OpIndex op) override { take_out(ready_, op); }
    std::optional<Start> next(const Situation& situation) override {
        if (ready_.empty() || situation.running.size() >= inter_) return std::nullopt;
        const OpIndex op = ready_.front();
        ready_.pop_front();
        return Start{op, intra_, false};
    }

  private:
    std::size_t inter_;
    int intra_;
    std::deque<OpIndex> ready_;
};

class Paper final : public Strategy {
  public:
    Paper(const TaskGraph& graph, const CostTable& costs, const PaperStrategies& which)
        : graph_(graph), costs_(costs), which_(which) {}

    void begin_step() override { ready_.clear(); }
    void ready(OpIndex op) override { ready_.push_back(op); }
    void withdraw(OpIndex op) override { take_out(ready_, op); }
    void learn(KeyIndex op, KeyIndex beside, double slowdown) override {
        if (which_.co_run) pairs_.add(op, beside, slowdown);
    }
    std::optional<Start> next(const Situation& situation) override {
        if (ready_.empty()) return std::nullopt;
        if (situation.running.empty()) return alone(situation);
        if (which_.co_run && situation.idle > 0) return beside(situation);
        if (which_.siblings && situation.idle == 0 && situation.idle_siblings > 0) return sibling(situation);
        return std::nullopt;
    }

  private:
    [[nodiscard]] int base_width(KeyIndex key, int cpus) const {
        if (which_.per_type) return std::min(costs_.type_width(key), cpus);
        if (which_.per_op) return std::min(costs_.optimum(key), cpus);
        return cpus;
    }
    [[nodiscard]] double base_seconds(KeyIndex key, int cpus) const {
        return costs_.seconds(key, std::min(base_width(key, cpus), costs_.widest()));
    }
    Start take(std::size_t at, int width, bool siblings) {
        const OpIndex op = ready_[at];
        ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
        return {op, width, siblings};
    }
    static double last_end(const Situation& situation) {
        double last = 0.0;
        for (const Running& each : situation.running) last = std::max(last, each.ends);
        return last;
    }

    // Nothing runs: with S3 the longest op begins, so that there is time to place others beside it.
    std::optional<Start> alone(const Situation& situation) {
        std::size_t chosen = 0;
        if (which_.co_run) {
            double longest = -1.0;
            for (std::size_t i = 0; i < ready_.size(); ++i) {
                const double seconds = base_seconds(graph_.key(ready_[i]), situation.cpus);
                if (seconds > longest) longest = seconds, chosen = i;
            }
        }
        return take(chosen, base_width(graph_.key(ready_[chosen]), situation.cpus), false);
    }

    // S3: of each ready op the three fastest widths are tried; where S2 holds and a candidate is far from its
    // width, S2 wins. It must fit and must not outlast what runs.
    std::optional<Start> beside(const Situation& situation) {
        constexpr int kFar = 2;
        const double last = last_end(situation);
        for (std::size_t i = 0; i < ready_.size(); ++i) {
            const KeyIndex key = graph_.key(ready_[i]);
            for (int width : costs_.candidates(key)) {
                if (width == 0) break;
                const int base = costs_.type_width(key);
                if (which_.per_type && std::abs(width - base) > kFar) width = base;
                if (width > situation.idle || situation.now + costs_.seconds(key, width) > last) continue;
                if (bad_beside(key, situation)) break;
                return take(i, width, false);
            }
        }
        return std::nullopt;
    }

    // S4: the op of shortest serial time, where it does not outlast what runs.
    std::optional<Start> sibling(const Situation& situation) {
        std::size_t smallest = 0;
        for (std::size_t i = 1; i < ready_.size(); ++i) {
            if (costs_.seconds(graph_.key(ready_[i]), 1) < costs_.seconds(graph_.key(ready_[smallest]), 1))
                smallest = i;
        }
        const KeyIndex key = graph_.key(ready_[smallest]);
        const int width = std::min(base_width(key, situation.cpus), situation.idle_siblings);
        if (situation.now + costs_.seconds(key, width) > last_end(situation)) return std::nullopt;
        return take(smallest, width, true);
    }

    [[nodiscard]] bool bad_beside(KeyIndex key, const Situation& situation) const {
        return std::any_of(situation.running.begin(), situation.running.end(),
                           [&](const Running& each) { return pairs_.bad(key, each.key); });
    }

    const TaskGraph& graph_;
    const CostTable& costs_;
    PaperStrategies which_;
    std::vector<OpIndex> ready_;  // in the order in which they became so
    model::PairMemory pairs_;
};

class Idle final : public Strategy {
  public:
    Idle(const TaskGraph& graph, const CostTable& costs) : graph_(graph), costs_(costs) {}

    void begin_step() override { ready_.clear(); }
    void ready(OpIndex op) override { ready_.push_back(op); }
    void withdraw(OpIndex op) override { take_out(ready_, op); }
    std::optional<Start> next(const Situation& situation) override {
        if (ready_.empty() || situation.idle < 1) return std::nullopt;
        const int share = std::max(1, situation.idle / static_cast<int>(ready_.size()));
        const OpIndex op = ready_.front();
        ready_.pop_front();
        const KeyIndex key = graph_.key(op);
        const int width = costs_.best_within(key, share);
        const int last = situation.last_width;
        // A team that is there already is taken where the change costs more than it gains.
        const bool keep =
            width > 1 && last > 1 && last <= share &&
            costs_.seconds(key, last) <= costs_.seconds(key, width) + costs_.teams().seconds(last, width);
        return Start{op, keep ? last : width, false};
    }

  private:
    const TaskGraph& graph_;
    const CostTable& costs_;
    std::deque<OpIndex> ready_;
};

}  // namespace

std::unique_ptr<Strategy> make_grid(int inter, int intra) {
    return std::make_unique<Grid>(inter, intra);
}

std::unique_ptr<Strategy> make_paper(const TaskGraph& graph, const CostTable& costs,
                                     const PaperStrategies& which) {
    return std::make_unique<Paper>(graph, costs, which);
}

std::unique_ptr<Strategy> make_idle(const TaskGraph& graph, const CostTable& costs) {
    return std::make_unique<Idle>(graph, costs);
}

}  // namespace corun::policy
