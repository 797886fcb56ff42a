// SPDX-License-Identifier: Apache-2.0
#include "tools/compare_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace corun::tools {
namespace {

using nlohmann::ordered_json;

constexpr int kBar = 20;

std::string span_text(const Interval& interval, int digits) {
    if (std::isnan(interval.low)) return "-";
    return fmt::format("{:.{}f} - {:.{}f}", interval.low, digits, interval.high, digits);
}

// Digits after the point that leave about four that count.
int digits_for(double value) {
    if (!(value > 0)) return 3;
    return std::clamp(3 - static_cast<int>(std::floor(std::log10(value))), 0, 6);
}

ordered_json number(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json interval_json(const Interval& interval) {
    return {
        {"value", number(interval.value)}, {"low", number(interval.low)}, {"high", number(interval.high)}};
}

const char* verdict_word(Verdict verdict) {
    switch (verdict) {
        case Verdict::above:
            return "at or above";
        case Verdict::below:
            return "below";
        case Verdict::undecided:
            return "undecided";
    }
    return "";
}

void add_alternate(ordered_json& result, const Series& one) {
    if (one.setting.under_corun) {
        const auto status = ordered_json::parse(one.status, nullptr, false);  // another process wrote it
        result["status"] = status.is_object() ? status : ordered_json(nullptr);
    }
    if (one.first_seconds <= 0) return;
    result["first_seconds"] = one.first_seconds;
    result["first_mean"] = number(one.first_mean);
}

ordered_json series_json(const Comparison& comparison, const Series& one) {
    ordered_json result;
    result["name"] = one.setting.name;
    result["under_corun"] = one.setting.under_corun;
    result["environment"] = ordered_json::object();
    for (const auto& [name, value] : one.setting.variables) result["environment"][name] = value;
    result["arguments"] = one.setting.arguments;
    result["mean"] = interval_json(mean_interval(one.values, 0.95));
    result["median"] = number(median(one.values));
    result["ratio_to_plain"] = interval_json(comparison.ratio_to_plain(one));
    result["ratio_to_corun"] = interval_json(comparison.ratio_to_corun(one));
    result["values"] = one.values;
    result["wall_seconds"] = one.wall_seconds;
    result["cpu_seconds"] = one.cpu_seconds;
    result["max_rss_bytes"] = one.max_rss_bytes;
    if (comparison.alternate) add_alternate(result, one);
    return result;
}

std::string row_of(const Comparison& comparison, std::size_t index, int name_width) {
    const Series& one = comparison.series[index];
    if (one.values.empty()) return fmt::format("{:<{}} {:>4}\n", one.setting.name, name_width, 0);
    const Interval average = mean_interval(one.values, 0.95);
    const int digits = digits_for(average.value);
    std::string row =
        fmt::format("{:<{}} {:>4} {:>9.{}f} {:>17} {:>9.{}f} {:>7.1f} {:>6.0f}", one.setting.name, name_width,
                    one.values.size(), average.value, digits, span_text(average, digits), median(one.values),
                    digits, mean(one.cpu_seconds), mean(one.max_rss_bytes) / 1048576);
    if (index > 0) {
        const Interval ratio = comparison.ratio_to_plain(one);
        row += fmt::format(" {:>8.3f} {:>13}", ratio.value, span_text(ratio, 3));
    }
    if (index > 1) row += fmt::format(" {:>8.3f}", comparison.ratio_to_corun(one).value);
    return row + '\n';
}

std::string conclusion_of(const Comparison& comparison) {
    const Interval ratio = comparison.ratio_to_plain(comparison.series.at(1));
    if (std::isnan(ratio.value)) return "Nothing can be said: there is no complete pair.\n";
    std::string text = fmt::format("corun is {:.3f} times as fast as plain", ratio.value);
    if (!std::isnan(ratio.low))
        text += fmt::format(" (95 % interval {:.3f} - {:.3f})", ratio.low, ratio.high);
    const Decision& decision = comparison.decision;
    text += fmt::format(".\nFloor {:g}: {}", comparison.floor, verdict_word(decision.verdict));
    if (!std::isnan(decision.interval.low))
        text +=
            fmt::format(" ({:.3g} % interval {:.3f} - {:.3f}{})", 100 * decision.confidence,
                        decision.interval.low, decision.interval.high,
                        decision.looks > 1 ? fmt::format(": {} looks share the 5 %", decision.looks) : "");
    return text + ".\n";
}

}  // namespace

std::string duration_text(double seconds) {
    if (seconds < 90) return fmt::format("{:.0f} s", seconds);
    if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
    return fmt::format("{:.1f} h", seconds / 3600);
}

Progress::Progress(std::size_t settings, int warmup, int least_rounds, int most_rounds)
    : settings_(settings),
      warmup_(warmup),
      least_(least_rounds),
      most_(most_rounds),
      terminal_(isatty(STDERR_FILENO) != 0) {}

std::string Progress::time_left() const {
    if (runs_ == 0) return "";
    const double each = seconds_ / static_cast<double>(runs_);
    const auto left = [&](int rounds) {
        const double all = static_cast<double>(settings_) * (rounds + warmup_);
        return each * std::max(0.0, all - static_cast<double>(runs_));
    };
    if (least_ == most_ || left(least_) <= 0)
        return fmt::format(", {}{} left", least_ == most_ ? "about " : "at most ",
                           duration_text(left(most_)));
    return fmt::format(", {} to {} left", duration_text(left(least_)), duration_text(left(most_)));
}

void Progress::begin_run(const std::string& setting, int round) {
    if (!terminal_) return;
    const double all = static_cast<double>(settings_) * (most_ + warmup_);
    const int full = std::clamp(static_cast<int>(kBar * static_cast<double>(runs_) / all), 0, kBar);
    const std::string where =
        round > 0 ? fmt::format("round {} of {}{}", round, least_ == most_ ? "" : "at most ", most_)
                  : "warm-up";
    fmt::print(stderr, "\r\033[K[{:#<{}}{:-<{}}] {}: {}{}", "", full, "", kBar - full, where, setting,
               time_left());
    std::fflush(stderr);
}

void Progress::end_run(const std::string& setting, int round, double value, double seconds) {
    ++runs_;
    seconds_ += seconds;
    if (terminal_) return;
    const std::string where = round > 0 ? fmt::format("round {}", round) : "warm-up";
    fmt::print(stderr, "corun compare: {}, {}: {:.{}f} ({:.1f} s){}\n", where, setting, value,
               digits_for(value), seconds, time_left());
}

void Progress::say(const std::string& what) const {
    if (terminal_)
        fmt::print(stderr, "\r\033[K[{:-<{}}] {}", "", kBar, what);
    else
        fmt::print(stderr, "corun compare: {}\n", what);
    std::fflush(stderr);
}

void Progress::clear() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
}

std::string table_of(const Comparison& comparison) {
    std::string text = comparison.metric.empty() ? "Wall time in seconds"
                                                 : fmt::format("The program's own {}", comparison.metric);
    text += fmt::format(", lower is better; {} round{} of {} settings in turn\n\n", comparison.rounds(),
                        comparison.rounds() == 1 ? "" : "s", comparison.series.size());
    int width = 7;
    for (const Series& one : comparison.series)
        width = std::max(width, static_cast<int>(one.setting.name.size()));
    text += fmt::format("{:<{}} {:>4} {:>9} {:>17} {:>9} {:>7} {:>6} {:>8} {:>13}{}\n", "setting", width,
                        "runs", "mean", "95 % interval", "median", "CPU s", "MiB", "plain/it",
                        "95 % interval", comparison.series.size() > 2 ? " it/corun" : "");
    for (std::size_t i = 0; i < comparison.series.size(); ++i) text += row_of(comparison, i, width);
    return text + '\n' + conclusion_of(comparison);
}

ordered_json json_of(const Comparison& comparison) {
    ordered_json result;
    result["schema"] = "corun-compare";
    result["version"] = 1;
    result["corun"] = CORUN_VERSION;
    result["command"] = comparison.command;
    result["metric"] = comparison.metric.empty() ? ordered_json(nullptr) : ordered_json(comparison.metric);
    result["lower_is_better"] = true;
    result["started"] = comparison.started;
    result["host"] = {{"cpu", cpu_model()},
                      {"cpus", usable_cpus()},
                      {"quiet", comparison.before.is_quiet(usable_cpus())},
                      {"load_start", comparison.before.load},
                      {"load_end", comparison.load_end},
                      {"busy", comparison.before.busy},
                      {"steal", comparison.before.steal}};
    if (const auto& times = comparison.alternate)
        result["alternate"] = {
            {"slot", times->slot}, {"warm", times->warm}, {"warm_plain", times->warm_plain}};
    result["warmup"] = comparison.warmup;
    result["rounds"] = comparison.rounds();
    result["floor"] = comparison.floor;
    const Decision& decision = comparison.decision;
    result["decision"] = {{"verdict", verdict_word(decision.verdict)},
                          {"ratio", interval_json(decision.interval)},
                          {"confidence", decision.confidence},
                          {"looks", decision.looks}};
    result["error"] = comparison.error.empty() ? ordered_json(nullptr) : ordered_json(comparison.error);
    result["settings"] = ordered_json::array();
    for (const Series& one : comparison.series) result["settings"].push_back(series_json(comparison, one));
    return result;
}

void write_json(const Comparison& comparison, const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    const bool in_place =
        fs::exists(path, error) && !fs::is_regular_file(path, error);  // /dev/stdout, a pipe
    const std::string target = in_place ? path : fmt::format("{}.{}.tmp", path, getpid());
    {
        std::ofstream file(target);
        file << json_of(comparison).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
        if (!file.flush()) throw std::runtime_error(fmt::format("{}: {}", target, std::strerror(errno)));
    }
    if (in_place) return;
    fs::rename(target, path, error);
    if (error) throw std::runtime_error(fmt::format("{}: {}", path, error.message()));
}

}  // namespace corun::tools
