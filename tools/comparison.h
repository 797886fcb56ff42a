// SPDX-License-Identifier: Apache-2.0
// The data of `corun compare`: what is run, what was measured, what follows from it.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "tools/child.h"
#include "tools/launch.h"
#include "tools/machine.h"
#include "tools/statistics.h"

namespace corun::tools {

/// One way of running the program.
struct Setting {
    std::string name;
    bool under_corun = false;
    std::vector<std::pair<std::string, std::string>> variables;  ///< set in its environment
    std::vector<std::string> arguments;                          ///< appended to the command
};

/// Parses "NAME=[@corun] [VAR=VALUE...] [--] [ARG...]", words split and quoted as in the shell. The arguments
/// begin with the first word that begins with '-' (a lone -- is dropped). Throws UsageError.
[[nodiscard]] Setting parse_setting(const std::string& text);

/// The environment of a setting: without any trace of corun, or with the preload in front.
[[nodiscard]] Environment environment_for(const Setting& setting, const std::filesystem::path& library);

/// The number in the first group of the lines of `output` that `pattern` matches. Of several, which are those
/// of a program that prints one each step, the median of the later half: the first ones are its warm-up.
[[nodiscard]] std::optional<double> find_metric(const std::string& output, const std::string& pattern);

/// All positive numbers in the first group of what `pattern` matches in one line, in their order.
[[nodiscard]] std::vector<double> find_metrics(std::string line, const std::regex& pattern);

/// What one setting gave; the i-th entries of all settings are from the same round.
struct Series {
    Setting setting;
    std::vector<double> values;  ///< the metric, lower is better
    std::vector<double> wall_seconds;
    std::vector<double> cpu_seconds;
    std::vector<double> max_rss_bytes;
    // Of a comparison of programs that alternate:
    std::string status = {};   ///< the last JSON on the control page; empty: none
    double first_seconds = 0;  ///< how long its first minute was measured; 0: not at all
    double first_mean = 0;     ///< mean of the metric in it
};

/// How long programs that alternate run, in seconds.
struct AlternateTimes {
    double slot = 5;
    double warm = 60;       ///< at first, under corun
    double warm_plain = 8;  ///< at first, the others
};

struct Decision {
    Verdict verdict = Verdict::undecided;
    Interval interval;  ///< of plain / corun
    double confidence = 0.95;
    std::size_t looks = 1;
};

struct Comparison {
    std::vector<std::string> command;
    std::string metric;                       ///< pattern; empty: wall time
    std::optional<AlternateTimes> alternate;  ///< set: each program is started once
    double floor = 0.97;
    int warmup = 0;
    std::string started;
    Quiet before;
    double load_end = 0;
    std::vector<Series> series;  ///< plain, corun, then the others
    Decision decision;
    std::string error;  ///< why it stopped early, else empty

    [[nodiscard]] std::size_t rounds() const;  ///< complete ones
    [[nodiscard]] Interval ratio_to_plain(
        const Series& one) const;  ///< plain / one: > 1 is faster than plain
    [[nodiscard]] Interval ratio_to_corun(
        const Series& one) const;  ///< one / corun: > 1 means corun is faster
};

}  // namespace corun::tools
