// SPDX-License-Identifier: Apache-2.0
// KERNELS kernels in a shuffled order, ROUNDS times, their tensors made anew each time. What an op is, is
// asked once.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "victim.h"

int main(int argc, char** argv) {
    const long kernels = victim::number(argc, argv, 1, 3000);
    const long rounds = victim::number(argc, argv, 2, 20);
    std::vector<std::unique_ptr<fake::Kernel>> ops;
    for (long i = 0; i < kernels; ++i)
        ops.push_back(std::make_unique<fake::Kernel>("k", "Kind" + std::to_string(i % 70)));
    std::shuffle(ops.begin(), ops.end(), std::mt19937(1));
    for (long r = 0; r < rounds; ++r) {
        for (const auto& op : ops) {
            fake::OpKernelContext context({{2, 3}, {5}, {}, {2, 3, 4, 5}});
            fake::run(*op, context);
        }
    }
    std::fprintf(stderr, "lookups=%ld\n", fake::traced());
    CHECK(fake::traced() <= kernels + kernels / 50 + 2);
    return victim::finish();
}
