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
inline constexpr std::uint32_t kWidthShift = 16;     ///< above: its width, 0: the program's own
inline constexpr std::uint64_t kRareEvery = 64;

/// What is known of a region beside its record, in the same order.
struct alignas(64) AdaptiveRegion {
    std::atomic<std::uint32_t> facts;    ///< policy::RegionFact, sticky
    std::atomic<std::uint32_t> revokes;  ///< those that end the matter; 0: kRevokes (it is not listed)
    std::atomic<std::uint32_t> control;
    // Written by the leader only.
    std::atomic<std::int32_t> own;        ///< width that the program gives it, when last looked at
    std::atomic<std::uint64_t> calls;     ///< of the leader
    std::atomic<std::uint64_t> resized;   ///< of them at another width than its own
    std::atomic<std::uint64_t> evidence;  ///< of them with a team of 2 or more that had a loop
};
extern constinit std::array<AdaptiveRegion, kRegions + kRegionProbes> adaptive_regions;

inline AdaptiveRegion& adaptive_region(const RegionRecord& record) noexcept {
    return adaptive_regions[static_cast<std::size_t>(&record - regions.data())];
}

/// Of the calling thread.
struct AdaptiveThread {
    AdaptiveRegion* inside;   ///< the innermost region with a body of ours that it is in
    const void* frame;        ///< of that body: what is called from it lies below
    std::int32_t width;       ///< of that region; 0: the program's own
    AdaptiveRegion* last;     ///< of the leader: the region before
    std::int32_t last_width;  ///< of that; 0: unknown
};
extern constinit thread_local AdaptiveThread adaptive_thread __attribute__((tls_model("initial-exec")));

/// What our body is given instead of the program's own data; it lies in the frame of the hook that opened the
/// region, which outlives the team.
struct Member {
    void* body;
    void* data;  ///< or, of clang's regions, an array of arguments
    AdaptiveRegion* region;
    std::int32_t width;  ///< that it was given; 0: the program's own
    std::int32_t count;  ///< of arguments
};

/// One region that is opened while adaptive_on.
struct AdaptiveCall {
    AdaptiveRegion* region;  ///< null: it is opened with its own body
    std::uint64_t begin;     ///< ticks; 0: not timed
    std::int32_t width;      ///< 0: what the program says
    std::int32_t before;     ///< width of the region before; 0: unknown
    Member member;
};

/// Decides about a region that names `threads` (0: none) and whose loop is of the kind `loop`
/// (policy::RegionFact; 0: not known from the call). Keeps errno.
void adaptive_open(AdaptiveCall& call, const Runtime& runtime, const void* body, long threads,
                   std::uint32_t loop) noexcept;
void adaptive_timed(const AdaptiveCall& call) noexcept;
/// A fact of a region that no thread has shown before.
void adaptive_note(AdaptiveRegion& region, std::uint32_t fact) noexcept;
/// A question or setting outside any region, from `caller`; policy::ObjectFact.
void adaptive_outside(const Runtime& runtime, std::uint32_t fact, const void* caller) noexcept;

inline void adaptive_begin(AdaptiveCall& call, OpenRegion& region, const Runtime& runtime, const void* body,
                           long threads, std::uint32_t loop) noexcept {
    call.region = nullptr;
    call.width = 0;
    if (!adaptive_on.load(std::memory_order_relaxed)) [[likely]]
        return;
    adaptive_open(call, runtime, body, threads, loop);
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
