// SPDX-License-Identifier: Apache-2.0
// corun top: a live table of the programs that share this machine (CORUN_NODE).
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>

#include "shim/options.h"
#include "tools/commands.h"
#include "tools/node_table.h"

namespace corun::tools {
namespace {

constexpr double kFirstDelay = 0.5;  // seconds: what moves is seen by two looks

struct TopArguments {
    double delay = 1.5;
    long iterations = 0;
    bool json = false;
};

volatile std::sig_atomic_t stopped_by = 0;
void stop(int signal) {
    stopped_by = signal;
}

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string clock_text() {
    return fmt::format("{:%H:%M:%S}", fmt::localtime(std::time(nullptr)));
}

// CPU seconds that all CPUs together have spent on anything.
double machine_busy() {
    std::ifstream file("/proc/stat");
    std::string word;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, softirq = 0;
    if (!(file >> word >> user >> nice >> system >> idle >> waiting >> irq >> softirq)) return 0.0;
    return (user + nice + system + irq + softirq) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// A terminal that gives each key at once, until this ends.
class Keys {
  public:
    Keys() {
        if (isatty(STDIN_FILENO) == 0 || tcgetattr(STDIN_FILENO, &before_) != 0) return;
        termios raw = before_;
        raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        changed_ = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    ~Keys() {
        if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    Keys(const Keys&) = delete;
    Keys& operator=(const Keys&) = delete;

    /// Waits for a key; 0: none came in that time.
    [[nodiscard]] char wait(double seconds) const {
        pollfd keyboard{STDIN_FILENO, POLLIN, 0};
        const int ready = poll(&keyboard, changed_ ? 1 : 0, static_cast<int>(1000.0 * seconds));
        char key = 0;
        if (ready > 0 && read(STDIN_FILENO, &key, 1) != 1) return 'q';  // the terminal is gone
        return key;
    }

  private:
    termios before_{};
    bool changed_ = false;
};

// The whole screen, drawn over the one before; the lines below are cleared.
class Screen {
  public:
    Screen() { std::fputs("\x1b[?1049h\x1b[?25l", stdout); }
    ~Screen() {
        std::fputs("\x1b[?25h\x1b[?1049l", stdout);
        std::fflush(stdout);
    }
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;

    void draw(const NodeTable& table) const {
        winsize size{};
        const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2;
        const std::string text = render_node(table, clock_text(), known ? size.ws_col : 80);
        std::string out = "\x1b[H";
        int lines = 0;
        for (const char c : text) {
            if (c == '\n' && ++lines >= (known ? size.ws_row : 24)) break;
            out += c == '\n' ? "\x1b[K\n" : std::string(1, c);
        }
        out += "\x1b[J";
        std::fputs(out.c_str(), stdout);
        std::fflush(stdout);
    }
};

class Top {
  public:
    explicit Top(std::string folder) : folder_(std::move(folder)) {}

    NodeTable look(bool must_be_there) {
        return observer_.look(seconds_now(), read_node(folder_, must_be_there),
                              static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), machine_busy());
    }

  private:
    std::string folder_;
    NodeObserver observer_;
};

int top(const TopArguments& arguments) {
    Options options{};
    read_options(environ, options, [](const char*) {});
    Top view{std::string(options[OptionId::node_folder])};
    static_cast<void>(view.look(true));
    const bool live = isatty(STDOUT_FILENO) != 0 && !arguments.json;
    long left = arguments.iterations > 0 ? arguments.iterations : live ? -1 : 1;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, stop);
    {
        const Keys keys;
        const auto screen = live ? std::make_unique<Screen>() : nullptr;
        double delay = kFirstDelay;
        while (left != 0 && stopped_by == 0) {
            const char key = keys.wait(delay);
            if (key == 'q' || key == 'Q' || stopped_by != 0) break;
            const NodeTable table = view.look(false);
            if (live) {
                screen->draw(table);
            } else {
                const std::string text =
                    arguments.json ? node_json(table).dump(1, ' ', false,
                                                           nlohmann::ordered_json::error_handler_t::replace) +
                                         "\n"
                                   : render_node(table, clock_text(), 0) + "\n";
                std::fputs(text.c_str(), stdout);
                std::fflush(stdout);
            }
            delay = arguments.delay;
            if (left > 0) --left;
        }
    }
    if (stopped_by != 0) {
        std::signal(stopped_by, SIG_DFL);
        std::raise(stopped_by);
    }
    return 0;
}

}  // namespace

Subcommand add_top(CLI::App& parent) {
    CLI::App* app = parent.add_subcommand("top", "the programs that share this machine, live");
    auto arguments = std::make_shared<TopArguments>();
    app->add_option("-d,--delay", arguments->delay, "seconds between two looks [1.5]")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.1, 3600.0));
    app->add_option("-n,--iterations", arguments->iterations,
                    "end after so many looks [in a terminal: none; else 1]")
        ->type_name("N")
        ->check(CLI::Range(1L, 1000000000L));
    app->add_flag("--json", arguments->json, "as JSON, once");
    app->footer(
        "Keys: q quits, any other looks again at once. Programs are listed that run with CORUN_NODE=auto;\n"
        "a pid with ~ is one of another container. SHARE, USE: CPUs. GAIN: work rate with corun / without.\n"
        "Example:  corun top; corun top --json | jq '.programs[].share'");
    return {app, false, [arguments](const Words&) { return top(*arguments); }};
}

}  // namespace corun::tools
