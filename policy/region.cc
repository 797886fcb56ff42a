// SPDX-License-Identifier: Apache-2.0
#include "policy/region.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "policy/arms.h"

namespace corun::policy {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(RegionClass::count)> kNames{
    "named-size",    "nested",          "inductor", "opened-later",    "listed",
    "asks-its-team", "per-thread-data", "fortran",  "planned-outside", "distrusted",
    "too-few-calls", "no-shared-loop",  "resizable"};

// '*' stands for any text. Backtracks to the last star only, which is enough.
bool glob(std::string_view pattern, std::string_view text) {
    constexpr auto none = std::string_view::npos;
    std::size_t p = 0;
    std::size_t t = 0;
    std::size_t star = none;
    std::size_t mark = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            mark = t;
        } else if (p < pattern.size() && pattern[p] == text[t]) {
            ++p, ++t;
        } else if (star != none) {
            p = star + 1;
            t = ++mark;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == none;
}

// gcc's "f._omp_fn.0" and clang's ".omp_outlined..3" are parts of a function; gcc's name says of which.
std::string_view outer_function(std::string_view symbol) {
    return symbol.substr(0, symbol.find("._omp_fn"));
}

std::string asked_what(std::uint32_t facts) {
    std::string what;
    const auto add = [&](std::uint32_t bit, const char* text) {
        if ((facts & bit) == 0) return;
        if (!what.empty()) what += ", ";
        what += text;
    };
    add(kAskedThread, "its thread number");
    add(kAskedTeam, "the size of its team");
    add(kAskedMaximum, "the maximum of threads");
    add(kAskedParallel, "the level of parallelism");
    return what;
}

std::string loop_names(std::uint32_t facts) {
    std::string names;
    const auto add = [&](std::uint32_t bit, const char* text) {
        if ((facts & bit) == 0) return;
        if (!names.empty()) names += ", ";
        names += text;
    };
    add(kLoopStatic, "static");
    add(kLoopDynamic, "dynamic");
    add(kLoopGuided, "guided");
    add(kLoopRuntime, "runtime");
    return names;
}

}  // namespace

const char* class_name(RegionClass kind) {
    return kNames.at(static_cast<std::size_t>(kind));
}

RegionClass classify(const RegionEvidence& evidence) {
    if (evidence.region & kNamedSize) return RegionClass::named_size;
    if (evidence.region & (kInside | kHolds)) return RegionClass::nested;
    if (evidence.object & kInductor) return RegionClass::inductor;
    if (evidence.object & kOpened) return RegionClass::opened_later;
    if (evidence.listed) return RegionClass::listed;
    if (evidence.region & kAsked) return RegionClass::asks_its_team;
    if ((evidence.region & kKeepsPerThread) || (evidence.object & kThreadLocal))
        return RegionClass::per_thread_data;
    if (evidence.object & kFortran) return RegionClass::fortran;
    if ((evidence.objects & kOutside) || (evidence.runtime & kAskedUnseen))
        return RegionClass::planned_outside;
    if (evidence.distrusted) return RegionClass::distrusted;
    if (evidence.calls < kEvidenceCalls) return RegionClass::too_few_calls;
    if (!(evidence.region & kLoops)) return RegionClass::no_shared_loop;
    return RegionClass::resizable;
}

std::vector<int> allowed_widths(RuntimeKind runtime, RegionClass kind, int own) {
    own = std::max(own, 1);
    if (own == 1 || !may_resize(kind)) return {own};
    if (runtime == RuntimeKind::libgomp) return {1, own};
    return candidate_widths(own);
}

bool entry_matches(std::string_view entry, std::string_view object, std::uint64_t offset,
                   std::string_view symbol) {
    if (entry.empty()) return false;
    if (const auto colon = entry.find(':'); colon != std::string_view::npos) {
        // C++ names hold "::"; an object's file name never does.
        if (colon + 1 >= entry.size() || entry[colon + 1] != ':') {
            if (!glob(entry.substr(0, colon), object)) return false;
            entry.remove_prefix(colon + 1);
            return !entry.empty() && (glob(entry, symbol) || glob(entry, outer_function(symbol)));
        }
    }
    if (const auto plus = entry.rfind("+0x"); plus != std::string_view::npos) {
        std::uint64_t wanted = 0;
        const std::string_view digits = entry.substr(plus + 3);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), wanted, 16);
        if (error == std::errc{} && end == digits.data() + digits.size())
            return wanted == offset && glob(entry.substr(0, plus), object);
    }
    return glob(entry, symbol) || glob(entry, outer_function(symbol));
}

bool list_matches(std::string_view list, std::string_view object, std::uint64_t offset,
                  std::string_view symbol) {
    constexpr std::string_view separators = ", \t\n";
    while (!list.empty()) {
        const auto end = std::min(list.find_first_of(separators), list.size());
        if (entry_matches(list.substr(0, end), object, offset, symbol)) return true;
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return false;
}

RegionBook::Id RegionBook::add_runtime(RuntimeKind kind) {
    runtimes_.push_back({kind, 0, 0, {}, 0});
    return static_cast<Id>(runtimes_.size() - 1);
}

RegionBook::Id RegionBook::add_object(std::string name, Id runtime, std::uint32_t facts) {
    objects_.push_back({std::move(name), runtime, 0, {}});
    const auto id = static_cast<Id>(objects_.size() - 1);
    object_seen(id, facts);
    return id;
}

RegionBook::Id RegionBook::add_region(std::string name, Id object, bool listed) {
    regions_.push_back({std::move(name), object, listed, 0, 0, false, {}});
    return static_cast<Id>(regions_.size() - 1);
}

void RegionBook::runtime_seen(Id runtime, std::uint32_t facts) {
    runtimes_.at(runtime).facts |= facts;
}

void RegionBook::object_seen(Id object, std::uint32_t facts) {
    Object& seen = objects_.at(object);
    seen.facts |= facts;
    Runtime& runtime = runtimes_.at(seen.runtime);
    runtime.objects |= facts;
    if (!(facts & kOutside) || runtime.asked != 0) return;
    runtime.asker = seen.name;
    runtime.asked = facts & kOutside;
}

void RegionBook::region_seen(Id region, std::uint64_t calls, std::uint32_t facts) {
    Region& seen = regions_.at(region);
    seen.calls += calls;
    seen.facts |= facts;
}

RegionEvidence RegionBook::evidence(const Region& region) const {
    const Object& object = objects_.at(region.object);
    const Runtime& runtime = runtimes_.at(object.runtime);
    return {region.facts, object.facts,  runtime.objects,       runtime.facts,
            region.calls, region.listed, !object.failed.empty()};
}

const Judgement& RegionBook::judge(Id id) {
    Region& region = regions_.at(id);
    Judgement& judgement = region.judgement;
    const RegionClass kind = classify(evidence(region));
    const bool was = region.judged && judgement.kind == RegionClass::resizable;
    if (was && kind != RegionClass::resizable) {
        judgement.revoked_at = std::max<std::uint64_t>(region.calls, 1);
        // Its own conduct belied the evidence. What others did (a plan made outside) says nothing of that.
        Object& object = objects_.at(region.object);
        if ((region.facts & kRevokes) && object.failed.empty()) object.failed = region.name;
    }
    if (!region.judged || kind != judgement.kind || kind == RegionClass::too_few_calls) {
        judgement.kind = kind;
        judgement.why = sentence(region, kind);
    }
    region.judged = true;
    return judgement;
}

std::vector<int> RegionBook::widths(Id region, int own) {
    const RegionClass kind = judge(region).kind;
    return allowed_widths(runtimes_.at(objects_.at(regions_.at(region).object).runtime).kind, kind, own);
}

std::string RegionBook::sentence(const Region& region, RegionClass kind) const {
    const Object& object = objects_.at(region.object);
    const Runtime& runtime = runtimes_.at(object.runtime);
    switch (kind) {
        case RegionClass::named_size:
            return "the program names the size of its team";
        case RegionClass::nested:
            return region.facts & kInside ? "it begins inside another region"
                                          : "another region begins inside it";
        case RegionClass::inductor:
            return "torch.compile made it for one number of threads";
        case RegionClass::opened_later:
            return object.name + " was opened while the program ran and may be closed again";
        case RegionClass::listed:
            return "listed in CORUN_REGIONS";
        case RegionClass::asks_its_team:
            return "a thread inside asked for " + asked_what(region.facts) + ": it may keep data by that";
        case RegionClass::per_thread_data:
            if (!(region.facts & kKeepsPerThread))
                return object.name + " has thread-local data, which it may keep by thread (threadprivate)";
            return "it keeps data per thread (threadprivate)";
        case RegionClass::fortran:
            return object.name + " is compiled from Fortran";
        case RegionClass::planned_outside:
            if (!(runtime.objects & kOutside))
                return "its runtime can be asked for the number of threads past the hooks";
            return runtime.asker + (runtime.asked & (kAskedOutside | kAskedOutsideFortran)
                                        ? " asked for the number of threads outside a region"
                                        : " set the number of threads itself");
        case RegionClass::distrusted:
            return object.failed + " of the same object seemed resizable and was not";
        case RegionClass::too_few_calls:
            return "seen " + std::to_string(region.calls) + " times of " + std::to_string(kEvidenceCalls);
        case RegionClass::no_shared_loop:
            return "the runtime hands out no loop of it";
        default:
            return "no thread of it asked in " + std::to_string(region.calls) +
                   " calls; the runtime hands out its loop (" + loop_names(region.facts) + ")";
    }
}

}  // namespace corun::policy
