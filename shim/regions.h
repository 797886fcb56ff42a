// SPDX-License-Identifier: Apache-2.0
// The regions seen: a table of fixed size, found by the outlined function and the place that opens it, so
// that one function opened in two places is two regions. No lock, no allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/resolver.h"

namespace corun {

enum RegionClass : std::uint32_t {
    kRegionNamed = 1U << 0,   ///< names its number of threads
    kRegionRaw = 1U << 1,     ///< does not: the runtime's number
    kRegionNested = 1U << 2,  ///< opened inside another one
};

inline constexpr std::size_t kRegions = 1024;
inline constexpr std::size_t kRegionShards = 8;  ///< threads that open regions are spread over them
inline constexpr std::size_t kRegionProbes = 8;

struct alignas(64) RegionShard {
    std::atomic<std::uint64_t> calls;
    std::atomic<std::uint64_t> timed;  ///< calls that ticks stands for
    std::atomic<std::uint64_t> ticks;
    std::atomic<std::uint64_t> watched;  ///< calls that the next two stand for
    std::atomic<std::uint64_t> work;     ///< ticks in the region's own code, of all threads
    std::atomic<std::uint64_t> longest;  ///< of the slowest thread of each call
};

struct alignas(64) RegionRecord {
    std::atomic<std::uint64_t> key;      ///< region_key() of the next two; 0: free; kRegionGone
    std::atomic<const void*> body;       ///< outlined function; null: not known yet
    std::atomic<const void*> caller;     ///< return address of the call that opens it
    std::atomic<std::uint64_t> build;    ///< where they lie in objects that may leave: of those; else 0
    std::atomic<bool> caller_leaves;     ///< it lies in one: else in the program, or in no object at all
    std::atomic<std::uint32_t> runtime;  ///< its index
    std::atomic<std::uint32_t> classes;
    std::atomic<std::int32_t> narrowest, widest;  ///< threads it could have, of the calls looked at
    std::array<RegionShard, kRegionShards> shards;
};

/// The last one is for all that found no place.
extern constinit std::array<RegionRecord, kRegions + kRegionProbes> regions;

/// A record whose object was unloaded: another one may lie in its place.
inline constexpr std::uint64_t kRegionGone = 1;

/// Stands for the two: another pair has another one, but for one chance in 2^64.
inline std::uint64_t region_key(const void* body, const void* caller) noexcept {
    const auto opened = reinterpret_cast<std::uintptr_t>(caller) * 0xC2B2AE3D27D4EB4FULL;
    const std::uint64_t key = reinterpret_cast<std::uintptr_t>(body) * 0x9E3779B97F4A7C15ULL + opened;
    return key > kRegionGone ? key : ~key;
}
inline std::size_t region_index(std::uint64_t key) noexcept {
    return key >> 54;
}
static_assert(kRegions == 1024);

RegionRecord& region_make(const void* body, const void* caller, const Runtime& runtime) noexcept;

inline RegionRecord& region_record(const void* body, const void* caller, const Runtime& runtime) noexcept {
    const std::uint64_t key = region_key(body, caller);
    RegionRecord& first = regions[region_index(key)];
    if (first.key.load(std::memory_order_acquire) == key) [[likely]]
        return first;
    return region_make(body, caller, runtime);
}

/// Whether there are records of objects that may leave.
extern constinit std::atomic<bool> regions_may_leave;
/// After something was unloaded: what lies there now is not taken for what was there.
void regions_left() noexcept;

}  // namespace corun
