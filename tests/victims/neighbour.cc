// SPDX-License-Identifier: Apache-2.0
// A program that shares its machine: ops until it is told "end" (or its input ends), and a line
// whenever their width has changed. It also takes "pause", "go", "light" (it does next to nothing), "heavy"
// (it is in ops all the time, as at first), "fork" (the child runs ops as well), "exec" (itself again).
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <string>
#include <thread>

#include "victim.h"

namespace {

std::atomic<bool> paused{false};
std::atomic<bool> light{false};
std::atomic<bool> ended{false};
std::atomic<int> action{0};  // 'f', 'e'

void listen() {
    for (std::string word; std::cin >> word;) {
        if (word == "pause" || word == "go") paused.store(word == "pause");
        if (word == "light" || word == "heavy") light.store(word == "light");
        if (word == "fork" || word == "exec") action.store(word[0]);
        if (word == "end") break;
    }
    ended.store(true);
}

// The limit that an op of a millisecond sees.
int limit_at_work() {
    int seen = 0;
    fake::Kernel probe("probe", "Probe", [&](fake::OpKernelContext*) {
        seen = victim::limit();
        if (!light.load()) usleep(1000);
    });
    fake::OpKernelContext context({{2, 2}});
    fake::run(probe, context);
    if (light.load()) usleep(1000);
    return seen;
}

void say(const char* what, int value) {
    char text[64];
    const int length = std::snprintf(text, sizeof text, "%s %d\n", what, value);
    if (write(STDOUT_FILENO, text, static_cast<std::size_t>(length)) != length) std::exit(3);
}

void fork_child() {
    const pid_t child = fork();
    if (child < 0) std::exit(4);
    if (child > 0) return say("forked", child);
    const pid_t parent = getppid();
    for (int i = 0; i < 20000 && getppid() == parent; ++i) {  // outlives it by a little
        limit_at_work();
    }
    sleep(1);
    _exit(0);
}

}  // namespace

int main(int, char** argv) {
    std::setvbuf(stdin, nullptr, _IONBF, 0);
    std::thread(listen).detach();
    int width = 0;
    while (!ended.load()) {
        const int seen = limit_at_work();
        if (seen != width) say("width", width = seen);
        if (action.load() == 'f') action.store(0), fork_child();
        if (action.load() == 'e') execv(argv[0], argv);
        while (paused.load() && !ended.load()) usleep(10000);
    }
    say("ended", 0);
    return 0;
}
