// SPDX-License-Identifier: Apache-2.0
#include "shim/adaptive_engine.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "shim/adaptive_objects.h"
#include "shim/adaptive_state.h"
#include "shim/call_path.h"
#include "shim/clock.h"
#include "shim/cpu_wait.h"
#include "shim/message.h"
#include "shim/undisturbed.h"

namespace corun {

constinit std::atomic<bool> engine_news{false};

namespace {

using policy::RegionClass;
using policy::RegionCrowd;
using policy::RegionTuner;

constexpr double kTick = 0.005;           // seconds between looks of the tuner
constexpr double kRareBelow = 100e-6;     // seconds a call: of shorter regions one of many is looked at
constexpr std::uint64_t kLoopless = 256;  // calls without a loop: it has none
// What was asked or set outside regions, of each runtime: the first caller tells the object.
struct Outside {
    std::atomic<std::uint32_t> facts;
    std::atomic<const void*> caller;
};
constinit std::array<Outside, kRuntimes> outside{};

constinit CallPathRead path_of_call{};  // the leader's, of the call that is open
constinit std::atomic<Engine*> engine{nullptr};
constinit std::atomic_flag busy = ATOMIC_FLAG_INIT;
constinit thread_local bool fork_holds __attribute__((tls_model("initial-exec"))) = false;
constexpr int kForkWaits = 500;
constexpr long kNap = 100'000;  // nanoseconds, and some for waking up

// Nobody waits for another thread here, but for the report.
class Attempt {
  public:
    explicit Attempt(int times = 1) {
        for (int i = 0; i < times && !held_; ++i) {
            held_ = !busy.test_and_set(std::memory_order_acquire);
            if (!held_ && times > 1) nap(kNap);
        }
    }
    ~Attempt() {
        if (held_) busy.clear(std::memory_order_release);
    }
    Attempt(const Attempt&) = delete;
    Attempt& operator=(const Attempt&) = delete;
    [[nodiscard]] bool held() const { return held_ && engine.load(std::memory_order_acquire) != nullptr; }

  private:
    bool held_ = false;
};

// --- judging
// -----------------------------------------------------------------------------------------------------

// Whether there may be a loop whose chunk is ours to choose.
bool chunk_may_come(const Engine& all, const KnownRegion& known) {
    return all.settings.chunks && policy::may_rechunk(known.kind) &&
           (known.region->loop.load(std::memory_order_relaxed) != nullptr ||
            known.region->calls.load(std::memory_order_relaxed) < policy::kEvidenceCalls);
}

bool may_come(const Engine& all, const KnownRegion& known) {
    return known.kind == RegionClass::too_few_calls || policy::may_resize(known.kind) ||
           chunk_may_come(all, known);
}

// Until its chunk is found a region keeps its own width: what others cost follows from the chunk. So it does
// until it is known who calls.
bool seeks_chunk(const KnownRegion& known) {
    return known.chunk && !known.chunk->settled();
}
bool seeks(const KnownRegion& known) {
    return seeks_chunk(known) || known.paths.asks();
}

void set_chunk(const Engine& all, KnownRegion& known) {
    std::uint64_t word = 0;
    if (all.settings.random && chunk_may_come(all, known))
        word = chunk_word(2, 0);  // any, see adaptive.cc
    else if (known.chunk && chunk_may_come(all, known))
        word = chunk_word(static_cast<std::uint64_t>(known.chunk->chunk()),
                          static_cast<std::uint64_t>(known.chunk->iterations()));
    known.region->chunk.store(chunk_of_word(word) > 1 ? word : 0, std::memory_order_relaxed);
}

// Where others have the CPUs too, what was measured alone does not hold, and nothing is measured.
int width_wanted(const Engine& all, const KnownRegion& known, int own) {
    const KnownRuntime& of = all.runtimes.at(known.runtime);
    const auto work = known.work.median();
    if (!all.crowd.crowded() || !policy::may_resize(known.kind) || !work || own < 2)
        return of.tuner->width(known.tuned);
    const std::vector<int> widths = policy::allowed_widths(of.kind, known.kind, own);
    return policy::crowd_width(widths, of.tuner->curve(known.tuned), *work, all.crowd.cpus());
}

void set_control(const Engine& all, KnownRegion& known) {
    set_chunk(all, known);
    const RegionTuner& tuner = *all.runtimes.at(known.runtime).tuner;
    const int own = known.region->own.load(std::memory_order_relaxed);
    const int width = width_wanted(all, known, own);
    std::uint32_t wanted = kWatched;
    if (!may_come(all, known)) {
        wanted = kLeft;
    } else {
        const bool each = tuner.wants_each(known.tuned) || seeks(known);
        if (each) wanted |= kEach;
        if (known.paths.asks()) wanted |= kAsksPath;
        if (!known.parts.empty()) wanted |= kSplit;
        if (known.seconds < kRareBelow && !each) wanted |= kRare;
        if (all.settings.random && policy::may_resize(known.kind))
            wanted |= kAnyWidth;
        else if (width != own && policy::may_resize(known.kind))
            wanted |= static_cast<std::uint32_t>(width) << kWidthShift;
    }
    std::uint32_t there = known.region->control.load(std::memory_order_relaxed);
    while ((there & kLeft) == 0 && there != wanted &&
           !known.region->control.compare_exchange_weak(there, wanted, std::memory_order_acq_rel)) {
    }
}

void judge(Engine& all, KnownRegion& known) {
    AdaptiveRegion& region = *known.region;
    const std::uint64_t evidence = region.evidence.load(std::memory_order_relaxed);
    const std::uint32_t facts = region.facts.load(std::memory_order_acquire);
    std::uint64_t fresh = evidence - known.evidence;
    if (!known.loopless && (facts & policy::kLoops) == 0 &&
        region.calls.load(std::memory_order_relaxed) >= kLoopless) {
        known.loopless = true;
        fresh += policy::kEvidenceCalls;
    }
    known.evidence = evidence;
    all.book.region_seen(known.id, fresh, facts);
    known.kind = all.book.judge(known.id).kind;
    // What is listed is not resized either before it could show that it holds another region.
    if (known.kind == RegionClass::listed &&
        region.calls.load(std::memory_order_relaxed) < policy::kEvidenceCalls)
        known.kind = RegionClass::too_few_calls;
    const int own = std::max(region.own.load(std::memory_order_relaxed), 1);
    const KnownRuntime& of = all.runtimes.at(known.runtime);
    of.tuner->allow(known.tuned,
                    seeks(known) ? std::vector<int>{own} : policy::allowed_widths(of.kind, known.kind, own),
                    own);
    set_control(all, known);
}

// What was asked or set outside, and by whom.
void take_outside(Engine& all) {
    for (auto& [index, known] : all.runtimes) {
        const std::uint32_t facts = outside[index].facts.load(std::memory_order_acquire);
        if (facts == known.facts) continue;
        known.facts = facts;
        LoadedObject object{};
        if (find_object(outside[index].caller.load(std::memory_order_relaxed), object))
            all.book.object_seen(object_known(all, object, index).id, facts);
        else
            all.book.runtime_seen(known.id, policy::kAskedUnseen);
    }
}

void take_news(Engine& all) {
    engine_news.store(false, std::memory_order_release);  // what comes from now on is news again
    take_outside(all);
    // A region that has lost its verdict makes the others of its object doubtful: twice, in either order.
    for (int round = 0; round < 2; ++round)
        for (KnownRegion& known : all.regions) judge(all, known);
}

// --- the tuner
// ---------------------------------------------------------------------------------------------------

// A loop that takes some of the run time is worth a search.
void take_chunk(Engine& all, KnownRegion& known, const AdaptiveSample& sample) {
    const int own = known.region->own.load(std::memory_order_relaxed);
    if (sample.loops == 0 || sample.width != own || !sample.solo || all.crowd.crowded()) return;
    if (known.paths.asks() || !known.parts.empty()) return;
    if (!known.chunk) {
        if (known.path.depth == 0 && !known.paths.judged()) return;
        const RegionTuner& tuner = *all.runtimes.at(known.runtime).tuner;
        if (!chunk_may_come(all, known) || all.settings.random ||
            tuner.share(known.tuned) < RegionTuner::kLeastShare)
            return;
        known.chunk.emplace(static_cast<int>(sample.chunk), all.settings.explore,
                            busy_time(all, sample.begin));
    }
    const bool sought = seeks_chunk(known);
    known.chunk->timed({static_cast<int>(sample.chunk),
                        static_cast<double>(sample.iterations) / static_cast<double>(sample.loops),
                        static_cast<double>(sample.loops), own, known.seconds, busy_time(all, sample.end)});
    if (seeks_chunk(known) != sought) judge(all, known);
}

// Whether those who call tell the costs apart. What a call costs is here what its threads have worked: that
// is about the same at any width, and with a thread that comes late as others have its CPU.
void take_path(Engine& all, KnownRegion& known, const AdaptiveSample& sample) {
    const int own = known.region->own.load(std::memory_order_relaxed);
    if (own < 2 || known.path.depth > 0) return;
    if (!policy::may_resize(known.kind) && !chunk_may_come(all, known)) return;
    const double now = busy_time(all, sample.end);
    const double work = in_seconds(sample.work);
    const bool asked = known.paths.asks();
    if (asked && !sample.asked) return;  // it was on its way before
    if (asked) {
        known.paths.timed(work, now, sample.path_read ? path_of_call.path : policy::CallPath{});
    } else {
        const RegionTuner& tuner = *all.runtimes.at(known.runtime).tuner;
        known.paths.timed(work, now,
                          all.settings.random || all.crowd.crowded() ||
                              tuner.share(known.tuned) >= RegionTuner::kLeastShare);
        if (known.paths.asks() && !call_path_known())
            known.paths.unreadable("its calls differ in length; who calls is not known without libunwind");
    }
    if (known.paths.split() && known.parts.empty()) {
        if (parts_known(all, known))
            all.runtimes.at(known.runtime).tuner->forget(known.tuned), known.chunk.reset();
        else
            known.paths.unreadable("its callers are told apart, but there are too many such regions");
    }
    if (known.paths.asks() != asked) judge(all, known);
}

void take_samples(Engine& all) {
    for (std::size_t i = 0; i < all.sample_count; ++i) {
        const AdaptiveSample& sample = all.samples[i];
        const auto found = all.numbers.find(sample.region);
        if (found == all.numbers.end()) continue;
        KnownRegion& known = all.regions[found->second];
        if (sample.work > 0) known.work.add(in_seconds(sample.work));
        if (known.work.count() >= 3) all.longest = std::max(all.longest, *known.work.median());
        const double seconds = in_seconds(sample.end - sample.begin);
        if (seconds > policy::BusyClock::most(all.longest)) continue;  // it was stopped meanwhile
        known.seconds = seconds;
        all.runtimes.at(known.runtime)
            .tuner->timed(known.tuned, {sample.width, sample.before, known.seconds,
                                        busy_time(all, sample.end), sample.solo && !all.crowd.crowded()});
        take_path(all, known, sample);
        take_chunk(all, known, sample);
    }
    all.sample_count = 0;
}

void take_followed(Engine& all) {
    for (Followed& one : all.followed) {
        if (one.count == 0) continue;
        const auto before = all.numbers.find(one.before);
        const auto after = all.numbers.find(one.after);
        if (before != all.numbers.end() && after != all.numbers.end()) {
            const KnownRegion& first = all.regions[before->second];
            const KnownRegion& second = all.regions[after->second];
            if (first.runtime == second.runtime)
                all.runtimes.at(first.runtime).tuner->followed(first.tuned, second.tuned, one.count);
        }
        one = {};
    }
}

void tick(Engine& all, KnownRuntime& runtime, const KnownRegion& at, std::uint64_t now) {
    runtime.ticked = now;
    take_samples(all);
    take_followed(all);
    if (!all.ffi_seen && reached_past_hooks()) {
        all.ffi_seen = true;
        for (auto& [index, known] : all.runtimes) all.book.runtime_seen(known.id, policy::kAskedUnseen);
        engine_news.store(true, std::memory_order_release);
    }
    runtime.calls.resize(runtime.regions.size());
    for (std::size_t i = 0; i < runtime.regions.size(); ++i)
        runtime.calls[i] = all.regions[runtime.regions[i]].region->calls.load(std::memory_order_relaxed);
    if (!all.settings.random && !all.crowd.crowded())
        runtime.tuner->tick(busy_time(all, now), runtime.calls, at.tuned);
    for (const std::size_t number : runtime.regions) set_control(all, all.regions[number]);
}

void take_crowd(Engine& all, std::uint64_t now) {
    if (all.settings.random || now - all.crowd_looked < all.crowd_every) return;
    all.crowd_looked = now;
    const std::uint64_t from = ticks();
    const CpuWait wait = cpu_wait_now();
    constexpr std::uint64_t kOfTheTime = 200;  // of many threads it takes some time itself
    const double interval = RegionCrowd::kInterval * adaptive_rate.load(std::memory_order_relaxed);
    constexpr double kSeldom = 20.0;  // intervals: whatever it took, this thread may have been stopped
    all.crowd_every = std::clamp(kOfTheTime * (ticks() - from), static_cast<std::uint64_t>(interval),
                                 static_cast<std::uint64_t>(kSeldom * interval));
    const bool was = all.crowd.crowded();
    all.crowd.seen(busy_time(all, now), in_seconds(now), wait.ran, wait.waited);
    if (!all.crowd.crowded() && !was)
        for (auto& [index, known] : all.runtimes) known.tuner->undisturbed(busy_time(all, now));
    if (!all.crowd.crowded() || was) return;
    all.sample_count = 0;
    for (auto& [index, known] : all.runtimes) known.tuner->disturbed();
    for (KnownRegion& known : all.regions) {
        if (seeks_chunk(known)) known.chunk.reset();
        judge(all, known);
    }
}

void look(Engine& all, AdaptiveRegion& region, const Runtime& runtime, std::uint64_t now) {
    all.clock.look(in_seconds(now), policy::BusyClock::most(all.longest));
    if (engine_news.load(std::memory_order_acquire)) take_news(all);
    KnownRegion* const known = region_known(all, region, runtime, now);
    if (known == nullptr) return;
    judge(all, *known);
    KnownRuntime& of = all.runtimes.at(known->runtime);
    take_crowd(all, now);
    if (in_seconds(now - of.ticked) >= kTick) tick(all, of, *known, now);
    if (engine_news.load(std::memory_order_acquire)) take_news(all);
    if (all.settings.random) return;
    all.next.store(now + static_cast<std::uint64_t>(kTick * adaptive_rate.load(std::memory_order_relaxed)),
                   std::memory_order_relaxed);
}

template <typename Action>
void guarded(Action action) noexcept {
    if (openmp_thread.busy) return;
    const Undisturbed quiet;
    openmp_thread.busy = true;
    try {
        action();
    } catch (const std::exception& error) {  // of memory: nothing is resized any more
        adaptive_on.store(false, std::memory_order_relaxed);
        message_fault(error.what());
    }
    openmp_thread.busy = false;
}

// Also where the time stamp counter has gone back (a machine that was suspended).
bool is_due(std::uint64_t now, std::uint64_t next) {
    const auto left = static_cast<std::int64_t>(next - now);
    return left <= 0 || static_cast<double>(left) > adaptive_rate.load(std::memory_order_relaxed);
}

}  // namespace

// On the slow path of openmp.cc, quiet already.
void adaptive_engine_start(const AdaptiveSettings& settings) noexcept {
    auto* const made = new (std::nothrow) Engine;  // never destroyed: threads outlive static objects
    if (made == nullptr) return;
    made->settings = settings;
    const char* const schedule = std::getenv("OMP_SCHEDULE");
    made->runtime_free = settings.chunks && (schedule == nullptr || std::strchr(schedule, ',') == nullptr);
    adaptive_rate.store(clock_ticks_per_second(), std::memory_order_relaxed);
    Engine* nobodys = nullptr;  // two threads may be the first
    if (!engine.compare_exchange_strong(nobodys, made, std::memory_order_acq_rel)) {
        delete made;
        return;
    }
    adaptive_on.store(true, std::memory_order_release);
}

bool engine_due(const AdaptiveRegion& region, std::uint64_t now) noexcept {
    const std::uint32_t control = region.control.load(std::memory_order_relaxed);
    const Engine* const all = engine.load(std::memory_order_acquire);
    return control == 0 || engine_news.load(std::memory_order_relaxed) ||
           (all != nullptr && is_due(now, all->next.load(std::memory_order_relaxed)));
}

bool engine_runtime_free() noexcept {
    const Engine* const all = engine.load(std::memory_order_acquire);
    return all != nullptr && all->runtime_free;
}

void engine_look(AdaptiveRegion& region, const Runtime& runtime, std::uint64_t now) noexcept {
    const Attempt attempt;
    if (!attempt.held()) return;
    guarded([&] { look(*engine.load(), region, runtime, now); });
}

void engine_sample(const AdaptiveSample& sample) noexcept {
    const Attempt attempt;
    if (!attempt.held()) return;
    Engine& all = *engine.load();
    if (all.sample_count == kSamples) return;
    AdaptiveSample& kept = all.samples[all.sample_count++] = sample;
    kept.asked = false;  // the way is of the last call only
}

bool engine_read_path(CallPathRead& read, const void* caller, const void* reference) noexcept {
    const Attempt attempt;
    bool found = false;
    if (!attempt.held()) return false;
    guarded([&] {
        AdaptiveThread& thread = adaptive_thread;
        if (thread.stack_high == 0) {
            const StackRange stack = thread_stack();
            thread.stack_low = stack.low;
            thread.stack_high = stack.high;
        }
        const auto here = reinterpret_cast<std::uintptr_t>(reference);
        found =
            here >= thread.stack_low && here < thread.stack_high && call_path_read(read, caller, reference);
    });
    return found;
}

bool engine_ask_path(const void* caller, const void* reference) noexcept {
    return engine_read_path(path_of_call, caller, reference);
}

void engine_trial(const AdaptiveSample& sample) noexcept {
    const Attempt attempt;
    if (!attempt.held()) return;
    guarded([&] {
        Engine& all = *engine.load();
        all.samples[all.sample_count < kSamples ? all.sample_count++ : kSamples - 1] = sample;
        take_samples(all);
        set_control(all, all.regions[all.numbers.at(sample.region)]);
    });
}

void engine_followed(const AdaptiveRegion& before, const AdaptiveRegion& after,
                     std::uint32_t weight) noexcept {
    const Attempt attempt;
    if (!attempt.held()) return;
    Engine& all = *engine.load();
    const auto mixed = reinterpret_cast<std::uintptr_t>(&before) / sizeof before * 31 +
                       reinterpret_cast<std::uintptr_t>(&after) / sizeof after;
    for (std::size_t i = 0; i < 4; ++i) {
        Followed& one = all.followed[(mixed + i) % kFollowed];
        if (one.count != 0 && (one.before != &before || one.after != &after)) continue;
        one = {&before, &after, one.count + weight};
        return;
    }
}

void engine_outside(const Runtime& runtime, std::uint32_t fact, const void* caller) noexcept {
    Outside& there = outside[runtime.index];
    if ((there.facts.load(std::memory_order_relaxed) & fact) == fact) return;
    const void* none = nullptr;
    there.caller.compare_exchange_strong(none, caller, std::memory_order_relaxed);
    there.facts.fetch_or(fact, std::memory_order_acq_rel);
    engine_news.store(true, std::memory_order_release);
}

// Whoever is at it may hold a lock of the loader's list or of libunwind, which the child would wait for: it
// takes microseconds, and who is stopped in the middle is not waited for longer than that is worth.
void engine_before_fork() noexcept {
    if (engine.load(std::memory_order_acquire) == nullptr) return;
    for (int i = 0; i < kForkWaits; ++i) {
        fork_holds = !busy.test_and_set(std::memory_order_acquire);
        if (fork_holds) return;
        nap(kNap);
    }
}

void engine_fork_in_parent() noexcept {
    if (fork_holds) busy.clear(std::memory_order_release);
    fork_holds = false;
}

void engine_after_fork() noexcept {
    adaptive_on.store(false, std::memory_order_relaxed);
    engine.store(nullptr, std::memory_order_relaxed);  // another thread may have been in the middle of it
    busy.clear(std::memory_order_relaxed);
    fork_holds = false;
    adaptive_thread = {};
}

void engine_report_crowd(nlohmann::json& report) noexcept {
    const Attempt attempt(1000);
    if (!attempt.held()) return;
    guarded([&] {
        const RegionCrowd& crowd = engine.load()->crowd;
        if (crowd.times() > 0) report["crowded"] = {{"times", crowd.times()}, {"seconds", crowd.seconds()}};
    });
}

void engine_report(nlohmann::json& region, const RegionRecord& record) noexcept {
    const Attempt attempt(1000);
    if (!attempt.held()) return;
    guarded([&] {
        Engine& all = *engine.load();
        const auto found = all.numbers.find(&adaptive_region(record));
        if (found == all.numbers.end()) return;
        KnownRegion& known = all.regions[found->second];
        take_outside(all);
        judge(all, known);
        for (const std::size_t part : known.parts) judge(all, all.regions[part]);
        describe_region(all, known, region);
    });
}

}  // namespace corun
