// SPDX-License-Identifier: Apache-2.0
// corun compare: runs a program plain, under corun and under other settings in turn, until the difference is
// sure.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <regex>

#include "shim/options.h"
#include "tools/commands.h"
#include "tools/compare_output.h"
#include "tools/comparison.h"

namespace corun::tools {
namespace {

constexpr int kMostRounds = 32;
constexpr int kBelowFloor = 3;
constexpr int kUndecided = 4;
constexpr int kInterrupted = 130;
constexpr std::size_t kTailLines = 15;

constexpr char kFooter[] =
    "Settings run in turn, A B C and then C B A, so that a drift of the machine falls on all alike. Ratios "
    "are\n"
    "geometric means over the pairs of one round; above 1 the setting is faster than plain.\n\n"
    "--also 'NAME=[@corun] [VAR=VALUE...] [-- ARG...]' adds a setting: variables for its environment, words "
    "to\n"
    "append to the command (from the first word that begins with '-'), @corun to run it under corun. Words "
    "are\n"
    "split and quoted as in the shell. Without @corun a setting runs plain. Examples:\n"
    "  --also 'one thread=OMP_NUM_THREADS=1'      --also 'grid 1,2=--intra 1 --inter 2'\n"
    "  --also 's1=@corun CORUN_POLICY=s1'         --also 'again='   (plain once more: shows the noise)\n\n"
    "Exit code: 0 surely at or above the floor, 3 surely below it, 4 undecided, 1 a run failed, 2 wrong "
    "command\n"
    "line, 130 interrupted. What was measured is printed and written to --json in every case.";

struct CompareArguments {
    int pairs = 0;
    int least = 8;
    int warmup = 0;
    double floor = 0.97;
    double timeout = 0;
    std::string metric;
    std::string json;
    std::string library;
    std::vector<std::string> also;
    Words ignored;
};

/// Why the comparison ended before it was decided.
struct Stopped {
    std::string reason;
    int code = kError;
};

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

[[noreturn]] void stop_at(const Setting& setting, const ChildResult& result, const std::string& what) {
    if (result.end == ChildResult::End::interrupted) throw Stopped{"interrupted", kInterrupted};
    fmt::print(stderr, "corun compare: the program ({}) {}\n{}{}", setting.name, what,
               tail_of(result.output, "stdout"), tail_of(result.errors, "stderr"));
    throw Stopped{fmt::format("{}: {}", setting.name, what), kError};
}

/// Runs the rounds and keeps what they give.
class Comparer {
  public:
    Comparer(const CompareArguments& arguments, Comparison& comparison, std::filesystem::path library)
        : arguments_(arguments),
          comparison_(comparison),
          library_(std::move(library)),
          looks_(looks(arguments.pairs > 0 ? arguments.pairs : arguments.least,
                       arguments.pairs > 0 ? arguments.pairs : std::max(kMostRounds, arguments.least))),
          progress_(comparison.series.size(), arguments.warmup, looks_.front(), looks_.back()) {}

    void run() {
        for (int round = 1 - arguments_.warmup; round <= looks_.back(); ++round) {
            run_round(round);
            if (round < 1) continue;
            decide(round);
            save();
            if (comparison_.decision.verdict != Verdict::undecided && arguments_.pairs == 0) return;
        }
    }

    void clear_progress() const { progress_.clear(); }

    void save() {
        comparison_.load_end = load_average();
        if (!arguments_.json.empty()) write_json(comparison_, arguments_.json);
    }

  private:
    void run_round(int round) {
        const std::size_t count = comparison_.series.size();
        for (std::size_t i = 0; i < count; ++i)
            run_once(comparison_.series[round % 2 != 0 ? i : count - 1 - i], round);
    }

    void run_once(Series& series, int round) {
        progress_.begin_run(series.setting.name, round);
        std::vector<std::string> words = comparison_.command;
        words.insert(words.end(), series.setting.arguments.begin(), series.setting.arguments.end());
        Environment environment = environment_for(series.setting, library_);
        const ChildResult result = run_child(words, environment, arguments_.timeout);
        if (!result.good()) progress_.clear(), stop_at(series.setting, result, result.sentence());
        const double value = metric_of(series.setting, result);
        progress_.end_run(series.setting.name, round, value, result.wall_seconds);
        if (interrupted()) throw Stopped{"interrupted", kInterrupted};
        if (round < 1) return;
        series.values.push_back(value);
        series.wall_seconds.push_back(result.wall_seconds);
        series.cpu_seconds.push_back(result.cpu_seconds);
        series.max_rss_bytes.push_back(result.max_rss_bytes);
    }

    double metric_of(const Setting& setting, const ChildResult& result) const {
        if (arguments_.metric.empty()) return result.wall_seconds;
        auto value = find_metric(result.output, arguments_.metric);
        if (!value) value = find_metric(result.errors, arguments_.metric);
        if (!value || !(*value > 0)) {
            progress_.clear();
            stop_at(setting, result,
                    fmt::format("printed no positive number that --metric '{}' finds", arguments_.metric));
        }
        return *value;
    }

    // With a fixed number of pairs there is one look, at the end; else only the rounds of the plan are looks.
    void decide(int round) {
        if (std::find(looks_.begin(), looks_.end(), round) == looks_.end()) return;
        Decision& decision = comparison_.decision;
        decision.looks = looks_.size();
        decision.confidence = look_confidence(looks_.size());
        decision.interval =
            paired_ratio(comparison_.series[0].values, comparison_.series[1].values, decision.confidence);
        decision.verdict = judge(decision.interval, comparison_.floor);
    }

    const CompareArguments& arguments_;
    Comparison& comparison_;
    std::filesystem::path library_;
    std::vector<int> looks_;
    Progress progress_;
};

void check_metric(const std::string& pattern) {
    if (pattern.empty()) return;
    try {
        if (std::regex(pattern).mark_count() < 1)
            throw UsageError(fmt::format("--metric '{}' has no group (...) around the number", pattern));
    } catch (const std::regex_error& error) {
        throw UsageError(fmt::format("--metric '{}' is no regular expression: {}", pattern, error.what()));
    }
}

// A mistake here would otherwise be a warning in output that nobody sees.
void check_variables(const Setting& setting) {
    bool preloads = setting.under_corun;
    for (const auto& [name, value] : setting.variables) preloads = preloads || name == "LD_PRELOAD";
    for (const auto& [name, value] : setting.variables) {
        if (name.compare(0, 6, "CORUN_") != 0) continue;
        if (!preloads)
            throw UsageError(fmt::format("--also {}: {} has no effect without @corun", setting.name, name));
        const auto& table = option_table();
        const auto row = std::find_if(table.begin(), table.end(),
                                      [&wanted = name](const OptionRow& one) { return one.name == wanted; });
        if (row == table.end()) {
            const OptionRow* near = nearest_option(name);
            throw UsageError(
                fmt::format("--also {}: {} is not an option of corun{}", setting.name, name,
                            near != nullptr ? fmt::format(" (did you mean {}?)", near->name) : ""));
        }
        std::array<char, 512> message{};
        if (!check_option(*row, value, message.data(), message.size()))
            throw UsageError(fmt::format("--also {}: {}", setting.name, message.data()));
    }
}

Comparison prepare(const CompareArguments& arguments, const Words& program) {
    if (program.empty())
        throw UsageError("there is no program to run: corun compare [options] -- command...");
    check_metric(arguments.metric);
    Comparison comparison;
    comparison.command = program;
    comparison.metric = arguments.metric;
    comparison.floor = arguments.floor;
    comparison.warmup = arguments.warmup;
    comparison.series.push_back({{"plain", false, {}, {}}, {}, {}, {}, {}});
    comparison.series.push_back({{"corun", true, {}, {}}, {}, {}, {}, {}});
    for (const std::string& text : arguments.also) {
        Setting setting = parse_setting(text);
        check_variables(setting);
        for (const Series& other : comparison.series)
            if (other.setting.name == setting.name)
                throw UsageError(fmt::format("--also: the name '{}' is taken", setting.name));
        comparison.series.push_back({std::move(setting), {}, {}, {}, {}});
    }
    return comparison;
}

int exit_code(const Comparison& comparison) {
    switch (comparison.decision.verdict) {
        case Verdict::above:
            return 0;
        case Verdict::below:
            return kBelowFloor;
        case Verdict::undecided:
            break;
    }
    return kUndecided;
}

int compare(const CompareArguments& arguments, const Words& program) {
    Comparison comparison = prepare(arguments, program);
    const auto library = find_library(arguments.library);
    const std::string obstacle = preload_obstacle(resolve_program(program.front()));
    if (!obstacle.empty()) fmt::print(stderr, "corun compare: {}\n", obstacle);
    Options ours;
    read_options(environ, ours,
                 [](const char* sentence) { fmt::print(stderr, "corun compare: {}\n", sentence); });
    comparison.started = time_text();
    Comparer comparer(arguments, comparison, library);
    comparer.save();  // so that a path that cannot be written is known before the first run
    comparison.before = look_at_machine();
    fmt::print(stderr, "corun compare: {}\n", comparison.before.sentence(usable_cpus()));
    catch_interrupts();
    int code = 0;
    try {
        comparer.run();
        code = exit_code(comparison);
    } catch (const Stopped& stopped) {
        comparison.error = stopped.reason;
        code = stopped.code;
    }
    comparer.clear_progress();
    comparer.save();
    fmt::print("{}", table_of(comparison));
    if (!comparison.error.empty()) fmt::print("Stopped early: {}.\n", comparison.error);
    return code;
}

}  // namespace

Subcommand add_compare(CLI::App& parent) {
    CLI::App* app = parent.add_subcommand("compare", "measure a program without and with corun, in turn");
    auto arguments = std::make_shared<CompareArguments>();
    app->add_option("-n,--pairs", arguments->pairs,
                    "rounds to run; without it until the interval decides, at most 32")
        ->type_name("PAIRS")
        ->check(CLI::Range(1, 10000));
    app->add_option("--min-pairs", arguments->least, "rounds before the first look [8]")
        ->type_name("N")
        ->check(CLI::Range(2, 10000));
    app->add_option("--warmup", arguments->warmup, "rounds to run first and not to count [0]")
        ->type_name("N")
        ->check(CLI::Range(0, 1000));
    app->add_option(
           "--metric", arguments->metric,
           "the number to compare, lower is better: first group of the first match in what the program "
           "prints; without it the wall time")
        ->type_name("REGEX");
    app->add_option("--also", arguments->also, "a further setting, see below; may be repeated")
        ->type_name("NAME=ENV...")
        ->allow_extra_args(false);
    app->add_option("--floor", arguments->floor, "the ratio that corun must reach [0.97]")
        ->type_name("RATIO")
        ->check(CLI::Range(0.0, 100.0));
    app->add_option("--json", arguments->json, "write every value that was measured, after each round")
        ->type_name("FILE");
    app->add_option("--timeout", arguments->timeout, "end a run after so many seconds and stop; 0: never [0]")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.0, 1e9));
    app->add_option("--library", arguments->library,
                    "libcorun.so to preload instead of the one beside this command")
        ->type_name("PATH");
    app->add_option("command", arguments->ignored, "the program and its arguments");
    app->footer(kFooter);
    return {app, true, [arguments](const Words& program) { return compare(*arguments, program); }};
}

}  // namespace corun::tools
