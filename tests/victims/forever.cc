// SPDX-License-Identifier: Apache-2.0
// Ops for SECONDS from THREADS threads; "begun" when the first are done. With EXIT_FROM_HANDLER, SIGTERM ends
// the program by exit(), in the middle of whatever it does, and what it does at its end needs the allocator's
// and the loader's locks: it holds neither of them itself while ops run. KERNELS: how many there are; over
// 4,096 they are looked up anew all the time.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "victim.h"

namespace {

void leave(int) {
    std::exit(9);
}

void at_exit() {
    static void* volatile memory[64];
    for (std::size_t i = 0; i < 64; ++i)
        memory[i] = std::malloc(3000 * i + 1);  // more than a thread's cache has
    for (void* volatile& block : memory) std::free(block);
    if (dlsym(RTLD_DEFAULT, "corun_victim_has_no_such_function") != nullptr) std::abort();
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = std::strtod(victim::argument(argc, argv, 1, "3"), nullptr);
    const long threads = victim::number(argc, argv, 2, 1);
    if (std::getenv("EXIT_FROM_HANDLER") != nullptr) {
        std::atexit(at_exit);
        std::signal(SIGTERM, leave);
    }
    static std::atomic<bool> stop{false};
    static std::atomic<long> ops{0};
    const char* many = std::getenv("KERNELS");
    static auto& kernels = *new std::vector<std::unique_ptr<fake::Kernel>>;  // exit() may come at any moment
    for (long i = 0; i < (many == nullptr ? 3 : std::strtol(many, nullptr, 10)); ++i)
        kernels.push_back(std::make_unique<fake::Kernel>("k", "Kind" + std::to_string(i % 500)));
    const auto work = [] {
        fake::OpKernelContext context({{2, 3}});
        while (!stop.load(std::memory_order_relaxed)) {
            for (auto& kernel : kernels) fake::run(*kernel, context);
            ops.fetch_add(static_cast<long>(kernels.size()), std::memory_order_relaxed);
            victim::spin(2);
        }
    };
    std::vector<std::thread> workers;
    for (long i = 1; i < threads; ++i) workers.emplace_back(work);
    fake::OpKernelContext context({{2, 3}});
    fake::Kernel first("first", "First");
    for (int i = 0; i < 30; ++i) fake::run(first, context);
    if (write(STDOUT_FILENO, "begun\n", 6) != 6) return 1;
    std::thread clock([&] {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        stop.store(true);
    });
    work();
    clock.join();
    for (std::thread& worker : workers) worker.join();
    std::fprintf(stderr, "ops=%ld\n", ops.load());
    return victim::finish();
}
