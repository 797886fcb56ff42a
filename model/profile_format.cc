// SPDX-License-Identifier: Apache-2.0
#include "model/profile_format.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "model/fnv.h"

namespace corun::model::profile_format {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "corun profile";
constexpr int kMostDepth = 16;  // dump() recurses: a file of nothing but '[' must not overflow the stack
constexpr int kMostCount = 1'000'000'000;
constexpr double kMostSeconds = 1e7;
constexpr double kMostGain = 100.0;  // log ratio
constexpr std::size_t kMostBuckets = 4096;
constexpr std::size_t kMostRegions = 2048;  // of a run

// --- values ---

std::string text_of(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Op names come from the program: bytes that are no UTF-8 are replaced, or they could not be written.
std::string clean(const std::string& text) {
    return json::parse(text_of(json(text))).get<std::string>();
}

template <class Json>
Json& member(Json& object, const char* name) {
    if (!object.is_object()) throw Broken("an object was expected");
    const auto found = object.find(name);
    if (found == object.end()) throw Broken(std::string("\"") + name + "\" is missing");
    return *found;
}

template <class Json>  // const or not
Json& list(Json& value, std::size_t most) {
    if (!value.is_array()) throw Broken("a list was expected");
    if (value.size() > most) throw Broken("a list is too long");
    return value;
}

std::string text(const json& value) {
    if (!value.is_string()) throw Broken("a text was expected");
    return value.get<std::string>();
}

int integer(const json& value, int low, int high) {
    if (!value.is_number_integer()) throw Broken("a whole number was expected");
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT_MAX)) {
        throw Broken("a number is absurd");
    }
    const auto number = value.get<std::int64_t>();
    if (number < low || number > high) throw Broken("a number is absurd");
    return static_cast<int>(number);
}

std::uint64_t count(const json& value) {
    if (!value.is_number_unsigned()) throw Broken("a count was expected");
    return value.get<std::uint64_t>();
}

double number(const json& value, double low, double high) {
    if (!value.is_number()) throw Broken("a number was expected");
    const auto found = value.get<double>();
    if (!(found >= low && found <= high)) throw Broken("a number is absurd");
    return found;
}

std::string checksum(std::string_view payload) {
    std::uint64_t hash = fnv1a(payload);
    std::string digits(16, '0');
    for (auto at = digits.rbegin(); at != digits.rend(); ++at, hash >>= 4U)
        *at = "0123456789abcdef"[hash & 15U];
    return digits;
}

// --- a section and its JSON ---

Identity decode_identity(const json& value) {
    Identity identity;
    identity.cpu_model = text(member(value, "cpu_model"));
    identity.budget = integer(member(value, "budget"), 0, kMostWidth);
    for (const json& id : list(member(value, "build_ids"), kMostBuckets))
        identity.build_ids.push_back(text(id));
    return identity;
}

json encode(const ProfileOp& op) {
    std::vector<Point> points = op.solo;
    std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.width < b.width; });
    json solo = json::array();
    for (const Point& point : points) {
        const auto count = op.counts.find(point.width);
        solo.push_back({point.width, point.seconds, count == op.counts.end() ? 0 : count->second});
    }
    return {{"name", clean(op.name)},
            {"solo", std::move(solo)},
            {"reference", op.reference},
            {"width", op.width}};
}

ProfileOp decode_op(const json& value) {
    ProfileOp op;
    op.name = text(member(value, "name"));
    op.reference = number(member(value, "reference"), 0.0, kMostSeconds);
    op.width = integer(member(value, "width"), 0, kMostWidth);
    for (const json& each : list(member(value, "solo"), kMostWidth)) {
        if (list(each, 3).size() != 3) throw Broken("a point has three numbers");
        const Point point{integer(each[0], 1, kMostWidth), number(each[1], 0.0, kMostSeconds)};
        if (!(point.seconds > 0.0)) throw Broken("a duration is not above 0");
        if (!op.solo.empty() && op.solo.back().width >= point.width) throw Broken("the points do not ascend");
        op.solo.push_back(point);
        if (const int count = integer(each[2], 0, kMostCount); count > 0) op.counts[point.width] = count;
    }
    return op;
}

json encode(const ProfilePhase& phase) {
    return {{"histogram", phase.histogram}, {"arm", clean(phase.arm)}, {"gain", phase.gain}};
}

ProfilePhase decode_phase(const json& value) {
    ProfilePhase phase;
    for (const json& share : list(member(value, "histogram"), kMostBuckets)) {
        phase.histogram.push_back(number(share, 0.0, 1.0 + 1e-6));
    }
    phase.arm = text(member(value, "arm"));
    phase.gain = number(member(value, "gain"), -kMostGain, kMostGain);
    return phase;
}

json encode(const ProfileRun& run) {
    json regions = json::array();
    for (const ProfileRegion& region : run.regions)
        regions.push_back(
            {clean(region.key), region.calls, region.seconds, region.work_seconds, region.longest_seconds});
    return {{"program", clean(run.program)},
            {"words", clean(run.words)},
            {"width", run.width},
            {"seconds", run.seconds},
            {"regions", std::move(regions)}};
}

ProfileRun decode_run(const json& value) {
    ProfileRun run;
    run.program = text(member(value, "program"));
    run.words = text(member(value, "words"));
    run.width = integer(member(value, "width"), 1, kMostWidth);
    run.seconds = number(member(value, "seconds"), 0.0, kMostSeconds);
    for (const json& each : list(member(value, "regions"), kMostRegions)) {
        if (list(each, 5).size() != 5) throw Broken("a region has five fields");
        // Of many threads at once: their sum may be more than the wall time.
        constexpr double kMostSum = kMostSeconds * kMostWidth;
        run.regions.push_back({text(each[0]), count(each[1]), number(each[2], 0.0, kMostSum),
                               number(each[3], 0.0, kMostSum), number(each[4], 0.0, kMostSum)});
    }
    return run;
}

// The oldest runs of each process, and then of all, go.
json latest_runs(json runs) {
    std::map<std::pair<std::string, std::string>, std::size_t> of_process;
    json kept = json::array();
    for (auto run = runs.rbegin(); run != runs.rend() && kept.size() < kProfileAllRuns; ++run)
        if (++of_process[{(*run)["program"].get<std::string>(), (*run)["words"].get<std::string>()}] <=
            kProfileRuns)
            kept.push_back(std::move(*run));
    std::reverse(kept.begin(), kept.end());
    return kept;
}

// Only what load_profile() would take back is written.
template <class Item, class Decode>
void append_valid(json& items, const Item& item, const Decode& decode) {
    json value = encode(item);
    try {
        static_cast<void>(decode(value));
    } catch (const Broken&) {
        return;
    }
    items.push_back(std::move(value));
}

}  // namespace

json encode(const Identity& identity) {
    json ids = json::array();
    for (const std::string& id : identity.build_ids) ids.push_back(clean(id));
    std::sort(ids.begin(), ids.end());
    return {
        {"cpu_model", clean(identity.cpu_model)}, {"budget", identity.budget}, {"build_ids", std::move(ids)}};
}

Profile decode_section(const json& value) {
    Profile profile;
    profile.identity = decode_identity(member(value, "identity"));
    for (const json& op : list(member(value, "ops"), SIZE_MAX)) profile.ops.push_back(decode_op(op));
    for (const json& phase : list(member(value, "phases"), SIZE_MAX))
        profile.phases.push_back(decode_phase(phase));
    for (const json& run : list(member(value, "runs"), SIZE_MAX)) profile.runs.push_back(decode_run(run));
    return profile;
}

// One op a line, so that a person can read it and diff it.
std::string compose(const json& sections) {
    const json payload{{"format", kFormat}, {"version", kVersion}, {"sections", sections}};
    std::string out = "{\"format\": " + text_of(kFormat) + ",\n\"version\": " + std::to_string(kVersion) +
                      ",\n\"checksum\": \"" + checksum(text_of(payload)) + "\",\n\"sections\": [";
    const auto lines = [&out](const json& items) {
        for (const json& item : items) out += (&item == &items.front() ? "\n" : ",\n") + text_of(item);
    };
    for (const json& section : sections) {
        out += (&section == &sections.front() ? "\n" : ",\n");
        out += "{\"identity\": " + text_of(section["identity"]) + ",\n\"ops\": [";
        lines(section["ops"]);
        out += "],\n\"phases\": [";
        lines(section["phases"]);
        out += "],\n\"runs\": [";
        lines(section["runs"]);
        out += "]}";
    }
    return out + "]}\n";
}

Parsed parse(const std::string& content) {
    if (content.empty()) throw Broken("it is empty");
    const auto shallow = [](int depth, json::parse_event_t, json&) {
        if (depth > kMostDepth) throw Broken("it is nested too deeply");
        return true;
    };
    json document;
    try {
        document = json::parse(content, shallow);
    } catch (const json::exception&) {
        throw Broken("it is not JSON, or cut short");
    }
    if (text(member(document, "format")) != kFormat) throw Broken("its format has another name");
    const std::string expected = text(member(document, "checksum"));
    document.erase("checksum");
    if (checksum(text_of(document)) != expected) throw Broken("its checksum does not match");
    Parsed parsed;
    parsed.version = integer(member(document, "version"), 1, INT_MAX);
    if (parsed.version > kVersion) return parsed;
    parsed.sections = json::array();
    for (json& section : list(member(document, "sections"), kMostBuckets)) {
        if (parsed.version == 1) section["runs"] = json::array();
        static_cast<void>(decode_section(section));
        // No other members: compose() does not write them, so that the checksum would not match.
        parsed.sections.push_back({{"identity", std::move(section["identity"])},
                                   {"ops", std::move(section["ops"])},
                                   {"phases", std::move(section["phases"])},
                                   {"runs", std::move(section["runs"])}});
    }
    return parsed;
}

void merge(json& sections, const Profile& profile) {
    const json identity = encode(profile.identity);
    json* section = nullptr;
    for (json& each : sections) {
        if (section == nullptr && each["identity"] == identity) section = &each;
    }
    if (section == nullptr) {
        sections.push_back({{"identity", identity},
                            {"ops", json::array()},
                            {"phases", json::array()},
                            {"runs", json::array()}});
        section = &sections.back();
    }
    json ops = json::array();
    for (const ProfileOp& op : profile.ops) append_valid(ops, op, decode_op);
    std::set<std::string> named;
    for (const json& op : ops) named.insert(op["name"].get<std::string>());
    for (json& old : (*section)["ops"]) {
        if (!named.contains(old["name"].get<std::string>())) ops.push_back(std::move(old));
    }
    (*section)["ops"] = std::move(ops);
    json& runs = (*section)["runs"];
    for (const ProfileRun& run : profile.runs) append_valid(runs, run, decode_run);
    runs = latest_runs(std::move(runs));
    if (profile.phases.empty()) return;
    json phases = json::array();
    for (const ProfilePhase& phase : profile.phases) append_valid(phases, phase, decode_phase);
    (*section)["phases"] = std::move(phases);
}

}  // namespace corun::model::profile_format
