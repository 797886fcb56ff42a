// SPDX-License-Identifier: Apache-2.0
#include "shim/adaptive.h"

#include "shim/adaptive_engine.h"
#include "shim/adaptive_split.h"

namespace corun {

constinit std::atomic<bool> adaptive_on{false};
constinit std::atomic<double> adaptive_rate{1e9};
constinit std::array<AdaptiveRegion, kRegions + kRegionProbes + kAdaptiveParts> adaptive_regions{};
constinit thread_local AdaptiveThread adaptive_thread __attribute__((tls_model("initial-exec"))){};

namespace {

using policy::kInside;
using policy::kRevokes;

constexpr std::uint64_t kEvidenceFirst = 4 * policy::kEvidenceCalls;  // so many are all looked at
constexpr double kAlone = 0.02;    // seconds that a sample must be away from another thread's region
constexpr double kLongest = 0.02;  // seconds from one look to the next, while teams are wide
constexpr double kDeserted = 2.0;  // seconds without a look of the leader: another thread may be it

// The one thread whose regions are resized: what is learned holds for a thread that is alone with its team.
constinit std::atomic<std::uint32_t> leader{0};  // its shard number; 0: none yet
constinit std::atomic<std::uint64_t> leader_at{0};
constinit std::atomic<std::uint64_t> others_at{0};  // ticks of a look of another thread
constinit std::atomic<bool> schedule_set{false};    // by the program: its runtime schedules are its own

std::uint64_t in_ticks(double seconds) {
    return static_cast<std::uint64_t>(seconds * adaptive_rate.load(std::memory_order_relaxed));
}

bool is_leader(std::uint64_t now) {
    const std::uint32_t own = openmp_thread.shard;
    std::uint32_t who = leader.load(std::memory_order_relaxed);
    if (own == 0 || who == own) return own != 0;
    // The leader's time may be later than this thread's, which looked before.
    const auto since = static_cast<std::int64_t>(now - leader_at.load(std::memory_order_relaxed));
    const bool deserted = who == 0 || (now != 0 && since > static_cast<std::int64_t>(in_ticks(kDeserted)));
    if (!deserted || !leader.compare_exchange_strong(who, own, std::memory_order_acq_rel)) return false;
    adaptive_thread.last = nullptr;
    leader_at.store(now, std::memory_order_relaxed);
    return true;
}

// It began inside another one: neither is resized, the outer one as this would then be wide.
void note_nested(AdaptiveRegion& region) {
    if (AdaptiveRegion* const outer = adaptive_thread.inside) adaptive_note(*outer, policy::kHolds);
    adaptive_note(region, kInside);
}

// With the outer one at one thread this is the first that is active, and may be wide; in the program as it is
// the outer one was that, and this has one thread where no more may be active, whatever it names.
void keep_serial(AdaptiveCall& call, const Runtime& runtime) {
    const AdaptiveThread& thread = adaptive_thread;
    if (thread.width == 1 && get_level_of(runtime)() > 0 && most_levels_of(runtime)() <= 1) call.width = 1;
}

// Whether what `inside` says is true, or only what a jump out of a region has left behind.
bool is_inside(AdaptiveThread& thread, const Runtime& runtime, const void* frame) {
    if (thread.inside == nullptr) return false;
    const bool below =
        reinterpret_cast<std::uintptr_t>(frame) < reinterpret_cast<std::uintptr_t>(thread.frame);
    if (below || get_level_of(runtime)() > 0) return true;
    thread.inside = nullptr;
    return false;
}

bool is_looked_at(std::uint32_t control, std::uint64_t calls) {
    return (control & kRare) == 0 || calls % kRareEvery == 0 || calls <= kEvidenceFirst;
}

// A team that waits for CPUs which others have may take as long for a tiny region as for thousands of them.
// One thread waits for nobody, and is not held up by a look at the clock.
bool is_late(std::uint32_t control) {
    if (control >> kWidthShift == 1) return false;
    return ticks() - leader_at.load(std::memory_order_relaxed) > in_ticks(kLongest);
}

void look(AdaptiveCall& call, AdaptiveRegion& region, const Runtime& runtime, std::uint64_t calls) {
    AdaptiveThread& thread = adaptive_thread;
    const std::uint64_t now = ticks();
    leader_at.store(now, std::memory_order_relaxed);
    if (get_level_of(runtime)() > 0) return note_nested(region);
    const std::int32_t own = get_max_of(runtime)();
    region.own.store(own, std::memory_order_relaxed);
    const std::uint32_t control = region.control.load(std::memory_order_relaxed);
    const bool rare = (control & kRare) != 0 && calls > kEvidenceFirst && calls % kRareEvery == 0;
    const std::uint64_t stands_for = rare ? kRareEvery : 1;
    if (own > 1 && (region.facts.load(std::memory_order_relaxed) & policy::kLoops) != 0)
        region.evidence.store(region.evidence.load(std::memory_order_relaxed) + stands_for,
                              std::memory_order_relaxed);
    if (thread.last != nullptr) engine_followed(*thread.last, region, stands_for);
    if (engine_due(region, now)) engine_look(region, runtime, now);
    call.begin = 1;
}

// For tests of correctness: whatever the rules allow, by turns.
std::int32_t any_width(const Runtime& runtime, std::int32_t own) {
    static constinit thread_local std::uint32_t state __attribute__((tls_model("initial-exec"))) = 1;
    state = state * 1664525 + 1013904223;
    const std::uint32_t word = state >> 16;
    if (runtime.kind == RuntimeKind::libomp) return 1 + static_cast<std::int32_t>(word) % own;
    return (word & 1U) != 0 ? 1 : own;
}

// By the user's word in the environment, by the program's own, or by nobody's: gcc's default, which is
// dynamic with a chunk of 1, as is OMP_SCHEDULE=dynamic.
bool is_free_runtime(const AdaptiveRegion& region, const Runtime& runtime) {
    if ((region.facts.load(std::memory_order_relaxed) & policy::kLoopRuntime) == 0 ||
        !engine_runtime_free() || schedule_set.load(std::memory_order_relaxed))
        return false;
    constexpr int dynamic = 2;
    constexpr int monotonic = static_cast<int>(0x80000000U);
    int kind = 0;
    int chunk = 0;
    get_schedule_of(runtime)(&kind, &chunk);
    return (kind & ~monotonic) == dynamic && chunk <= 1;
}

// For tests of correctness: powers of two by turns, never the own chunk.
std::uint64_t any_chunk() {
    static constinit thread_local std::uint32_t state __attribute__((tls_model("initial-exec"))) = 1;
    state = state * 1664525 + 1013904223;
    return std::uint64_t{2} << ((state >> 16) % 7);
}

// What the leader's call runs at. The program's own word is a ceiling, whatever was decided before.
std::int32_t width_of(const AdaptiveRegion& region, const Runtime& runtime) {
    const std::uint32_t control = region.control.load(std::memory_order_acquire);
    auto width = static_cast<std::int32_t>(control >> kWidthShift);
    if ((control & kAnyWidth) != 0) width = any_width(runtime, region.own.load(std::memory_order_relaxed));
    if (width == 0 || (control & kLeft) != 0 || engine_news.load(std::memory_order_acquire)) return 0;
    return width < get_max_of(runtime)() && get_level_of(runtime)() == 0 ? width : 0;
}

AdaptiveRegion& lead(AdaptiveCall& call, AdaptiveRegion& whole, const Runtime& runtime, const void* caller,
                     std::uint32_t control) {
    AdaptiveThread& thread = adaptive_thread;
    const bool has_parts = (control & kSplit) != 0;
    AdaptiveRegion& region = has_parts ? adaptive_part(whole, caller, &call) : whole;
    if (has_parts) control = region.control.load(std::memory_order_relaxed);
    const std::uint64_t calls = region.calls.load(std::memory_order_relaxed) + 1;
    region.calls.store(calls, std::memory_order_relaxed);
    if (is_looked_at(control, calls) || engine_news.load(std::memory_order_relaxed) || is_late(control))
        [[unlikely]]
        look(call, region, runtime, calls);
    call.asked = (control & kAsksPath) != 0;
    if (call.asked) [[unlikely]]
        call.path_read = engine_ask_path(caller, &call);
    call.width = width_of(region, runtime);
    thread.loops = 0;
    thread.iterations = 0;
    std::uint64_t word = region.chunk.load(std::memory_order_relaxed);
    if ((control & kAnyWidth) != 0 && word != 0) word = chunk_word(any_chunk(), 0);
    call.member.chunk = is_free_runtime(region, runtime) ? word | kFreeRuntime : word;
    if (call.width != 0)
        region.resized.store(region.resized.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    call.before = thread.last_width;
    thread.last = &region;
    thread.last_width = call.width != 0 ? call.width : region.own.load(std::memory_order_relaxed);
    return region;
}

// Whether what starts at `site` is the loop of this region that is tuned: the first whose chunk is 1, as it
// is where nobody chose it. Of a region that is listed, the first.
bool is_its_loop(AdaptiveRegion& region, const void* site, std::uint64_t own) {
    if (own != 1 && region.revokes.load(std::memory_order_relaxed) == 0) return false;
    const void* there = region.loop.load(std::memory_order_relaxed);
    if (there == nullptr && region.loop.compare_exchange_strong(there, site, std::memory_order_relaxed))
        return true;
    return there == site;
}

// Of a loop of this region, which was opened with the chunk of `word`.
std::uint64_t chunk_in(AdaptiveRegion& region, std::uint64_t word, std::uint64_t iterations,
                       std::uint64_t own) {
    AdaptiveThread& thread = adaptive_thread;
    const std::uint64_t wanted = chunk_of_word(word);
    const std::uint64_t chunk =
        wanted != 0 ? policy::chunk_for(wanted, usual_of_word(word), iterations, own) : own;
    if (!is_leader(0)) return chunk;
    if (thread.loops == 0 && wanted != 0)
        region.rechunked.store(region.rechunked.load(std::memory_order_relaxed) + 1,
                               std::memory_order_relaxed);
    ++thread.loops;
    thread.iterations += iterations;
    thread.chunk_used = chunk;
    return chunk;
}

// A verdict may end by it.
void note_here(AdaptiveRegion& region, std::uint32_t fact) {
    const std::uint32_t revokes = region.revokes.load(std::memory_order_relaxed);
    if ((fact & (revokes != 0 ? revokes : kRevokes)) == 0) return;
    // The engine puts a word in place of the one that it has seen only: this one stays.
    region.control.store(kLeft, std::memory_order_release);
    engine_news.store(true, std::memory_order_release);
}

void note_named(AdaptiveRegion& region, long threads) {
    adaptive_note(region, threads == 1 ? policy::kNamedOne : policy::kNamedSize);
    adaptive_thread.last = nullptr;
    adaptive_thread.last_width = static_cast<std::int32_t>(threads);
}

}  // namespace

void adaptive_open(AdaptiveCall& call, const Runtime& runtime, const void* body, const void* caller,
                   long threads, std::uint32_t loop) noexcept {
    RegionRecord& record = region_record(body, caller, runtime);
    AdaptiveThread& thread = adaptive_thread;
    if (&record == &regions.back() || runtime.bit == 0) return;
    AdaptiveRegion& region = adaptive_region(record);
    if (region.body.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
        adaptive_adopt(region, body);
    const bool inside = is_inside(thread, runtime, __builtin_frame_address(0));
    if (inside) {
        note_nested(region);
        keep_serial(call, runtime);
    }
    if (threads > 0) return note_named(region, threads);
    const std::uint32_t control = region.control.load(std::memory_order_relaxed);
    if (inside || (control & kLeft) != 0) {
        thread.last = nullptr;
        thread.last_width = 0;
        return;
    }
    if (loop != 0 && (region.facts.load(std::memory_order_relaxed) & loop) == 0) adaptive_note(region, loop);
    call.begin = 0;
    call.before = 0;
    call.asked = call.path_read = false;
    call.member.chunk = 0;
    AdaptiveRegion* opened = &region;
    if (is_leader(0)) [[likely]] {
        opened = &lead(call, region, runtime, caller, control);
        if ((opened->control.load(std::memory_order_relaxed) & kLeft) != 0) return;
    } else if (const std::uint64_t now = ticks(); !is_leader(now)) {
        if (now - others_at.load(std::memory_order_relaxed) > in_ticks(kAlone / 8))
            others_at.store(now, std::memory_order_relaxed);
        if (get_level_of(runtime)() > 0) return note_nested(region);
    }
    call.region = opened;
    Member& member = call.member;
    member.body = const_cast<void*>(body);
    member.region = opened;
    member.width = call.width;
    member.runtime = &runtime;
    member.timed = call.begin != 0;
    if (call.begin == 0) return;
    member.threads = 0;
    member.work = member.longest = 0;
    call.begin = ticks();
}

void adaptive_timed(const AdaptiveCall& call) noexcept {
    const std::uint64_t end = ticks();
    if (leader.load(std::memory_order_relaxed) != openmp_thread.shard) return;
    AdaptiveRegion& region = *call.region;
    const std::int32_t width = call.width != 0 ? call.width : region.own.load(std::memory_order_relaxed);
    const auto apart = static_cast<std::int64_t>(call.begin - others_at.load(std::memory_order_relaxed));
    const bool solo = apart > static_cast<std::int64_t>(in_ticks(kAlone));
    const AdaptiveThread& thread = adaptive_thread;
    const std::uint64_t work = __atomic_load_n(&call.member.work, __ATOMIC_RELAXED);
    const AdaptiveSample sample{&region,    width,         call.before,       call.begin,        end,
                                solo,       thread.loops,  thread.iterations, thread.chunk_used, work,
                                call.asked, call.path_read};
    region.work.store(region.work.load(std::memory_order_relaxed) + work, std::memory_order_relaxed);
    const std::uint64_t span = __atomic_load_n(&call.member.threads, __ATOMIC_RELAXED) *
                               __atomic_load_n(&call.member.longest, __ATOMIC_RELAXED);
    region.span.store(region.span.load(std::memory_order_relaxed) + span, std::memory_order_relaxed);
    const std::uint32_t control = region.control.load(std::memory_order_relaxed);
    if ((control & kEach) != 0)
        engine_trial(sample);
    else if ((control & kWatched) != 0)
        engine_sample(sample);
}

// All threads of a team must hand out the same: it follows from what the leader has decided when it opened
// the region, and only for the loop of that region. In a team that was opened inside it, which only the
// leader's thread would take for the region's own, the level is another one.
std::uint64_t adaptive_loop_chunk(const Runtime& runtime, const void* site, std::uint64_t iterations,
                                  std::uint64_t own) noexcept {
    const AdaptiveThread& thread = adaptive_thread;
    AdaptiveRegion& region = *thread.inside;
    const void* const frame = __builtin_frame_address(0);
    if (reinterpret_cast<std::uintptr_t>(frame) >= reinterpret_cast<std::uintptr_t>(thread.frame)) return own;
    if (chunk_of_word(thread.chunk) != 0 && runtime.bit != thread.runtime->bit) return own;
    if (!is_its_loop(region, site, own)) return own;
    if (get_level_of(runtime)() != 1) return own;
    return chunk_in(region, thread.chunk, iterations, own);
}

std::uint64_t adaptive_combined_chunk(const AdaptiveCall& call, const Runtime& runtime,
                                      std::uint64_t iterations, std::uint64_t own) noexcept {
    if (!is_its_loop(*call.region, call.member.body, own) || !is_leader(0) || get_level_of(runtime)() != 0)
        return own;
    return chunk_in(*call.region, call.member.chunk, iterations, own);
}

// Either sees the other: who notes a fact does so before it looks for those of the same function, who adopts
// gives its function before it looks at their facts.
void adaptive_note(AdaptiveRegion& region, std::uint32_t fact) noexcept {
    if ((region.facts.fetch_or(fact, std::memory_order_seq_cst) & fact) == fact) return;
    note_here(region, fact);
    const void* const body = region.body.load(std::memory_order_relaxed);
    for (AdaptiveRegion& other : adaptive_regions) {
        if (other.body.load(std::memory_order_seq_cst) != body || &other == &region) continue;
        if ((other.facts.fetch_or(fact, std::memory_order_acq_rel) & fact) != fact) note_here(other, fact);
    }
}

void adaptive_adopt(AdaptiveRegion& region, const void* body) noexcept {
    region.body.store(body, std::memory_order_seq_cst);
    std::uint32_t facts = 0;
    for (const AdaptiveRegion& other : adaptive_regions)
        if (other.body.load(std::memory_order_relaxed) == body)
            facts |= other.facts.load(std::memory_order_seq_cst);
    region.facts.fetch_or(facts, std::memory_order_acq_rel);  // judged before it has a width
}

void adaptive_schedule_set() noexcept {
    schedule_set.store(true, std::memory_order_relaxed);
}

void adaptive_outside(const Runtime& runtime, std::uint32_t fact, const void* caller) noexcept {
    if (runtime.bit == 0 || get_level_of(runtime)() > 0) return;
    engine_outside(runtime, fact, caller);
}

}  // namespace corun
