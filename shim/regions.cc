// SPDX-License-Identifier: Apache-2.0
#include "shim/regions.h"

#include "shim/openmp_runtime.h"

namespace corun {

constinit std::array<RegionRecord, kRegions + kRegionProbes> regions{};

RegionRecord& region_make(const void* body, const Runtime& runtime) noexcept {
    const auto index = (reinterpret_cast<std::uintptr_t>(body) * 0x9E3779B97F4A7C15ULL) >> 54;
    for (std::size_t i = index; i < index + kRegionProbes - 1; ++i) {
        RegionRecord& record = regions[i];
        const void* there = record.body.load(std::memory_order_acquire);
        if (there == nullptr && record.body.compare_exchange_strong(there, body, std::memory_order_acq_rel)) {
            record.runtime.store(runtime.index, std::memory_order_relaxed);
            openmp_runtime_met(body);
            return record;
        }
        if (there == body) return record;
    }
    return regions.back();
}

}  // namespace corun
