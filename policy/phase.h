// SPDX-License-Identifier: Apache-2.0
// What corun does in one phase of the program: explore, race, guard, stand down, retry. A state machine that
// is fed with windows and asked for the next one.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "policy/anchor.h"
#include "policy/arms.h"
#include "policy/guard.h"
#include "policy/race.h"
#include "policy/window.h"

namespace corun::policy {

enum class State { learn, explore, race, guard, stood_down, fixed };

[[nodiscard]] const char* state_name(State state);

/// What the shim does until the window ends.
struct Directive {
    ArmId arm = kPassThrough;
    bool explore = false;                 ///< assignments are in force
    bool record_all = false;              ///< every op is timed and passed on
    std::optional<std::uint32_t> anchor;  ///< the window begins and ends on this op key
    double length = 0.25;                 ///< seconds; it ends at the first anchor after that
    double patience = 0.5;                ///< seconds; it ends then even without an anchor
    double rest = 0.0;                    ///< seconds until it begins, in which no op need be seen
    bool operator==(const Directive&) const = default;
};

/// How long a mix of ops is looked at: a window that decides nothing yet.
inline constexpr double kLearnWindow = 0.25;

/// Lets the window begin and end on an anchor with this period: in whole steps, so that its mix is that of a
/// step.
void align(Directive& directive, std::uint32_t anchor, double period);

/// How much time an arm had, for the report.
struct ArmUse {
    double seconds = 0.0;
    std::optional<double> race;  ///< log ratio over pass-through that the race found
    std::string state;           ///< "chosen", "dropped", "live", "same as NAME", "slower by the curves"
};

class Phase {
  public:
    /// @param already seconds that were spent on learning its ops before it had a name
    Phase(std::optional<ArmId> fixed, Random random, double already);

    // --- learning ---
    AnchorFinder finder;  ///< fed while state() is learn
    /// The phase has seen enough to choose its anchor (or to do without one).
    void end_learning();

    /// Before anything is known of the widths: is `arm` far better than the program as it is? If so it is in
    /// force while they are explored.
    void start_quick_race(ArmId arm);

    // --- exploring ---
    /// @param arms that differ from each other and from arm 0, which is pass-through
    /// @param skipped arms that were left out: arm -> why
    void start_race(const std::vector<ArmId>& arms, const std::map<ArmId, std::string>& skipped);
    /// A decision made by an earlier run or forced: guard this arm from now on.
    void start_guard(ArmId arm);

    /// The window that the last directive asked for; `elapsed`: seconds since the one before ended, settling
    /// and all. Returns true when arms must be chosen anew; trusts_curves() then tells whether what is known
    /// of the ops holds.
    bool window_ended(const Window& window, double elapsed);
    /// A window in which the program was not (only) in this phase, or of which too little was seen to tell:
    /// its time counts, and whether the program still gets on.
    void skip(const Window& window, double elapsed);
    [[nodiscard]] Directive directive();

    [[nodiscard]] State state() const { return state_; }
    [[nodiscard]] ArmId arm() const { return arm_; }  ///< chosen, or pass-through
    [[nodiscard]] std::optional<std::uint32_t> anchor() const { return anchor_; }
    [[nodiscard]] double period() const { return period_; }
    [[nodiscard]] std::optional<double> decided_after() const { return decided_after_; }
    [[nodiscard]] std::optional<Interval> gain() const { return guard_ ? guard_->gain() : last_gain_; }
    [[nodiscard]] const Guard* guard() const { return guard_ ? &*guard_ : nullptr; }
    [[nodiscard]] Verdict verdict() const { return verdict_; }
    [[nodiscard]] const std::map<ArmId, ArmUse>& use() const { return use_; }
    [[nodiscard]] double seconds() const { return active_; }
    [[nodiscard]] int used() const { return used_; }
    [[nodiscard]] int discarded() const;
    [[nodiscard]] bool trusts_curves() const { return raced_; }
    [[nodiscard]] double in_state() const { return active_ - state_since_; }  ///< seconds

  private:
    void enter(State state);
    [[nodiscard]] double period_under(ArmId arm) const;
    void finish_race();
    void note_time(const Window& window, double elapsed);
    [[nodiscard]] bool crawls(const Window& window);
    void drop_crawling();
    [[nodiscard]] bool quick_race_over(const Window& window);
    void finish_quick_race();
    [[nodiscard]] double race_seconds() const;  ///< that the race may take
    void watch_pace(const Window& window, double elapsed);
    void doubt();
    void stand_down(Verdict verdict);

    std::optional<ArmId> fixed_;  ///< this arm and no other
    Random random_;
    State state_ = State::learn;
    double active_;       ///< seconds that this phase has been the current one
    double state_since_;  ///< of them, when the state began
    std::optional<std::uint32_t> anchor_;
    double period_ = 0.0;              ///< of the anchor, seconds; 0: none
    std::map<ArmId, double> periods_;  ///< the same under each arm: they may differ by much
    std::optional<Race> race_;
    bool quick_ = false;                  ///< it is the first, of two arms
    int quick_far_ = 0;                   ///< windows in a row by which the other was far better
    std::array<double, 2> quick_rate_{};  ///< log, of the program as it is and of the other; 0: none yet
    std::optional<double> plain_rate_;    ///< log, by open time, of the latest window of pass-through
    std::optional<ArmId> suspect_;        ///< was far below it: the next window is to show that again
    double suspect_rate_ = 0.0;
    int crawling_ = 0;  ///< times in a row that it was so
    std::optional<Guard> guard_;
    ArmId arm_ = kPassThrough;
    Verdict verdict_ = Verdict::undecided;
    std::optional<Interval> last_gain_;
    std::optional<double> decided_after_;
    std::map<ArmId, ArmUse> use_;
    std::map<ArmId, double> known_bad_;  ///< arm -> log ratio: not worth another try
    double retry_at_ = 0.0;
    double retry_wait_ = kRetryFirstSeconds;
    bool raced_ = false;  ///< under the costs of today; otherwise an arm comes from a profile or is in doubt
    /// Log work rate since the decision: slowly and quickly averaged.
    std::optional<double> slow_pace_;
    double quick_pace_ = 0.0;
    double watched_ = 0.0;    ///< seconds in which the pace was watched
    double odd_since_ = 0.0;  ///< of them: when the two were last alike
    double fine_since_ = 0.0;
    double doubt_after_ = 0.0;
    double doubt_wait_ = kRetryFirstSeconds;
    int used_ = 0;
    int discarded_before_ = 0;
};

}  // namespace corun::policy
