// SPDX-License-Identifier: Apache-2.0
#include "policy/epoch.h"

#include <numeric>

namespace corun::policy {
namespace {

/// Shares of referenced work; empty when there is none. Bucket 0 is left out: it is measured, not reference,
/// time, and so depends on the arm.
std::optional<Histogram> referenced_shares(Histogram work) {
    work[0] = 0.0;
    const double all = std::accumulate(work.begin(), work.end(), 0.0);
    if (!(all > 0.0)) return std::nullopt;
    for (double& share : work) share /= all;
    return work;
}

double unreferenced(const Histogram& work) {
    const double all = std::accumulate(work.begin(), work.end(), 0.0);
    return all > 0.0 ? work[0] / all : 1.0;
}

}  // namespace

std::optional<PhaseId> EpochWatch::add(const Histogram& work) {
    if (unreferenced(work) > kUnreferencedShare) return std::nullopt;
    const std::optional<Histogram> shares = referenced_shares(work);
    if (!shares) return std::nullopt;
    const std::optional<PhaseId> phase = nearest(*shares);
    if (!phase) return confirm(*shares);

    candidate_count_ = 0;
    current_ = phase;
    Histogram& known = known_[static_cast<std::size_t>(*phase)];
    // Only windows well inside the phase are followed: one that straddles a change is a mixture with another
    // phase.
    if (mix_distance(known, *shares) <= kMixTolerance) {
        for (std::size_t i = 0; i < known.size(); ++i) known[i] += kPhaseFollow * ((*shares)[i] - known[i]);
    }
    return phase;
}

std::optional<PhaseId> EpochWatch::nearest(const Histogram& shares) const {
    std::optional<PhaseId> found;
    double distance = kPhaseDistance;
    for (std::size_t i = 0; i < known_.size(); ++i) {
        const double here = mix_distance(known_[i], shares);
        if (here > distance) continue;
        found = static_cast<PhaseId>(i);
        distance = here;
    }
    return found;
}

/// In a transition, windows are mixtures in changing proportions, so that they rarely agree kPhaseConfirm
/// times in a row.
std::optional<PhaseId> EpochWatch::confirm(const Histogram& shares) {
    if (candidate_count_ > 0 && mix_distance(candidate_, shares) > kMixTolerance) candidate_count_ = 0;
    if (candidate_count_ == 0) candidate_ = {};
    add_to(candidate_, shares);
    if (++candidate_count_ < kPhaseConfirm || phases() >= kPhasesMax) return std::nullopt;
    candidate_count_ = 0;
    current_ = learn(candidate_);
    return current_;
}

PhaseId EpochWatch::learn(const Histogram& mix) {
    known_.push_back(*referenced_shares(mix));
    return phases() - 1;
}

PhaseId EpochWatch::restore(const Histogram& mix) {
    const std::optional<Histogram> shares = referenced_shares(mix);
    if (!shares) return -1;
    const std::optional<PhaseId> phase = nearest(*shares);
    return phase ? *phase : learn(*shares);
}

}  // namespace corun::policy
