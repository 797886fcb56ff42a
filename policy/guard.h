// SPDX-License-Identifier: Apache-2.0
// Watches the chosen arm against pass-through for as long as the program runs, and stands it down.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "policy/window.h"

namespace corun::policy {

struct Interval {
    double estimate = 0.0;  ///< log ratio of work rates, arm over pass-through
    double low = 0.0;       ///< 95 %
    double high = 0.0;
};

enum class Verdict {
    undecided,  ///< not enough blocks yet
    gain,       ///< lower limit above 0: kept
    neutral,    ///< kept, nothing certain
    no_gain,    ///< stood down: upper limit below kNoGain
    harm,       ///< stood down: upper limit below 0, or tails / untrimmed totals surely worse
};

/// What a verdict of harm or no_gain rests on.
enum class Ground {
    none,    ///< the arm was not stood down
    rate,    ///< winsorised log ratio of work rates
    totals,  ///< untrimmed totals: rare stalls that winsorising hides
    tails,   ///< slowest periods surely more than kTailRatio times as long
    recent,  ///< the latest kRecentBlocks of an arm that had been proven good
};

/// ABBA / BAAB blocks by coin; the log ratio of a block is one observation; looks at 8, 16, ... 256 blocks
/// with the error shared among them, then every kGuardLateEvery blocks at the latest 256. Between two blocks
/// the arm runs filler windows, which are not compared; they set the pass-through share. Always judged on
/// wall time. A verdict that stands the arm down is final: a later retry takes a new Guard.
class Guard {
  public:
    /// @param clear a race has just found the arm surely better by kClearGain
    Guard(ArmId arm, Random random, bool clear = false);

    [[nodiscard]] ArmId next()
        const;  ///< the arm that the next window should run under; kPassThrough once stood down
    /// The window that answered next(). In a block, one that cannot be used or whose mix differs from the
    /// block's is discarded (and asked for again); a block in which too many were discarded is thrown away.
    void add(const Window& window);

    [[nodiscard]] Verdict verdict() const { return verdict_; }
    [[nodiscard]] bool stand_down() const {
        return verdict_ == Verdict::no_gain || verdict_ == Verdict::harm;
    }
    [[nodiscard]] Ground ground() const { return ground_; }
    [[nodiscard]] int blocks() const { return blocks_closed_; }  ///< completed in all
    [[nodiscard]] int discarded() const { return discarded_; }
    /// Windows keep being discarded (kStuckDiscards or more) and no block comes to its end.
    [[nodiscard]] bool stuck() const { return !stand_down() && discarded_since_block_ >= kStuckDiscards; }
    [[nodiscard]] bool in_block() const { return filler_ == 0; }  ///< the next window will be compared
    /// Winsorised, of the latest 256 blocks, not adjusted for repeated looks; nothing before kIntervalBlocks.
    [[nodiscard]] std::optional<Interval> gain() const;
    /// The same from the untrimmed totals (jackknife over blocks); nothing before kIntervalBlocks.
    [[nodiscard]] std::optional<Interval> totals() const;
    [[nodiscard]] double pass_through_share() const;  ///< that the schedule aims at now
    [[nodiscard]] std::optional<double> tail_ratio()
        const;  ///< slowest periods, arm over pass-through; the same

  private:
    struct Block {
        double ratio = 0.0;  ///< mean of the arm's two log rates minus that of pass-through's
        double tail = 0.0;   ///< log ratio of the slowest periods; NaN when not known
        double arm_work = 0.0, arm_wall = 0.0, plain_work = 0.0, plain_wall = 0.0;  ///< seconds
    };

    void start_block();
    void close_block();
    void look(double upper_tail);
    void look_recent();
    void stand_down_by(Verdict verdict, Ground ground);

    [[nodiscard]] Interval rate_interval(double upper_tail, std::size_t latest) const;
    [[nodiscard]] Interval totals_interval(double upper_tail) const;
    [[nodiscard]] bool tails_worse(double upper_tail) const;
    [[nodiscard]] std::vector<double> tails() const;

    ArmId arm_;
    std::array<ArmId, 4> order_{};  ///< of the windows of this block
    std::vector<Window> windows_;   ///< of this block so far
    Histogram block_mix_{};
    std::vector<Block> blocks_;  ///< the latest 256
    int blocks_closed_ = 0;
    int filler_ = 0;  ///< windows of the arm still to run before the next block
    int discarded_ = 0;
    int discarded_in_block_ = 0;
    int discarded_since_block_ = 0;
    bool certain_ = false;   ///< gain surely above kNoGain, by trimmed and untrimmed figures
    bool clear_ = false;     ///< surely above kClearGain: looks may be rare before an interval can be shown
    bool disputed_ = false;  ///< trimmed and untrimmed figures differ by more than kTotalsAgree
    Verdict verdict_ = Verdict::undecided;
    Ground ground_ = Ground::none;
    Random random_;
};

}  // namespace corun::policy
