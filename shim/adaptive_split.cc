// SPDX-License-Identifier: Apache-2.0
#include "shim/adaptive_split.h"

#include <algorithm>

#include "shim/adaptive_engine.h"

namespace corun {
namespace {

constexpr std::size_t kSplits = 32;
constinit std::array<AdaptiveSplit, kSplits> splits{};
constinit std::size_t split_count = 0;
constinit std::size_t part_count = 0;

// Callers that come from another depth each time, or with frames whose size changes, would be asked for
// ever.
constexpr std::uint64_t kAskedFirst = 64;
constexpr std::uint64_t kAskedOf = 256;  // then one of so many calls

// Reads words of other frames, on a stack that is known to have them.
[[gnu::no_sanitize("address")]] bool comes_by(const AdaptiveSplit::Way& way, std::uintptr_t reference,
                                              std::uintptr_t end) {
    for (std::uint32_t i = 0; i < way.read.path.depth; ++i) {
        const std::uintptr_t place = reference + way.read.offsets[i];
        if (place + sizeof(std::uintptr_t) > end) return false;
        if (*reinterpret_cast<const std::uintptr_t*>(place) != way.read.path.at[i]) return false;
    }
    return true;
}

AdaptiveRegion& ask(AdaptiveSplit& split, AdaptiveRegion& whole, const void* caller, const void* reference) {
    const std::uint32_t count = split.way_count.load(std::memory_order_relaxed);
    if (count == kWays || split.asked > kAskedFirst + split.calls / kAskedOf) return whole;
    ++split.asked;
    AdaptiveSplit::Way& way = split.ways[count];
    if (!engine_read_path(way.read, caller, reference) || way.read.path.depth < split.depth) return whole;
    way.read.path = way.read.path.first(split.depth);
    way.part = &whole;
    for (std::uint32_t i = 0; i < split.part_count; ++i)
        if (split.groups[i] == way.read.path) way.part = split.parts[i];
    split.way_count.store(count + 1, std::memory_order_release);
    split.last = count;
    return *way.part;
}

}  // namespace

AdaptiveSplit* adaptive_split_make(AdaptiveRegion& region, std::uint32_t depth,
                                   std::span<const policy::CallPath> groups) noexcept {
    if (split_count == kSplits || groups.size() > kParts || part_count + groups.size() > kAdaptiveParts)
        return nullptr;
    AdaptiveSplit& split = splits[split_count++];
    split.depth = depth;
    split.part_count = static_cast<std::uint32_t>(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
        AdaptiveRegion& part = adaptive_regions[kRegions + kRegionProbes + part_count++];
        split.groups[i] = groups[i];
        split.parts[i] = &part;
        part.whole.store(&region, std::memory_order_relaxed);
        part.own.store(region.own.load(std::memory_order_relaxed), std::memory_order_relaxed);
        part.evidence.store(region.evidence.load(std::memory_order_relaxed), std::memory_order_relaxed);
        part.revokes.store(region.revokes.load(std::memory_order_relaxed), std::memory_order_relaxed);
        adaptive_adopt(part, region.body.load(std::memory_order_relaxed));
    }
    return &split;
}

AdaptiveRegion& adaptive_part(AdaptiveRegion& whole, const void* caller, const void* reference) noexcept {
    AdaptiveSplit* const split = whole.split.load(std::memory_order_acquire);
    if (split == nullptr) return whole;
    const AdaptiveThread& thread = adaptive_thread;
    const auto here = reinterpret_cast<std::uintptr_t>(reference);
    if (thread.stack_high == 0) return ask(*split, whole, caller, reference);  // it leads only now
    // On another stack, of a coroutine, what lies above may be nothing at all.
    if (here < thread.stack_low || here >= thread.stack_high) return whole;
    ++split->calls;
    const std::uint32_t count = split->way_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t at = split->last + i < count ? split->last + i : split->last + i - count;
        if (!comes_by(split->ways[at], here, thread.stack_high)) continue;
        split->last = at;
        return *split->ways[at].part;
    }
    return ask(*split, whole, caller, reference);
}

}  // namespace corun
