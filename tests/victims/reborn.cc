// SPDX-License-Identifier: Apache-2.0
// Kernels that are freed and made again at the same address with another name, and other shapes: each call
// counts for what it is. The calls are told apart by what they see: the _Mkl ones are asked.
#include <new>

#include "victim.h"

int main() {
    using fake::Kernel;
    using fake::OpKernelContext;
    alignas(Kernel) static unsigned char room[sizeof(Kernel)];
    const tsl::thread::ThreadPool owner(nullptr, {}, "other", 8, true, nullptr);
    OpKernelContext small({{2, 3}});
    OpKernelContext large({{64, 64}, {64, 64}});
    int seen = 0;
    int narrowed = 0;
    const auto ask = [&](OpKernelContext*) { seen = owner.eigen().NumThreads(); };
    for (int round = 0; round < 600; ++round) {
        const bool mkl = round % 2 != 0;
        auto* kernel = new (room) Kernel(std::to_string(round), mkl ? "_MklOdd" : "Even", ask);
        for (int i = 0; i < 3; ++i) {
            fake::run(*kernel, round % 3 == 0 ? large : small);
            if (!mkl) CHECK(seen == 8);
            if (mkl && seen == 1) ++narrowed;
        }
        kernel->~Kernel();
    }
    std::printf("narrowed %d of 900\n", narrowed);
    return victim::finish();
}
