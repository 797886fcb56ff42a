// SPDX-License-Identifier: Apache-2.0
// Learns how wide the resizable regions of one runtime run, from the calls of one thread: trials of single
// regions at other widths, a plan for all of them together, and a guard that holds the plan against the
// program's own widths. Pure: time is passed in.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/curve.h"
#include "policy/region_width.h"

namespace corun::policy {

struct TunerSettings {
    RuntimeKind kind = RuntimeKind::libgomp;
    double explore = 0.05;   ///< share of the run time that trials may cost
    double deadband = 0.05;  ///< see plan_widths()
};

/// What a region costs at one width. A mean, as a team that now and then waits for a thread that has no CPU
/// costs what it costs; but the largest value or two count for nothing, for the machine has its bursts too.
class RegionCost {
  public:
    static constexpr std::size_t kept = 31;  // the newest values

    void add(double seconds);
    [[nodiscard]] std::optional<double> seconds() const;  ///< a call; nothing of none
    [[nodiscard]] std::size_t count() const { return count_; }

  private:
    std::array<float, kept> values_{};
    std::size_t count_ = 0;
    std::size_t next_ = 0;
};

/// A call that was timed, on the one thread whose regions are tuned.
struct TimedCall {
    int width = 1;         ///< it ran at
    int before = 0;        ///< width of the region before it; 0: unknown
    double seconds = 0.0;  ///< from before the fork to after the join
    double now = 0.0;      ///< at its end
    bool solo = true;      ///< no other thread had a region open
};

class RegionTuner {
  public:
    using Id = std::uint32_t;

    explicit RegionTuner(TunerSettings settings, double now);

    Id add(int own);
    /// The widths that the region may have; {own} ends all that was going on with it. Another `own` than
    /// before begins it anew.
    void allow(Id id, std::vector<int> widths, int own);

    /// What was measured so far holds for it no longer; it runs at its own width again.
    void forget(Id id);

    void timed(Id id, const TimedCall& call);
    void followed(Id before, Id after, std::uint64_t count);  ///< `after` came next after `before`
    /// `calls` of each region so far, all in one thread; `at`: the region that begins just now. Some
    /// milliseconds apart.
    void tick(double now, std::span<const std::uint64_t> calls, Id at);

    /// Nothing disturbed the calls up to now. From the first time on, nothing is concluded that later calls
    /// are part of.
    void undisturbed(double now);
    /// What came after the last undisturbed() is worth nothing: trial and guard end without a result.
    void disturbed();

    [[nodiscard]] int width(Id id) const;        ///< for its next call
    [[nodiscard]] bool wants_each(Id id) const;  ///< each call is to be timed, not one of many

    [[nodiscard]] double share(Id id) const { return regions_[id].share; }  ///< of the run time, lately

    // --- for the report
    [[nodiscard]] std::vector<model::Point> curve(Id id) const;  ///< seconds a call, settled
    [[nodiscard]] double charged(Id id) const;  ///< seconds of switching into it that the plan has counted
    [[nodiscard]] const std::string& story(Id id) const { return regions_.at(id).story; }
    [[nodiscard]] double explored() const { return spent_; }            ///< seconds that trials have cost
    [[nodiscard]] std::optional<double> gain() const { return gain_; }  ///< of the plan: rate over own rate
    [[nodiscard]] std::size_t regions() const { return regions_.size(); }

    // Kept together, with their reasons.
    static constexpr int kBlocks = 6;                 // of each width in a trial, in turn
    static constexpr double kBlockSeconds = 400e-6;   // a block outlasts what a switch leaves behind
    static constexpr std::size_t kBlockCalls = 400;   // and has this many calls at most
    static constexpr double kHopeless = 1.5;          // slower than the best known: narrower is not tried
    static constexpr double kLeastShare = 0.01;       // of the run time: below that a region is let be
    static constexpr double kWindow = 0.02;           // seconds of a guard's window, at least
    static constexpr std::uint64_t kWindowCalls = 4;  // of the region that windows begin and end with
    static constexpr double kOverdue = 0.1;           // seconds after which a window ends anywhere
    static constexpr double kClear = 1.5;             // so much apart: two windows of each are enough
    static constexpr int kFirstWindows = 16;          // before a plan is trusted; then kLaterWindows
    static constexpr int kLaterWindows = 4;
    static constexpr double kHarm = 0.99;        // of the own widths' rate: below that a plan is dropped
    static constexpr double kFirstCheck = 2.0;   // seconds to the next look, doubled each time ...
    static constexpr double kLastCheck = 32.0;   // ... up to this
    static constexpr double kFirstRetry = 10.0;  // seconds until a width that was left is tried again
    static constexpr double kLastRetry = 160.0;
    static constexpr double kNotCalled = 5.0;  // seconds: its trial ends, lest the others wait for ever

  private:
    struct Region {
        int own;
        std::vector<int> allowed;
        std::map<int, RegionCost> samples;
        int planned;         // width by the plan in force
        bool tried = false;  // its widths are known
        double retry_at = 0.0;
        double retry_after = kFirstRetry;
        std::uint64_t calls = 0;         // at the last tick
        std::uint64_t calls_before = 0;  // when the shares were last looked at
        double share = 0.0;              // of the run time since
        double charged = 0.0;
        std::string story;
    };
    struct Trial {
        Id id;
        std::vector<int> widths;  // to be tried, the next one last
        int width;                // that is tried now
        bool at_own;              // the block that runs
        int blocks;               // that have ended
        int hopeless;             // of them at `width`, far slower than at the own one
        std::vector<double> settled;
        std::vector<double> switched;
        double block_seconds;
        std::size_t block_calls;
        std::uint64_t calls;  // of the region, when they were last seen to grow ...
        double called_at;     // ... then
    };
    struct Guard {
        Id anchor;
        bool at_plan;
        bool first;  // since the plan was made
        int window;  // that runs, from 0
        int windows;
        bool begun;
        double began_at;
        bool over;  // all windows have ended, its last at `began_at`
        std::vector<std::uint64_t> calls;
        RegionCost at_plans, at_owns;  // seconds of a window for what takes one at the own widths
    };

    [[nodiscard]] std::optional<double> seconds(const Region& region, int width) const;
    [[nodiscard]] bool may_spend(double seconds, double now) const;
    void find_shares(double now);
    void begin_trial(double now);
    void next_width(double now);
    void end_block(double now);
    void end_trial(double now);
    void drop_trial_of_who_is_gone(double now);
    void in_trial(const TimedCall& call);
    void plan(double now);
    void begin_guard(double now, bool first);
    void guard_tick(double now, Id at);
    [[nodiscard]] double guard_gain() const;
    [[nodiscard]] bool guard_is_clear() const;
    void end_guard(double now);
    void drop_plan(double now);
    void describe();
    [[nodiscard]] bool moved() const;
    [[nodiscard]] bool is_proven(double time) const { return time <= proven_; }

    TunerSettings settings_;
    SwitchCosts costs_;
    std::vector<Region> regions_;
    std::map<std::pair<Id, Id>, std::uint64_t> transitions_;
    std::optional<Trial> trial_;
    std::optional<Guard> guard_;
    bool first_due_ = false;  ///< the first guard of the plan was disturbed
    bool replan_ = false;
    double replan_at_ = 0.0;                       // the calls that it rests on had ended by then
    double proven_ = INFINITY;                     // undisturbed up to here
    std::vector<std::map<int, RegionCost>> kept_;  // samples of each region, as of then
    double began_;
    double now_;
    double shares_at_;
    double spent_ = 0.0;
    double check_at_ = 0.0;
    double check_after_ = kFirstCheck;
    double rejected_until_ = 0.0;
    double reject_for_ = 1.0;
    std::optional<double> gain_;
};

}  // namespace corun::policy
