// SPDX-License-Identifier: Apache-2.0
// Arms: whole ways of deciding. An arm is turned into a table: op x idle CPUs -> width.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "policy/window.h"

namespace corun::policy {

inline constexpr std::size_t kArmSlots = 16;
inline constexpr std::size_t kIdleBuckets = 8;  ///< bucket b: at least 2^b CPUs idle; the last: all that more

/// Width by idle bucket; 0 leaves the program's own width.
using WidthRow = std::array<std::uint16_t, kIdleBuckets>;

enum class ArmKind {
    pass_through,
    uniform,  ///< the same width for every op
    optimum,  ///< S1: each op at its own optimum (Liu et al., IPDPS 2019)
    by_type,  ///< S1+S2: one width per op type, that of its most expensive instance (same)
    idle,     ///< argmin of the curve over the CPUs that are idle at op begin
    price,    ///< argmin of T(n) (1 + lambda n): wide only where it pays
    random,   ///< a test arm: any width from op to op
    replay,   ///< what a profile says
};

struct Arm {
    ArmKind kind = ArmKind::pass_through;
    double value = 0.0;  ///< uniform: width; price: lambda
    std::string name = "pass-through";
    std::string gate{};  ///< the strategy by which ops wait for their turn (strategy.h); empty: none does

    [[nodiscard]] bool dynamic() const { return kind == ArmKind::idle; }
    [[nodiscard]] bool needs_curves() const {
        return kind == ArmKind::optimum || kind == ArmKind::by_type || kind == ArmKind::idle ||
               kind == ArmKind::price;
    }
};

/// 1, 2, 4, ... and the budget itself.
[[nodiscard]] std::vector<int> candidate_widths(int budget);

/// Whether arms in which ops wait take part.
enum class GateMode {
    off,
    beside,  ///< they race with the others
    alone,   ///< they and pass-through race
};

/// The arms that a race starts with on `budget` CPUs; element 0 is pass-through. At most kArmSlots.
[[nodiscard]] std::vector<Arm> race_arms(int budget, GateMode gate = GateMode::off);

/// By name as in CORUN_POLICY ("uniform-2", "price-0.05", "gate-s3"); nothing when there is no such arm
/// ("race" is none).
[[nodiscard]] std::optional<Arm> arm_by_name(const std::string& name, int budget);

/// The number in "price-0.05" behind "price-", 0 or more; nothing where `name` is not of that form.
[[nodiscard]] std::optional<double> number_after(const std::string& name, const std::string& prefix);

/// What the arms need to know of one op. Functions must outlive the call only.
struct OpView {
    std::function<std::optional<double>(int width)> seconds;             ///< predicted, solo
    std::function<std::optional<int>(const std::vector<int>&)> optimum;  ///< with deadband, narrowest first
    std::optional<int> type_optimum;  ///< that of the most expensive op of the type
    int profile_width = 0;
};

/// What ops may be given in turn: the above, or only its ends where a runtime pays for every other change.
[[nodiscard]] std::vector<int> mixed_widths(int budget, bool coarse);

/// The row of one op under one arm. Widths equal to the budget come out as 0 (the program's own). An arm that
/// has other widths for other ops chooses among mixed_widths().
[[nodiscard]] WidthRow width_row(const Arm& arm, const OpView& op, int budget, bool coarse = false);

/// The bucket for a number of idle CPUs.
[[nodiscard]] inline std::size_t idle_bucket(int idle) {
    std::size_t bucket = 0;
    while (bucket + 1 < kIdleBuckets && (2 << bucket) <= idle) ++bucket;
    return bucket;
}

}  // namespace corun::policy
