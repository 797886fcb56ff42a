// SPDX-License-Identifier: Apache-2.0
// corun run: sets the preload and the options and becomes the program.
#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cstring>
#include <memory>

#include "shim/options.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "tools/openmp_runtime.h"
#include "tools/supervise.h"

namespace corun::tools {
namespace {

constexpr char kFooter[] =
    "The program inherits stdin, stdout, signals and limits; its exit code is the one you see. 125: corun "
    "itself\n"
    "failed, 126: the program cannot be executed, 127: it was not found, 2: the command line is wrong.\n"
    "Every option is an environment variable too (`corun options`); so `LD_PRELOAD=libcorun.so program` "
    "works as\n"
    "well. Example:  corun run --report -- python train.py";

struct RunArguments {
    std::array<std::string, kOptionCount> values;
    std::array<CLI::Option*, kOptionCount> flags{};
    std::string library;
    Words ignored;  // the program: only for the usage line
};

std::string flag_name(const OptionRow& row) {
    std::string flag = "--";
    for (char c : row.name.substr(6))
        flag += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return flag;
}

// A flag for each row of the option table.
void add_flags(CLI::App& app, RunArguments& arguments) {
    const auto& table = option_table();
    for (std::size_t i = 0; i < table.size(); ++i) {
        const OptionRow& row = table[i];
        std::string& value = arguments.values[i];
        std::string help(row.help);
        if (!row.fallback.empty()) help += fmt::format(" [{}]", row.fallback);
        CLI::Option*& flag = arguments.flags[i];
        if (i == static_cast<std::size_t>(OptionId::report)) {
            flag = app.add_flag("--report{-}", value,
                                help + "; without =PATH it is printed on stderr at the end")
                       ->option_text("[=PATH]");
        } else if (row.type == OptionType::boolean) {
            flag = app.add_flag(flag_name(row), value, help)->option_text("[=yes|no]");
        } else {
            flag = app.add_option(flag_name(row), value, help);
            flag->type_name(row.type == OptionType::path   ? "PATH"
                            : row.type == OptionType::text ? "TEXT"
                                                           : std::string(row.range));
        }
        flag->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
        if (row.stability != Stability::stable)
            flag->group(row.stability == Stability::testing ? "Options for tests" : "Experimental options");
    }
}

// One message is better than the library's warning: here the user is still at the command line.
void check_value(const OptionRow& row, const std::string& value) {
    std::array<char, 512> message{};
    if (check_option(row, value, message.data(), message.size())) return;
    std::string sentence = message.data();
    sentence = sentence.substr(0, sentence.rfind("; the default"));
    if (sentence.compare(0, row.name.size(), row.name) == 0)
        sentence = flag_name(row) + sentence.substr(row.name.size());
    throw UsageError(sentence);
}

void apply_values(const RunArguments& arguments, Environment& environment) {
    const auto& table = option_table();
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (arguments.flags[i]->count() == 0) continue;
        std::string value = arguments.values[i];
        if (value.empty()) throw UsageError(flag_name(table[i]) + " needs a value");
        const bool to_stderr = i == static_cast<std::size_t>(OptionId::report) && value == "-";
        if (to_stderr) continue;
        // The program may change its folder: a path counts from where the user is.
        if (table[i].type == OptionType::path) value = std::filesystem::absolute(value).string();
        check_value(table[i], value);
        if (i == static_cast<std::size_t>(OptionId::openmp_runtime))
            if (const std::string reason = unusable_runtime(value); !reason.empty())
                throw UsageError(fmt::format("{} {}: {}", flag_name(table[i]), value, reason));
        environment.set(table[i].name, value);
    }
}

int run(const RunArguments& arguments, const Words& program) {
    if (program.empty()) throw UsageError("there is no program to run: corun run [options] -- command...");
    Environment environment = Environment::of_this_process();
    apply_values(arguments, environment);
    const auto library = find_library(arguments.library);
    const Obstacle obstacle = preload_obstacle(resolve_program(program.front()));
    if (!obstacle.sentence.empty()) fmt::print(stderr, "corun: {}\n", obstacle.sentence);
    if (obstacle.would_end_it)
        remove_corun(environment);  // it may have been there before
    else
        add_preload(environment, library);
    if (obstacle.sentence.empty() && environment.get("CORUN_MODE") != "off") {
        const std::string refused = add_openmp_runtime(environment, library, program.front());
        if (!refused.empty()) fmt::print(stderr, "corun: {}\n", refused);
    }
    const auto report = static_cast<std::size_t>(OptionId::report);
    const bool to_stderr = arguments.flags[report]->count() > 0 && arguments.values[report] == "-";
    return to_stderr ? run_and_report(program, environment) : execute(program, environment);
}

}  // namespace

Subcommand add_run(CLI::App& parent) {
    CLI::App* app = parent.add_subcommand("run", "run a program under corun");
    auto arguments = std::make_shared<RunArguments>();
    add_flags(*app, *arguments);
    app->add_option("--library", arguments->library,
                    "libcorun.so to preload instead of the one beside this command")
        ->type_name("PATH");
    app->add_option("command", arguments->ignored, "the program and its arguments");
    app->footer(kFooter);
    return {app, true, [arguments](const Words& program) { return run(*arguments, program); }};
}

}  // namespace corun::tools
