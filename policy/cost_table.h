// SPDX-License-Identifier: Apache-2.0
// What strategies know of op keys: predicted solo seconds at every width, and what follows from them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace corun::policy {

using KeyIndex = std::uint32_t;  ///< of an op key
using OpIndex = std::uint32_t;   ///< of an op of the step

struct KeyCosts {
    std::string type;             ///< kind of op, the same for all shapes
    std::vector<double> seconds;  ///< at width 1, 2, ...; all > 0, the same number for each key
};

/// What it costs a thread to open a team of another size than its last, in seconds. A team of one costs
/// nothing and leaves the last one as it is.
struct TeamCosts {
    double change = 0.0;
    double per_thread = 0.0;  ///< times the difference

    [[nodiscard]] double seconds(int last, int width) const {
        if (width < 2 || last < 2 || width == last) return 0.0;
        return change + per_thread * (width > last ? width - last : last - width);
    }
};

/// Immutable. Widths run from 1 to widest().
class CostTable {
  public:
    static constexpr std::size_t kCandidates = 3;  ///< Liu et al. keep the three fastest

    explicit CostTable(const std::vector<KeyCosts>& keys, const TeamCosts& teams = {});

    [[nodiscard]] int widest() const { return widest_; }
    [[nodiscard]] std::size_t keys() const { return optimum_.size(); }
    [[nodiscard]] double seconds(KeyIndex key, int width) const {
        return seconds_[static_cast<std::size_t>(key) * static_cast<std::size_t>(widest_) +
                        static_cast<std::size_t>(width - 1)];
    }
    [[nodiscard]] const TeamCosts& teams() const { return teams_; }
    /// S1: the fastest width, the narrowest of equals.
    [[nodiscard]] int optimum(KeyIndex key) const { return optimum_[key]; }
    /// S2: the optimum of the most expensive key (at width 1) of this key's type.
    [[nodiscard]] int type_width(KeyIndex key) const { return type_width_[key]; }
    /// S3: the three fastest widths, fastest first (fewer: 0).
    [[nodiscard]] const std::array<int, kCandidates>& candidates(KeyIndex key) const {
        return candidates_[key];
    }
    /// The narrowest width up to `most` whose cost is within 5 % of the fastest of those.
    [[nodiscard]] int best_within(KeyIndex key, int most) const;
    /// The width of lowest T(n) (1 + price n).
    [[nodiscard]] int at_price(KeyIndex key, double price) const;

  private:
    int widest_ = 1;
    TeamCosts teams_;
    std::vector<double> seconds_;
    std::vector<int> optimum_;
    std::vector<int> type_width_;
    std::vector<std::array<int, kCandidates>> candidates_;
    std::vector<std::uint16_t> within_;  // best_within() by key and width
};

}  // namespace corun::policy
