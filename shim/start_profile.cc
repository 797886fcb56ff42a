// SPDX-License-Identifier: Apache-2.0
#include "shim/start_profile.h"

#include <climits>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/profile.h"
#include "policy/openmp_history.h"
#include "shim/build_id.h"
#include "shim/clock.h"
#include "shim/message.h"
#include "shim/openmp.h"
#include "shim/openmp_start.h"
#include "shim/process.h"
#include "shim/regions.h"

namespace corun {
namespace {

// Written once, before any region, and read at the end.
struct Choice {
    policy::ProcessKey key;
    policy::StartWidth start;
    int own = 0;
    int budget = 0;
    bool refused = false;  // said at start; writing it would say the same again
};
Choice* choice = nullptr;  // never destroyed: threads may open regions while the process exits

policy::ProcessKey process_key() {
    std::vector<std::string> words;
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
    return {executable_build_id(), policy::hash_words(words)};
}

// No runtime: which ones there are is not known yet, and they are not what decides.
model::Identity identity(int budget) {
    model::Identity identity;
    identity.cpu_model = process_cpu_model();
    identity.budget = budget;
    return identity;
}

// "build-id+0x1290": the same in the next run.
class RegionKeys {
  public:
    std::string of(const void* body) {
        LoadedObject object{};
        if (body == nullptr || !find_object(body, object)) return "unknown";
        auto [place, made] = ids_.try_emplace(object.dynamic);
        if (made) place->second = build_id(object.name != nullptr ? object.name : "");
        char offset[24];
        std::snprintf(offset, sizeof offset, "+0x%llx",
                      static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(body) - object.base));
        return place->second + offset;
    }

  private:
    std::map<const void*, std::string> ids_;
};

// A try that is ended for taking too long, or cannot be written, would be made again and again.
bool save_begun(const Choice& made, const std::string& path) {
    if (made.refused) return false;
    policy::RunRecord run;
    run.width = made.start.width;
    model::Profile profile;
    profile.identity = identity(made.budget);
    profile.runs.push_back(policy::profile_run(made.key, run));
    return !model::save_profile(path, profile);
}

policy::RegionSeen seen_of(const RegionRecord& record, RegionKeys& keys) {
    std::uint64_t calls = 0, timed = 0, ticks = 0, watched = 0, work = 0, longest = 0;
    for (const RegionShard& shard : record.shards) {
        calls += shard.calls.load(std::memory_order_relaxed);
        timed += shard.timed.load(std::memory_order_relaxed);
        ticks += shard.ticks.load(std::memory_order_relaxed);
        watched += shard.watched.load(std::memory_order_relaxed);
        work += shard.work.load(std::memory_order_relaxed);
        longest += shard.longest.load(std::memory_order_relaxed);
    }
    const auto seconds = [calls](std::uint64_t sum, std::uint64_t of) {
        return of == 0 ? 0.0
                       : static_cast<double>(sum) / clock_ticks_per_second() * static_cast<double>(calls) /
                             static_cast<double>(of);
    };
    policy::RegionSeen seen;
    seen.record.calls = calls;
    if (calls == 0) return seen;
    seen.record.key = keys.of(record.body.load(std::memory_order_relaxed));
    seen.record.seconds = seconds(ticks, timed);
    seen.record.work_seconds = seconds(work, watched);
    seen.record.longest_seconds = seconds(longest, watched);
    seen.timed = timed > 0;
    seen.widest = record.widest.load(std::memory_order_relaxed);
    return seen;
}

policy::RunSeen run_seen() {
    policy::RunSeen seen;
    seen.width = openmp_start().width;
    seen.seconds = clock_seconds();
    seen.own_word = openmp_own_word.load(std::memory_order_relaxed);
    RegionKeys keys;
    for (const RegionRecord& record : regions) {
        const std::uint32_t classes = record.classes.load(std::memory_order_relaxed);
        if ((classes & kRegionNested) != 0) continue;  // within the time of another one
        policy::RegionSeen region = seen_of(record, keys);
        if (region.record.calls > 0) seen.regions.push_back(std::move(region));
    }
    return seen;
}

void tell(const policy::StartWidth& start, int own) {
    if (start.width == own) return;
    char effect[200];
    std::snprintf(effect, sizeof effect, "%d -> %d threads: %s", own, start.width, start.why.c_str());
    lever_in_force("OpenMP start width", effect, "CORUN_PROFILE");
}

}  // namespace

int start_profile_width(int own, int budget) {
    const std::string path(process_options()[OptionId::profile]);
    if (path.empty()) return own;
    auto* const made = new Choice;
    made->key = process_key();
    made->own = own;
    made->budget = budget;
    const model::LoadResult loaded = model::load_profile(path, identity(budget));
    made->refused =
        loaded.status == model::LoadStatus::unreadable || loaded.status == model::LoadStatus::newer_version;
    // Nothing of this machine, or only ops: no word about regions, and so nothing is missed.
    if (loaded.status != model::LoadStatus::foreign && !loaded.message.empty())
        message(Level::warning, loaded.message.c_str());
    const policy::StartHistory history = policy::history_of(loaded.profile.runs);
    made->start = history.choose(made->key, own, !process_frozen());
    if (made->start.tries && !save_begun(*made, path)) made->start = history.choose(made->key, own, false);
    choice = made;
    openmp_watch.store(!process_frozen(), std::memory_order_relaxed);
    tell(made->start, own);
    return made->start.width;
}

void start_profile_save() {
    if (choice == nullptr || choice->refused || process_frozen()) return;
    const auto run = policy::run_record(run_seen());
    if (!run) return;
    model::Profile profile;
    profile.identity = identity(choice->budget);
    profile.runs.push_back(policy::profile_run(choice->key, *run));
    if (const auto error = model::save_profile(std::string(process_options()[OptionId::profile]), profile))
        message(Level::warning, error->c_str());
}

void start_profile_report(nlohmann::json& report) {
    report["start_width"] = nullptr;
    if (choice == nullptr) return;
    const policy::StartWidth& start = choice->start;
    const auto seconds = [](const std::optional<double>& s) {
        return s ? nlohmann::json(*s) : nlohmann::json();
    };
    report["start_width"] = {{"width", start.width},
                             {"own", choice->own},
                             {"why", start.why},
                             {"tries", start.tries},
                             {"seconds", seconds(start.seconds)},
                             {"own_seconds", seconds(start.own_seconds)}};
}

}  // namespace corun
