// SPDX-License-Identifier: Apache-2.0
// The regions seen, for the report: a table of fixed size, found by the outlined function. No lock, no
// allocation.
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
    std::atomic<const void*> body;       ///< outlined function; null: free
    std::atomic<const void*> caller;     ///< return address of a call that opened it
    std::atomic<std::uint32_t> runtime;  ///< its index
    std::atomic<std::uint32_t> classes;
    std::atomic<std::int32_t> narrowest, widest;  ///< threads it could have, of the calls looked at
    std::array<RegionShard, kRegionShards> shards;
};

/// The last one is for all that found no place.
extern constinit std::array<RegionRecord, kRegions + kRegionProbes> regions;

RegionRecord& region_make(const void* body, const Runtime& runtime) noexcept;

inline RegionRecord& region_record(const void* body, const Runtime& runtime) noexcept {
    const auto index = (reinterpret_cast<std::uintptr_t>(body) * 0x9E3779B97F4A7C15ULL) >> 54;
    RegionRecord& first = regions[index];
    if (first.body.load(std::memory_order_acquire) == body) [[likely]]
        return first;
    return region_make(body, runtime);
}
static_assert(kRegions == 1024);

}  // namespace corun
