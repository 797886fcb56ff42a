// SPDX-License-Identifier: Apache-2.0
// One place that opens regions may serve many callers whose regions cost differently: a library's loop over
// whatever it is given. Whether the ways that lead there (the calling context) tell its costs apart, and how
// much of each way has to be known for it. A way is asked for only where the costs of a region differ widely,
// for asking costs microseconds. Pure: time is passed in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace corun::policy {

inline constexpr std::size_t kPathDepth = 6;

/// Return addresses above the function that opens a region, its caller first.
struct CallPath {
    std::uint32_t depth = 0;
    std::array<std::uintptr_t, kPathDepth> at{};

    [[nodiscard]] CallPath first(std::uint32_t depth) const;  ///< its first addresses
    auto operator<=>(const CallPath&) const = default;
};

class RegionPaths {
  public:
    /// A call; seconds that all its threads have worked. `worth`: the region takes some of the time.
    void timed(double seconds, double now, bool worth);
    /// The same while it asks(): the way that it came, as far as that can be told.
    void timed(double seconds, double now, const CallPath& path);
    void unreadable(const char* why);  ///< no way can be told: it does not ask again

    /// Whether enough calls were seen to say if the costs differ. Before, what they have in common is unsure.
    [[nodiscard]] bool judged() const { return judged_; }
    [[nodiscard]] bool asks() const { return stage_ == Stage::asks; }
    [[nodiscard]] bool split() const { return stage_ == Stage::split; }
    /// Of a split: the first `depth()` addresses tell one group from another.
    [[nodiscard]] std::uint32_t depth() const { return depth_; }
    [[nodiscard]] const std::vector<CallPath>& groups() const { return groups_; }
    [[nodiscard]] const std::string& story() const { return story_; }

    // Kept together, with their reasons.
    static constexpr std::size_t kWatched = 48;  // calls: one of 20 that is far longer is among them
    static constexpr double kVaries = 2.5;       // the call that half of the time is below, over a short one
    static constexpr std::size_t kAsked = 96;    // calls: three groups of 32, or ten of some
    static constexpr double kTells = 0.5;        // share of the spread of log(seconds) that the ways tell
    static constexpr double kApart = 2.0;        // slowest group over fastest, or nothing is to be gained
    static constexpr std::size_t kGroupCalls = 4;  // fewer are no group
    static constexpr std::size_t kGroups = 8;      // those with most time; the others stay together
    static constexpr double kFirstRetry = 10.0;    // seconds, then twice as long each time

  private:
    enum class Stage { watches, asks, split, rests, never };
    struct Call {
        double seconds;
        CallPath path;
    };
    struct Told {
        double share = 0.0;
        double apart = 1.0;
    };

    [[nodiscard]] bool varies() const;
    [[nodiscard]] Told told_by(std::uint32_t depth) const;
    void decide(double now);
    void rest(double now, std::string why);

    Stage stage_ = Stage::watches;
    std::vector<double> watched_;
    std::size_t next_ = 0;
    bool judged_ = false;
    std::vector<Call> calls_;
    std::uint32_t depth_ = 0;
    std::vector<CallPath> groups_;
    std::string story_;
    double retry_at_ = 0.0;
    double retry_after_ = kFirstRetry;
};

}  // namespace corun::policy
