// SPDX-License-Identifier: Apache-2.0
#include "policy/guard.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "policy/statistics.h"

namespace corun::policy {
namespace {

constexpr double kLookTail = kGuardError / 2.0 / static_cast<double>(kGuardLooks.size());
constexpr double kLateTail = kGuardLateError / 2.0;
constexpr double kShownTail = 0.05 / 2.0;
constexpr std::size_t kBlocksKept = kGuardLooks.back();
constexpr int kBlockWindows = 4;
constexpr int kBlockPlain = 2;  ///< windows of pass-through in a block
constexpr double kMostFiller = 10000.0;

Interval around(const Estimate& estimate, double upper_tail) {
    const double reach = student_quantile(upper_tail, estimate.freedom) * estimate.error;
    return {estimate.mean, estimate.mean - reach, estimate.mean + reach};
}

}  // namespace

Guard::Guard(ArmId arm, Random random, bool clear) : arm_(arm), clear_(clear), random_(random) {
    start_block();
}

ArmId Guard::next() const {
    if (stand_down()) return kPassThrough;
    return filler_ > 0 ? arm_ : order_[windows_.size()];
}

void Guard::start_block() {
    const bool arm_first = std::bernoulli_distribution(0.5)(random_);
    const ArmId outer = arm_first ? arm_ : kPassThrough;
    const ArmId inner = arm_first ? kPassThrough : arm_;
    order_ = {outer, inner, inner, outer};
    windows_.clear();
    block_mix_ = {};
    discarded_in_block_ = 0;
}

void Guard::add(const Window& window) {
    if (stand_down()) return;
    if (filler_ > 0) {
        --filler_;
        return;
    }
    const bool odd = !windows_.empty() && mix_distance(window.work, block_mix_) > kMixTolerance;
    if (window.arm != next() || !window.usable() || odd) {
        ++discarded_;
        ++discarded_in_block_;
        ++discarded_since_block_;
        if (discarded_in_block_ > kDiscardsPerArm * kBlockWindows) start_block();
        return;
    }
    windows_.push_back(window);
    add_to(block_mix_, window.work);
    if (windows_.size() == order_.size()) close_block();
}

void Guard::close_block() {
    Block block;
    double arm_slowest = 0.0;
    double plain_slowest = 0.0;
    for (const Window& window : windows_) {
        const bool plain = window.arm == kPassThrough;
        block.ratio += (plain ? -0.5 : 0.5) * window.log_rate(false);
        (plain ? block.plain_work : block.arm_work) += window.total_work();
        (plain ? block.plain_wall : block.arm_wall) += window.wall;
        double& slowest = plain ? plain_slowest : arm_slowest;
        slowest = std::max(slowest, window.slowest_period);
    }
    const bool timed = arm_slowest > 0.0 && plain_slowest > 0.0;
    block.tail = timed ? std::log(arm_slowest / plain_slowest) : std::numeric_limits<double>::quiet_NaN();
    if (blocks_.size() == kBlocksKept) blocks_.erase(blocks_.begin());
    blocks_.push_back(block);
    ++blocks_closed_;
    discarded_since_block_ = 0;

    const int last_look = kGuardLooks.back();
    const bool planned =
        std::find(kGuardLooks.begin(), kGuardLooks.end(), blocks_closed_) != kGuardLooks.end();
    const bool late = blocks_closed_ > last_look && (blocks_closed_ - last_look) % kGuardLateEvery == 0;
    if (planned || late) look(planned ? kLookTail : kLateTail);
    look_recent();
    if (blocks_closed_ >= kClearBlocks)
        clear_ = rate_interval(kClearTail, kBlocksKept).low > std::log1p(kClearGain);
    // Of time, not of windows: where it is many times slower so is each of its windows.
    const double plain = block.plain_wall / block.arm_wall;
    const double more = kBlockPlain * (plain * (1.0 / pass_through_share() - 1.0) - 1.0);
    filler_ = static_cast<int>(std::clamp(std::round(more), 0.0, kMostFiller));
    start_block();
}

void Guard::look(double upper_tail) {
    Interval judged = rate_interval(upper_tail, kBlocksKept);
    const Interval untrimmed = totals_interval(upper_tail);
    const double wanted = std::log1p(kNoGain);
    disputed_ = std::abs(untrimmed.estimate - judged.estimate) > std::log1p(kTotalsAgree);
    certain_ = judged.low > wanted && (!disputed_ || untrimmed.low > wanted);
    const bool by_totals = disputed_ && blocks_closed_ >= kTotalsBlocks;
    if (by_totals) judged = untrimmed;
    const Ground ground = by_totals ? Ground::totals : Ground::rate;
    if (judged.high < 0.0) {
        stand_down_by(Verdict::harm, ground);
    } else if (judged.high < wanted) {
        stand_down_by(Verdict::no_gain, ground);
    } else if (blocks_closed_ >= kTotalsBlocks && tails_worse(upper_tail)) {
        stand_down_by(Verdict::harm, Ground::tails);
    } else {
        verdict_ = judged.low > 0.0 ? Verdict::gain : Verdict::neutral;
    }
}

/// Once the gain is certain, blocks are rare and the old ones outvote the new for an hour: an arm that turned
/// bad must be found by the new ones alone. Also in the endless time after the last planned look.
void Guard::look_recent() {
    const bool proven = certain_ || blocks_closed_ > kGuardLooks.back();
    if (stand_down() || !proven || blocks_closed_ < kRecentBlocks || blocks_closed_ % kRecentEvery != 0)
        return;
    if (rate_interval(kLateTail, kRecentBlocks).high < 0.0) stand_down_by(Verdict::harm, Ground::recent);
}

void Guard::stand_down_by(Verdict verdict, Ground ground) {
    verdict_ = verdict;
    ground_ = ground;
}

double Guard::pass_through_share() const {
    if (stand_down()) return 1.0;
    // Until there is an interval to show, looks are frequent, unless they cost too much.
    if (blocks_closed_ < kIntervalBlocks) return clear_ ? kShareThen : kShareFirst;
    return certain_ || (blocks_closed_ >= kShareThenBlocks && !disputed_) ? kShareLast : kShareThen;
}

Interval Guard::rate_interval(double upper_tail, std::size_t latest) const {
    std::vector<double> ratios;
    for (std::size_t i = blocks_.size() - std::min(latest, blocks_.size()); i < blocks_.size(); ++i) {
        ratios.push_back(blocks_[i].ratio);
    }
    return around(winsorised(std::move(ratios)), upper_tail);
}

/// Log ratio of sums of work over sums of wall time; its error by leaving out each block in turn.
Interval Guard::totals_interval(double upper_tail) const {
    Block sum;
    for (const Block& block : blocks_) {
        sum.arm_work += block.arm_work;
        sum.arm_wall += block.arm_wall;
        sum.plain_work += block.plain_work;
        sum.plain_wall += block.plain_wall;
    }
    const auto without = [&sum](const Block& b) {
        return std::log((sum.arm_work - b.arm_work) / (sum.arm_wall - b.arm_wall)) -
               std::log((sum.plain_work - b.plain_work) / (sum.plain_wall - b.plain_wall));
    };
    std::vector<double> left;
    for (const Block& block : blocks_) left.push_back(without(block));
    // The spread of the leave-one-out figures is 1 / (n - 1) of that of the values behind them.
    Estimate estimate = plain_mean(left);
    estimate.error *= static_cast<double>(left.size() - 1);
    estimate.mean = without(Block{});
    return around(estimate, upper_tail);
}

std::vector<double> Guard::tails() const {
    std::vector<double> tails;
    for (const Block& block : blocks_) {
        if (!std::isnan(block.tail)) tails.push_back(block.tail);
    }
    return tails;
}

bool Guard::tails_worse(double upper_tail) const {
    const std::vector<double> known = tails();
    if (known.size() < static_cast<std::size_t>(kTotalsBlocks)) return false;
    return around(winsorised(known), upper_tail).low > std::log(kTailRatio);
}

std::optional<Interval> Guard::gain() const {
    if (blocks_closed_ < kIntervalBlocks) return std::nullopt;
    return rate_interval(kShownTail, kBlocksKept);
}

std::optional<Interval> Guard::totals() const {
    if (blocks_closed_ < kIntervalBlocks) return std::nullopt;
    return totals_interval(kShownTail);
}

std::optional<double> Guard::tail_ratio() const {
    const std::vector<double> known = tails();
    if (known.size() < static_cast<std::size_t>(kIntervalBlocks)) return std::nullopt;
    return std::exp(winsorised(known).mean);
}

}  // namespace corun::policy
