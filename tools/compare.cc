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
#include "tools/alternate.h"
#include "tools/commands.h"
#include "tools/compare_output.h"
#include "tools/comparison.h"
#include "tools/measure.h"
#include "tools/openmp_runtime.h"

namespace corun::tools {
namespace {

constexpr int kMostRounds = 32;
constexpr int kBelowFloor = 3;
constexpr int kUndecided = 4;

constexpr char kFooter[] =
    R"(Settings run in turn, A B C and then C B A, so that a drift of the machine falls on all alike. Ratios
are geometric means over the pairs of one round; above 1 the setting is faster than plain.

--also 'NAME=[@corun] [VAR=VALUE...] [-- ARG...]' adds a setting: variables for its environment, words
to append to the command (from the first word that begins with '-'), @corun to run it under corun.
Words are split and quoted as in the shell. Without @corun a setting runs plain. Examples:
  --also 'one thread=OMP_NUM_THREADS=1'      --also 'grid 1,2=--intra 1 --inter 2'
  --also 's1=@corun CORUN_POLICY=s1'         --also 'again='   (plain once more: shows the noise)

--alternate is for programs that run long and print the metric again and again (flush each line), as
training does each step. Each is started once, runs alone for its warm-up and is stopped (SIGSTOP); in
the rounds each in turn is continued for one slot. A value is the mean of all that --metric finds in a
slot, on stdout and stderr, without the first two: their step was stopped. The programs must not end
before the comparison, which ends them (SIGTERM). Example:
  corun compare --alternate -n 8 --metric 'step_ms=([0-9.]+)' -- python train.py

Exit code: 0 surely at or above the floor, 3 surely below it, 4 undecided, 1 a run failed, 2 wrong
command line, 130 interrupted. What was measured is printed and written to --json in every case.)";

struct CompareArguments {
    int pairs = 0;
    int least = 8;
    int warmup = 0;
    double floor = 0.97;
    double timeout = 0;
    bool alternate = false;
    AlternateTimes times;
    std::string metric;
    std::string json;
    std::string library;
    std::vector<std::string> also;
    Words ignored;
};

/// Runs the rounds and keeps what they give.
class Comparer {
  public:
    Comparer(const CompareArguments& arguments, Comparison& comparison)
        : arguments_(arguments),
          comparison_(comparison),
          looks_(looks(arguments.pairs > 0 ? arguments.pairs : arguments.least,
                       arguments.pairs > 0 ? arguments.pairs : std::max(kMostRounds, arguments.least))),
          progress_(comparison.series.size(), arguments.warmup, looks_.front(), looks_.back()) {}

    void run(Measurer& measurer) {
        measurer.prepare(progress_);
        for (int round = 1 - arguments_.warmup; round <= looks_.back(); ++round) {
            run_round(measurer, round);
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
    void run_round(Measurer& measurer, int round) {
        const std::size_t count = comparison_.series.size();
        for (std::size_t i = 0; i < count; ++i) {
            const std::size_t index = round % 2 != 0 ? i : count - 1 - i;
            Series& series = comparison_.series[index];
            progress_.begin_run(series.setting.name, round);
            const Sample sample = measurer.measure(index);
            progress_.end_run(series.setting.name, round, sample.value, sample.wall_seconds);
            stop_if_interrupted();
            if (round > 0) keep(series, sample);
        }
    }

    static void keep(Series& series, const Sample& sample) {
        series.values.push_back(sample.value);
        series.wall_seconds.push_back(sample.wall_seconds);
        series.cpu_seconds.push_back(sample.cpu_seconds);
        series.max_rss_bytes.push_back(sample.max_rss_bytes);
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
    if (arguments.alternate && arguments.metric.empty())
        throw UsageError("--alternate needs --metric: what the programs print again and again");
    check_metric(arguments.metric);
    Comparison comparison;
    comparison.command = program;
    comparison.metric = arguments.metric;
    comparison.floor = arguments.floor;
    comparison.warmup = arguments.warmup;
    if (arguments.alternate) comparison.alternate = arguments.times;
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

// CORUN_OPENMP_RUNTIME acts when a program is started: what it comes to is found once for each setting.
void settle_openmp_runtime(Setting& setting, const std::filesystem::path& library, const Words& program) {
    if (!setting.under_corun) return;
    Environment environment = environment_for(setting, library);
    if (environment.get("CORUN_OPENMP_RUNTIME").empty() || environment.get("CORUN_MODE") == "off") return;
    const std::string refused = add_openmp_runtime(environment, library, program.front());
    if (!refused.empty()) fmt::print(stderr, "corun compare: {}: {}\n", setting.name, refused);
    for (const char* name : kRuntimeVariables)
        if (const std::string value = environment.get(name); !value.empty() || name == kRuntimeVariables[0])
            setting.variables.emplace_back(name, value);
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

// Ends every program that is left before it returns.
std::string run_rounds(const CompareArguments& arguments, Comparison& comparison, Comparer& comparer,
                       const std::filesystem::path& library, int& code) {
    std::unique_ptr<Measurer> measurer;
    if (comparison.alternate)
        measurer = std::make_unique<Alternation>(comparison, library);
    else
        measurer = std::make_unique<WholeRuns>(comparison, library, arguments.timeout);
    try {
        comparer.run(*measurer);
    } catch (const Stopped& stopped) {
        comparison.error = stopped.reason;
        code = stopped.code;
        return stopped.detail;
    }
    code = exit_code(comparison);
    return "";
}

int compare(const CompareArguments& arguments, const Words& program) {
    Comparison comparison = prepare(arguments, program);
    const auto library = find_library(arguments.library);
    const Obstacle obstacle = preload_obstacle(resolve_program(program.front()));
    if (obstacle.would_end_it) throw UsageError(obstacle.sentence + "; there is nothing to compare");
    if (!obstacle.sentence.empty()) fmt::print(stderr, "corun compare: {}\n", obstacle.sentence);
    Options ours;
    read_options(environ, ours,
                 [](const char* sentence) { fmt::print(stderr, "corun compare: {}\n", sentence); });
    if (obstacle.sentence.empty())
        for (Series& series : comparison.series) settle_openmp_runtime(series.setting, library, program);
    comparison.started = time_text();
    Comparer comparer(arguments, comparison);
    comparer.save();  // so that a path that cannot be written is known before the first run
    comparison.before = look_at_machine();
    fmt::print(stderr, "corun compare: {}\n", comparison.before.sentence(usable_cpus()));
    catch_interrupts();
    int code = 0;
    const std::string detail = run_rounds(arguments, comparison, comparer, library, code);
    comparer.clear_progress();
    fmt::print(stderr, "{}", detail);
    comparer.save();
    fmt::print("{}", table_of(comparison));
    if (!comparison.error.empty()) fmt::print("Stopped early: {}.\n", comparison.error);
    return code;
}

}  // namespace

namespace {

void add_alternate(CLI::App& app, CompareArguments& arguments) {
    CLI::Option* alternate =
        app.add_flag("--alternate", arguments.alternate,
                     "start each program once and stop it while the others run, see below; needs --metric");
    const auto add = [&](const char* name, double& seconds, double least, const char* help) {
        app.add_option(name, seconds, help)
            ->type_name("SECONDS")
            ->check(CLI::Range(least, 1e6))
            ->needs(alternate);
    };
    add("--slot", arguments.times.slot, 0.05, "how long each then runs in turn [5]");
    add("--warm", arguments.times.warm, 0, "how long a program under corun runs first [60]");
    add("--warm-plain", arguments.times.warm_plain, 0, "how long any other program runs first [8]");
    alternate->excludes(app.get_option("--timeout"));
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
    app->add_option("--metric", arguments->metric,
                    "the number to compare, lower is better: first group of what matches in what the program "
                    "prints; of "
                    "several matches the median of the later half; without it the wall time")
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
    add_alternate(*app, *arguments);
    app->add_option("command", arguments->ignored, "the program and its arguments");
    app->footer(kFooter);
    return {app, true, [arguments](const Words& program) { return compare(*arguments, program); }};
}

}  // namespace corun::tools
