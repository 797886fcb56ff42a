// SPDX-License-Identifier: Apache-2.0
// The command `corun`: finds the subcommand, parses its options and runs it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <iostream>

#include "shim/options.h"
#include "tools/commands.h"
#include "tools/help.h"

namespace corun::tools {
namespace {

constexpr char kDescription[] =
    "corun makes unmodified CPU programs use their cores well: it learns what each op costs at each number "
    "of "
    "threads and decides how wide it runs.\n\n"
    "  corun run -- python train.py        run a program under corun\n"
    "  corun compare -- python train.py    measure whether that helps, without and with corun in turn";

// Whether the option `word` takes its value from the next word.
bool takes_next_word(const CLI::App& app, const std::string& word) {
    if (word.find('=') != std::string::npos) return false;
    const bool is_long = word.compare(0, 2, "--") == 0;
    if (!is_long && word.size() > 2) return false;  // -n5
    const CLI::Option* option = app.get_option_no_throw(word);
    return option != nullptr && option->get_expected_min() > 0 && option->get_type_size_min() > 0;
}

// Splits "options... [--] program..." where the program begins, as perf, taskset and numactl do. CLI11 must
// not see the program's words: it would take its options for ours and open brackets as lists.
Words split_program(const CLI::App& app, Words& words) {
    std::size_t i = 0;
    while (i < words.size() && words[i] != "--" && words[i].size() > 1 && words[i][0] == '-')
        i += takes_next_word(app, words[i]) ? 2 : 1;
    i = std::min(i, words.size());
    const std::size_t separator = (i < words.size() && words[i] == "--") ? 1 : 0;
    Words program(words.begin() + static_cast<std::ptrdiff_t>(i + separator), words.end());
    words.resize(i);
    return program;
}

std::string nearest_flag(const Words& unknown) {
    if (unknown.empty()) return "";
    std::string name = "CORUN_" + unknown.front().substr(std::min<std::size_t>(2, unknown.front().size()));
    name.resize(std::min(name.size(), name.find('=')));
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const OptionRow* row = nearest_option(name);
    if (row == nullptr) return "";
    std::string flag(row->name.substr(6));
    for (char& c : flag) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return " (did you mean --" + flag + "?)";
}

int parse_failed(const CLI::App& app, const CLI::App& used, const CLI::ParseError& error, bool has_table) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help and --version
    std::string message = error.what();
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
        const Words extras = used.remaining();
        message = fmt::format("unknown option or word '{}'{}", extras.empty() ? "" : extras.front(),
                              has_table ? nearest_flag(extras) : "");
    }
    const std::string name = &used == &app ? "corun" : "corun " + used.get_name();
    fmt::print(stderr, "{}: {}\nTry '{} --help'.\n", name, message, name);
    return kUsage;
}

int run_subcommand(CLI::App& app, const Subcommand& subcommand, Words words) {
    Words program;
    if (subcommand.takes_program) program = split_program(*subcommand.app, words);
    std::reverse(words.begin(), words.end());
    words.push_back(subcommand.app->get_name());
    const std::string name = "corun " + subcommand.app->get_name();
    try {
        app.parse(std::move(words));
        return subcommand.run(program);
    } catch (const CLI::ParseError& error) {
        return parse_failed(app, *subcommand.app, error, subcommand.app->get_name() == "run");
    } catch (const UsageError& error) {
        fmt::print(stderr, "{}: {}\nTry '{} --help'.\n", name, error.what(), name);
        return kUsage;
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}: {}\n", name, error.what());
        return subcommand.takes_program && subcommand.app->get_name() == "run" ? kLauncherFault : kError;
    }
}

int corun_main(int argc, char** argv) {
    CLI::App app(kDescription, "corun");
    app.set_version_flag("--version", "corun " CORUN_VERSION, "print the version and exit");
    app.require_subcommand(1);
    app.formatter(std::make_shared<HelpFormatter>());
    const std::vector<Subcommand> subcommands{add_run(app), add_compare(app), add_report(app), add_ctl(app),
                                              add_sim(app), add_top(app),     add_options(app)};
    Words words(argv + 1, argv + argc);
    if (words.empty()) {
        std::cerr << app.help();
        return kUsage;
    }
    for (const Subcommand& subcommand : subcommands)
        if (subcommand.app->get_name() == words.front())
            return run_subcommand(app, subcommand, Words(words.begin() + 1, words.end()));
    try {
        std::reverse(words.begin(), words.end());
        app.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
        return parse_failed(app, app, error, false);
    }
    return kUsage;
}

}  // namespace
}  // namespace corun::tools

int main(int argc, char** argv) {
    try {
        return corun::tools::corun_main(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "corun: %s\n", error.what());
        return corun::tools::kError;
    }
}
