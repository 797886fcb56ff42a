// SPDX-License-Identifier: Apache-2.0
#include "policy/phase.h"

#include <algorithm>

namespace corun::policy {
namespace {

// How long a phase looks for an anchor before it does without: some dozens of steps of a usual program.
constexpr double kLearnWindow = 0.25;
// Sampling other widths is planned anew this often.
constexpr double kExploreWindow = 0.10;
// A stood-down phase only watches the mix.
constexpr double kIdleWindow = 1.0;
// A race that is not over by then is decided by what it has: programs with long steps would race for minutes, at
// the cost of the worse arms; the guard judges the outcome anyway.
constexpr double kRaceSeconds = 60.0;
// An arm that was found worse than this is not raced again in a retry.
constexpr double kHopeless = -0.03;

}  // namespace

const char* state_name(State state) {
    switch (state) {
        case State::learn: return "learning";
        case State::explore: return "exploring";
        case State::race: return "race";
        case State::guard: return "guard";
        case State::stood_down: return "stood down";
        case State::fixed: return "fixed";
    }
    return "?";
}

Phase::Phase(std::optional<ArmId> fixed, Random random, double now, double already)
    : fixed_(fixed), random_(random), state_since_(now), active_(already) {}

void Phase::enter(State state, double now) {
    state_ = state;
    state_since_ = now;
}

void Phase::end_learning(double now) {
    anchor_ = finder.best();
    period_ = anchor_ ? finder.period(*anchor_) : 0.0;
    finder.clear();
    enter(State::explore, now);
}

void Phase::start_race(const std::vector<ArmId>& arms, const std::map<ArmId, std::string>& skipped, double now) {
    for (const auto& [arm, name] : skipped) use_[arm].state = "same as " + name;
    if (fixed_) {
        arm_ = *fixed_;
        use_[arm_].state = "chosen";
        if (!decided_after_) decided_after_ = active_;
        return enter(State::fixed, now);
    }
    std::vector<ArmId> live{kPassThrough};
    for (ArmId arm : arms) {
        const auto bad = known_bad_.find(arm);
        if (arm != kPassThrough && (bad == known_bad_.end() || bad->second > kHopeless)) live.push_back(arm);
        use_[arm].state = "live";
    }
    if (live.size() < 2) return stand_down(verdict_ == Verdict::undecided ? Verdict::no_gain : verdict_, now);
    race_.emplace(live, Random(random_()));
    guard_.reset();
    race_started_ = active_;
    enter(State::race, now);
}

void Phase::start_guard(ArmId arm, double now) {
    race_.reset();
    if (arm == kPassThrough) return stand_down(Verdict::no_gain, now);
    arm_ = arm;
    verdict_ = Verdict::undecided;
    guard_.emplace(arm, Random(random_()));
    if (!decided_after_) decided_after_ = active_;
    enter(State::guard, now);
}

void Phase::finish_race(double now) {
    const ArmId winner = race_->finished() ? race_->winner() : race_->conclude();
    for (auto& [arm, use] : use_) {
        if (use.state == "live") use.state = arm == winner ? "chosen" : "dropped";
        if (const auto ratio = race_->estimate(arm)) {
            use.race = *ratio;
            if (*ratio < kHopeless) known_bad_[arm] = *ratio;
        }
    }
    use_[winner].state = "chosen";
    discarded_before_ += race_->discarded();
    start_guard(winner, now);
}

void Phase::stand_down(Verdict verdict, double now) {
    if (guard_) {
        last_gain_ = guard_->gain();
        if (last_gain_ && last_gain_->estimate < kHopeless) known_bad_[arm_] = last_gain_->estimate;
        discarded_before_ += guard_->discarded();
        use_[arm_].state = "stood down";
    }
    verdict_ = verdict;
    guard_.reset();
    race_.reset();
    arm_ = kPassThrough;
    use_[arm_].state = "chosen";
    if (!decided_after_) decided_after_ = active_;
    retry_at_ = active_ + retry_wait_;
    retry_wait_ *= 2.0;
    enter(State::stood_down, now);
}

void Phase::skip(const Window& window) {
    active_ += window.wall;
    use_[window.arm].seconds += window.wall;
}

bool Phase::window_ended(const Window& window, double now) {
    skip(window);
    if (window.periods > 0) {
        // Follows slow changes of the step, so that the window keeps its number of periods.
        const double period = window.wall / window.periods;
        period_ = period_ > 0.0 ? 0.9 * period_ + 0.1 * period : period;
    }
    switch (state_) {
        case State::race:
            race_->add(window);
            ++used_;
            if (race_->finished() || race_->stuck() || active_ - race_started_ > kRaceSeconds) finish_race(now);
            return false;
        case State::guard:
            guard_->add(window);
            ++used_;
            if (guard_->verdict() != Verdict::undecided) verdict_ = guard_->verdict();
            if (guard_->stand_down()) stand_down(guard_->verdict(), now);
            return false;
        case State::stood_down:
            if (active_ < retry_at_) return false;
            enter(State::explore, now);
            return true;
        default: return false;
    }
}

Directive Phase::directive() {
    Directive directive;
    directive.anchor = anchor_;
    directive.length = kIdleWindow;
    switch (state_) {
        case State::learn:
            directive.anchor.reset();
            directive.record_all = true;
            directive.length = kLearnWindow;
            break;
        case State::explore:
            directive.explore = true;
            directive.length = kExploreWindow;
            break;
        case State::race:
            directive.arm = race_->next();
            directive.length = window_length(period_, random_);
            break;
        case State::guard:
            directive.arm = guard_->next();
            directive.length = window_length(period_, random_);
            break;
        case State::stood_down: break;
        case State::fixed: directive.arm = arm_; break;
    }
    directive.patience = directive.length + (directive.anchor ? 3.0 * period_ + 0.05 : 0.0);
    return directive;
}

int Phase::discarded() const {
    return discarded_before_ + (race_ ? race_->discarded() : 0) + (guard_ ? guard_->discarded() : 0);
}

}  // namespace corun::policy
