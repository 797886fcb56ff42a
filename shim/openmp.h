// SPDX-License-Identifier: Apache-2.0
// Between the hooks of OpenMP (gomp.cc, kmp.cc) and the rest. What is always right, and therefore the default
// (CORUN_OPENMP=safe): a thread's number of threads that came from the environment or from the machine is
// capped at the budget before the thread asks for it or opens a region; nothing is resized afterwards, what
// the program itself has set or named is never touched. Regions are counted, and timed now and then.
#pragma once

#include <atomic>
#include <cstdint>

#include "shim/clock.h"
#include "shim/openmp_start.h"
#include "shim/regions.h"
#include "shim/resolver.h"

namespace corun {

/// Of the calling thread; sets have a bit for each runtime.
struct OpenMpThread {
    std::uint64_t ready;     ///< nothing is left to be done before a region
    std::uint64_t settled;   ///< capped, or the program's own word: not looked at again
    std::uint64_t repeated;  ///< it has set the environment's number itself, and asked nothing since
    std::uint64_t capped;    ///< never settled: looked at each time, see openmp_settle()
    std::uint64_t pool;      ///< gcc's runtime keeps threads for it
    std::uint64_t held;      ///< in a forked child: one thread, for the others exist in the parent only
    std::uint32_t shard;     ///< of the counters, 1...; 0: none yet
    std::int32_t named;      ///< clang's num_threads clause that is pending; 0: none
    std::int32_t word;       ///< the number that it has set itself last; 0: none
    bool busy;               ///< inside our own slow path
};
extern constinit thread_local OpenMpThread openmp_thread __attribute__((tls_model("initial-exec")));

/// Whether the hooks are in this library. Null where they are not.
[[gnu::weak]] bool openmp_hooked() noexcept;
/// The same of what CORUN_OPENMP=adaptive has to see of each region. Not in every library, as programs ask
/// for a thread's number often, and every hook costs.
[[gnu::weak]] bool adaptive_hooked() noexcept;

/// `unseen` until the options are read.
enum class OpenMpState : std::uint8_t { unseen, active, off };
extern constinit std::atomic<OpenMpState> openmp_state;

// Those that are not noexcept may take our slow path: see undisturbed.h.
/// Before the thread is told how many threads it may have, unless it is `settled`. Keeps errno.
/// A cap is the number of a data environment, and ends with it: a task that a thread outside of a region runs
/// itself, a target region on the host and a league of teams have their own. So whoever was capped is capped
/// again wherever the number is above the limit, or more threads would run than were promised.
void openmp_settle(const Runtime& runtime);
/// Before it opens a region that names `threads` (0: none), unless it is `ready`.
void openmp_before_region(const Runtime& runtime, long threads);

/// The program sets its number of threads: what it is to be. Its own word stays; where it only repeats the
/// environment's, until it asks again.
int openmp_own(const Runtime& runtime, int threads);

/// What omp_get_num_procs() is to say: never more than the budget.
int openmp_processors(const Runtime& runtime, int own);

void openmp_loaded() noexcept;                   ///< in our constructor
void openmp_after_fork(bool followed) noexcept;  ///< in the child, on the one thread that it has

/// A call whose threads are timed inside the region's own code. Not in the hook's frame, which the program
/// may leave by a jump while others still work.
struct WatchedCall {
    std::atomic<bool> taken;
    RegionBody* body;
    void* data;
    std::atomic<std::uint64_t> work, longest;  ///< ticks of all threads, of the slowest
};
/// Takes a free one for the body to be run by `gomp.cc`; null: none is free, or another tool that is
/// preloaded would see a body that is not the program's.
WatchedCall* region_watch(const Runtime& runtime, RegionBody* body, void* data) noexcept;

/// A region that is open, in the hook's frame.
struct OpenRegion {
    RegionRecord* timed;   ///< null: only counted
    std::uint64_t begin;   ///< ticks
    std::uint32_t weight;  ///< calls that its time stands for
    WatchedCall* watched;  ///< null: nobody looks how long its threads work; set where `timed` is
};

/// Of a region's calls in a shard the first eight are looked at closely, and then one of so many.
inline constexpr std::uint64_t kLookFirst = 8;
inline constexpr std::uint64_t kLookEvery = 64;
/// Returns the calls that this one, the `call`th from 0, stands for.
std::uint32_t region_look(RegionRecord& record, const Runtime& runtime, long threads,
                          std::uint64_t call) noexcept;

/// Before a region that names `threads` (0: none), opened from `caller`. An op scope around it will decide
/// its width here, before the runtime asks.
inline void region_count(OpenRegion& region, const Runtime& runtime, const void* body, long threads,
                         const void* caller) {
    region.timed = nullptr;
    if ((openmp_thread.ready & runtime.bit) == 0) [[unlikely]]
        openmp_before_region(runtime, threads);
    if (openmp_state.load(std::memory_order_relaxed) != OpenMpState::active) [[unlikely]]
        return;
    RegionRecord& record = region_record(body, caller, runtime);
    RegionShard& shard = record.shards[openmp_thread.shard % kRegionShards];
    const std::uint64_t call = shard.calls.fetch_add(1, std::memory_order_relaxed);
    if (call >= kLookFirst && call % kLookEvery != 0) [[likely]]
        return;
    region.weight = region_look(record, runtime, threads, call);
    region.timed = &record;
}

inline void region_begin(OpenRegion& region, const Runtime& runtime, const void* body, long threads,
                         const void* caller) {
    region_count(region, runtime, body, threads, caller);
    if (region.timed != nullptr) [[unlikely]] {
        region.watched = nullptr;
        region.begin = ticks();
    }
}

void region_watched(const OpenRegion& region, RegionShard& shard) noexcept;  ///< its threads have joined

inline void region_end(const OpenRegion& region) noexcept {
    if (region.timed == nullptr) [[likely]]
        return;
    RegionShard& shard = region.timed->shards[openmp_thread.shard % kRegionShards];
    shard.ticks.fetch_add((ticks() - region.begin) * region.weight, std::memory_order_relaxed);
    shard.timed.fetch_add(region.weight, std::memory_order_relaxed);
    if (region.watched != nullptr) region_watched(region, shard);
}

}  // namespace corun
