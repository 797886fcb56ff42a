// SPDX-License-Identifier: Apache-2.0
// corun ctl: tells running processes to stand down or to come back, and shows what they do.
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/control.h"

namespace corun::tools {
namespace {

constexpr int kAnswerMilliseconds = 2000;

using Pages = std::vector<std::unique_ptr<Page>>;

struct CtlArguments {
    std::string target;
    std::string action = "status";
    bool json = false;
};

std::string program_of(pid_t pid) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
    std::string words;
    std::getline(file, words, '\n');
    for (char& c : words)
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    if (words.size() > 60) words = words.substr(0, 57) + "...";
    return words;
}

nlohmann::ordered_json status_of(const Page& page) {
    auto status = nlohmann::ordered_json::parse(page.status(), nullptr, false);
    if (!status.is_object()) status = nlohmann::ordered_json::object();
    return status;
}

std::string value_text(const nlohmann::ordered_json& value) {
    std::string text = value.is_string()
                           ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7f')
            c = '?';  // no escape sequences from elsewhere
    return text;
}

std::string field(const nlohmann::ordered_json& status, const char* name) {
    return status.contains(name) ? value_text(status[name]) : "-";
}

int list(const Pages& pages) {
    fmt::print("{:>8}  {:<8} {:<12} {:<20} {}\n", "PID", "command", "state", "arm", "program");
    for (const auto& page : pages) {
        if (page->state() != Page::State::live) {
            fmt::print(stderr, "corun ctl: {}\n", page->problem());
            continue;
        }
        const auto status = status_of(*page);
        fmt::print("{:>8}  {:<8} {:<12} {:<20} {}\n", page->pid(),
                   page->command() == Command::off ? "off" : "on", field(status, "state"),
                   field(status, "arm"), program_of(page->pid()));
    }
    return 0;
}

int show_status(const Page& page, bool as_json) {
    if (as_json) {
        fmt::print("{}\n", status_of(page).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
        return 0;
    }
    fmt::print("pid          {}  {}\ncommand      {}\n", page.pid(), program_of(page.pid()),
               page.command() == Command::off ? "off" : "on");
    const auto status = status_of(page);
    for (const auto& [name, value] : status.items()) fmt::print("{:<12} {}\n", name, value_text(value));
    return 0;
}

int tell(Page& page, const std::string& action) {
    const Command command = action == "off" ? Command::off : Command::on;
    page.tell(command);
    if (page.wait_obeyed(command, kAnswerMilliseconds)) {
        fmt::print("{}: {}\n", page.pid(), action == "off" ? "stands down" : "is back");
        return 0;
    }
    if (start_time_of(page.pid()) == 0) {
        fmt::print(stderr, "corun ctl: {} has ended\n", page.pid());
    } else {
        fmt::print(
            stderr,
            "corun ctl: {} was told '{}' and has not answered within {} s: it runs no op at the moment and "
            "obeys with the next one\n",
            page.pid(), action, kAnswerMilliseconds / 1000);
    }
    return kError;
}

int act(Page& page, const CtlArguments& arguments) {
    if (page.state() != Page::State::live) {
        fmt::print(stderr, "corun ctl: {}\n", page.problem());
        return kError;
    }
    return arguments.action == "status" ? show_status(page, arguments.json) : tell(page, arguments.action);
}

pid_t parse_pid(const std::string& text) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
    if (error != std::errc() || end != text.data() + text.size() || pid <= 0)
        throw UsageError(fmt::format("'{}' is neither a process id nor 'all' nor 'list'", text));
    return pid;
}

int control(const CtlArguments& arguments) {
    const bool all = arguments.target == "all";
    const pid_t wanted = all || arguments.target == "list" ? 0 : parse_pid(arguments.target);
    const Pages pages = find_pages();
    if (arguments.target == "list") return list(pages);
    int result = kError;
    bool found = false;
    for (const auto& page : pages) {
        if (!all && page->pid() != wanted) continue;
        const int one = act(*page, arguments);
        result = found ? std::max(result, one) : one;
        found = true;
    }
    if (found) return result;
    if (all)
        fmt::print(stderr, "corun ctl: no process of yours runs under corun\n");
    else if (start_time_of(wanted) == 0)
        fmt::print(stderr, "corun ctl: there is no process {}\n", wanted);
    else
        fmt::print(stderr,
                   "corun ctl: process {} does not run under corun, or has not yet run an op that it knows\n",
                   wanted);
    return kError;
}

}  // namespace

Subcommand add_ctl(CLI::App& parent) {
    CLI::App* app = parent.add_subcommand("ctl", "tell a running process to stand down or to come back");
    auto arguments = std::make_shared<CtlArguments>();
    app->add_option("target", arguments->target, "process id, 'all', or 'list'")
        ->type_name("PID|all|list")
        ->required();
    app->add_option("action", arguments->action,
                    "off: stand down, every call is forwarded; on: come back; status: what it does [status]")
        ->type_name("on|off|status")
        ->check(CLI::IsMember({"on", "off", "status"}));
    app->add_flag("--json", arguments->json, "the status as the process wrote it");
    app->footer(
        "Exit code 1 when a process did not answer within 2 s (it runs no op) or is not there.\n"
        "Example:  corun ctl list; corun ctl 4711 off");
    return {app, false, [arguments](const Words&) { return control(*arguments); }};
}

}  // namespace corun::tools
