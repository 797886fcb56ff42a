// SPDX-License-Identifier: Apache-2.0
// Finds the arm with the highest work rate: rounds of all live arms in random order, looks after 3, 6, 12,
// 24, 48 rounds (successive elimination with the error shared among looks).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "policy/statistics.h"
#include "policy/window.h"

namespace corun::policy {

class Race {
  public:
    /// @param arms at least one; contains kPassThrough or not, all are treated alike
    /// @param warm_rounds so many rounds are run first and not counted
    Race(std::vector<ArmId> arms, Random random, int warm_rounds = 0);

    [[nodiscard]] ArmId next()
        const;  ///< the arm that the next window should run under; the winner when finished
    /// The window that answered next(). A window that cannot be used or whose mix differs from its round's is
    /// discarded (the arm is asked for again); a round in which too many were discarded is thrown away whole.
    void add(const Window& window);

    [[nodiscard]] bool finished() const { return winner_.has_value(); }
    [[nodiscard]] ArmId winner() const;  ///< only when finished
    /// `arm`, which runs no more, is out of it.
    void drop(ArmId arm);
    /// Ends the race now, by what is known: for a caller whose time is up or whose race is stuck. Returns the
    /// winner, which is pass-through (or else the first live arm) when no round was completed.
    ArmId conclude();
    [[nodiscard]] const std::vector<ArmId>& live() const { return live_; }
    [[nodiscard]] int rounds() const { return rounds_; }
    [[nodiscard]] int discarded() const { return discarded_; }
    /// Rates are by open time, for good, once the median input share of the windows was above kInputShare at
    /// a look.
    [[nodiscard]] bool by_open_time() const { return by_open_time_; }
    /// Windows keep being discarded (kStuckDiscards or more, and whole rounds) and no round comes to its end:
    /// the caller should learn the missing references, look for another anchor, or give up.
    [[nodiscard]] bool stuck() const;

    /// Winsorised mean of log(rate of arm / rate of pass-through or of the first arm) so far; nothing without
    /// data.
    [[nodiscard]] std::optional<double> estimate(ArmId arm) const;

  private:
    struct Rates {
        double wall = 0.0;  ///< log work rate by wall time; NaN where the arm was not live
        double open = 0.0;
    };
    using Row = std::vector<double>;  ///< one value per round

    void start_round();
    void discard();
    void close_round();
    void look();
    [[nodiscard]] Estimate lead_over(ArmId arm, ArmId other) const;
    void drop_losers();
    [[nodiscard]] bool good_enough(
        ArmId arm) const;  ///< surely no live arm is more than kIndifference better
    void finish();

    [[nodiscard]] std::size_t index(ArmId arm) const;
    [[nodiscard]] double rate(ArmId arm, int round) const;
    [[nodiscard]] Row differences(ArmId arm, ArmId other) const;  ///< in the rounds in which both were live
    [[nodiscard]] Row round_means() const;                        ///< log rate, over the live arms
    [[nodiscard]] double pooled_error() const;                    ///< of a difference of two live arms' means
    [[nodiscard]] ArmId best() const;

    std::vector<ArmId> arms_;
    std::vector<ArmId> live_;
    std::vector<ArmId> order_;   ///< of this round
    std::vector<Window> round_;  ///< its windows so far
    Histogram round_mix_{};
    std::vector<std::vector<Rates>> rates_;  ///< [index in arms_][round]
    std::vector<double> input_shares_;
    int warm_left_;
    int rounds_ = 0;
    int discarded_ = 0;
    int discarded_in_round_ = 0;
    int discarded_since_round_ = 0;  ///< since a round was last completed
    bool by_open_time_ = false;
    std::optional<ArmId> winner_;
    Random random_;
};

}  // namespace corun::policy
