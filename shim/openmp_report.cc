// SPDX-License-Identifier: Apache-2.0
#include "shim/openmp_report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shim/adaptive_engine.h"
#include "shim/build_id.h"
#include "shim/clock.h"
#include "shim/openmp.h"
#include "shim/start_profile.h"
#include "shim/symbol_names.h"

namespace corun {
namespace {

using nlohmann::json;

constexpr std::size_t kListed = 50;

struct Sums {
    std::uint64_t calls = 0, timed = 0, ticks = 0;
};

Sums sums_of(const RegionRecord& record) {
    Sums sums;
    for (const RegionShard& shard : record.shards) {
        sums.calls += shard.calls.load(std::memory_order_relaxed);
        sums.timed += shard.timed.load(std::memory_order_relaxed);
        sums.ticks += shard.ticks.load(std::memory_order_relaxed);
    }
    return sums;
}

std::string path_of(const LoadedObject& object) {
    return object.name != nullptr ? object.name : "";
}

const char* kind_name(RuntimeKind kind) {
    return kind == RuntimeKind::libomp ? "libomp" : kind == RuntimeKind::gomp ? "libgomp" : "none";
}

json classes_of(std::uint32_t classes) {
    json names = json::array();
    if ((classes & kRegionNamed) != 0) names.push_back("named size");
    if ((classes & kRegionRaw) != 0) names.push_back("raw");
    if ((classes & kRegionNested) != 0) names.push_back("nested");
    return names;
}

std::string hex(std::uint64_t number) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
    return text;
}

std::uint64_t offset_in(const LoadedObject& object, const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) - object.base;
}

CodePlace place_of(const LoadedObject& object, const void* address) {
    const std::uint64_t offset = offset_in(object, address);
    return {std::string(file_name(object)) + "+" + hex(offset), function_name(path_of(object), offset)};
}

// The same region of the same build in any process: build-id, outlined function, place that opens it.
std::string key_of(const LoadedObject& object, const void* body, const void* caller) {
    std::string key =
        build_id(object.name != nullptr ? object.name : "") + "+" + hex(offset_in(object, body));
    LoadedObject opener{};
    if (!find_object(caller, opener)) return key;
    if (opener.dynamic != object.dynamic)
        return key + "@" + build_id(opener.name != nullptr ? opener.name : "") + "+" +
               hex(offset_in(opener, caller));
    return key + "@" + hex(offset_in(object, caller));
}

// Of several regions that have the function in common, which one.
bool is_shared(const RegionRecord& record) {
    const void* const body = record.body.load(std::memory_order_relaxed);
    return std::count_if(regions.begin(), regions.end(), [&](const RegionRecord& other) {
               return other.body.load(std::memory_order_relaxed) == body;
           }) > 1;
}

// The outlined function, as it lies there now: of an object that was unloaded since only the address is
// known. clang numbers its own, so that the function which opens the region has to tell.
void add_place(json& region, const RegionRecord& record) {
    const void* const body = record.body.load(std::memory_order_relaxed);
    const void* const caller = record.caller.load(std::memory_order_relaxed);
    LoadedObject object{};
    region["object"] = region["key"] = region["caller"] = nullptr;
    if (body == nullptr) {
        region["name"] = "all others";
        return;
    }
    if (record.key.load(std::memory_order_acquire) == kRegionGone || !find_object(body, object)) {
        region["name"] = hex(reinterpret_cast<std::uintptr_t>(body)) + " (unloaded)";
        return;
    }
    const CodePlace place = place_of(object, body);
    const CodePlace opener = place_of_call(caller);
    std::string name = place.name.empty() ? place.text : place.name;
    if (name.rfind(".omp_outlined", 0) == 0) name = opener.name + name;
    if (is_shared(record)) name += " from " + (opener.name.empty() ? "" : opener.name + " ") + opener.text;
    region["name"] = name;
    region["object"] = place.text;
    region["caller"] = opener.text;
    region["key"] = key_of(object, body, caller);
}

json region_report(const RegionRecord& record, const Sums& sums) {
    json region;
    add_place(region, record);
    const std::uint32_t runtime = record.runtime.load(std::memory_order_relaxed);
    region["runtime"] = runtime < runtime_count() ? json(file_name(runtime_at(runtime).object)) : json();
    region["calls"] = sums.calls;
    region["class"] = classes_of(record.classes.load(std::memory_order_relaxed));
    region["narrowest"] = record.narrowest.load(std::memory_order_relaxed);
    region["widest"] = record.widest.load(std::memory_order_relaxed);
    region["seconds"] = sums.timed == 0
                            ? json()
                            : json(static_cast<double>(sums.ticks) / clock_ticks_per_second() *
                                   static_cast<double>(sums.calls) / static_cast<double>(sums.timed));
    engine_report(region, record);
    return region;
}

// Runtimes that are loaded and that nobody came to through us.
int note_unreached(dl_phdr_info* info, std::size_t, void* argument) {
    auto& runtimes = *static_cast<json*>(argument);
    const LoadedObject object = object_of(*info);
    if (object.dynamic == nullptr || is_our_own(object) || !is_runtime(object)) return 0;
    for (std::size_t i = 0; i < runtime_count(); ++i)
        if (runtime_at(i).object.dynamic == object.dynamic && runtime_reached(runtime_at(i))) return 0;
    const bool libomp = DynamicSection(object).symbol("__kmpc_fork_call") != nullptr;
    runtimes.push_back({{"name", file_name(object)},
                        {"path", path_of(object)},
                        {"kind", kind_name(libomp ? RuntimeKind::libomp : RuntimeKind::gomp)},
                        {"state", "loaded, has made no parallel region so far that corun could see"}});
    return 0;
}

}  // namespace

CodePlace place_of_call(const void* returns) {
    LoadedObject object{};
    if (!find_object(returns, object)) return {hex(reinterpret_cast<std::uintptr_t>(returns)), {}};
    const std::uint64_t offset = offset_in(object, returns);
    // A call that never returns may be the last instruction of its function.
    return {std::string(file_name(object)) + "+" + hex(offset),
            function_name(path_of(object), offset > 0 ? offset - 1 : 0)};
}

bool openmp_seen() noexcept {
    return openmp_state.load(std::memory_order_relaxed) == OpenMpState::active && runtime_count() > 0;
}

void openmp_report(json& report) {
    json runtimes = json::array();
    for (std::size_t i = 0; i < runtime_count(); ++i) {
        const Runtime& runtime = runtime_at(i);
        if (!runtime_reached(runtime)) continue;
        runtimes.push_back({{"name", file_name(runtime.object)},
                            {"path", path_of(runtime.object)},
                            {"kind", kind_name(runtime.kind)},
                            {"state", "reached"}});
    }
    dl_iterate_phdr(note_unreached, &runtimes);
    std::vector<std::pair<const RegionRecord*, Sums>> seen;
    for (const RegionRecord& record : regions) {
        const Sums sums = sums_of(record);
        if (sums.calls > 0) seen.emplace_back(&record, sums);
    }
    std::sort(seen.begin(), seen.end(), [](const auto& a, const auto& b) {
        return a.second.ticks != b.second.ticks ? a.second.ticks > b.second.ticks
                                                : a.second.calls > b.second.calls;
    });
    start_profile_report(report);
    report["runtimes"] = std::move(runtimes);
    engine_report_crowd(report);
    report["regions_seen"] = seen.size();
    report["regions"] = json::array();
    for (std::size_t i = 0; i < std::min(seen.size(), kListed); ++i)
        report["regions"].push_back(region_report(*seen[i].first, seen[i].second));
}

}  // namespace corun
