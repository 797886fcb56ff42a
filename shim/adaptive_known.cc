// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "shim/adaptive_objects.h"
#include "shim/adaptive_split.h"
#include "shim/adaptive_state.h"
#include "shim/symbol_names.h"

namespace corun {
namespace {

// The program by its own name: an entry of CORUN_REGIONS may give it.
std::string listed_name(const LoadedObject& object) {
    std::string path = object.name != nullptr ? object.name : "";
    if (path.empty()) {
        char own[4096];
        const ssize_t length = readlink("/proc/self/exe", own, sizeof own);
        path.assign(own, length > 0 ? static_cast<std::size_t>(length) : 0);
    }
    return path.substr(path.rfind('/') + 1);
}

std::string file_path(const LoadedObject& object) {
    return object.name != nullptr && object.name[0] != '\0' ? object.name : "/proc/self/exe";
}

// By its own name or by that of the function that opens it: clang numbers its regions.
bool is_listed(const Engine& all, const KnownObject& object, const RegionRecord& record) {
    if (all.settings.regions == nullptr || all.settings.regions[0] == '\0') return false;
    const auto offset_of = [&](const std::atomic<const void*>& address) {
        return reinterpret_cast<std::uintptr_t>(address.load(std::memory_order_relaxed)) - object.object.base;
    };
    const std::uint64_t offset = offset_of(record.body);
    const std::string path = file_path(object.object);
    const auto matches = [&](const std::string& name) {
        return policy::list_matches(all.settings.regions, object.name, offset, name);
    };
    if (matches(function_name(path, offset))) return true;
    const void* const opener = record.caller.load(std::memory_order_relaxed);
    return object.object.holds(opener) && matches(function_name(path, offset_of(record.caller)));
}

}  // namespace

KnownRuntime& runtime_known(Engine& all, const Runtime& runtime, std::uint64_t now) {
    KnownRuntime& known = all.runtimes[runtime.index];
    if (known.tuner != nullptr) return known;
    known.kind =
        runtime.kind == RuntimeKind::libomp ? policy::RuntimeKind::libomp : policy::RuntimeKind::libgomp;
    known.id = all.book.add_runtime(known.kind);
    if (all.ffi_seen) all.book.runtime_seen(known.id, policy::kAskedUnseen);
    engine_news.store(true, std::memory_order_release);  // somebody may have asked it before
    known.tuner = std::make_unique<policy::RegionTuner>(
        policy::TunerSettings{known.kind, all.settings.explore, 0.05}, busy_time(all, now));
    return known;
}

KnownObject& object_known(Engine& all, const LoadedObject& object, std::size_t runtime) {
    for (KnownObject& one : all.objects)
        if (one.object.dynamic == object.dynamic && one.runtime == runtime) return one;
    const std::string name = listed_name(object);
    const auto id = all.book.add_object(name, all.runtimes.at(runtime).id, object_facts(object));
    all.objects.push_back({object, runtime, id, name});
    return all.objects.back();
}

namespace {

KnownRegion& add_region(Engine& all, AdaptiveRegion& region, const KnownObject& in, bool listed) {
    KnownRuntime& of = all.runtimes.at(in.runtime);
    KnownRegion known{};
    known.region = &region;
    known.body = region.body.load(std::memory_order_relaxed);
    known.runtime = in.runtime;
    known.id = all.book.add_region(in.name, in.id, listed);
    known.tuned = of.tuner->add(region.own.load(std::memory_order_relaxed));
    of.regions.push_back(all.regions.size());
    all.numbers[&region] = all.regions.size();
    all.regions.push_back(std::move(known));
    return all.regions.back();
}

}  // namespace

KnownRegion* region_known(Engine& all, AdaptiveRegion& region, const Runtime& runtime, std::uint64_t now) {
    const auto found = all.numbers.find(&region);
    if (found != all.numbers.end()) return &all.regions[found->second];
    const auto index = static_cast<std::size_t>(&region - adaptive_regions.data());
    LoadedObject object{};
    if (!find_object(region.body.load(std::memory_order_relaxed), object))
        return region.control.store(kLeft), nullptr;
    runtime_known(all, runtime, now);
    const KnownObject& in = object_known(all, object, runtime.index);
    const bool listed = is_listed(all, in, regions[index]);
    if (listed) region.revokes.store(policy::kNever, std::memory_order_relaxed);
    return &add_region(all, region, in, listed);
}

bool parts_known(Engine& all, KnownRegion& whole) {
    LoadedObject object{};
    if (!find_object(whole.body, object)) return false;
    const std::vector<policy::CallPath>& groups = whole.paths.groups();
    AdaptiveSplit* const split = adaptive_split_make(*whole.region, whole.paths.depth(), groups);
    if (split == nullptr) return false;
    const KnownObject& in = object_known(all, object, whole.runtime);
    const bool listed = whole.region->revokes.load(std::memory_order_relaxed) != 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
        whole.parts.push_back(all.regions.size());
        add_region(all, *split->parts[i], in, listed).path = groups[i];
    }
    whole.region->split.store(split, std::memory_order_release);
    return true;
}

}  // namespace corun
