// SPDX-License-Identifier: Apache-2.0
#include "tools/measure.h"

#include <fmt/format.h>

namespace corun::tools {
namespace {

constexpr std::size_t kTailLines = 15;

std::string tail_of(const std::string& text, const char* title) {
    if (text.empty()) return "";
    constexpr auto none = std::string::npos;
    std::size_t cut = text.size() - (text.back() == '\n' ? 1 : 0);
    for (std::size_t lines = 0; lines < kTailLines && cut != none; ++lines)
        cut = cut == 0 ? none : text.rfind('\n', cut - 1);
    const std::size_t start = cut == none ? 0 : cut + 1;
    return fmt::format("--- end of its {} ---\n{}{}", title, text.substr(start),
                       text.back() == '\n' ? "" : "\n");
}

}  // namespace

void stop_at(const Setting& setting, const ChildResult& result, const std::string& what) {
    if (result.end == ChildResult::End::interrupted) throw Stopped{"interrupted", kInterrupted};
    throw Stopped{fmt::format("{}: {}", setting.name, what), 1,
                  fmt::format("corun compare: the program ({}) {}\n{}{}", setting.name, what,
                              tail_of(result.output, "stdout"), tail_of(result.errors, "stderr"))};
}

void stop_if_interrupted() {
    if (interrupted()) throw Stopped{"interrupted", kInterrupted};
}

std::unique_ptr<Child> start_child(const Comparison& comparison, const Setting& setting,
                                   const std::filesystem::path& library) {
    std::vector<std::string> words = comparison.command;
    words.insert(words.end(), setting.arguments.begin(), setting.arguments.end());
    Environment environment = environment_for(setting, library);
    return std::make_unique<Child>(words, environment);
}

Sample WholeRuns::measure(std::size_t index) {
    const Setting& setting = comparison_.series[index].setting;
    const auto child = start_child(comparison_, setting, library_);
    const ChildResult result = run_to_end(*child, timeout_);
    if (!result.good()) stop_at(setting, result, result.sentence());
    return {metric_of(setting, result), result.wall_seconds, result.cpu_seconds, result.max_rss_bytes};
}

double WholeRuns::metric_of(const Setting& setting, const ChildResult& result) const {
    const std::string& pattern = comparison_.metric;
    if (pattern.empty()) return result.wall_seconds;
    auto value = find_metric(result.output, pattern);
    if (!value) value = find_metric(result.errors, pattern);
    if (!value || !(*value > 0))
        stop_at(setting, result, fmt::format("printed no positive number that --metric '{}' finds", pattern));
    return *value;
}

}  // namespace corun::tools
