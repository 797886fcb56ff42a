// SPDX-License-Identifier: Apache-2.0
// A region whose callers are told apart (policy/region_paths.h) consists of parts, one for each of them, that
// have what a region has: width, chunk, samples. Which part a call is of is seen on the stack, where the
// return addresses of a way that was met before lie in the same places; a new way is read by libunwind.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shim/adaptive.h"
#include "shim/call_path.h"

namespace corun {

inline constexpr std::size_t kWays = 24;  ///< of one split: one caller may come from several depths
inline constexpr std::size_t kParts = 8;

struct AdaptiveSplit {
    struct Way {
        CallPathRead read;
        AdaptiveRegion* part;  ///< or the whole: of no group
    };
    std::uint32_t depth;
    std::array<Way, kWays> ways;
    std::atomic<std::uint32_t> way_count;
    std::array<policy::CallPath, kParts> groups;
    std::array<AdaptiveRegion*, kParts> parts;
    std::uint32_t part_count;
    // Of the leader.
    std::uint32_t last;   ///< way
    std::uint64_t calls;  ///< of all parts
    std::uint64_t asked;  ///< of them, those that libunwind was asked of
};

/// For `region`, which is not split: a part for each of the groups, which differ in their first `depth`
/// addresses. It is not in use yet. Null: there is no room for more.
AdaptiveSplit* adaptive_split_make(AdaptiveRegion& region, std::uint32_t depth,
                                   std::span<const policy::CallPath> groups) noexcept;

/// The part that a call of the split region `whole` belongs to, or `whole`. `reference` lies in the frame of
/// the hook, which was called from `caller`. By the leader only.
AdaptiveRegion& adaptive_part(AdaptiveRegion& whole, const void* caller, const void* reference) noexcept;

}  // namespace corun
