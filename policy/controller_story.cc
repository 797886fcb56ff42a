// SPDX-License-Identifier: Apache-2.0
// What a controller tells people and profiles of its decisions.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "policy/controller.h"

namespace corun::policy {
namespace {

constexpr double kProfileDistance = 0.15;

std::string percent(double log_ratio) {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f", 100.0 * (std::exp(log_ratio) - 1.0));
    return text;
}

std::string decided(const Phase& phase) {
    if (!phase.decided_after()) return "not decided yet";
    char text[48];
    std::snprintf(text, sizeof text, "decided after %.0f s", *phase.decided_after());
    return text;
}

}  // namespace

std::string Controller::explain(const Phase& phase) const {
    const std::string& arm = arms_[static_cast<std::size_t>(phase.arm())].name;
    switch (phase.state()) {
        case State::learn:
        case State::explore:
            return "still learning what the ops cost; the program runs as it is";
        case State::race:
            return "the arms are being compared; nothing is decided yet";
        case State::fixed:
            return settings_.observe ? "observed only; nothing was changed"
                                     : arm + " was asked for and is in force";
        case State::guard:
            if (const auto gain = phase.gain()) {
                return percent(gain->estimate) + " % faster than without corun, 95 % interval " +
                       percent(gain->low) + " to " + percent(gain->high) + " %, " + decided(phase) + " (" +
                       arm + ")";
            }
            return arm + " won the race, " + decided(phase) + "; its gain is still being measured";
        case State::stood_down:
            break;
    }
    const bool harm = phase.verdict() == Verdict::harm;
    return std::string("corun stands down, ") + decided(phase) +
           (harm ? ": what it tried made the program slower"
                 : ": no arm is surely faster than the program as it is");
}

std::string Controller::explain_op(OpId id, const Phase& phase) const {
    const OpState& state = ops_[id];
    if (state.info.container) return "a label or holds other ops: nothing is set";
    if (state.reference == 0.0) return "too few calls to know its cost";
    const Arm& arm = arms_[static_cast<std::size_t>(phase.arm())];
    const std::string short_note = cheap(state) ? "; too short to be timed" : "";
    if (arm.kind == ArmKind::pass_through)
        return "the program's own width: " + std::string(state_name(phase.state())) + short_note;
    if (!arm.needs_curves()) return arm.name + short_note;
    if (cheap(state)) return "the program's own width: too short to matter";
    const model::Curve* curve = explorer_.curve(id);
    if (curve == nullptr || curve->solo_points().size() < 2)
        return width(id, phase) != 0 ? arm.name + ", guessed from ops like it"
                                     : "the program's own width: never seen alone at another";
    return arm.name + ", from its curve";
}

std::optional<ArmId> Controller::profile_arm(const Histogram& mix) const {
    if (!profile_) return std::nullopt;
    const model::ProfilePhase* nearest = nullptr;
    double distance = kProfileDistance;
    for (const model::ProfilePhase& phase : profile_->phases) {
        if (phase.histogram.size() != kHistogramBuckets) continue;
        Histogram other{};
        std::copy(phase.histogram.begin(), phase.histogram.end(), other.begin());
        const double d = mix_distance(mix, other);
        if (d <= distance) distance = d, nearest = &phase;
    }
    if (nearest == nullptr) return std::nullopt;
    for (std::size_t arm = 0; arm < arms_.size(); ++arm)
        if (arms_[arm].name == nearest->arm) return static_cast<ArmId>(arm);
    return std::nullopt;
}

void Controller::restore(model::Profile profile) {
    if (!profile_) profile_.emplace();
    std::move(profile.ops.begin(), profile.ops.end(), std::back_inserter(profile_->ops));
    std::move(profile.phases.begin(), profile.phases.end(), std::back_inserter(profile_->phases));
    profile_ops_.clear();  // they have moved
    for (const model::ProfileOp& op : profile_->ops) profile_ops_.insert_or_assign(op.name, &op);
}

model::Profile Controller::export_profile(const model::Identity& identity) const {
    model::Profile profile;
    profile.identity = identity;
    const Phase* main = longest();
    for (OpId id = 0; id < ops_.size(); ++id) {
        const OpState& state = ops_[id];
        if (state.info.container || state.reference == 0.0) continue;
        // Short at one thread: the next run would take it for cheap at its own width.
        if (state.narrowed && state.reference < settings_.cheap_seconds && !trivial(state)) continue;
        model::ProfileOp& op = profile.ops.emplace_back();
        op.name = state.info.key();
        op.reference = state.reference;
        const Phase* phase = state.phase >= 0 ? phases_[static_cast<std::size_t>(state.phase)].get() : main;
        op.width = phase != nullptr ? width(id, *phase) : 0;
        if (const model::Curve* curve = explorer_.curve(id)) model::put_curve(op, *curve);
    }
    for (std::size_t i = 0; i < phases_.size(); ++i) {
        const Phase& phase = *phases_[i];
        if (!phase.decided_after() || phase.state() == State::fixed) continue;
        const Histogram& mix = watch_.mix(static_cast<PhaseId>(i));
        const auto gain = phase.gain();
        profile.phases.push_back({{mix.begin(), mix.end()},
                                  arms_[static_cast<std::size_t>(phase.arm())].name,
                                  gain ? gain->estimate : 0.0});
    }
    return profile;
}

}  // namespace corun::policy
