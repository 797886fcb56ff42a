// SPDX-License-Identifier: Apache-2.0
#include "tools/supervise.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "shim/report_text.h"
#include "tools/commands.h"

namespace corun::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::array kForwarded{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                                SIGALRM, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH};

/// A folder for the report that goes away with it.
class ReportFolder {
  public:
    ReportFolder() {
        std::error_code error;
        for (const fs::path& place :
             {fs::temp_directory_path(error), fs::path("/tmp"), fs::path("/dev/shm")}) {
            std::string pattern = (place / "corun-report-XXXXXX").string();
            if (place.empty() || mkdtemp(pattern.data()) == nullptr) continue;
            path_ = pattern;
            return;
        }
    }
    ~ReportFolder() {
        std::error_code error;
        if (there()) fs::remove_all(path_, error);
    }
    [[nodiscard]] bool there() const { return !path_.empty(); }  ///< false: nothing can be written anywhere
    ReportFolder(const ReportFolder&) = delete;
    ReportFolder& operator=(const ReportFolder&) = delete;
    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

// A signal from the terminal reached the whole group, so the program has it already; sent twice, a Ctrl-C
// would interrupt Python's own clean-up.
bool is_for_us_alone(const siginfo_t& info) {
    return info.si_code <= 0;
}

// Waits until the child has ended; its wait status.
int wait_for(pid_t child, const sigset_t& awaited) {
    while (true) {
        siginfo_t info{};
        if (sigwaitinfo(&awaited, &info) < 0) continue;
        if (info.si_signo != SIGCHLD) {
            if (is_for_us_alone(info)) kill(child, info.si_signo);
            continue;
        }
        int status = 0;
        while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
            if (!WIFSTOPPED(status)) return status;
            raise(SIGSTOP);        // the shell must see that the job is stopped
            kill(child, SIGCONT);  // and we have just been continued
        }
    }
}

nlohmann::json read_json(const fs::path& path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file, nullptr, false);
}

double cpu_seconds(const nlohmann::json& report) {
    const auto found = report.is_object() ? report.find("cpu_seconds") : report.end();
    return report.is_object() && found != report.end() && found->is_number() ? found->get<double>() : 0.0;
}

// The program's own report, or that of the busiest program it started (a shell script, say).
void print_report(const fs::path& folder, pid_t child) {
    const fs::path own = folder / fmt::format("{}.json", child);
    nlohmann::json best = read_json(own);
    std::size_t others = 0;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (entry.path() == own || entry.path().extension() != ".json") continue;
        ++others;
        nlohmann::json other = read_json(entry.path());
        if (best.is_discarded() || (!fs::exists(own, error) && cpu_seconds(other) > cpu_seconds(best)))
            best = std::move(other);
    }
    if (best.is_discarded()) {
        fmt::print(stderr,
                   "corun: the program left no report: it ran no op that corun knows, or was killed\n");
        return;
    }
    fmt::print(stderr, "{}", render_report(best));
    if (others > 0) fmt::print(stderr, "Processes with a report beside this one: {}\n", others);
}

// Ends as the program ended, so that whoever waits for us sees the same.
int end_alike(int status) {
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    const int number = WTERMSIG(status);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);  // one core file, the program's, is enough
    std::signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    raise(number);
    return 128 + number;
}

}  // namespace

int run_and_report(const std::vector<std::string>& words, Environment& environment) {
    int status = 0;
    {
        const ReportFolder folder;
        if (!folder.there()) {
            fmt::print(
                stderr,
                "corun: there will be no report: no folder for temporary files can be written to (TMPDIR, "
                "/tmp, /dev/shm); --report=FILE names a place\n");
            return execute(words, environment);
        }
        environment.set("CORUN_REPORT", (folder.path() / "%p.json").string());
        sigset_t awaited;
        sigset_t before;
        sigemptyset(&awaited);
        sigaddset(&awaited, SIGCHLD);
        for (int number : kForwarded) sigaddset(&awaited, number);
        sigprocmask(SIG_BLOCK, &awaited, &before);
        const auto on_child = std::signal(SIGCHLD, SIG_DFL);  // an inherited SIG_IGN would hide its end
        const pid_t child = fork();
        if (child < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
        if (child == 0) {
            if (on_child != SIG_ERR) std::signal(SIGCHLD, on_child);
            sigprocmask(SIG_SETMASK, &before, nullptr);
            const int code = execute(words, environment);
            std::fflush(stderr);
            _exit(code);
        }
        status = wait_for(child, awaited);
        const bool started =
            !WIFEXITED(status) || (WEXITSTATUS(status) != kNotFound && WEXITSTATUS(status) != kCannotExecute);
        if (started) print_report(folder.path(), child);
    }
    return end_alike(status);
}

}  // namespace corun::tools
