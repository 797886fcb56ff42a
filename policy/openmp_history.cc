// SPDX-License-Identifier: Apache-2.0
#include "policy/openmp_history.h"

#include <algorithm>

namespace corun::policy {
namespace {

// More than this of the wall time in regions: several threads have had theirs at once. Some more is what
// comes of timing one call of many: a program that is in regions all the time is seen to be there for longer
// than it ran.
constexpr double kMostInRegions = 1.4;

// Regions whose place is not known any more share a key.
void add(std::vector<RegionRecord>& regions, const RegionRecord& region) {
    const auto same = std::find_if(regions.begin(), regions.end(),
                                   [&region](const RegionRecord& other) { return other.key == region.key; });
    if (same == regions.end()) return regions.push_back(region);
    const bool known = same->work_seconds > 0.0 && region.work_seconds > 0.0;
    same->calls += region.calls;
    same->seconds += region.seconds;
    same->work_seconds = known ? same->work_seconds + region.work_seconds : 0.0;
    same->longest_seconds = known ? same->longest_seconds + region.longest_seconds : 0.0;
}

void keep_longest(std::vector<RegionRecord>& regions) {
    std::sort(regions.begin(), regions.end(), [](const RegionRecord& a, const RegionRecord& b) {
        return a.seconds != b.seconds ? a.seconds > b.seconds : a.key < b.key;
    });
    if (regions.size() <= kRegionsKept) return;
    std::vector<RegionRecord> rest;
    for (std::size_t i = kRegionsKept; i < regions.size(); ++i) {
        regions[i].key = "others";
        add(rest, regions[i]);
    }
    regions.resize(kRegionsKept);
    regions.push_back(rest.front());
}

}  // namespace

std::optional<RunRecord> run_record(const RunSeen& seen) {
    if (seen.own_word) return std::nullopt;
    RunRecord run;
    run.width = seen.width;
    run.seconds = seen.seconds;
    bool timed = true;
    double in_regions = 0.0;
    int widest = 0;
    for (const RegionSeen& region : seen.regions) {
        if (region.record.calls == 0) continue;
        add(run.regions, region.record);
        timed = timed && region.timed;
        in_regions += region.record.seconds;
        widest = std::max(widest, region.widest);
    }
    if (run.regions.empty() || widest != seen.width) return std::nullopt;
    if (!timed || in_regions > kMostInRegions * seen.seconds) {
        run.regions.assign(1, RegionRecord{"wall", 1, seen.seconds, 0.0, 0.0});
    } else if (in_regions > seen.seconds) {
        const double part = seen.seconds / in_regions;
        for (RegionRecord& region : run.regions) {
            region.seconds *= part;
            region.work_seconds *= part;
            region.longest_seconds *= part;
        }
    }
    keep_longest(run.regions);
    return run;
}

StartHistory history_of(const std::vector<model::ProfileRun>& runs) {
    StartHistory history;
    for (const model::ProfileRun& run : runs) {
        RunRecord record;
        record.width = run.width;
        record.seconds = run.seconds;
        for (const model::ProfileRegion& region : run.regions)
            record.regions.push_back(
                {region.key, region.calls, region.seconds, region.work_seconds, region.longest_seconds});
        history.add({run.program, run.words}, std::move(record));
    }
    return history;
}

model::ProfileRun profile_run(const ProcessKey& key, const RunRecord& run) {
    model::ProfileRun out;
    out.program = key.program;
    out.words = key.words;
    out.width = run.width;
    out.seconds = run.seconds;
    for (const RegionRecord& region : run.regions)
        out.regions.push_back(
            {region.key, region.calls, region.seconds, region.work_seconds, region.longest_seconds});
    return out;
}

}  // namespace corun::policy
