// SPDX-License-Identifier: Apache-2.0
#include "policy/phase.h"

#include <algorithm>
#include <cmath>

namespace corun::policy {
namespace {

// Sampling other widths is planned anew this often.
constexpr double kExploreWindow = 0.10;
// A stood-down phase only watches the mix; when the program goes on to another phase, that should be seen
// soon.
constexpr double kIdleWindow = 0.25;
// The shortest window that tells a mix: without an anchor it ends anywhere in a step.
constexpr int kMixPeriods = 2;
constexpr double kAimlessWindow = 1.0;
// A race that is not over by then is decided by what it has: programs with long steps would race for minutes,
// at the cost of the worse arms; the guard judges the outcome anyway.
constexpr double kRaceSeconds = 45.0;
constexpr double kRacePeriods = 600.0;  // or so many steps: a window is five and more of them
// Earlier when the program as it is has been dropped: all that still race are better, and none by much.
constexpr double kRaceWonSeconds = 15.0;
// Where CPUs are shared, threads that wait for one another can make a program many times slower, and all that
// it does to learn as well. So one thread for each op is tried first: an arm that wins by this much is taken.
constexpr double kQuickGain = 0.18;  // log: 20 %
constexpr double kQuickFar = 0.69;   // log: twice as fast, and so in window after window, needs no statistics
constexpr int kQuickFarWindows = 3;
constexpr int kQuickRounds = 6;
constexpr double kQuickSeconds = 15.0;
constexpr double kQuickMost = 40.0;  // while it leads by enough
constexpr int kQuickDiscards = 6;
constexpr double kQuickWorse = -0.1;   // log, of two windows: on many CPUs each further one would cost much
constexpr double kQuickPeriods = 2.0;  // in a window: coarse is enough
// A decision is doubted when the work rate has left its band for longer than a burst lasts: op costs have
// changed, or the machine. Once the gain is certain the guard looks too seldom to see that within minutes.
constexpr double kQuickPace = 5.0;  // seconds
constexpr double kSlowPace = 60.0;
constexpr double kPaceClip = 0.3;
constexpr double kPaceBand = 0.18;  // log: 20 %
constexpr double kPaceOdd = 8.0;    // seconds
// A smaller change that lasts longer is enough where a doubt costs little: the guard looks more often, no
// race.
constexpr double kFineBand = 0.09;
constexpr double kFineOdd = 20.0;
// An arm that was found worse than this is not raced again in a retry.
constexpr double kHopeless = -0.03;
// On many CPUs an arm may be slower by so much that its windows hold less than a step and say nothing of the
// mix: of work that is done, they tell all the same.
constexpr double kCrawl = -1.1;   // log, by open time: a third
constexpr int kCrawlWindows = 2;  // each beside one of the program as it is, right after it
// In the quick race's two windows: not to be raced at all.
constexpr double kQuickHopeless = -0.69;  // log: half

}  // namespace

const char* state_name(State state) {
    switch (state) {
        case State::learn:
            return "learning";
        case State::explore:
            return "exploring";
        case State::race:
            return "race";
        case State::guard:
            return "guard";
        case State::stood_down:
            return "stood down";
        case State::fixed:
            return "fixed";
    }
    return "?";
}

void align(Directive& directive, std::uint32_t anchor, double period) {
    directive.anchor = anchor;
    directive.length = std::max(directive.length, kMixPeriods * period);
    directive.patience = directive.length + 3.0 * period + 0.05;
}

Phase::Phase(std::optional<ArmId> fixed, Random random, double already)
    : fixed_(fixed), random_(random), active_(already), state_since_(already) {}

double Phase::period_under(ArmId arm) const {
    const auto known = periods_.find(arm);
    return known != periods_.end() ? known->second : period_;
}

void Phase::enter(State state) {
    state_ = state;
    state_since_ = active_;
    slow_pace_.reset();
}

void Phase::watch_pace(const Window& window, double elapsed) {
    if (window.arm != arm_ || !window.usable()) return;
    // What was not seen says nothing: where there are rests, it takes as many windows as without.
    elapsed -= std::min(elapsed, window.rested);
    const double rate = window.log_rate(true);
    if (!slow_pace_) {
        slow_pace_ = quick_pace_ = rate;
        odd_since_ = fine_since_ = watched_;
    }
    const double step = std::clamp(rate - quick_pace_, -kPaceClip, kPaceClip);
    quick_pace_ += step * (1.0 - std::exp(-elapsed / kQuickPace));
    // The first minute is a mean of all that was seen.
    const double memory = std::clamp(in_state(), kQuickPace, kSlowPace);
    *slow_pace_ += (quick_pace_ - *slow_pace_) * (1.0 - std::exp(-elapsed / memory));
    const double change = std::abs(quick_pace_ - *slow_pace_);
    if (change < kPaceBand) odd_since_ = watched_;
    if (change < kFineBand || state_ != State::guard) fine_since_ = watched_;
    const bool odd = watched_ - odd_since_ > kPaceOdd || watched_ - fine_since_ > kFineOdd;
    if (odd && active_ >= doubt_after_) doubt();
}

// What was decided is to be shown again, beginning with the guard's most frequent looks; if it fails, or if
// nothing was chosen, arms are compared at once.
void Phase::doubt() {
    doubt_after_ = active_ + doubt_wait_;
    doubt_wait_ *= 2.0;
    slow_pace_.reset();
    known_bad_.clear();
    raced_ = false;
    if (state_ == State::guard)
        guard_.emplace(arm_, Random(random_()));
    else
        retry_at_ = active_;
}

void Phase::end_learning() {
    anchor_ = finder.best();
    period_ = anchor_ ? finder.period(*anchor_) : 0.0;
    finder.clear();
    enter(State::explore);
}

void Phase::start_race(const std::vector<ArmId>& arms, const std::map<ArmId, std::string>& skipped) {
    for (const auto& [arm, why] : skipped) use_[arm].state = why;
    if (fixed_) {
        arm_ = *fixed_;
        use_[arm_].state = "chosen";
        if (!decided_after_) decided_after_ = active_;
        return enter(State::fixed);
    }
    // The program as it is has lost already: it is compared with what is chosen, by the guard.
    const bool ahead = arm_ != kPassThrough;
    std::vector<ArmId> live{arm_};
    for (ArmId arm : arms) {
        const auto bad = known_bad_.find(arm);
        const bool hopeless = bad != known_bad_.end() && bad->second < kHopeless;
        if (arm == arm_ || (ahead && arm == kPassThrough)) continue;
        if (!hopeless) live.push_back(arm);
        use_[arm].state = hopeless ? "dropped" : "live";
    }
    use_[arm_].state = "live";
    if (live.size() < 2 && ahead) {
        use_[arm_].state = "chosen";
        raced_ = true;
        return start_guard(arm_);
    }
    if (live.size() < 2) return stand_down(verdict_ == Verdict::undecided ? Verdict::no_gain : verdict_);
    race_.emplace(live, Random(random_()), kRaceWarmRounds);
    guard_.reset();
    raced_ = true;
    enter(State::race);
}

void Phase::start_quick_race(ArmId arm) {
    use_[arm].state = "live";
    race_.emplace(std::vector<ArmId>{kPassThrough, arm}, Random(random_()), kRaceWarmRounds);
    quick_ = true;
    quick_rate_ = {};
    quick_far_ = 0;
    enter(State::race);
}

void Phase::start_guard(ArmId arm) {
    race_.reset();
    if (arm == kPassThrough) return stand_down(Verdict::no_gain);
    arm_ = arm;
    verdict_ = Verdict::undecided;
    const auto raced = use_.find(arm);
    const bool clear =
        raced != use_.end() && raced->second.race && *raced->second.race > std::log1p(kClearGain);
    guard_.emplace(arm, Random(random_()), clear);
    if (!decided_after_) decided_after_ = active_;
    enter(State::guard);
}

bool Phase::quick_race_over(const Window& window) {
    if (window.usable()) quick_rate_[window.arm == kPassThrough ? 0 : 1] = window.log_rate(false);
    const auto [plain, other] = quick_rate_;
    const bool worse = plain != 0.0 && other != 0.0 && other - plain < kQuickWorse;
    const bool leads = race_->rounds() > 0 && *race_->estimate(race_->live().back()) > kQuickGain;
    const bool far = plain != 0.0 && other != 0.0 && other - plain > kQuickFar;
    quick_far_ = far ? quick_far_ + 1 : 0;
    return worse || quick_far_ >= kQuickFarWindows || race_->finished() || race_->rounds() >= kQuickRounds ||
           race_->discarded() > kQuickDiscards || in_state() > (leads ? kQuickMost : kQuickSeconds);
}

// Only an arm that was found better by the race's own rules, not the one that led when it was cut short. Its
// figures are too coarse to be kept.
void Phase::finish_quick_race() {
    quick_ = false;
    discarded_before_ += race_->discarded();
    const bool far = quick_far_ >= kQuickFarWindows;
    const bool won = far || (race_->finished() && race_->winner() != kPassThrough &&
                             *race_->estimate(race_->winner()) > kQuickGain);
    const ArmId winner = won ? race_->live().back() : kPassThrough;
    const double other = quick_rate_[1] - quick_rate_[0];
    if (!won && quick_rate_[0] != 0.0 && quick_rate_[1] != 0.0 && other < kQuickHopeless)
        known_bad_[race_->live().back()] = other;
    for (auto& [arm, use] : use_)
        if (use.state == "live") use.state = arm == winner ? "chosen" : "dropped";
    if (won) {
        use_[winner].race = far ? quick_rate_[1] - quick_rate_[0] : *race_->estimate(winner);
        arm_ = winner;
    }
    race_.reset();
    enter(State::explore);
}

void Phase::finish_race() {
    const ArmId winner = race_->finished() ? race_->winner() : race_->conclude();
    const bool with_plain = arm_ == kPassThrough;
    for (auto& [arm, use] : use_) {
        if (use.state == "live") use.state = arm == winner ? "chosen" : "dropped";
        if (const auto ratio = with_plain ? race_->estimate(arm) : std::nullopt) {
            use.race = *ratio;
            if (*ratio < kHopeless) known_bad_[arm] = *ratio;
        }
    }
    use_[winner].state = "chosen";
    discarded_before_ += race_->discarded();
    start_guard(winner);
}

void Phase::stand_down(Verdict verdict) {
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
    enter(State::stood_down);
}

double Phase::race_seconds() const {
    const std::vector<ArmId>& live = race_->live();
    const bool won = std::find(live.begin(), live.end(), kPassThrough) == live.end();
    return won ? kRaceWonSeconds : std::max(kRaceSeconds, kRacePeriods * period_under(kPassThrough));
}

// Whether the arm under trial is far slower than the program as it is, by the work that is done, however
// little. Time in which no op is open is nobody's. The program itself may do less than before: it has to show
// its old rate right after.
bool Phase::crawls(const Window& window) {
    if (state_ != State::race && state_ != State::guard) return suspect_.reset(), false;
    const bool tells = window.open >= 0.5 * window.wall &&
                       window.work[0] <= kUnreferencedShare * std::max(window.total_work(), 1e-9);
    const double rate = window.total_work() > 0.0 ? window.log_rate(true) : -HUGE_VAL;
    if (window.arm == kPassThrough) {
        const bool still = tells && suspect_ && suspect_rate_ - rate < kCrawl;
        crawling_ = still ? crawling_ + 1 : 0;
        if (crawling_ >= kCrawlWindows) return true;
        suspect_.reset();
        return false;
    }
    if (!tells || !plain_rate_ || rate - *plain_rate_ >= kCrawl) return crawling_ = 0, false;
    suspect_ = window.arm;
    suspect_rate_ = rate;
    return false;
}

void Phase::drop_crawling() {
    const ArmId arm = *suspect_;
    suspect_.reset();
    crawling_ = 0;
    known_bad_[arm] = kCrawl;
    if (state_ == State::guard) return stand_down(Verdict::no_gain);
    use_[arm].state = "dropped";
    if (quick_) return finish_quick_race();
    race_->drop(arm);
    if (race_->finished()) finish_race();
}

void Phase::skip(const Window& window, double elapsed) {
    note_time(window, elapsed);
    if (crawls(window)) drop_crawling();
}

void Phase::note_time(const Window& window, double elapsed) {
    active_ += elapsed;
    watched_ += elapsed - std::min(elapsed, window.rested);
    use_[window.arm].seconds += elapsed;
}

bool Phase::window_ended(const Window& window, double elapsed) {
    note_time(window, elapsed);
    const bool asked = suspect_.has_value();
    if (window.arm == kPassThrough && window.usable()) plain_rate_ = window.log_rate(true);
    if (crawls(window)) drop_crawling();
    if (asked || suspect_) return false;  // no window of the race or the guard
    if (window.periods > 0) {
        // Follows slow changes of the step, so that the window keeps its number of periods.
        const double period = window.wall / window.periods;
        period_ = period_ > 0.0 ? 0.9 * period_ + 0.1 * period : period;
        double& under = periods_[window.arm];
        under = under > 0.0 ? 0.9 * under + 0.1 * period : period;
    }
    switch (state_) {
        case State::race:
            race_->add(window);
            ++used_;
            if (quick_) {
                if (quick_race_over(window)) finish_quick_race();
            } else if (race_->finished() || race_->stuck() || in_state() > race_seconds()) {
                finish_race();
            }
            return false;
        case State::guard:
            guard_->add(window);
            ++used_;
            watch_pace(window, elapsed);
            if (guard_->verdict() != Verdict::undecided) verdict_ = guard_->verdict();
            if (!guard_->stand_down() && !guard_->stuck()) return false;
            stand_down(guard_->stuck() ? Verdict::no_gain : guard_->verdict());
            if (raced_) return false;
            // What an earlier run decided, or this one before costs changed, does not hold: decide anew, now.
            decided_after_.reset();
            retry_wait_ = kRetryFirstSeconds;
            enter(State::explore);
            return true;
        case State::stood_down:
            watch_pace(window, elapsed);
            if (active_ < retry_at_) return false;
            enter(State::explore);
            return true;
        default:
            return false;
    }
}

Directive Phase::directive() {
    Directive directive;
    std::optional<std::uint32_t> anchor = anchor_;
    double period = period_;
    directive.length = anchor ? kIdleWindow : kAimlessWindow;
    switch (state_) {
        case State::learn:
            directive.record_all = true;
            directive.length = kLearnWindow;
            anchor = finder.best();
            period = anchor ? finder.period(*anchor) : 0.0;
            break;
        case State::explore:
            directive.arm = arm_;
            directive.explore = true;
            directive.record_all = true;
            directive.length = kExploreWindow;
            break;
        case State::race:
            directive.arm = race_->next();
            period = period_under(directive.arm);
            directive.length =
                quick_ ? std::max(kWindowSeconds, kQuickPeriods * period) : window_length(period_, random_);
            break;
        case State::guard:
            directive.arm = guard_->next();
            period = period_under(directive.arm);
            directive.length = window_length(period_, random_);
            break;
        case State::stood_down:
            directive.rest = kRest;
            break;
        case State::fixed:
            directive.arm = arm_;
            break;
    }
    if (suspect_) {
        directive.arm = kPassThrough;
        period = period_under(kPassThrough);
        directive.length = std::max(kWindowSeconds, kQuickPeriods * period);
    }
    directive.patience = directive.length;
    if (anchor) align(directive, *anchor, period);
    return directive;
}

int Phase::discarded() const {
    return discarded_before_ + (race_ ? race_->discarded() : 0) + (guard_ ? guard_->discarded() : 0);
}

}  // namespace corun::policy
