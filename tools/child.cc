// SPDX-License-Identifier: Apache-2.0
#include "tools/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace corun::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kKept = std::size_t{64} << 20;
constexpr int kPollMilliseconds = 200;   // so that an interrupt between two polls is seen soon
constexpr int kNoPidfdMilliseconds = 5;  // before Linux 5.3 the child's end is polled for
constexpr double kGraceSeconds = 2;      // between SIGTERM and SIGKILL

volatile std::sig_atomic_t was_interrupted = 0;

/// A file descriptor that closes itself.
class File {
  public:
    explicit File(int number = -1) : number_(number) {}
    ~File() { reset(); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    [[nodiscard]] int get() const { return number_; }
    void reset(int number = -1) {
        if (number_ >= 0) close(number_);
        number_ = number;
    }

  private:
    int number_;
};

struct Pipe {
    File read;
    File write;
    Pipe() {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0)
            throw std::runtime_error(fmt::format("pipe: {}", std::strerror(errno)));
        read.reset(ends[0]);
        write.reset(ends[1]);
    }
};

[[noreturn]] void become(char* const* arguments, char* const* entries, int output, int errors, int failure) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing may go on using the CPUs when the comparison has been killed
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    execvpe(arguments[0], arguments, entries);
    const int error = errno;
    const auto written = write(failure, &error, sizeof error);
    _exit(written == sizeof error ? 127 : 126);
}

// Reads what is there; false at the end of the file.
bool drain(int file, std::string& text) {
    std::array<char, 65536> buffer{};
    while (true) {
        const auto n = read(file, buffer.data(), buffer.size());
        if (n == 0) return false;
        if (n < 0) return errno == EAGAIN || errno == EINTR;
        text.append(buffer.data(), static_cast<std::size_t>(n));
        if (text.size() > kKept) text.erase(0, text.size() - kKept / 2);
    }
}

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A started child until it has ended.
class Watch {
  public:
    Watch(pid_t child, int output, int errors, double timeout)
        : child_(child), pidfd_(static_cast<int>(syscall(SYS_pidfd_open, child, 0))), timeout_(timeout) {
        files_[0] = {output, POLLIN, 0};
        files_[1] = {errors, POLLIN, 0};
        files_[2] = {pidfd_.get(), POLLIN, 0};
        for (int i : {0, 1}) fcntl(files_[i].fd, F_SETFL, O_NONBLOCK);
    }

    void wait(ChildResult& result) {
        rusage usage{};
        int status = 0;
        while (true) {
            poll(files_.data(), files_.size(), pidfd_.get() >= 0 ? kPollMilliseconds : kNoPidfdMilliseconds);
            const pid_t ended = wait4(child_, &status, WNOHANG, &usage);
            if (ended == child_) break;
            read_both(result);
            end_if_needed();
        }
        result.wall_seconds = seconds_since(start_);
        read_both(result);  // a grandchild may hold the pipes open: what is there now is all we wait for
        kill(-child_, SIGKILL);
        const auto seconds = [](const timeval& t) {
            return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
        };
        result.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
        result.max_rss_bytes = 1024.0 * static_cast<double>(usage.ru_maxrss);
        result.end = WIFSIGNALED(status) ? ChildResult::End::signalled : ChildResult::End::exited;
        result.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
        if (ending_) result.end = reason_;
    }

  private:
    void read_both(ChildResult& result) {
        if (files_[0].fd >= 0 && !drain(files_[0].fd, result.output)) files_[0].fd = -1;
        if (files_[1].fd >= 0 && !drain(files_[1].fd, result.errors)) files_[1].fd = -1;
    }

    void end_if_needed() {
        if (ending_) {
            if (seconds_since(ending_since_) > kGraceSeconds) kill(-child_, SIGKILL);
            return;
        }
        const bool late = timeout_ > 0 && seconds_since(start_) > timeout_;
        if (!late && !interrupted()) return;
        reason_ = late ? ChildResult::End::timed_out : ChildResult::End::interrupted;
        ending_ = true;
        ending_since_ = Clock::now();
        kill(-child_, SIGTERM);
    }

    pid_t child_;
    File pidfd_;
    double timeout_;
    std::array<pollfd, 3> files_{};
    Clock::time_point start_ = Clock::now();
    bool ending_ = false;
    Clock::time_point ending_since_;
    ChildResult::End reason_ = ChildResult::End::exited;
};

}  // namespace

void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { was_interrupted = 1; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    std::signal(SIGPIPE, SIG_IGN);  // results must reach --json even when nobody reads the table
}

bool interrupted() {
    return was_interrupted != 0;
}

std::string ChildResult::sentence() const {
    switch (end) {
        case End::exited:
            return fmt::format("ended with exit code {}", code);
        case End::signalled:
            return fmt::format("was ended by signal {} ({})", code, strsignal(code));
        case End::not_started:
            return fmt::format("could not be started: {}", std::strerror(code));
        case End::timed_out:
            return fmt::format("was ended after {:.0f} s (--timeout)", wall_seconds);
        case End::interrupted:
            return "was interrupted";
    }
    return "";
}

ChildResult run_child(const std::vector<std::string>& words, Environment& environment,
                      double timeout_seconds) {
    ChildResult result;
    const auto arguments = argument_pointers(words);
    const auto entries = environment.pointers();
    Pipe output;
    Pipe errors;
    Pipe failure;
    const pid_t child = fork();
    if (child < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
    if (child == 0) {
        std::signal(SIGPIPE, SIG_DFL);
        become(arguments.data(), entries.data(), output.write.get(), errors.write.get(), failure.write.get());
    }
    setpgid(child, child);  // in both, so that the group is there whoever runs first
    Watch watch(child, output.read.get(), errors.read.get(), timeout_seconds);
    output.write.reset();
    errors.write.reset();
    failure.write.reset();
    int error = 0;
    const bool failed = read(failure.read.get(), &error, sizeof error) == sizeof error;
    watch.wait(result);
    if (failed) {
        result.end = ChildResult::End::not_started;
        result.code = error;
    }
    return result;
}

}  // namespace corun::tools
