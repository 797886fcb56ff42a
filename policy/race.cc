// SPDX-License-Identifier: Apache-2.0
#include "policy/race.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "policy/statistics.h"

namespace corun::policy {

Race::Race(std::vector<ArmId> arms, Random random, int warm_rounds)
    : arms_(std::move(arms)), live_(arms_), rates_(arms_.size()), warm_left_(warm_rounds), random_(random) {
    if (arms_.empty()) throw std::invalid_argument("a race needs an arm");
    if (arms_.size() == 1) winner_ = arms_.front();
    start_round();
}

ArmId Race::next() const {
    return winner_ ? *winner_ : order_[round_.size()];
}

ArmId Race::winner() const {
    return winner_.value();
}

bool Race::stuck() const {
    // More than one whole round of them, so that one odd first window in a race of many arms is not called
    // stuck.
    const int rounds_worth = 2 * kDiscardsPerArm * static_cast<int>(live_.size());
    return !finished() && discarded_since_round_ >= std::max(kStuckDiscards, rounds_worth);
}

void Race::start_round() {
    order_ = live_;
    std::shuffle(order_.begin(), order_.end(), random_);
    round_.clear();
    round_mix_ = {};
    discarded_in_round_ = 0;
}

void Race::discard() {
    ++discarded_;
    ++discarded_in_round_;
    ++discarded_since_round_;
    if (discarded_in_round_ > kDiscardsPerArm * static_cast<int>(live_.size())) start_round();
}

void Race::add(const Window& window) {
    if (finished()) return;
    const bool odd = !round_.empty() && mix_distance(window.work, round_mix_) > kMixTolerance;
    if (window.arm != next() || !window.usable() || odd) {
        discard();
        return;
    }
    round_.push_back(window);
    add_to(round_mix_, window.work);
    if (round_.size() == order_.size()) close_round();
}

void Race::close_round() {
    discarded_since_round_ = 0;
    if (warm_left_ > 0) {
        --warm_left_;
        return start_round();
    }
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    for (auto& row : rates_) row.push_back({kNone, kNone});
    for (const Window& window : round_) {
        rates_[index(window.arm)].back() = {window.log_rate(false), window.log_rate(true)};
        input_shares_.push_back(window.input_share());
    }
    ++rounds_;
    look();
    if (!finished()) start_round();
}

void Race::look() {
    const auto at = std::find(kRaceLooks.begin(), kRaceLooks.end(), rounds_);
    if (at == kRaceLooks.end()) return;
    by_open_time_ = by_open_time_ || median(input_shares_) > kInputShare;
    drop_losers();
    if (live_.size() == 1 || rounds_ == kRaceLooks.back()) return finish();
    // Choosing among arms that are all about as good needs no proof of who is first.
    for (const ArmId arm : {kPassThrough, best()})
        if (good_enough(arm)) return finish();
}

void Race::drop(ArmId arm) {
    std::erase(live_, arm);
    if (live_.size() == 1) return finish();
    start_round();
}

ArmId Race::conclude() {
    if (!finished()) finish();
    return *winner_;
}

Estimate Race::lead_over(ArmId arm, ArmId other) const {
    Estimate lead = winsorised(differences(arm, other));
    if (rounds_ < kRacePooledRounds) {
        // The pooled spread gives the degrees of freedom that a drop after 3 rounds needs; the pair's own
        // spread, where larger, warns that these two arms are noisier than the rest.
        lead.error = std::max(lead.error, pooled_error());
        lead.freedom = (rounds_ - 1) * static_cast<int>(live_.size() - 1);
    }
    return lead;
}

void Race::drop_losers() {
    const ArmId leader = best();
    const auto rivals = static_cast<double>(live_.size() - 1);
    const double tail = kRaceError / static_cast<double>(kRaceLooks.size()) / rivals;
    const double margin = std::log1p(kIndifference);
    bool leader_stays = true;
    std::vector<ArmId> kept;
    for (const ArmId arm : live_) {
        if (arm == leader) continue;
        const Estimate lead = lead_over(arm, leader);
        const double reach = student_quantile(tail, lead.freedom) * lead.error;
        const bool same = lead.mean - reach > -margin && lead.mean + reach < margin;
        const bool worse = lead.mean + reach < 0.0;
        if (same && arm == kPassThrough) leader_stays = false;  // between equals, the program as it is
        if ((!same && !worse) || (same && arm == kPassThrough)) kept.push_back(arm);
    }
    if (leader_stays) kept.push_back(leader);
    live_ = std::move(kept);
}

bool Race::good_enough(ArmId arm) const {
    if (rounds_ < kGoodEnoughRounds || std::find(live_.begin(), live_.end(), arm) == live_.end())
        return false;
    const double tail = kGoodEnoughError / static_cast<double>(live_.size() - 1);
    return std::all_of(live_.begin(), live_.end(), [&](ArmId other) {
        if (other == arm) return true;
        const Estimate lead = lead_over(other, arm);
        return lead.mean + student_quantile(tail, lead.freedom) * lead.error < std::log1p(kIndifference);
    });
}

void Race::finish() {
    const bool plain_lives = std::find(live_.begin(), live_.end(), kPassThrough) != live_.end();
    const ArmId leader = rounds_ > 0 ? best() : live_.front();
    winner_ = leader;
    if (!plain_lives || leader == kPassThrough) return;
    const double behind = winsorised(differences(kPassThrough, leader)).mean;
    if (behind > -std::log1p(kIndifference)) winner_ = kPassThrough;
}

std::size_t Race::index(ArmId arm) const {
    return static_cast<std::size_t>(std::find(arms_.begin(), arms_.end(), arm) - arms_.begin());
}

double Race::rate(ArmId arm, int round) const {
    const Rates& rates = rates_[index(arm)][static_cast<std::size_t>(round)];
    return by_open_time_ ? rates.open : rates.wall;
}

Race::Row Race::differences(ArmId arm, ArmId other) const {
    Row row;
    for (int round = 0; round < rounds_; ++round) {
        const double difference = rate(arm, round) - rate(other, round);
        if (!std::isnan(difference)) row.push_back(difference);
    }
    return row;
}

Race::Row Race::round_means() const {
    Row means(static_cast<std::size_t>(rounds_), 0.0);
    for (int round = 0; round < rounds_; ++round) {
        for (const ArmId arm : live_) means[static_cast<std::size_t>(round)] += rate(arm, round);
        means[static_cast<std::size_t>(round)] /= static_cast<double>(live_.size());
    }
    return means;
}

/// Two-way layout (arms x rounds): what neither the arm nor the round explains is noise.
double Race::pooled_error() const {
    const Row means = round_means();
    double squares = 0.0;
    for (const ArmId arm : live_) {
        Row row;
        for (int round = 0; round < rounds_; ++round) {
            row.push_back(rate(arm, round) - means[static_cast<std::size_t>(round)]);
        }
        const double mean = plain_mean(row).mean;
        for (const double x : row) squares += (x - mean) * (x - mean);
    }
    const double freedom = static_cast<double>(live_.size() - 1) * (rounds_ - 1);
    return std::sqrt(2.0 * squares / freedom / rounds_);
}

/// By the distance from the mean of the live arms in each round, so that drift between rounds cancels.
ArmId Race::best() const {
    const Row means = round_means();
    ArmId leader = live_.front();
    double lead = -std::numeric_limits<double>::infinity();
    for (const ArmId arm : live_) {
        Row row;
        for (int round = 0; round < rounds_; ++round) {
            row.push_back(rate(arm, round) - means[static_cast<std::size_t>(round)]);
        }
        const double mean = winsorised(std::move(row)).mean;
        if (mean > lead) {
            leader = arm;
            lead = mean;
        }
    }
    return leader;
}

std::optional<double> Race::estimate(ArmId arm) const {
    if (index(arm) == arms_.size()) return std::nullopt;
    const bool plain_runs = index(kPassThrough) < arms_.size();
    const Row row = differences(arm, plain_runs ? kPassThrough : arms_.front());
    if (row.empty()) return std::nullopt;
    return winsorised(row).mean;
}

}  // namespace corun::policy
