// SPDX-License-Identifier: Apache-2.0
// What adaptive_engine.cc knows, for its parts only. All of it belongs to the thread that is at it.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/busy_clock.h"
#include "policy/region_chunk.h"
#include "policy/region_crowd.h"
#include "policy/region_paths.h"
#include "policy/region_tuner.h"
#include "shim/adaptive_engine.h"

namespace corun {

inline constexpr std::size_t kSamples = 256;
inline constexpr std::size_t kFollowed = 256;

struct KnownObject {
    LoadedObject object;
    std::size_t runtime;
    policy::RegionBook::Id id;
    std::string name;
};

struct KnownRuntime {
    policy::RegionBook::Id id;
    policy::RuntimeKind kind;
    std::unique_ptr<policy::RegionTuner> tuner;
    std::vector<std::size_t> regions;  // by the tuner's number
    std::vector<std::uint64_t> calls;  // the same
    std::uint64_t ticked = 0;
    std::uint32_t facts = 0;  // seen outside so far
};

struct KnownRegion {
    AdaptiveRegion* region;
    const void* body;
    std::size_t runtime;
    policy::RegionBook::Id id;
    policy::RegionTuner::Id tuned;
    std::uint64_t evidence = 0;  // that the book knows
    double seconds = 0.0;        // of the last call timed
    bool loopless = false;
    std::optional<policy::RegionChunk> chunk;  // of its loop; nothing as long as that is not worth while
    model::RobustSamples work;                 // seconds that all threads of a call have worked
    policy::RegionPaths paths;
    policy::CallPath path;           // of a part
    std::vector<std::size_t> parts;  // numbers
    policy::RegionClass kind = policy::RegionClass::too_few_calls;
};

struct Followed {
    const AdaptiveRegion* before;
    const AdaptiveRegion* after;
    std::uint64_t count;
};

struct Engine {
    AdaptiveSettings settings{};
    policy::RegionBook book;
    std::vector<KnownObject> objects;
    std::map<std::size_t, KnownRuntime> runtimes;  // by index
    std::map<const AdaptiveRegion*, std::size_t> numbers;
    std::deque<KnownRegion> regions;
    std::array<AdaptiveSample, kSamples> samples{};
    std::size_t sample_count = 0;
    std::array<Followed, kFollowed> followed{};
    std::atomic<std::uint64_t> next{0};  // ticks at which a look is due
    policy::BusyClock clock;
    double longest = 0.0;  // seconds that all threads of a call work, of the region with most
    policy::RegionCrowd crowd;
    std::uint64_t crowd_looked = 0;  // ticks
    std::uint64_t crowd_every = 0;
    bool ffi_seen = false;
    bool runtime_free = false;  // see engine_runtime_free()
};

inline double in_seconds(std::uint64_t ticks) {
    return static_cast<double>(ticks) / adaptive_rate.load(std::memory_order_relaxed);
}

/// The time that policies go by.
inline double busy_time(const Engine& all, std::uint64_t ticks) {
    return all.clock.at(in_seconds(ticks));
}

// Making known: adaptive_known.cc.
KnownRuntime& runtime_known(Engine& all, const Runtime& runtime, std::uint64_t now);
KnownObject& object_known(Engine& all, const LoadedObject& object, std::size_t runtime);
/// Nothing is known of code that no object holds: it stays as it is, and this is null.
KnownRegion* region_known(Engine& all, AdaptiveRegion& region, const Runtime& runtime, std::uint64_t now);

/// Makes a part for each group of its callers; false: there is no room for more.
bool parts_known(Engine& all, KnownRegion& whole);
/// For the report: adaptive_report.cc.
void describe_region(const Engine& all, const KnownRegion& known, nlohmann::json& region);

}  // namespace corun
