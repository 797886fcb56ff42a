// SPDX-License-Identifier: Apache-2.0
#include "policy/region_tuner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace corun::policy {
namespace {

constexpr double kInitial = 0.002;      // seconds that trials may cost before anything was earned
constexpr double kSharesEvery = 0.05;   // seconds between looks at who takes the time
constexpr std::size_t kUnsettled = 20;  // calls of a block without one that followed its own width

double mean_of(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
}

std::string microseconds(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f us", seconds * 1e6);
    return text;
}

}  // namespace

void RegionCost::add(double seconds) {
    values_[next_] = static_cast<float>(seconds);
    next_ = (next_ + 1) % kept;
    count_ = std::min(count_ + 1, kept);
}

std::optional<double> RegionCost::seconds() const {
    if (count_ == 0) return std::nullopt;
    std::array<float, kept> sorted = values_;
    std::sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count_));
    const std::size_t counted = count_ - (count_ < 5 ? 0 : (count_ + 11) / 16);
    double sum = 0.0;
    for (std::size_t i = 0; i < counted; ++i) sum += static_cast<double>(sorted[i]);
    return sum / static_cast<double>(counted);
}

RegionTuner::RegionTuner(TunerSettings settings, double now)
    : settings_(settings), costs_(settings.kind), began_(now), now_(now), shares_at_(now) {}

RegionTuner::Id RegionTuner::add(int own) {
    Region region{};
    region.own = region.planned = std::max(own, 1);
    region.allowed = {region.own};
    region.retry_after = kFirstRetry;
    regions_.push_back(std::move(region));
    return static_cast<Id>(regions_.size() - 1);
}

void RegionTuner::allow(Id id, std::vector<int> widths, int own) {
    Region& region = regions_.at(id);
    if (widths == region.allowed && own == region.own) return;
    region.own = own;
    region.allowed = std::move(widths);
    forget(id);
}

void RegionTuner::forget(Id id) {
    Region& region = regions_.at(id);
    if (trial_ && trial_->id == id) trial_.reset();
    guard_.reset();
    replan_ = true;
    region.samples.clear();
    region.planned = region.own;
    region.tried = false;
    region.story.clear();
}

std::optional<double> RegionTuner::seconds(const Region& region, int width) const {
    const auto found = region.samples.find(width);
    return found != region.samples.end() ? found->second.seconds() : std::nullopt;
}

bool RegionTuner::may_spend(double seconds, double now) const {
    return spent_ + seconds <= kInitial + settings_.explore * (now - began_);
}

int RegionTuner::width(Id id) const {
    const Region& region = regions_[id];
    if (trial_ && trial_->id == id) return trial_->at_own ? region.own : trial_->width;
    if (guard_ && !guard_->at_plan) return region.own;
    return region.planned;
}

bool RegionTuner::wants_each(Id id) const {
    return trial_ && trial_->id == id;
}

void RegionTuner::undisturbed(double now) {
    proven_ = now;
    kept_.resize(regions_.size());
    for (Id id = 0; id < regions_.size(); ++id) kept_[id] = regions_[id].samples;
}

void RegionTuner::disturbed() {
    for (Id id = 0; id < regions_.size(); ++id)
        regions_[id].samples = id < kept_.size() ? kept_[id] : std::map<int, RegionCost>{};
    trial_.reset();
    first_due_ = first_due_ || (guard_ && guard_->first);  // the plan is still to be trusted
    guard_.reset();
}

// --- single calls
// ----------------------------------------------------------------------------------------------------

void RegionTuner::timed(Id id, const TimedCall& call) {
    now_ = std::max(now_, call.now);
    if (!call.solo || !std::isfinite(call.seconds) || call.seconds <= 0.0) return;
    if (trial_ && trial_->id == id) return in_trial(call);
    Region& region = regions_[id];
    if (call.before == call.width || call.before == 0) {
        region.samples[call.width].add(call.seconds);
    } else if (const auto settled = seconds(region, call.width)) {
        costs_.add(call.before, call.width, call.seconds - *settled);
    } else {
        region.samples[call.width].add(call.seconds);
    }
}

void RegionTuner::in_trial(const TimedCall& call) {
    Trial& trial = *trial_;
    Region& region = regions_[trial.id];
    const int wanted = trial.at_own ? region.own : trial.width;
    if (call.width != wanted) return;
    (call.before == call.width ? trial.settled : trial.switched).push_back(call.seconds);
    trial.block_seconds += call.seconds;
    ++trial.block_calls;
    const auto own = seconds(region, region.own);
    if (!trial.at_own && own) spent_ += std::max(call.seconds - *own, 0.0);
    // A width that is far from good shows at once, and each further call would cost as much.
    const bool hopeless = !trial.at_own && own && trial.block_calls >= 2 &&
                          trial.block_seconds >= kBlockSeconds &&
                          std::min(mean_of(trial.settled.empty() ? trial.switched : trial.settled),
                                   call.seconds) > 2.0 * kHopeless * *own;
    const bool has_settled = trial.settled.size() >= 2 || trial.switched.size() >= kUnsettled;
    if (hopeless || (has_settled && trial.block_seconds >= kBlockSeconds) ||
        trial.block_calls >= kBlockCalls) {
        // Twice: one block may have met with a burst of the machine.
        if (hopeless && trial.hopeless++ > 0) trial.blocks = 2 * kBlocks;
        end_block(call.now);
    }
}

void RegionTuner::end_block(double now) {
    Trial& trial = *trial_;
    Region& region = regions_[trial.id];
    const int width = trial.at_own ? region.own : trial.width;
    const double value = mean_of(trial.settled.empty() ? trial.switched : trial.settled);
    region.samples[width].add(value);
    if (!trial.settled.empty() && !trial.switched.empty())
        costs_.add(trial.at_own ? trial.width : region.own, width, trial.switched.front() - value);
    ++trial.blocks;
    trial.at_own = !trial.at_own;
    trial.settled.clear();
    trial.switched.clear();
    trial.block_seconds = 0.0;
    trial.block_calls = 0;
    if (trial.blocks >= 2 * kBlocks) return next_width(now);
    // What the trial may cost has to be earned first: meanwhile the region runs at its own width.
    if (!trial.at_own && !may_spend(0.0, now)) trial.at_own = true, --trial.blocks;
}

// --- trials
// ------------------------------------------------------------------------------------------------------

void RegionTuner::find_shares(double now) {
    const double elapsed = now - shares_at_;
    for (Region& region : regions_) {
        const auto own = seconds(region, region.own);
        const auto calls = static_cast<double>(region.calls - region.calls_before);
        region.share = own ? calls * *own / elapsed : 0.0;
        region.calls_before = region.calls;
    }
    shares_at_ = now;
}

void RegionTuner::begin_trial(double now) {
    Id chosen = 0;
    double most = kLeastShare;
    for (Id id = 0; id < regions_.size(); ++id) {
        const Region& region = regions_[id];
        if (region.allowed.size() < 2 || region.share <= most) continue;
        if (region.tried && now < region.retry_at) continue;
        chosen = id;
        most = region.share;
    }
    if (most <= kLeastShare) return;
    Region& region = regions_[chosen];
    // A call at one thread may take as many times as long as there were threads. The first width is the
    // widest one below its own, with libgomp that is one.
    const double own = *seconds(region, region.own);
    int first = 1;
    for (const int width : region.allowed)
        if (width < region.own) first = std::max(first, width);
    if (!may_spend(2.0 * own * (static_cast<double>(region.own) / first - 1.0), now)) return;
    trial_ = Trial{};
    trial_->id = chosen;
    trial_->calls = region.calls;
    trial_->called_at = now;
    // Halving from the own width: the last one first.
    for (const int width : region.allowed)
        if (width != region.own) trial_->widths.push_back(width);
    if (region.tried)
        for (const int width : trial_->widths) region.samples.erase(width);
    region.samples.erase(region.own);
    region.samples[region.own].add(own);
    next_width(now);
}

void RegionTuner::next_width(double now) {
    Trial& trial = *trial_;
    Region& region = regions_[trial.id];
    double best = *seconds(region, region.own);
    for (const int width : region.allowed)
        if (const auto known = seconds(region, width)) best = std::min(best, *known);
    const auto last = trial.width > 0 ? seconds(region, trial.width) : std::nullopt;
    if (trial.widths.empty() || (last && *last > kHopeless * best)) return end_trial(now);
    trial.width = trial.widths.back();
    trial.widths.pop_back();
    trial.at_own = false;
    trial.blocks = 0;
    trial.hopeless = 0;
}

void RegionTuner::end_trial(double now) {
    Region& region = regions_[trial_->id];
    region.tried = true;
    region.retry_at = now + region.retry_after;
    region.retry_after = std::min(2.0 * region.retry_after, kLastRetry);
    trial_.reset();
    replan_ = true;
    replan_at_ = now;
}

// Without a result: it is tried again if it comes back.
void RegionTuner::drop_trial_of_who_is_gone(double now) {
    const Region& region = regions_[trial_->id];
    if (region.calls != trial_->calls) {
        trial_->calls = region.calls;
        trial_->called_at = now;
    } else if (now - trial_->called_at >= kNotCalled) {
        trial_.reset();
    }
}

// --- the plan
// ----------------------------------------------------------------------------------------------------

void RegionTuner::followed(Id before, Id after, std::uint64_t count) {
    transitions_[{before, after}] += count;
}

bool RegionTuner::moved() const {
    return std::any_of(regions_.begin(), regions_.end(),
                       [](const Region& region) { return region.planned != region.own; });
}

std::vector<model::Point> RegionTuner::curve(Id id) const {
    std::vector<model::Point> points;
    for (const auto& [width, samples] : regions_.at(id).samples)
        if (const auto cost = samples.seconds()) points.push_back({width, *cost});
    return points;
}

double RegionTuner::charged(Id id) const {
    return regions_.at(id).charged;
}

void RegionTuner::plan(double now) {
    replan_ = false;
    std::vector<RegionLoad> loads(regions_.size());
    for (Id id = 0; id < regions_.size(); ++id) {
        RegionLoad& load = loads[id];
        load.own = regions_[id].own;
        load.allowed = regions_[id].tried ? regions_[id].allowed : std::vector<int>{load.own};
        load.curve = curve(id);
    }
    // Calls as many as the transitions were counted over: each has one into the region.
    std::vector<Transition> transitions;
    for (auto& [pair, count] : transitions_) {
        loads[pair.second].calls += count;
        transitions.push_back({pair.first, pair.second, count});
        count -= count / 2;  // what was long ago fades
    }
    const WidthPlan best = plan_widths(loads, transitions, costs_, settings_.deadband);
    bool changes = false;
    for (Id id = 0; id < regions_.size(); ++id) {
        const int planned = now < rejected_until_ ? regions_[id].own : best.widths[id];
        changes = changes || planned != regions_[id].planned;
        regions_[id].planned = planned;
        const double calls = static_cast<double>(std::max<std::uint64_t>(loads[id].calls, 1));
        regions_[id].charged = best.charged[id] / calls * static_cast<double>(regions_[id].calls);
    }
    describe();
    if (changes && moved()) begin_guard(now, true);
}

void RegionTuner::describe() {
    for (Region& region : regions_) {
        if (region.allowed.size() < 2 || !region.tried) continue;
        const auto own = seconds(region, region.own);
        std::string text;
        for (const auto& [width, samples] : region.samples)
            if (const auto cost = samples.seconds())
                text += (text.empty() ? "" : ", ") + microseconds(*cost) + " at " + std::to_string(width);
        if (region.planned != region.own)
            region.story = "runs at " + std::to_string(region.planned) + ": " + text;
        else if (own && gain_ && *gain_ < kHarm)
            region.story = "keeps its own width: the plan did not hold in turn with it (" + text + ")";
        else
            region.story = "keeps its own width: " + text;
    }
}

// --- the guard: windows at the plan's widths and at the program's own in turn
// ------------------------------------------------

void RegionTuner::begin_guard(double now, bool first) {
    Guard guard{};
    double most = -1.0;
    for (Id id = 0; id < regions_.size(); ++id) {
        const Region& region = regions_[id];
        if (region.planned == region.own || region.share <= most) continue;
        guard.anchor = id;
        most = region.share;
    }
    guard.at_plan = true;
    guard.first = first || first_due_;
    first_due_ = false;
    guard.windows = guard.first ? kFirstWindows : kLaterWindows;
    guard.began_at = now;
    guard_ = std::move(guard);
}

void RegionTuner::guard_tick(double now, Id at) {
    Guard& guard = *guard_;
    if (guard.over) {
        if (is_proven(guard.began_at)) end_guard(now);
        return;
    }
    // Where teams wait for CPUs that others have, a window at the own widths could last for ever; and the
    // anchor may never be called again.
    const bool overdue = now - guard.began_at >= kOverdue;
    if (at != guard.anchor && !overdue) return;
    if (!guard.begun) {  // what the switch has left behind is not counted
        if (now - guard.began_at < 0.1 * kWindow) return;
        guard.begun = true;
        guard.began_at = now;
        guard.calls.clear();
        for (const Region& region : regions_) guard.calls.push_back(region.calls);
        return;
    }
    const double elapsed = now - guard.began_at;
    if (!overdue && (elapsed < kWindow || regions_[at].calls - guard.calls[at] < kWindowCalls)) return;
    double work = 0.0;
    for (Id id = 0; id < guard.calls.size(); ++id)
        if (const auto own = seconds(regions_[id], regions_[id].own))
            work += static_cast<double>(regions_[id].calls - guard.calls[id]) * *own;
    if (work > 0.0) (guard.at_plan ? guard.at_plans : guard.at_owns).add(elapsed / work);
    ++guard.window;
    // A plan that has held so far is not dropped for one window in which the process was stopped.
    if (guard.window == kLaterWindows && guard.windows == kLaterWindows && guard_gain() < kHarm)
        guard.windows = kFirstWindows;
    const bool clear = guard_is_clear() && (guard.first || guard_gain() > 1.0);
    if (guard.window >= guard.windows || clear) {
        if (is_proven(now)) return end_guard(now);
        guard.over = true;
        guard.began_at = now;
        return;
    }
    // A B B A: a drift of the machine falls on both alike.
    guard.at_plan = guard.window % 4 == 0 || guard.window % 4 == 3;
    guard.begun = false;
    guard.began_at = now;
}

double RegionTuner::guard_gain() const {
    const double own = guard_->at_owns.seconds().value_or(0.0);
    const double plan = guard_->at_plans.seconds().value_or(0.0);
    return own > 0.0 && plan > 0.0 ? own / plan : 1.0;
}

bool RegionTuner::guard_is_clear() const {
    const RegionCost& plans = guard_->at_plans;
    const RegionCost& owns = guard_->at_owns;
    if (plans.count() < 2 || owns.count() < 2) return false;
    const double ratio = *owns.seconds() / *plans.seconds();
    return ratio > kClear || ratio < 1.0 / kClear;
}

void RegionTuner::end_guard(double now) {
    gain_ = guard_gain();
    guard_.reset();
    if (*gain_ < kHarm) return drop_plan(now);
    check_at_ = now + check_after_;
    check_after_ = std::min(2.0 * check_after_, kLastCheck);
    reject_for_ = 1.0;
    replan_ = true;  // its windows have brought new samples at both widths
}

void RegionTuner::drop_plan(double now) {
    for (Region& region : regions_) region.planned = region.own;
    rejected_until_ = now + reject_for_;
    reject_for_ = std::min(2.0 * reject_for_, 64.0);
    check_after_ = kFirstCheck;
    check_at_ = rejected_until_;
    describe();
}

void RegionTuner::tick(double now, std::span<const std::uint64_t> calls, Id at) {
    now_ = now;
    for (Id id = 0; id < regions_.size() && id < calls.size(); ++id) regions_[id].calls = calls[id];
    if (trial_) drop_trial_of_who_is_gone(now);
    if (now - shares_at_ >= kSharesEvery) {
        // Shares of windows at other widths say as much: they are weighed by what a call takes at its own.
        find_shares(now);
        if (!trial_ && !guard_) begin_trial(now);
    }
    if (guard_) return guard_tick(now, at);
    if (trial_) return;
    if (replan_) {
        if (is_proven(replan_at_)) plan(now);
        return;
    }
    if (now < check_at_) return;
    check_at_ = now + check_after_;
    if (moved()) return begin_guard(now, false);
    if (rejected_until_ > 0.0 && now >= rejected_until_) {
        rejected_until_ = 0.0;
        plan(now);
    }
}

}  // namespace corun::policy
