// SPDX-License-Identifier: Apache-2.0
#include "shim/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace corun {
namespace {

using nlohmann::json;

constexpr std::size_t kColumns = 110;
constexpr std::size_t kArmBar = 30;
constexpr std::size_t kOpBar = 10;
constexpr char kMalformed[] = "This is no report of corun, or it is damaged.\n";

// ---- fields that may be missing or of another type

const json& field(const json& object, const char* name) {
    static const json nothing;
    if (!object.is_object()) return nothing;
    const auto found = object.find(name);
    return found == object.end() ? nothing : *found;
}

std::optional<double> number(const json& object, const char* name) {
    const json& value = field(object, name);
    if (!value.is_number()) return std::nullopt;
    const auto result = value.get<double>();
    return std::isfinite(result) ? std::optional(result) : std::nullopt;
}

const json& list(const json& object, const char* name) {
    static const json nothing = json::array();
    const json& value = field(object, name);
    return value.is_array() ? value : nothing;
}

// Bytes that could steer a terminal become '?': names come from the program.
std::string text(const json& value) {
    if (!value.is_string()) return "";
    std::string result = value.get<std::string>();
    for (char& c : result)
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
    return result;
}

std::string text(const json& object, const char* name) {
    return text(field(object, name));
}

// ---- formats

bool continues(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

std::size_t width_of(std::string_view words) {
    return static_cast<std::size_t>(
        std::count_if(words.begin(), words.end(), [](char c) { return !continues(c); }));
}

// At most `width` characters, the last of which is an ellipsis when something was cut.
std::string shorten(std::string_view words, std::size_t width) {
    if (width_of(words) <= width) return std::string(words);
    std::size_t end = 0;
    for (std::size_t seen = 0; end < words.size(); ++end)
        if (!continues(words[end]) && ++seen == width) break;
    return std::string(words.substr(0, end)) + "…";
}

std::string pad(std::string_view words, std::size_t width) {
    std::string result = shorten(words, width);
    return result + std::string(width - std::min(width, width_of(result)), ' ');
}

// A bar of eighth blocks, padded to `cells` columns.
std::string bar(double share, std::size_t cells) {
    static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const auto eighths =
        static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 8 * static_cast<double>(cells)));
    std::string result;
    for (std::size_t i = 0; i < eighths / 8; ++i) result += "█";
    result += kEighths[eighths % 8];
    return result + std::string(cells - (eighths + 7) / 8, ' ');
}

std::string percent(std::optional<double> share) {
    return share ? fmt::format("{:.1f} %", 100 * *share) : std::string("-");
}

std::string seconds(std::optional<double> value) {
    if (!value) return "-";
    const double s = *value;
    if (s < 1e-3) return fmt::format("{:.0f} µs", s * 1e6);
    if (s < 1) return fmt::format("{:.{}f} ms", s * 1e3, s < 0.1 ? 1 : 0);
    return fmt::format("{:.1f} s", s);
}

std::string micros(double us) {
    return us < 10 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

std::string grouped(std::optional<double> count) {
    if (!count) return "-";
    const std::string digits = fmt::format("{:.0f}", std::max(0.0, *count));
    std::string result;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
        result += digits[i];
    }
    return result;
}

// Appends `words` in lines of at most kColumns, each after `indent` spaces.
void append_wrapped(std::string& out, std::string_view words, std::size_t indent) {
    const std::size_t room = kColumns - indent;
    while (!words.empty()) {
        std::size_t end = words.size();
        if (end > room) {
            end = words.rfind(' ', room);
            if (end == std::string_view::npos || end == 0) end = std::min(words.size(), room);
            while (end < words.size() && end > 0 && continues(words[end])) --end;
        }
        out += std::string(indent, ' ') + std::string(words.substr(0, end)) + '\n';
        words.remove_prefix(end);
        while (!words.empty() && words.front() == ' ') words.remove_prefix(1);
    }
}

// ---- parts

// Did it help, by how much, how sure, since when: from the numbers when the process left no sentence.
std::string conclusion(const json& phase) {
    std::string sentence = text(phase, "explanation");
    if (!sentence.empty()) return sentence;
    const json& gain = field(phase, "gain");
    const auto ratio = number(gain, "ratio");
    if (!ratio) return "nothing was decided: the program ended before corun could compare";
    const double change = 100 * (*ratio - 1);
    sentence =
        fmt::format("{:.0f} % {} than without corun", std::abs(change), change < 0 ? "slower" : "faster");
    const auto low = number(gain, "low");
    const auto high = number(gain, "high");
    if (low && high)
        sentence += fmt::format(", 95 % interval {:.0f} to {:.0f} %", 100 * (*low - 1), 100 * (*high - 1));
    const auto decided = number(phase, "seconds_to_decision");
    return sentence + (decided ? ", decided after " + seconds(decided) : std::string(", not decided yet"));
}

std::string command_line(const json& report) {
    std::string line;
    for (const json& word : list(report, "program")) {
        if (!line.empty()) line += ' ';
        line += text(word);
    }
    return line;
}

std::string resized_regions(const json& report) {
    std::size_t resized = 0;
    for (const json& region : list(report, "regions"))
        resized += number(region, "resized").value_or(0.0) > 0.0 ? 1 : 0;
    return resized == 0 ? "corun saw OpenMP regions only, and resized none"
                        : fmt::format("corun saw OpenMP regions only, and resized {}", resized);
}

void append_head(std::string& out, const json& report) {
    const auto& phases = list(report, "phases");
    const std::string verdict = !phases.empty() ? conclusion(phases[0])
                                : !list(report, "regions").empty()
                                    ? resized_regions(report)
                                    : "corun saw no op that it knows: nothing was changed";
    const auto share = phases.empty() ? std::nullopt : number(phases[0], "share");
    append_wrapped(
        out,
        verdict + (share && *share < 0.995 ? fmt::format(" (in {:.0f} % of the time)", 100 * *share) : ""),
        0);
    const json& advice = field(report, "static_setting");
    if (advice.is_object()) append_wrapped(out, "Without corun: " + text(advice, "text"), 0);
    out += '\n';
    const auto pid = number(report, "pid");
    out += shorten(fmt::format("Program   {}", command_line(report)), kColumns - 15);
    if (pid) out += fmt::format(" (pid {:.0f})", *pid);
    out += '\n';
}

// What became of the budget while the program ran, and what it did not get of it.
void append_budget_story(std::string& out, const json& budget) {
    const json& changes = list(budget, "changes");
    for (std::size_t i = 1; i < changes.size(); ++i)
        out += fmt::format("\n          from {} on: {:g} (by {})", seconds(number(changes[i], "seconds")),
                           number(changes[i], "cpus").value_or(0), text(changes[i], "limit"));
    const json& throttled = field(budget, "throttled");
    if (const auto periods = number(throttled, "periods"))
        out += fmt::format("\nThrottled {:g} of {:g} periods of the cgroup's quota, {} of CPU time waited",
                           number(throttled, "throttled").value_or(0), *periods,
                           seconds(number(throttled, "seconds")));
    constexpr double kStealWorthTelling = 0.005;
    if (const auto steal = number(budget, "steal_share"); steal && *steal >= kStealWorthTelling)
        out += fmt::format("\nStolen    {:.1f} % of the machine's CPU time went to other virtual machines",
                           *steal * 100);
}

void append_run(std::string& out, const json& report) {
    const auto wall = number(report, "wall_seconds");
    const auto cpu = number(report, "cpu_seconds");
    const auto rss = number(report, "max_rss_bytes");
    out += fmt::format("Run       {} wall, {} CPU", seconds(wall), seconds(cpu));
    if (wall && cpu && *wall > 0) out += fmt::format(" ({:.2f} CPUs busy)", *cpu / *wall);
    if (rss) out += fmt::format(", {:.0f} MiB at most", *rss / 1048576);
    const json& budget = field(report, "budget");
    if (const auto cpus = number(budget, "cpus")) {
        out += fmt::format("\nBudget    {:g} CPU{}", *cpus, *cpus == 1 ? "" : "s");
        for (const char* name : {"affinity", "quota", "share", "option"})
            if (const auto value = number(budget, name)) out += fmt::format(", {} {:g}", name, *value);
        append_budget_story(out, budget);
    }
    out += fmt::format("\ncorun     {}, mode {}, policy {}\n", text(report, "corun"), text(report, "mode"),
                       text(report, "policy"));
}

void append_node(std::string& out, const json& report) {
    const json& node = field(report, "node");
    const auto peers = number(node, "most_peers");
    if (!peers) return;
    out += fmt::format(
        "Node      up to {:g} other program{} beside it: a part of the CPUs for {}, its own lent for {}\n",
        *peers, *peers == 1 ? "" : "s", seconds(number(node, "shared_seconds")),
        seconds(number(node, "lent_seconds")));
}

void append_sources(std::string& out, const json& report) {
    for (const json& source : list(report, "sources")) {
        std::string line = fmt::format("Source    {} {}: {}", text(source, "name"), text(source, "version"),
                                       text(source, "state"));
        if (const auto ops = number(source, "ops")) line += fmt::format(", {} ops", grouped(ops));
        if (const auto ops = number(source, "async_ops"); ops && *ops > 0)
            line += fmt::format(", {} asynchronous", grouped(ops));
        if (!text(source, "reason").empty()) line += " (" + text(source, "reason") + ")";
        out += shorten(line, kColumns) + '\n';
        std::string levers;
        for (const json& lever : list(source, "levers"))
            if (lever.is_string()) levers += (levers.empty() ? "" : ", ") + lever.get<std::string>();
        if (!levers.empty()) out += shorten("Levers    " + levers, kColumns) + '\n';
    }
    for (const json& lever : list(report, "irreversible"))
        out += shorten(fmt::format("In force  {}: {} ({})", text(lever, "lever"), text(lever, "effect"),
                                   text(lever, "option")),
                       kColumns) +
               '\n';
}

void append_arms(std::string& out, const json& phase) {
    const auto& arms = list(phase, "arms");
    if (arms.empty()) return;
    out += fmt::format("  {} {} {:>8} {:>9} {:>7}  state\n", pad("arm", 22), pad("share of time", kArmBar),
                       "", "time", "race");
    for (const json& arm : arms) {
        const auto share = number(arm, "share");
        const auto race = number(arm, "race");
        out += fmt::format("  {} {} {:>8} {:>9} {:>7}  {}\n", pad(text(arm, "name"), 22),
                           bar(share.value_or(0), kArmBar), percent(share), seconds(number(arm, "seconds")),
                           race ? fmt::format("{:.2f}", *race) : "-", shorten(text(arm, "state"), 20));
    }
}

void append_phase(std::string& out, const json& phase, std::size_t index) {
    const auto share = number(phase, "share");
    out += fmt::format("\nPhase {}: {} of the time, state {}, arm {}\n", index + 1, percent(share),
                       text(phase, "state"), shorten(text(phase, "arm"), 30));
    append_wrapped(out, conclusion(phase), 2);
    const json& gain = field(phase, "gain");
    if (const auto ratio = number(gain, "ratio")) {
        out += fmt::format("  work rate with / without: {:.3f}", *ratio);
        const auto low = number(gain, "low");
        const auto high = number(gain, "high");
        if (low && high) out += fmt::format(" ({:.3f} - {:.3f})", *low, *high);
        if (const auto blocks = number(gain, "blocks")) out += fmt::format(" from {:.0f} blocks", *blocks);
        out += fmt::format(": {}\n", text(gain, "verdict"));
    }
    if (const std::string anchor = text(phase, "anchor"); !anchor.empty())
        out += fmt::format("  anchor {}, every {}\n", shorten(anchor, 70),
                           seconds(number(phase, "period_seconds")));
    const json& windows = field(phase, "windows");
    if (const auto used = number(windows, "used"))
        out += fmt::format("  windows: {} used, {} discarded\n", grouped(used),
                           grouped(number(windows, "discarded")));
    append_arms(out, phase);
}

// "1: 161 | 2: 173 (210 beside)"
std::string widths_of(const json& op) {
    std::string result;
    for (const json& width : list(op, "widths")) {
        const auto n = number(width, "width");
        const auto solo = number(width, "solo_us");
        const auto beside = number(width, "beside_us");
        if (!n || (!solo && !beside)) continue;
        if (!result.empty()) result += " | ";
        result += fmt::format("{:.0f}: {}", *n, solo ? micros(*solo) : std::string("-"));
        if (beside) result += fmt::format(" ({})", micros(*beside));
    }
    return result;
}

void append_ops(std::string& out, const json& report) {
    const auto& ops = list(report, "ops");
    if (ops.empty()) return;
    out += fmt::format("\nThe {} ops that take most time", ops.size());
    if (const auto keys = number(report, "op_keys")) out += fmt::format(", of {}", grouped(keys));
    out += " (µs at each width alone, in brackets beside other ops)\n";
    out += fmt::format("  {:<17} {} {:>11} {:>6}  µs at width\n", "share of time", pad("op", 24), "calls",
                       "width");
    for (const json& op : ops) {
        const auto share = number(op, "share");
        const auto chosen = number(op, "chosen");
        out += fmt::format("  {} {:>6} {} {:>11} {:>6}  {}\n", bar(share.value_or(0), kOpBar), percent(share),
                           pad(text(op, "name"), 24), grouped(number(op, "calls")),
                           !chosen       ? "-"
                           : *chosen > 0 ? fmt::format("{:.0f}", *chosen)
                                         : "own",
                           shorten(widths_of(op), kColumns - 66));
        while (out[out.size() - 2] == ' ') out.erase(out.size() - 2, 1);
        const std::string why = text(op, "why");
        constexpr std::size_t room = kColumns - 20;
        const std::size_t wanted = why.empty() ? 0 : width_of(why) + 2;
        const std::string shapes =
            shorten(text(op, "shapes"), std::max(room / 2, room - std::min(room, wanted)));
        out += fmt::format("{:20}{}{}{}\n", "", shapes, why.empty() || shapes.empty() ? "" : "  ",
                           shorten(why, room - width_of(shapes) - 2));
    }
}

void append_runtimes(std::string& out, const json& report) {
    for (const json& runtime : list(report, "runtimes"))
        out += shorten(fmt::format("Runtime   {}: {}, {}", text(runtime, "name"), text(runtime, "kind"),
                                   text(runtime, "state")),
                       kColumns) +
               '\n';
}

void append_start_width(std::string& out, const json& report) {
    const json& start = field(report, "start_width");
    const auto width = number(start, "width");
    const auto own = number(start, "own");
    if (!width || !own) return;
    out += shorten(fmt::format("Start     {:.0f} of {:.0f} threads in regions: {}", *width, *own,
                               text(start, "why")),
                   kColumns) +
           '\n';
}

std::string words_of(const json& names) {
    std::string result;
    for (const json& name : names) result += (result.empty() ? "" : ", ") + text(name);
    return result;
}

// "ran at another width in 1,200 calls, ...": what CORUN_OPENMP=adaptive did with it.
std::string done_with(const json& region) {
    std::string done;
    const auto add = [&](const std::string& part) { done += (done.empty() ? "" : "; ") + part; };
    if (const auto calls = number(region, "resized"); calls && *calls > 0.0) {
        const auto switched = number(region, "switch_seconds");
        add(fmt::format("{} calls at another width, {} for the changes", grouped(calls), seconds(switched)));
    }
    const json& chunk = field(region, "chunk");
    if (const auto iterations = number(chunk, "iterations"))
        add(fmt::format("{} {} at a time in {} calls ({})", grouped(iterations),
                        *iterations == 1.0 ? "iteration" : "iterations", grouped(number(region, "rechunked")),
                        text(chunk, "why")));
    if (const auto waited = number(region, "wait_share"))
        add(fmt::format("its threads waited {:.0f} % of the time at its end", 100.0 * *waited));
    return done;
}

// One of the callers that a region's calls are told apart by.
void append_caller(std::string& out, const json& caller) {
    std::string line = fmt::format("from {}: {} calls, {} threads", text(caller, "name"),
                                   grouped(number(caller, "calls")), grouped(number(caller, "width")));
    for (const std::string& more : {text(caller, "why"), done_with(caller)})
        if (!more.empty()) line += "; " + more;
    append_wrapped(out, line, 6);
}

void append_regions(std::string& out, const json& report) {
    const auto& regions = list(report, "regions");
    if (regions.empty()) return;
    out += fmt::format("\nThe {} OpenMP regions that take most time", regions.size());
    if (const auto seen = number(report, "regions_seen")) out += fmt::format(", of {}", grouped(seen));
    out += " (time from a sample of the calls)\n";
    if (const auto shared = number(field(report, "crowded"), "seconds"))
        append_wrapped(
            out,
            fmt::format("for {} others had the CPUs too: regions that may be resized ran at what CPUs were "
                        "left, and nothing was learned",
                        seconds(shared)),
            2);
    out += fmt::format("  {} {:>13} {:>9} {:>9}  class\n", pad("region", 40), "calls", "time", "threads");
    for (const json& region : regions) {
        const auto narrowest = number(region, "narrowest");
        const auto widest = number(region, "widest");
        const std::string threads = !narrowest || !widest ? "-"
                                    : *narrowest == *widest
                                        ? fmt::format("{:.0f}", *widest)
                                        : fmt::format("{:.0f}-{:.0f}", *narrowest, *widest);
        out += fmt::format("  {} {:>13} {:>9} {:>9}  {}\n", pad(text(region, "name"), 40),
                           grouped(number(region, "calls")), seconds(number(region, "seconds")), threads,
                           shorten(words_of(list(region, "class")), 30));
        if (const std::string why = text(region, "why"); !why.empty())
            append_wrapped(out, text(region, "kind") + ": " + why, 4);
        if (const std::string done = done_with(region); !done.empty()) append_wrapped(out, done, 4);
        for (const json& caller : list(region, "callers")) append_caller(out, caller);
    }
}

void append_gate(std::string& out, const json& report) {
    const json& gate = field(report, "gate");
    if (!gate.is_object()) return;
    std::string line =
        fmt::format("{} of {} ops waited for their turn, {} in all; for {} of them it did not come in time",
                    grouped(number(gate, "waited")), grouped(number(gate, "ops")),
                    seconds(number(gate, "seconds")), grouped(number(gate, "ran_out")));
    if (number(gate, "opened").value_or(0.0) > 0.0)
        line += "; then the gate was opened for good, see the messages";
    out += "\nGate\n";
    append_wrapped(out, line, 2);
}

void append_messages(std::string& out, const json& report) {
    if (const auto dropped = number(report, "samples_dropped"); dropped && *dropped > 0)
        out += fmt::format("\n{} samples were dropped because the program was faster than their reader\n",
                           grouped(dropped));
    const auto& messages = list(report, "messages");
    if (!messages.empty()) out += "\nMessages\n";
    for (const json& message : messages) append_wrapped(out, text(message), 2);
}

}  // namespace

std::string render_report(const json& report) {
    try {
        if (!report.is_object() || text(report, "schema") != "corun-report") return kMalformed;
        std::string out;
        append_head(out, report);
        append_run(out, report);
        append_node(out, report);
        append_sources(out, report);
        append_runtimes(out, report);
        append_start_width(out, report);
        const auto& phases = list(report, "phases");
        for (std::size_t i = 0; i < phases.size(); ++i) append_phase(out, phases[i], i);
        append_ops(out, report);
        append_regions(out, report);
        append_gate(out, report);
        append_messages(out, report);
        return out;
    } catch (const std::exception&) {
        return kMalformed;
    }
}

}  // namespace corun
