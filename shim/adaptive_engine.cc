// SPDX-License-Identifier: Apache-2.0
#include "shim/adaptive_engine.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "policy/region_tuner.h"
#include "shim/adaptive_objects.h"
#include "shim/message.h"
#include "shim/symbol_names.h"
#include "shim/undisturbed.h"

namespace corun {

constinit std::atomic<bool> engine_news{false};

namespace {

using policy::RegionClass;
using policy::RegionTuner;

constexpr double kTick = 0.005;           // seconds between looks of the tuner
constexpr double kRareBelow = 100e-6;     // seconds a call: of shorter regions one of many is looked at
constexpr std::uint64_t kLoopless = 256;  // calls without a loop: it has none
constexpr std::size_t kSamples = 256;
constexpr std::size_t kFollowed = 256;

// What was asked or set outside regions, of each runtime: the first caller tells the object.
struct Outside {
    std::atomic<std::uint32_t> facts;
    std::atomic<const void*> caller;
};
constinit std::array<Outside, kRuntimes> outside{};

struct KnownObject {
    LoadedObject object;
    std::size_t runtime;
    policy::RegionBook::Id id;
    std::string name;
};

struct KnownRuntime {
    policy::RegionBook::Id id;
    policy::RuntimeKind kind;
    std::unique_ptr<RegionTuner> tuner;
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
    RegionTuner::Id tuned;
    std::uint64_t evidence = 0;  // that the book knows
    double seconds = 0.0;        // of the last call timed
    bool loopless = false;
    RegionClass kind = RegionClass::too_few_calls;
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
    std::vector<KnownRegion> regions;
    std::array<AdaptiveSample, kSamples> samples{};
    std::size_t sample_count = 0;
    std::array<Followed, kFollowed> followed{};
    std::atomic<std::uint64_t> next{0};  // ticks at which a look is due
    bool ffi_seen = false;
};

constinit std::atomic<Engine*> engine{nullptr};
constinit std::atomic_flag busy = ATOMIC_FLAG_INIT;

// Nobody waits for another thread here, but for the report.
class Attempt {
  public:
    explicit Attempt(int times = 1) {
        for (int i = 0; i < times && !held_; ++i) {
            held_ = !busy.test_and_set(std::memory_order_acquire);
            if (!held_ && times > 1) usleep(100);
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

double in_seconds(std::uint64_t ticks) {
    return static_cast<double>(ticks) / adaptive_rate.load(std::memory_order_relaxed);
}

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

// --- making known
// ------------------------------------------------------------------------------------------------

KnownRuntime& runtime_known(Engine& all, const Runtime& runtime, std::uint64_t now) {
    KnownRuntime& known = all.runtimes[runtime.index];
    if (known.tuner != nullptr) return known;
    known.kind =
        runtime.kind == RuntimeKind::libomp ? policy::RuntimeKind::libomp : policy::RuntimeKind::libgomp;
    known.id = all.book.add_runtime(known.kind);
    if (all.ffi_seen) all.book.runtime_seen(known.id, policy::kAskedUnseen);
    engine_news.store(true, std::memory_order_release);  // somebody may have asked it before
    known.tuner = std::make_unique<RegionTuner>(policy::TunerSettings{known.kind, all.settings.explore, 0.05},
                                                in_seconds(now));
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

// Nothing is known of code that no object holds: it stays as it is.
KnownRegion* region_known(Engine& all, AdaptiveRegion& region, const Runtime& runtime, std::uint64_t now) {
    const auto found = all.numbers.find(&region);
    if (found != all.numbers.end()) return &all.regions[found->second];
    const auto index = static_cast<std::size_t>(&region - adaptive_regions.data());
    const void* const body = regions[index].body.load(std::memory_order_relaxed);
    LoadedObject object{};
    if (!find_object(body, object)) return region.control.store(kLeft), nullptr;
    KnownRuntime& of = runtime_known(all, runtime, now);
    const KnownObject& in = object_known(all, object, runtime.index);
    const bool listed = is_listed(all, in, regions[index]);
    if (listed) region.revokes.store(policy::kNever, std::memory_order_relaxed);
    KnownRegion known{};
    known.region = &region;
    known.body = body;
    known.runtime = runtime.index;
    known.id = all.book.add_region(listed_name(object), in.id, listed);
    known.tuned = of.tuner->add(region.own.load(std::memory_order_relaxed));
    of.regions.push_back(all.regions.size());
    all.numbers[&region] = all.regions.size();
    all.regions.push_back(known);
    return &all.regions.back();
}

// --- judging
// -----------------------------------------------------------------------------------------------------

bool may_come(RegionClass kind) {
    return kind == RegionClass::too_few_calls || policy::may_resize(kind);
}

void set_control(const Engine& all, const KnownRegion& known) {
    const RegionTuner& tuner = *all.runtimes.at(known.runtime).tuner;
    const int own = known.region->own.load(std::memory_order_relaxed);
    const int width = tuner.width(known.tuned);
    std::uint32_t wanted = kWatched;
    if (!may_come(known.kind)) {
        wanted = kLeft;
    } else {
        if (tuner.wants_each(known.tuned)) wanted |= kEach;
        if (known.seconds < kRareBelow && !tuner.wants_each(known.tuned)) wanted |= kRare;
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
    of.tuner->allow(known.tuned, policy::allowed_widths(of.kind, known.kind, own), own);
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

void take_samples(Engine& all) {
    for (std::size_t i = 0; i < all.sample_count; ++i) {
        const AdaptiveSample& sample = all.samples[i];
        const auto found = all.numbers.find(sample.region);
        if (found == all.numbers.end()) continue;
        KnownRegion& known = all.regions[found->second];
        known.seconds = in_seconds(sample.end - sample.begin);
        all.runtimes.at(known.runtime)
            .tuner->timed(known.tuned,
                          {sample.width, sample.before, known.seconds, in_seconds(sample.end), sample.solo});
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
    if (!all.settings.random) runtime.tuner->tick(in_seconds(now), runtime.calls, at.tuned);
    for (const std::size_t number : runtime.regions) set_control(all, all.regions[number]);
}

void look(Engine& all, AdaptiveRegion& region, const Runtime& runtime, std::uint64_t now) {
    if (engine_news.load(std::memory_order_acquire)) take_news(all);
    KnownRegion* const known = region_known(all, region, runtime, now);
    if (known == nullptr) return;
    judge(all, *known);
    KnownRuntime& of = all.runtimes.at(known->runtime);
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

}  // namespace

// On the slow path of openmp.cc, quiet already.
void adaptive_engine_start(const AdaptiveSettings& settings) noexcept {
    auto* const made = new (std::nothrow) Engine;  // never destroyed: threads outlive static objects
    if (made == nullptr) return;
    made->settings = settings;
    adaptive_rate.store(clock_ticks_per_second(), std::memory_order_relaxed);
    engine.store(made, std::memory_order_release);
    adaptive_on.store(true, std::memory_order_release);
}

bool engine_due(const AdaptiveRegion& region, std::uint64_t now) noexcept {
    const std::uint32_t control = region.control.load(std::memory_order_relaxed);
    const Engine* const all = engine.load(std::memory_order_acquire);
    return control == 0 || engine_news.load(std::memory_order_relaxed) ||
           (all != nullptr && now >= all->next.load(std::memory_order_relaxed));
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
    if (all.sample_count < kSamples) all.samples[all.sample_count++] = sample;
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

void engine_after_fork() noexcept {
    adaptive_on.store(false, std::memory_order_relaxed);
    engine.store(nullptr, std::memory_order_relaxed);  // another thread may have been in the middle of it
    adaptive_thread = {};
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
        const RegionTuner& tuner = *all.runtimes.at(known.runtime).tuner;
        region["kind"] = policy::class_name(known.kind);
        std::string why = all.book.judge(known.id).why;
        if (!tuner.story(known.tuned).empty()) why += "; " + tuner.story(known.tuned);
        region["why"] = why;
        region["width"] = tuner.width(known.tuned);
        region["resized"] = known.region->resized.load(std::memory_order_relaxed);
        region["switch_seconds"] = tuner.charged(known.tuned);
        region["widths"] = nlohmann::json::array();
        for (const model::Point& point : tuner.curve(known.tuned))
            region["widths"].push_back({{"width", point.width}, {"solo_us", point.seconds * 1e6}});
    });
}

}  // namespace corun
