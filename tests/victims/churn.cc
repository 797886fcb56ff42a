// SPDX-License-Identifier: Apache-2.0
// THREADS short threads, four at a time, each with some ops of its own and some of all. Memory must not grow.
#include <sys/resource.h>

#include <thread>
#include <vector>

#include "victim.h"

namespace {
long resident_kib() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}
}  // namespace

int main(int argc, char** argv) {
    const long threads = victim::number(argc, argv, 1, 5000);
    fake::Kernel shared("shared", "Shared");
    fake::OpKernelContext none({});
    fake::run(shared, none);  // while the source becomes active, other threads' ops are forwarded
    const auto life = [&] {
        fake::Kernel own("own", "Own");
        fake::OpKernelContext context({{2, 3}});
        for (int i = 0; i < 10; ++i) {
            fake::run(shared, context);
            fake::run(own, context);
        }
    };
    long after_some = 0;
    for (long i = 0; i < threads; i += 4) {
        std::vector<std::thread> group;
        for (int t = 0; t < 4; ++t) group.emplace_back(life);
        for (std::thread& thread : group) thread.join();
        if (i == threads / 10) after_some = resident_kib();
    }
    const long grown = resident_kib() - after_some;
    std::fprintf(stderr, "grown_kib=%ld\n", grown);
    CHECK(grown < 1024);
    std::printf("%ld threads\n", threads);
    return victim::finish();
}
