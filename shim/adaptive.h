// SPDX-License-Identifier: Apache-2.0
// CORUN_OPENMP=adaptive, as the hooks see it. A region that may yet turn out to be resizable is opened with a
// body of ours, which runs the program's own and lets each thread of the team know meanwhile which region it
// is in: so whatever a thread asks there is held against that region. Once a region is found to be of another
// kind it is opened as it is. Widths are decided elsewhere (adaptive_engine.h); here they only take effect.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "policy/region.h"
#include "policy/region_chunk.h"
#include "shim/openmp.h"

namespace corun {

/// Whether regions may be resized in this process. False until the options are read, and in a forked child.
extern constinit std::atomic<bool> adaptive_on;
extern constinit std::atomic<double> adaptive_rate;  ///< ticks a second, the same for the whole run

/// Of AdaptiveRegion::control. 0: nobody has looked at it yet.
inline constexpr std::uint32_t kWatched = 1U << 0;   ///< opened with a body of ours
inline constexpr std::uint32_t kLeft = 1U << 1;      ///< for good: opened as it is
inline constexpr std::uint32_t kEach = 1U << 2;      ///< each call is timed
inline constexpr std::uint32_t kRare = 1U << 3;      ///< one call of many is looked at, else each
inline constexpr std::uint32_t kAnyWidth = 1U << 4;  ///< another one with each call (CORUN_POLICY=random)
inline constexpr std::uint32_t kAsksPath = 1U << 5;  ///< the way to each call is read
inline constexpr std::uint32_t kSplit = 1U << 6;     ///< it has parts: adaptive_split.h
inline constexpr std::uint32_t kWidthShift = 16;     ///< above: its width, 0: the program's own
inline constexpr std::uint64_t kRareEvery = 61;      ///< a prime: regions that come in turn are all met

/// A chunk and the number of iterations of the loops that it was found for, in one word; the chunk 0 is the
/// program's own.
constexpr std::uint64_t chunk_word(std::uint64_t chunk, std::uint64_t usual) {
    return chunk > 0xFFFFFFFFU ? 0 : (usual > 0x7FFFFFFFU ? 0x7FFFFFFFU : usual) << 32 | chunk;
}
constexpr std::uint64_t chunk_of_word(std::uint64_t word) {
    return word & 0xFFFFFFFFU;
}
constexpr std::uint64_t usual_of_word(std::uint64_t word) {
    return word >> 32 & 0x7FFFFFFFU;
}
/// Beside a chunk: the region's schedule(runtime) is a dynamic one whose chunk nobody has chosen.
inline constexpr std::uint64_t kFreeRuntime = std::uint64_t{1} << 63;

struct AdaptiveSplit;

/// What is known of a region beside its record, in the same order, and then of parts of regions.
struct alignas(64) AdaptiveRegion {
    std::atomic<std::uint32_t> facts;    ///< policy::RegionFact, sticky
    std::atomic<std::uint32_t> revokes;  ///< those that end the matter; 0: kRevokes (it is not listed)
    std::atomic<std::uint32_t> control;
    // Written by the leader only.
    std::atomic<std::int32_t> own;        ///< width that the program gives it, when last looked at
    std::atomic<std::uint64_t> calls;     ///< of the leader
    std::atomic<std::uint64_t> resized;   ///< of them at another width than its own
    std::atomic<std::uint64_t> evidence;  ///< of them with a team of 2 or more that had a loop
    // Of its first loop with a dynamic schedule whose chunk nobody has chosen.
    std::atomic<const void*> loop;     ///< where it is started: its code; null: there is none so far
    std::atomic<std::uint64_t> chunk;  ///< chunk_word()
    // Written by the leader only.
    std::atomic<std::uint64_t> rechunked;  ///< calls of the leader with another chunk than the loop's own
    std::atomic<std::uint64_t> work;       ///< ticks of all threads in its code, of the calls timed
    std::atomic<std::uint64_t> span;       ///< ... if each had taken as long as the slowest
    std::atomic<const void*> body;         ///< its outlined function; null: nobody has come to it yet
    std::atomic<AdaptiveRegion*> whole;    ///< that it is a part of
    std::atomic<AdaptiveSplit*> split;     ///< its parts; null: none
};
inline constexpr std::size_t kAdaptiveParts = 120;
extern constinit std::array<AdaptiveRegion, kRegions + kRegionProbes + kAdaptiveParts> adaptive_regions;

inline AdaptiveRegion& adaptive_region(const RegionRecord& record) noexcept {
    return adaptive_regions[static_cast<std::size_t>(&record - regions.data())];
}

/// Of the calling thread.
struct AdaptiveThread {
    AdaptiveRegion* inside;  ///< the innermost region with a body of ours that it is in
    const void* frame;       ///< of that body: what is called from it lies below
    std::int32_t width;      ///< of that region; 0: the program's own
    std::uint64_t chunk;     ///< chunk_word() of its loop, the same for the whole team
    const Runtime* runtime;  ///< that opened it, where `chunk` has one
    // Of the leader, since it opened its region.
    std::uint32_t loops;       ///< runs of the region's loop
    std::uint64_t iterations;  ///< of them all
    std::uint64_t chunk_used;  ///< by the last
    AdaptiveRegion* last;      ///< of the leader: the region before
    std::int32_t last_width;   ///< of that; 0: unknown
    // Of the leader: the stack that it was given, once a way was read on it.
    std::uintptr_t stack_low, stack_high;
};
extern constinit thread_local AdaptiveThread adaptive_thread __attribute__((tls_model("initial-exec")));

/// What our body is given instead of the program's own data; it lies in the frame of the hook that opened the
/// region, which outlives the team.
struct Member {
    void* body;
    void* data;  ///< or, of clang's regions, an array of arguments
    AdaptiveRegion* region;
    std::int32_t width;   ///< that it was given; 0: the program's own
    std::int32_t count;   ///< of arguments
    std::uint64_t chunk;  ///< as in AdaptiveThread
    const Runtime* runtime;
    bool timed;  ///< each thread adds how long it was in the body, else these are not set
    std::uint32_t threads;
    std::uint64_t work, longest;  ///< ticks: of all of them, of the slowest
};

/// One region that is opened while adaptive_on.
struct AdaptiveCall {
    AdaptiveRegion* region;  ///< null: it is opened with its own body
    std::uint64_t begin;     ///< ticks; 0: not timed
    std::int32_t width;      ///< 0: what the program says
    std::int32_t before;     ///< width of the region before; 0: unknown
    bool asked;              ///< for its way
    bool path_read;          ///< and that is known
    Member member;
};

/// Decides about a region that is opened from `caller`, names `threads` (0: none) and whose loop is of the
/// kind `loop` (policy::RegionFact; 0: not known from the call). `call` lies in the hook's frame, at the same
/// place in each call of a hook. Keeps errno.
void adaptive_open(AdaptiveCall& call, const Runtime& runtime, const void* body, const void* caller,
                   long threads, std::uint32_t loop) noexcept;
void adaptive_timed(const AdaptiveCall& call) noexcept;
/// The first time that somebody comes to it: what was seen of its function elsewhere holds for it.
void adaptive_adopt(AdaptiveRegion& region, const void* body) noexcept;
/// A fact of a region that no thread has shown before. It holds for all regions of the same function.
void adaptive_note(AdaptiveRegion& region, std::uint32_t fact) noexcept;
/// A question or setting outside any region, from `caller`; policy::ObjectFact.
void adaptive_outside(const Runtime& runtime, std::uint32_t fact, const void* caller) noexcept;

inline void adaptive_begin(AdaptiveCall& call, OpenRegion& region, const Runtime& runtime, const void* body,
                           const void* caller, long threads, std::uint32_t loop) noexcept {
    call.region = nullptr;
    call.width = 0;
    if (!adaptive_on.load(std::memory_order_relaxed)) [[likely]]
        return;
    adaptive_open(call, runtime, body, caller, threads, loop);
    if (region.timed != nullptr) region.begin = ticks();
}

inline void adaptive_end(const AdaptiveCall& call) noexcept {
    if (call.region != nullptr && call.begin != 0) [[unlikely]]
        adaptive_timed(call);
}

/// A thread inside a region has shown something. Next to nothing outside of those with a body of ours.
inline void adaptive_fact(std::uint32_t fact) noexcept {
    AdaptiveRegion* const region = adaptive_thread.inside;
    if (region == nullptr) [[likely]]
        return;
    if ((region->facts.load(std::memory_order_relaxed) & fact) != fact) [[unlikely]]
        adaptive_note(*region, fact);
}

/// A question from `caller`, which is not held against the region where the runtime asks itself.
inline void adaptive_asked(std::uint32_t fact, const Runtime& runtime, const void* caller) noexcept {
    if (adaptive_thread.inside != nullptr && !runtime.object.holds(caller)) [[unlikely]]
        adaptive_fact(fact);
}

/// A loop speaks for a region, so that it has to be surely of this one: a region that was left by a jump is
/// not over for us.
inline void adaptive_loop(std::uint32_t fact) noexcept {
    if (adaptive_thread.inside == nullptr) [[likely]]
        return;
    if (reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) <
        reinterpret_cast<std::uintptr_t>(adaptive_thread.frame))
        adaptive_fact(fact);
}

/// Steps of a loop that counts from `first` towards `last`, which it may reach; 0 where it does not go there.
template <typename T, typename S>
constexpr std::uint64_t loop_iterations_to(T first, T last, S step) noexcept {
    const bool up = step > 0;
    if (step == 0 || (up ? first > last : first < last)) return 0;
    const auto from = static_cast<std::uint64_t>(up ? first : last);
    const auto to = static_cast<std::uint64_t>(up ? last : first);
    const auto by =
        up ? static_cast<std::uint64_t>(step) : std::uint64_t{0} - static_cast<std::uint64_t>(step);
    return (by == 1 ? to - from : (to - from) / by) + 1;
}
/// The same where it does not reach `end`.
template <typename T, typename S>
constexpr std::uint64_t loop_iterations(T first, T end, S step) noexcept {
    if (first == end) return 0;
    return loop_iterations_to(first, static_cast<T>(step > 0 ? end - 1 : end + 1), step);
}

/// The chunk for a loop inside the region that the calling thread is in; `own` if nothing else was decided.
std::uint64_t adaptive_loop_chunk(const Runtime& runtime, const void* site, std::uint64_t iterations,
                                  std::uint64_t own) noexcept;

/// A dynamic schedule of `own` iterations a chunk begins at `site`, on each thread of the team.
template <typename T>
inline T adaptive_chunk(const Runtime& runtime, const void* site, std::uint64_t iterations, T own) noexcept {
    if (adaptive_thread.inside == nullptr || own < 1) [[likely]]
        return own;
    const std::uint64_t chunk =
        adaptive_loop_chunk(runtime, site, iterations, static_cast<std::uint64_t>(own));
    return static_cast<T>(chunk);
}

/// The same of a loop with schedule(runtime); 0: it stays what it is.
inline std::uint64_t adaptive_runtime_chunk(const Runtime& runtime, const void* site,
                                            std::uint64_t iterations) noexcept {
    if (adaptive_thread.inside == nullptr || (adaptive_thread.chunk & kFreeRuntime) == 0) [[likely]]
        return 0;
    const std::uint64_t chunk = adaptive_loop_chunk(runtime, site, iterations, 1);
    return chunk > 1 ? chunk : 0;
}

/// The same of a region that is one loop, by the thread that opens it. `call.region` is not null.
std::uint64_t adaptive_combined_chunk(const AdaptiveCall& call, const Runtime& runtime,
                                      std::uint64_t iterations, std::uint64_t own) noexcept;

/// The program has set its runtime schedule itself.
void adaptive_schedule_set() noexcept;

/// The maximum or the processors were asked for, or (only ever outside) the number was set.
inline void adaptive_planned(const Runtime& runtime, std::uint32_t fact, const void* caller) noexcept {
    if (!adaptive_on.load(std::memory_order_relaxed)) [[likely]]
        return;
    if (runtime.object.holds(caller)) return;
    if (adaptive_thread.inside != nullptr)
        adaptive_fact(policy::kAskedMaximum);
    else
        adaptive_outside(runtime, fact, caller);
}

}  // namespace corun

extern "C" {
/// The bodies of ours: adaptive_member.cc.
[[gnu::visibility("hidden")]] void corun_member(void* member);
[[gnu::visibility("hidden")]] void corun_kmp_member(int* thread, int* bound, void* member);
}
