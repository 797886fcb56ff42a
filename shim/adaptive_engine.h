// SPDX-License-Identifier: Apache-2.0
// What decides about widths for CORUN_OPENMP=adaptive: hands what the hooks have seen to the judgement
// (policy/region.h) and to the tuner (policy/region_tuner.h) and what follows from it back to the regions'
// words. One thread is at it at a time, and nobody waits for it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "shim/adaptive.h"
#include "shim/call_path.h"

namespace corun {

/// A timed call of the leader.
struct AdaptiveSample {
    AdaptiveRegion* region;
    std::int32_t width;
    std::int32_t before;
    std::uint64_t begin;  ///< ticks
    std::uint64_t end;
    bool solo;
    std::uint32_t loops;       ///< runs of its loop, see AdaptiveRegion::loop
    std::uint64_t iterations;  ///< of them all
    std::uint64_t chunk;       ///< that the last had
    std::uint64_t work;        ///< ticks of all its threads in its code
    bool asked;                ///< for the way that it came
    bool path_read;            ///< and that is known: engine_ask_path() has read it
};

struct AdaptiveSettings {
    double explore;       ///< share of the run time that trials may cost
    const char* regions;  ///< CORUN_REGIONS; kept, not copied
    bool random;          ///< any width that is allowed, for tests of correctness
    bool chunks;          ///< chunks of dynamic schedules are learned too
};
void adaptive_engine_start(const AdaptiveSettings& settings) noexcept;

/// The leader opens `region` and `engine_due()`: makes it known if it is new, judges what there is news of,
/// lets the tuner look. Does nothing when another thread is at it. Keeps errno.
void engine_look(AdaptiveRegion& region, const Runtime& runtime, std::uint64_t now) noexcept;
bool engine_due(const AdaptiveRegion& region, std::uint64_t now) noexcept;

/// Whether nobody has named a chunk for schedule(runtime) in the environment.
bool engine_runtime_free() noexcept;

void engine_sample(const AdaptiveSample& sample) noexcept;  ///< the leader's; kept until the next look
void engine_trial(const AdaptiveSample& sample) noexcept;   ///< of a region whose calls are all timed

/// See call_path_read(). False too where another thread is at it, or on a stack that is not the thread's.
bool engine_read_path(CallPathRead& read, const void* caller, const void* reference) noexcept;
/// The same, kept until the call's engine_trial(). The leader's.
bool engine_ask_path(const void* caller, const void* reference) noexcept;

/// One call of `weight`: `after` came next after `before` on the leader's thread.
void engine_followed(const AdaptiveRegion& before, const AdaptiveRegion& after,
                     std::uint32_t weight) noexcept;

/// Something was seen that may end a verdict: no width is used until a look has come.
extern constinit std::atomic<bool> engine_news;
/// An object asked or set something outside regions. Keeps errno; waits for nobody: at the next look at last.
void engine_outside(const Runtime& runtime, std::uint32_t fact, const void* caller) noexcept;

void engine_before_fork() noexcept;
void engine_fork_in_parent() noexcept;
void engine_after_fork() noexcept;  ///< in the child

/// Adds "crowded" where others had the CPUs too: how often and for how long.
void engine_report_crowd(nlohmann::json& report) noexcept;

/// Adds what is known of a region beyond its record: class, why, widths, width, switches.
void engine_report(nlohmann::json& region, const RegionRecord& record) noexcept;

}  // namespace corun
