// SPDX-License-Identifier: Apache-2.0
#include "policy/controller.h"

#include <algorithm>
#include <cmath>

namespace corun::policy {
namespace {

// The first calls of an op pay for first touches and for primitives that are made once; they are not its
// cost.
constexpr std::size_t kFirstSkipped = 2;
constexpr std::size_t kFirstSamples = 11;
// Windows with too much unreferenced work in a row before the mix counts as new.
constexpr int kStrangeWindows = 3;
// Learning a phase: at least, so that the anchor is chosen from some periods; at most, when there is none.
constexpr double kLearnLeast = 0.7;
constexpr double kLearnMost = 3.0;
// A program in which nothing repeats is not recorded for ever.
constexpr double kLearnGiveUp = 20.0;
constexpr double kExploreMost = 20.0;
constexpr int kFruitlessWindows = 5;
// What slows the machine slows a whole step: of an op that is called often in it, one call in a step counts.
constexpr double kSpacingPeriods = 0.8;
constexpr double kSpacingSeconds = 0.02;  // without a period
// Arms that could differ by no more than the race would notice are one.
constexpr double kSameArms = kIndifference;
constexpr double kFreedShare = 0.2;
// Curves are of ops that ran alone. Narrow ops side by side can make up for being slower, but by no more than
// the number of CPUs: only an arm that the curves call slower than that is not tried.
constexpr double kSoloShare = 0.9;

// Seconds at width 1, 2, ... from those at some: on a line between them, or the next narrower's where a
// runtime is not to be given what lies between.
std::vector<double> between(const std::vector<int>& widths, const std::vector<double>& points, bool coarse) {
    std::vector<double> seconds{points.front()};
    for (std::size_t i = 1; i < widths.size(); ++i) {
        const int from = widths[i - 1];
        const int steps = widths[i] - from;
        for (int step = 1; step < steps; ++step)
            seconds.push_back(points[i - 1] + (coarse ? 0.0 : (points[i] - points[i - 1]) * step / steps));
        seconds.push_back(points[i]);
    }
    return seconds;
}

}  // namespace

Controller::Controller(ControllerSettings settings, double now)
    : settings_(std::move(settings)),
      arms_(race_arms(settings_.budget, settings_.gate)),
      explorer_(settings_.explorer),
      random_(settings_.seed),
      started_(now),
      learn_since_(now),
      last_end_(now) {
    if (settings_.observe) fixed_ = kPassThrough;
    const std::string name = settings_.replay ? "replay" : settings_.policy;
    if (!fixed_) {
        if (const auto arm = arm_by_name(name, settings_.budget)) {
            const auto same = std::find_if(arms_.begin(), arms_.end(),
                                           [&](const Arm& known) { return known.name == arm->name; });
            fixed_ = static_cast<ArmId>(same - arms_.begin());
            if (same == arms_.end() && arms_.size() == kArmSlots)
                arms_.back() = *arm, fixed_ = kArmSlots - 1;
            else if (same == arms_.end())
                arms_.push_back(*arm);
        }
    }
    rows_.resize(arms_.size());
    next_directive(now);
}

Controller::~Controller() = default;

// --- ops
// -----------------------------------------------------------------------------------------------------

bool Controller::cheap(const OpState& state) const {
    if (state.reference <= 0.0 || state.reference >= settings_.cheap_seconds) return false;
    return !state.narrowed || trivial(state);
}

bool Controller::trivial(const OpState& state) const {
    return state.reference > 0.0 && state.reference < settings_.trivial_seconds;
}

OpId Controller::add_op(const OpInfo& info) {
    const std::string key = info.key();
    if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second;
    const auto id = static_cast<OpId>(ops_.size());
    by_key_.emplace(key, id);
    OpState& state = ops_.emplace_back();
    state.info = info;
    if (const auto saved = profile_ops_.find(key); saved != profile_ops_.end() && !info.container) {
        const model::ProfileOp& op = *saved->second;
        state.reference = op.reference;
        state.profile_width = op.width;
        if (!cheap(state)) {
            explorer_.add(id, info.kind, info.elements);
            explorer_.restore(id, model::curve_of(op));
        }
    } else {
        state.first.reserve(kFirstSamples);
    }
    for (std::size_t arm = 0; arm < arms_.size(); ++arm)
        rows_[arm].push_back(width_row(arms_[arm], view(id), settings_.budget, settings_.coarse));
    return id;
}

void Controller::freeze(OpId id, std::vector<OpId>& frozen) {
    OpState& state = ops_[id];
    const auto begin = state.first.begin() + kFirstSkipped;
    const auto middle = begin + (state.first.end() - begin) / 2;
    std::nth_element(begin, middle, state.first.end());
    state.reference = std::max(1e-9, static_cast<double>(*middle));
    state.first = {};
    if (!cheap(state)) explorer_.add(id, state.info.kind, state.info.elements);
    frozen.push_back(id);
}

void Controller::sample(const OpSample& sample, std::vector<OpId>& frozen) {
    OpState& state = ops_[sample.op];
    if (state.info.container) return;
    if (state.reference == 0.0) {
        // Only the program's own way may set the yardstick (or the one arm there is, when nothing is
        // compared).
        if (!sample.plain && !fixed_) return;
        state.narrowed = state.narrowed || !sample.plain || sample.bounded;
        state.first.push_back(static_cast<float>(sample.seconds));
        if (state.first.size() == kFirstSamples) freeze(sample.op, frozen);
        return;
    }
    work_ += state.reference;
    if (directive_.record_all) {
        state.work += state.reference;
        if (sample.solo) state.solo_work += state.reference;
    }
    if (current_) {
        state.phase = *current_;
        Phase& phase = *phases_[static_cast<std::size_t>(*current_)];
        if (phase.state() == State::learn) phase.finder.occurred(sample.op, work_, sample.begin);
    } else if (finder_since_) {
        finder_.occurred(sample.op, work_, sample.begin);
    }
    if (cheap(state)) return;
    if (sample.builds) {
        if (sample.assigned) unused_seconds_ += sample.seconds - state.reference;
        return explorer_.add_time(sample.op, sample.seconds);
    }
    if (sample.assigned) ++assigned_samples_;
    double& latest = sample.assigned ? state.asked_at : state.counted_at;
    if (sample.begin - latest < spacing()) {
        if (sample.assigned) unused_seconds_ += sample.seconds - state.reference;
        return explorer_.add_time(sample.op, sample.seconds);
    }
    latest = sample.begin;
    explorer_.record(sample.op,
                     {sample.width > 0 ? sample.width : settings_.budget, sample.solo, sample.seconds},
                     sample.assigned);
}

double Controller::spacing() const {
    const double period = current() != nullptr ? current()->period() : 0.0;
    return period > 0.0 ? kSpacingPeriods * period : kSpacingSeconds;
}

bool Controller::plan(double now) {
    std::vector<model::Assignment> next;
    const Phase* phase = current();
    if (phase != nullptr && phase->state() == State::explore) {
        const double left = settings_.explorer.share * (now - started_) - explorer_.spent() - unused_seconds_;
        if (left >= 0.0) next = explorer_.plan(now - started_);
        std::erase_if(next, [&](const auto& wish) { return now - ops_[wish.op].asked_at < spacing(); });
    }
    const auto same = [](const model::Assignment& a, const model::Assignment& b) {
        return a.op == b.op && a.width == b.width;
    };
    if (next.size() == assignments_.size() &&
        std::equal(next.begin(), next.end(), assignments_.begin(), same))
        return false;
    assignments_ = std::move(next);
    return true;
}

// --- windows
// -------------------------------------------------------------------------------------------------

const Phase* Controller::current() const {
    return current_ ? phases_[static_cast<std::size_t>(*current_)].get() : nullptr;
}

const Phase* Controller::longest() const {
    const Phase* best = nullptr;
    for (const auto& phase : phases_)
        if (best == nullptr || phase->seconds() > best->seconds()) best = phase.get();
    return best;
}

State Controller::state() const {
    return current() != nullptr ? current()->state() : State::learn;
}

void Controller::window_ended(const Window& window, double now) {
    // With the settling before it, which never lasts longer than one is willing to wait.
    const double elapsed = std::min(now - last_end_, window.rested + window.wall + directive_.patience);
    last_end_ = now;
    steady_ = false;
    if (window.stopped) return next_directive(now);
    if (window.total_work() <= 0.0 || window.unreferenced_share() > kUnreferencedShare) {
        strange_window(window, elapsed, now);
        return next_directive(now);
    }
    strange_windows_ = 0;
    if (!finder_since_ && !current_) finder_since_ = now;
    const std::optional<PhaseId> phase = watch_.add(window.work);
    unknown_windows_ = phase ? 0 : unknown_windows_ + 1;
    if (phase && phase != current_) {
        enter_phase(*phase, now);
    } else if (current_) {
        Phase& now_in = *phases_[static_cast<std::size_t>(*current_)];
        steady_ = phase.has_value() && (phases_.size() == 1 || now - phase_since_ > kSteadySeconds);
        if (phase)
            advance(now_in, window, elapsed);
        else
            now_in.skip(window, elapsed);
    }
    next_directive(now);
}

// Ops without a reference: a new mix, or one whose shapes never repeat.
void Controller::strange_window(const Window& window, double elapsed, double now) {
    ++strange_windows_;
    finder_.clear();
    finder_since_.reset();
    if (current_) phases_[static_cast<std::size_t>(*current_)]->skip(window, elapsed);
    if (learning_ || strange_windows_ < kStrangeWindows || window.total_work() + window.work[0] <= 0.0)
        return;
    learning_ = true;
    learn_since_ = now;
    current_.reset();
}

void Controller::enter_phase(PhaseId phase, double now) {
    current_ = phase;
    phase_since_ = now;
    fruitless_windows_ = 0;
    while (static_cast<std::size_t>(phase) >= phases_.size()) {
        const double already = learning_ ? now - learn_since_ : 0.0;
        phases_.push_back(std::make_unique<Phase>(fixed_, Random(random_()), already));
        phases_.back()->finder = finder_;
    }
    learning_ = false;
    finder_.clear();
    finder_since_.reset();
}

void Controller::advance(Phase& phase, const Window& window, double elapsed) {
    if (phase.window_ended(window, elapsed)) {
        fruitless_windows_ = 0;
        if (!phase.trusts_curves()) explorer_.clear();
    }
    if (phase.state() == State::learn) {
        const bool found = phase.in_state() >= kLearnLeast && phase.finder.best().has_value();
        if (found || phase.in_state() >= kLearnMost) end_learning(phase);
    } else if (phase.state() == State::explore && explored(phase)) {
        choose_arms(phase);
    }
}

void Controller::end_learning(Phase& phase) {
    phase.end_learning();
    if (fixed_) {
        if (!arms_[static_cast<std::size_t>(*fixed_)].needs_curves()) choose_arms(phase);
        return;
    }
    if (const auto arm = profile_arm(watch_.mix(*current_))) {
        rebuild_tables();
        find_gains();
        phase.start_guard(*arm);
    } else if (const auto one = std::find_if(arms_.begin(), arms_.end(),
                                             [](const Arm& known) { return known.name == "uniform-1"; });
               one != arms_.end()) {
        phase.start_quick_race(static_cast<ArmId>(one - arms_.begin()));
    }
}

bool Controller::explored(const Phase& phase) {
    // Wishes that nobody fulfils belong to ops of another phase.
    fruitless_windows_ = assigned_samples_ == 0 && !assignments_.empty() ? fruitless_windows_ + 1 : 0;
    assigned_samples_ = 0;
    return explorer_.done() || fruitless_windows_ >= kFruitlessWindows || phase.in_state() > kExploreMost;
}

// What two arms could differ by, as a share of the work: by the predicted times of the ops that they run at
// different widths, and at least by kFreedShare of those ops' work, since a narrower op leaves CPUs to
// others.
double Controller::difference(ArmId a, ArmId b) const {
    const auto& left = rows_[static_cast<std::size_t>(a)];
    const auto& right = rows_[static_cast<std::size_t>(b)];
    const auto seconds = [this](OpId op, int width) {
        return explorer_.predict(op, width > 0 ? width : settings_.budget);
    };
    if (arms_[static_cast<std::size_t>(a)].gate != arms_[static_cast<std::size_t>(b)].gate) return 1.0;
    double differing = 0.0;
    double all = 0.0;
    for (OpId op = 0; op < ops_.size(); ++op) {
        if (current_ && ops_[op].phase != *current_) continue;
        all += ops_[op].work;
        if (left[op] == right[op]) continue;
        double most = 0.0;
        for (std::size_t bucket = 0; bucket < kIdleBuckets; ++bucket) {
            if (left[op][bucket] == right[op][bucket]) continue;
            const auto one = seconds(op, left[op][bucket]);
            const auto other = seconds(op, right[op][bucket]);
            const bool known = one && other && *one > 0.0 && *other > 0.0;
            most = std::max(most, known ? std::abs(*one - *other) / std::max(*one, *other) : 1.0);
        }
        differing += ops_[op].work * std::max(most, kFreedShare);
    }
    return all > 0.0 ? differing / all : 0.0;
}

double Controller::share(const std::function<double(OpId)>& part) const {
    double sum = 0.0;
    double all = 0.0;
    for (OpId op = 0; op < ops_.size(); ++op) {
        if (current_ && ops_[op].phase != *current_) continue;
        all += ops_[op].work;
        if (ops_[op].work > 0.0) sum += ops_[op].work * part(op);
    }
    return all > 0.0 ? sum / all : 0.0;
}

bool Controller::hopeless(ArmId arm) const {
    if (share([this](OpId op) { return ops_[op].solo_work / ops_[op].work; }) < kSoloShare) return false;
    return share([&](OpId op) {
               const int width = row(op, arm)[idle_bucket(settings_.budget)];
               const auto set = width > 0 ? explorer_.predict(op, width) : std::nullopt;
               const auto own = explorer_.predict(op, settings_.budget);
               return set && own && *own > 0.0 ? *set / *own : 1.0;
           }) > settings_.budget;
}

void Controller::choose_arms(Phase& phase) {
    rebuild_tables();
    if (!fixed_) find_gains();
    std::vector<ArmId> distinct{kPassThrough};
    std::map<ArmId, std::string> skipped;
    for (ArmId arm = 1; arm < static_cast<ArmId>(arms_.size()) && !fixed_; ++arm) {
        if (hopeless(arm)) {
            skipped[arm] = "slower by the curves";
            continue;
        }
        const auto twin = std::find_if(distinct.begin(), distinct.end(), [&](ArmId other) {
            return arms_[static_cast<std::size_t>(other)].kind != ArmKind::random &&
                   difference(arm, other) < kSameArms;
        });
        if (twin == distinct.end())
            distinct.push_back(arm);
        else
            skipped[arm] = "same as " + arms_[static_cast<std::size_t>(*twin)].name;
    }
    phase.start_race(distinct, skipped);
}

void Controller::next_directive(double now) {
    const bool fixed_now = fixed_ && !arms_[static_cast<std::size_t>(*fixed_)].needs_curves();
    bool hopeless = false;
    if (current_ && !learning_) {
        directive_ = phases_[static_cast<std::size_t>(*current_)]->directive();
        // What was chosen or is tried in a phase is nothing that a mix which is none should run under.
        if (unknown_windows_ >= kPhaseConfirm && !fixed_)
            directive_.arm = kPassThrough, directive_.explore = false;
    } else {
        hopeless = now - learn_since_ > kLearnGiveUp;
        directive_ = Directive{};
        directive_.record_all = !hopeless;
        directive_.length = hopeless ? 1.0 : kLearnWindow;
        directive_.patience = directive_.length;
        if (const auto anchor = finder_.best()) align(directive_, *anchor, finder_.period(*anchor));
    }
    if (fixed_now) directive_.arm = *fixed_;
    // A program that changes is watched all the time, unless there is no telling what it does.
    if (!steady_) directive_.rest = hopeless && !fixed_ ? kRest : 0.0;
}

// --- tables
// --------------------------------------------------------------------------------------------------

OpView Controller::view(OpId id) const {
    OpView view;
    view.seconds = [this, id](int width) { return explorer_.predict(id, width); };
    view.optimum = [this, id](const std::vector<int>& widths) { return explorer_.optimum(id, widths); };
    const OpState& state = ops_[id];
    if (const auto type = type_optimum_.find(state.info.kind); type != type_optimum_.end())
        view.type_optimum = type->second;
    view.profile_width = state.profile_width;
    return view;
}

void Controller::rebuild_tables() {
    const std::vector<int> widths = mixed_widths(settings_.budget, settings_.coarse);
    std::unordered_map<std::string, double> dearest;
    type_optimum_.clear();
    for (OpId id = 0; id < ops_.size(); ++id) {
        const OpState& state = ops_[id];
        const auto optimum = explorer_.optimum(id, widths);
        double& cost = dearest[state.info.kind];
        if (!optimum || state.reference < cost) continue;
        cost = state.reference;
        type_optimum_[state.info.kind] = *optimum;
    }
    for (std::size_t arm = 0; arm < arms_.size(); ++arm)
        for (OpId id = 0; id < ops_.size(); ++id)
            if (ops_[id].phase == -1 ||
                ops_[id].phase == current_)  // another phase has decided by what it knew
                rows_[arm][id] = width_row(arms_[arm], view(id), settings_.budget, settings_.coarse);
    tables_changed_ = true;
}

std::vector<KeyCosts> Controller::costs() const {
    const std::vector<int> widths = mixed_widths(settings_.budget, settings_.coarse);
    std::vector<KeyCosts> keys;
    for (OpId id = 0; id < ops_.size(); ++id) {
        KeyCosts& key = keys.emplace_back(KeyCosts{ops_[id].info.source + "/" + ops_[id].info.kind, {}});
        std::vector<double> points;
        for (const int width : widths)
            if (const auto seconds = explorer_.predict(id, width)) points.push_back(*seconds);
        if (points.size() == widths.size()) key.seconds = between(widths, points, settings_.coarse);
    }
    return keys;
}

void Controller::find_gains() {
    gains_ = {};
    std::array<double, std::tuple_size_v<Gains>> seconds{};
    for (OpId id = 0; id < ops_.size(); ++id) {
        const OpState& state = ops_[id];
        if (state.info.container || state.work <= 0.0 || (current_ && state.phase != *current_)) continue;
        const auto own = explorer_.predict(id, settings_.budget);
        for (std::size_t point = 0; point < seconds.size() && 1 << point <= settings_.budget; ++point) {
            const auto at = explorer_.predict(id, 1 << point);
            seconds[point] += state.work * (at && own && *own > 0.0 ? *at / *own : 1.0);
        }
    }
    for (std::size_t point = 0; point < seconds.size() && seconds[point] > 0.0; ++point)
        gains_[point] = static_cast<float>(seconds[0] / seconds[point]);
}

bool Controller::take_tables_changed() {
    const bool changed = tables_changed_;
    tables_changed_ = false;
    return changed;
}

WidthRow Controller::row(OpId op, ArmId arm) const {
    return rows_[static_cast<std::size_t>(arm)][op];
}

int Controller::width(OpId op, const Phase& phase) const {
    return row(op, phase.arm())[kIdleBuckets - 1];
}

}  // namespace corun::policy
