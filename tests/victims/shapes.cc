// SPDX-License-Identifier: Apache-2.0
// Eager mode: one kernel, SHAPES shapes, ROUNDS calls of each from each of THREADS threads, in another order
// each.
#include <thread>
#include <vector>

#include "victim.h"

int main(int argc, char** argv) {
    const long shapes = victim::number(argc, argv, 1, 5);
    const long threads = victim::number(argc, argv, 2, 1);
    const long rounds = victim::number(argc, argv, 3, 40);
    fake::Kernel kernel("eager", "MatMul");
    fake::Kernel first("first",
                       "First");  // while the source becomes active, other threads' ops are forwarded
    fake::OpKernelContext none({});
    fake::run(first, none);
    std::vector<std::thread> workers;
    for (long t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] {
            std::vector<fake::OpKernelContext*> contexts;
            for (long s = 0; s < shapes; ++s)
                contexts.push_back(
                    new fake::OpKernelContext({{2, static_cast<int>(s) + 1}, {static_cast<int>(s) + 1, 3}}));
            for (long r = 0; r < rounds; ++r)
                for (long s = 0; s < shapes; ++s)
                    fake::run(kernel, *contexts[static_cast<std::size_t>(
                                          (s * (t % 2 == 0 ? 1 : shapes - 1) + r) % shapes)]);
            for (const auto* context : contexts) delete context;
        });
        // One after the other, so that the first thread names the keys.
        if (std::getenv("IN_TURN") != nullptr) workers.back().join();
    }
    for (std::thread& worker : workers)
        if (worker.joinable()) worker.join();
    std::printf("%ld calls\n", shapes * threads * rounds);
    return victim::finish();
}
