// SPDX-License-Identifier: Apache-2.0
// KEYS ops that are all different, ROUNDS times.
#include <chrono>
#include <memory>
#include <vector>

#include "victim.h"

int main(int argc, char** argv) {
    const long keys = victim::number(argc, argv, 1, 20000);
    const long rounds = victim::number(argc, argv, 2, 3);
    std::vector<std::unique_ptr<fake::Kernel>> kernels;
    for (long i = 0; i < keys; ++i)
        kernels.push_back(std::make_unique<fake::Kernel>("k", "Kind" + std::to_string(i)));
    fake::OpKernelContext context({{2, 3}});
    double seconds = 0;
    for (long r = 0; r < rounds; ++r) {
        const auto begin = std::chrono::steady_clock::now();
        for (const auto& kernel : kernels) fake::run(*kernel, context);
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    std::fprintf(stderr, "ns_per_op=%.0f\n", seconds * 1e9 / static_cast<double>(keys));
    std::printf("%ld calls\n", keys * rounds);
    return victim::finish();
}
