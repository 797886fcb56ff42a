// SPDX-License-Identifier: Apache-2.0
// corun options: prints the option table as text, as JSON and as the README's table.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "shim/options.h"
#include "tools/commands.h"
#include "tools/help.h"

namespace corun::tools {
namespace {

std::string_view type_word(OptionType type) {
    switch (type) {
        case OptionType::choice:
            return "choice";
        case OptionType::integer:
            return "integer";
        case OptionType::number:
            return "number";
        case OptionType::boolean:
            return "boolean";
        case OptionType::list:
            return "list";
        case OptionType::path:
            return "path";
        case OptionType::text:
            return "text";
    }
    return "";
}

std::string_view stability_word(Stability stability) {
    switch (stability) {
        case Stability::stable:
            return "stable";
        case Stability::experimental:
            return "experimental";
        case Stability::testing:
            return "testing";
    }
    return "";
}

std::string range_text(const OptionRow& row) {
    if (row.type == OptionType::boolean) return "yes|no";
    if (row.type == OptionType::path) return "path";
    if (row.type == OptionType::text) return "text";
    if (row.type == OptionType::list) return fmt::format("list of {}", row.range);
    return std::string(row.range);
}

void print_text() {
    for (const OptionRow& row : option_table()) {
        const std::string note =
            row.stability == Stability::stable ? "" : fmt::format("  ({})", stability_word(row.stability));
        fmt::print("{}={}{}\n", row.name, row.fallback, note);
        fmt::print("    {}    {}", wrap(range_text(row), 4), wrap(row.help, 4));
    }
    fmt::print(
        "\nThe value shown is the default. Each is an environment variable and a flag of `corun run`\n"
        "(CORUN_POOL_CAP=no is --pool-cap=no).\n");
}

void print_json() {
    auto all = nlohmann::ordered_json::array();
    for (const OptionRow& row : option_table()) {
        nlohmann::ordered_json one;
        one["name"] = row.name;
        one["type"] = type_word(row.type);
        one["default"] = row.fallback;
        one["range"] = row.type == OptionType::boolean ? "yes|no" : row.range;
        one["stability"] = stability_word(row.stability);
        one["help"] = row.help;
        all.push_back(std::move(one));
    }
    fmt::print("{}\n", all.dump(2));
}

// A bar would end the table's cell.
std::string cell(std::string_view text) {
    std::string result;
    for (char c : text) {
        if (c == '|') result += '\\';
        result += c;
    }
    return result;
}

void print_markdown() {
    fmt::print("| option | default | takes | what it does |\n| --- | --- | --- | --- |\n");
    for (const OptionRow& row : option_table()) {
        const std::string fallback = row.fallback.empty() ? "" : fmt::format("`{}`", row.fallback);
        const std::string note =
            row.stability == Stability::stable ? "" : fmt::format(" ({})", stability_word(row.stability));
        fmt::print("| `{}` | {} | `{}` | {}{} |\n", row.name, fallback, cell(range_text(row)), cell(row.help),
                   note);
    }
}

}  // namespace

Subcommand add_options(CLI::App& parent) {
    CLI::App* app = parent.add_subcommand("options", "list every option with its default and range");
    auto form = std::make_shared<std::string>("text");
    auto* json = app->add_flag_callback(
        "--json", [form] { *form = "json"; }, "as JSON");
    app->add_flag_callback(
           "--markdown", [form] { *form = "markdown"; }, "as the README's table")
        ->excludes(json);
    return {app, false, [form](const Words&) {
                if (*form == "json")
                    print_json();
                else if (*form == "markdown")
                    print_markdown();
                else
                    print_text();
                return 0;
            }};
}

}  // namespace corun::tools
