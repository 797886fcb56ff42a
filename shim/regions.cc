// SPDX-License-Identifier: Apache-2.0
#include "shim/regions.h"

#include <algorithm>

#include "shim/adaptive_objects.h"
#include "shim/build_id.h"
#include "shim/openmp_runtime.h"

namespace corun {

constinit std::array<RegionRecord, kRegions + kRegionProbes> regions{};
constinit std::atomic<bool> regions_may_leave{false};

namespace {

// 0 of what is there for good.
std::uint64_t build_at(const void* address) {
    LoadedObject object{};
    return there_from_the_start(address) || !find_object(address, object) ? 0 : build_number(object);
}

// The thread that has taken the place and those that find it meanwhile say the same.
RegionRecord& fill(RegionRecord& record, const void* body, const void* caller, std::uint64_t build,
                   bool caller_leaves, const Runtime& runtime) {
    record.runtime.store(runtime.index, std::memory_order_relaxed);
    record.caller.store(caller, std::memory_order_relaxed);
    record.build.store(build, std::memory_order_relaxed);
    record.caller_leaves.store(caller_leaves, std::memory_order_relaxed);
    record.body.store(body, std::memory_order_seq_cst);
    if (build != 0) regions_may_leave.store(true, std::memory_order_release);
    return record;
}

bool was_it(const RegionRecord& record, const void* body, const void* caller, std::uint64_t build) {
    return record.key.load(std::memory_order_acquire) == kRegionGone &&
           record.body.load(std::memory_order_relaxed) == body &&
           record.caller.load(std::memory_order_relaxed) == caller &&
           record.build.load(std::memory_order_relaxed) == build;
}

}  // namespace

RegionRecord& region_make(const void* body, const void* caller, const Runtime& runtime) noexcept {
    const std::uint64_t key = region_key(body, caller);
    const std::size_t index = region_index(key);
    const std::size_t end = index + kRegionProbes - 1;
    for (std::size_t i = index; i < end; ++i)
        if (regions[i].key.load(std::memory_order_acquire) == key) return regions[i];
    const bool has_room = std::any_of(&regions[index], &regions[end], [&](const RegionRecord& record) {
        const std::uint64_t there = record.key.load(std::memory_order_relaxed);
        return there == 0 || (there == kRegionGone && record.body.load(std::memory_order_relaxed) == body);
    });
    if (!has_room) return regions.back();  // with each call
    const std::uint64_t from = build_at(caller);
    const std::uint64_t build = build_at(body) * 31 + from;
    for (std::size_t i = index; i < end; ++i) {
        RegionRecord& record = regions[i];
        std::uint64_t there = kRegionGone;
        // The same library is back.
        if (build != 0 && was_it(record, body, caller, build) &&
            record.key.compare_exchange_strong(there, key, std::memory_order_acq_rel))
            return record;
        there = 0;
        if (record.key.compare_exchange_strong(there, key, std::memory_order_acq_rel)) {
            openmp_runtime_met(body);
            return fill(record, body, caller, build, from != 0, runtime);
        }
        if (there == key) return fill(record, body, caller, build, from != 0, runtime);
    }
    return regions.back();
}

void regions_left() noexcept {
    const auto is_gone = [](const void* address) {
        LoadedObject object{};
        return address != nullptr && !find_object(address, object);
    };
    for (RegionRecord& record : regions) {
        if (record.build.load(std::memory_order_relaxed) == 0) continue;
        if (is_gone(record.body.load(std::memory_order_relaxed)) ||
            (record.caller_leaves.load(std::memory_order_relaxed) &&
             is_gone(record.caller.load(std::memory_order_relaxed))))
            record.key.store(kRegionGone, std::memory_order_release);
    }
}

}  // namespace corun
