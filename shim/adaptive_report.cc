// SPDX-License-Identifier: Apache-2.0
// What CORUN_OPENMP=adaptive knows of a region, for the report.
#include <nlohmann/json.hpp>

#include "shim/adaptive_split.h"
#include "shim/adaptive_state.h"
#include "shim/openmp_report.h"

namespace corun {
namespace {

using nlohmann::json;

// "smooth < solve": who calls, nearest first.
void add_callers(json& part, const policy::CallPath& path) {
    std::string names;
    json places = json::array();
    for (std::uint32_t i = 0; i < path.depth; ++i) {
        const CodePlace place = place_of_call(reinterpret_cast<const void*>(path.at[i]));
        names += (i > 0 ? " < " : "") + (place.name.empty() ? place.text : place.name);
        places.push_back(place.text);
    }
    part["name"] = names;
    part["path"] = std::move(places);
}

// Two calls in one function have one name.
void tell_apart(json& parts) {
    std::vector<std::string> names;
    for (const json& part : parts) names.push_back(part["name"].get<std::string>());
    for (std::size_t i = 0; i < parts.size(); ++i)
        if (std::count(names.begin(), names.end(), names[i]) > 1) {
            std::string text;
            for (const json& place : parts[i]["path"])
                text += (text.empty() ? "" : " < ") + place.get<std::string>();
            parts[i]["name"] = names[i] + " (" + text + ")";
        }
}

void describe(const Engine& all, const KnownRegion& known, json& region) {
    const policy::RegionTuner& tuner = *all.runtimes.at(known.runtime).tuner;
    region["width"] = tuner.width(known.tuned);
    region["resized"] = known.region->resized.load(std::memory_order_relaxed);
    region["switch_seconds"] = tuner.charged(known.tuned);
    region["rechunked"] = known.region->rechunked.load(std::memory_order_relaxed);
    region["chunk"] = nullptr;
    if (known.chunk) region["chunk"] = {{"iterations", known.chunk->chunk()}, {"why", known.chunk->story()}};
    const double span = static_cast<double>(known.region->span.load(std::memory_order_relaxed));
    region["wait_share"] = nullptr;
    if (span > 0.0)
        region["wait_share"] =
            1.0 - static_cast<double>(known.region->work.load(std::memory_order_relaxed)) / span;
    region["widths"] = json::array();
    for (const model::Point& point : tuner.curve(known.tuned))
        region["widths"].push_back({{"width", point.width}, {"solo_us", point.seconds * 1e6}});
}

}  // namespace

void describe_region(const Engine& all, const KnownRegion& known, json& region) {
    const policy::RegionTuner& tuner = *all.runtimes.at(known.runtime).tuner;
    region["kind"] = policy::class_name(known.kind);
    std::string why = all.book.why(known.id);
    for (const std::string& story : {known.paths.story(), tuner.story(known.tuned)})
        if (!story.empty()) why += "; " + story;
    region["why"] = why;
    describe(all, known, region);
    if (known.parts.empty()) return;
    json& parts = region["callers"] = json::array();
    for (const std::size_t number : known.parts) {
        const KnownRegion& one = all.regions[number];
        json part;
        add_callers(part, one.path);
        part["calls"] = one.region->calls.load(std::memory_order_relaxed);
        part["kind"] = policy::class_name(one.kind);
        part["why"] = tuner.story(one.tuned);
        describe(all, one, part);
        parts.push_back(std::move(part));
    }
    tell_apart(parts);
    region["paths_read"] = known.region->split.load(std::memory_order_acquire)->asked;
}

}  // namespace corun
