// SPDX-License-Identifier: Apache-2.0
#include "tools/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace corun::tools {
namespace {

constexpr std::size_t kKept = std::size_t{64} << 20;
constexpr int kPipeBytes = 1 << 20;      // so that a program is not held up between two looks at its pipe
constexpr int kPollMilliseconds = 200;   // so that an interrupt between two polls is seen soon
constexpr int kNoPidfdMilliseconds = 5;  // before Linux 5.3 the child's end is polled for
constexpr double kGraceSeconds = 2;      // between SIGTERM and SIGKILL

volatile std::sig_atomic_t was_interrupted = 0;

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

[[noreturn]] void become(char* const* arguments, char* const* entries, pid_t parent, int output, int errors,
                         int failure) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing may go on using the CPUs when the comparison has been killed
    if (getppid() != parent) _exit(126);
    std::signal(SIGPIPE, SIG_DFL);
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

/// When a run is ended before its time, and that it then does end.
class Deadline {
  public:
    Deadline(const Child& child, double timeout) : child_(child), timeout_(timeout) {}

    void look() {
        if (ending_) {
            if (seconds_since(since_) > kGraceSeconds) child_.signal(SIGKILL);
            return;
        }
        const bool late = timeout_ > 0 && seconds_since(child_.start()) > timeout_;
        if (!late && !interrupted()) return;
        reason_ = late ? ChildResult::End::timed_out : ChildResult::End::interrupted;
        ending_ = true;
        since_ = Clock::now();
        child_.signal(SIGTERM);
    }

    void correct(ChildResult& result) const {
        if (ending_ && result.end != ChildResult::End::not_started) result.end = reason_;
    }

  private:
    const Child& child_;
    double timeout_;
    bool ending_ = false;
    Clock::time_point since_;
    ChildResult::End reason_ = ChildResult::End::exited;
};

}  // namespace

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void catch_interrupts() {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) { was_interrupted = 1; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)  // not under nohup
        sigaction(SIGHUP, &action, nullptr);
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

void File::reset(int number) {
    if (number_ >= 0) close(number_);
    number_ = number;
}

Child::Child(const std::vector<std::string>& words, Environment& environment) {
    const auto arguments = argument_pointers(words);
    const auto entries = environment.pointers();
    Pipe output;
    Pipe errors;
    Pipe failure;
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error(fmt::format("fork: {}", std::strerror(errno)));
    if (pid_ == 0)
        become(arguments.data(), entries.data(), parent, output.write.get(), errors.write.get(),
               failure.write.get());
    start_ = Clock::now();
    setpgid(pid_, pid_);  // in both, so that the group is there whoever runs first
    pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    for (auto [pipe, ours] : {std::pair{&output, &output_}, std::pair{&errors, &errors_}}) {
        ours->reset(pipe->read.release());
        fcntl(ours->get(), F_SETFL, O_NONBLOCK);
        fcntl(ours->get(), F_SETPIPE_SZ, kPipeBytes);
        pipe->write.reset();
    }
    failure.write.reset();
    int error = 0;
    if (::read(failure.read.get(), &error, sizeof error) == sizeof error) start_error_ = error;
}

Child::~Child() {
    if (ended_) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
}

void Child::signal(int number) const {
    if (!ended_) kill(-pid_, number);
}

void Child::wait_for_news() const {
    std::array<pollfd, 3> files{
        {{output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}, {pidfd_.get(), POLLIN, 0}}};
    poll(files.data(), files.size(), pidfd_.get() >= 0 ? kPollMilliseconds : kNoPidfdMilliseconds);
}

void Child::read() {
    if (output_.get() >= 0 && !drain(output_.get(), result_.output)) output_.reset();
    if (errors_.get() >= 0 && !drain(errors_.get(), result_.errors)) errors_.reset();
}

bool Child::ended() {
    if (ended_) return true;
    siginfo_t information{};
    const int error = waitid(P_PID, static_cast<id_t>(pid_), &information, WEXITED | WNOHANG | WNOWAIT);
    if (error == 0 && information.si_pid == pid_) reap();
    return ended_;
}

void Child::reap() {
    result_.wall_seconds = seconds_since(start_);
    read();  // a grandchild may hold the pipes open: what is there now is all we wait for
    kill(-pid_, SIGKILL);
    ended_ = true;
    rusage usage{};
    int status = 0;
    wait4(pid_, &status, 0, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    result_.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    result_.max_rss_bytes = 1024.0 * static_cast<double>(usage.ru_maxrss);
    result_.end = WIFSIGNALED(status) ? ChildResult::End::signalled : ChildResult::End::exited;
    result_.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (start_error_ == 0) return;
    result_.end = ChildResult::End::not_started;
    result_.code = start_error_;
}

ChildResult run_to_end(Child& child, double timeout_seconds) {
    Deadline deadline(child, timeout_seconds);
    while (!child.ended()) {
        child.wait_for_news();
        child.read();
        deadline.look();
    }
    deadline.correct(child.result());
    return std::move(child.result());
}

}  // namespace corun::tools
