// SPDX-License-Identifier: Apache-2.0
// Two threads, for SECONDS: long ops on one, brief ones without a pause on the other. No long op is ever
// alone, unless the machine keeps one of the threads waiting: then it says so and ends with 77.
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include "victim.h"

int main(int argc, char** argv) {
    const double seconds = std::strtod(victim::argument(argc, argv, 1, "2"), nullptr);
    static std::atomic<bool> stop{false};
    std::thread other([] {
        fake::OpKernelContext context({{2, 3}});
        fake::Kernel brief("brief", "Brief", [](auto*) { victim::spin(15); });
        while (!stop.load(std::memory_order_relaxed)) fake::run(brief, context);
    });
    fake::OpKernelContext context({{2, 3}});
    fake::Kernel longer("long", "Long", [](auto*) { victim::spin(200); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < until) fake::run(longer, context);
    stop.store(true);
    other.join();
    const double cpu = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;  // of both threads
    if (cpu < 0.95 * 2 * seconds) {
        std::puts("not enough CPUs");
        return 77;
    }
    return victim::finish();
}
