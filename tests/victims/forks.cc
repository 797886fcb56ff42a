// SPDX-License-Identifier: Apache-2.0
// fork() in the middle. The child runs ops, prints what they see, and leaves by exit(), so that destructors
// run.
//   once           between two ops
//   outlive        the parent ends first
//   inside         in the middle of an op, which both processes then end
//   stress TIMES   while four other threads run ops, and get new ones to describe all the time
//   exec PROGRAM   the child becomes PROGRAM
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "victim.h"

namespace {

using fake::Kernel;
using fake::OpKernelContext;

const pid_t parent = getpid();

int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void tell(const char* who) {
    int seen = 0;
    for (int i = 0; i < 50; ++i) seen = victim::limit_inside();
    std::printf("%s: outside %d, inside %d\n", who, victim::limit(), seen);
    std::fflush(stdout);
}

void once() {
    tell("parent before");
    const pid_t child = fork();
    if (child == 0) {
        tell("child");
        std::exit(5);
    }
    std::printf("child ended with %d\n", wait_for(child));
    tell("parent after");
}

// The parent ends first.
void outlive() {
    tell("parent");
    if (fork() != 0) return;
    while (getppid() == parent) usleep(10000);
    usleep(100000);
    tell("child");
}

void inside() {
    OpKernelContext context({{2, 3}});
    Kernel forker("forker", "Forker", [](OpKernelContext*) {
        const int before = victim::limit();
        const pid_t child = fork();
        CHECK(victim::limit() == before);
        if (child == 0) return;
        std::printf("child ended with %d\n", wait_for(child));
        CHECK(victim::limit() == before);
    });
    for (int i = 0; i < 20; ++i) victim::limit_inside();
    fake::run(forker, context);
    CHECK(victim::limit() == victim::kUnlimited);
    tell(getpid() == parent ? "parent" : "child");
    if (getpid() != parent) std::exit(victim::failures == 0 ? 5 : 6);
}

void stress(long times) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> workers;
    for (int t = 0; t < 4; ++t) {
        workers.emplace_back([&, t] {
            OpKernelContext context({{2, 3}});
            Kernel steady("steady", "Steady", [](OpKernelContext*) { victim::spin(3); });
            for (long i = 0; !stop.load(std::memory_order_relaxed); ++i) {
                Kernel fresh("fresh", "Fresh" + std::to_string((i * 4 + t) % 3000));
                fake::run(fresh, context);
                for (int k = 0; k < 20; ++k) fake::run(steady, context);
            }
        });
    }
    long bad = 0;
    OpKernelContext context({{2, 3}});
    for (long i = 0; i < times; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);  // a hang ends by SIGALRM
            long seen = 0;
            for (int k = 0; k < 5; ++k) {
                Kernel own("own", "Own" + std::to_string(k), [&](OpKernelContext*) { ++seen; });
                for (int n = 0; n < 5; ++n) fake::run(own, context);
            }
            if (seen != 25) _exit(1);
            if (i % 8 == 0) std::exit(0);
            _exit(0);
        }
        if (wait_for(child) != 0) ++bad;
    }
    stop.store(true);
    for (std::thread& worker : workers) worker.join();
    std::printf("%ld forks, %ld bad\n", times, bad);
    CHECK(bad == 0);
}

void exec(char* program) {
    for (int i = 0; i < 20; ++i) victim::limit_inside();
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        execl(program, program, static_cast<char*>(nullptr));
        _exit(127);
    }
    std::printf("child ended with %d\n", wait_for(child));
    tell("parent");
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = victim::argument(argc, argv, 1, "once");
    if (what == "once") once();
    if (what == "outlive") outlive();
    if (what == "inside") inside();
    if (what == "stress") stress(victim::number(argc, argv, 2, 2000));
    if (what == "exec" && argc > 2) exec(argv[2]);
    return victim::finish();
}
