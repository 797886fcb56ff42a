// SPDX-License-Identifier: Apache-2.0
// corun report: renders a JSON report as text.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "shim/report_text.h"
#include "tools/commands.h"

namespace corun::tools {
namespace {

int show(const std::string& path) {
    std::ifstream file;
    if (path != "-") {
        errno = 0;
        file.open(path);
        if (!file) throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
    }
    const auto report = nlohmann::json::parse(path == "-" ? std::cin : file, nullptr, false);
    const bool sound = report.is_object() && report.contains("schema") && report["schema"] == "corun-report";
    if (!sound) {
        fmt::print(stderr, "corun report: {} is not a report of corun in JSON\n", path);
        return kError;
    }
    fmt::print("{}", render_report(report));
    return 0;
}

}  // namespace

Subcommand add_report(CLI::App& parent) {
    CLI::App* app = parent.add_subcommand("report", "show a JSON report as text");
    auto path = std::make_shared<std::string>();
    app->add_option("file", *path, "a report written with CORUN_REPORT=FILE.json; - is stdin")->required();
    return {app, false, [path](const Words&) { return show(*path); }};
}

}  // namespace corun::tools
