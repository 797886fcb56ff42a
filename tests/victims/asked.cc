// SPDX-License-Identifier: Apache-2.0
// NumThreads() of a pool: narrowed inside _Mkl* kernels on the op's own thread, true everywhere else.
#include <thread>

#include "victim.h"

int main() {
    using fake::Kernel;
    using fake::OpKernelContext;
    const tsl::thread::ThreadPool owner(nullptr, {}, "other", 8, true, nullptr);
    const auto& pool = owner.eigen();
    OpKernelContext context({{2, 3}});

    int asked = 0;
    int beside = 0;
    int later = 0;
    Kernel mkl("conv", "_MklNativeConv2D", [&](OpKernelContext*) {
        asked = pool.NumThreads();
        std::thread([&] { beside = pool.NumThreads(); }).join();
        later = pool.NumThreads();
    });
    int plain = 0;
    Kernel bincount("count", "DenseBincount", [&](OpKernelContext*) { plain = pool.NumThreads(); });
    int similar = 0;
    Kernel near_miss("near", "MklLike_Mkl", [&](OpKernelContext*) { similar = pool.NumThreads(); });
    int inner = 0;
    int outer = 0;
    Kernel holder("holder", "_MklHolder", [&](OpKernelContext* c) {
        fake::run(bincount, *c);
        inner = plain;
        outer = pool.NumThreads();
    });
    for (int i = 0; i < 200; ++i) {
        fake::run(mkl, context);
        CHECK(asked == later);
        CHECK(asked >= 1 && asked <= 8);
        CHECK(beside == 8);
        fake::run(bincount, context);
        CHECK(plain == 8);
        fake::run(near_miss, context);
        CHECK(similar == 8);
        fake::run(holder, context);
        CHECK(inner == 8);
        CHECK(outer == 8);
        CHECK(pool.NumThreads() == 8);
    }
    const tsl::thread::ThreadPool single(nullptr, {}, "other", 1, true, nullptr);
    Kernel narrow("narrow", "_MklNarrow", [&](OpKernelContext*) { CHECK(single.eigen().NumThreads() == 1); });
    for (int i = 0; i < 200; ++i) fake::run(narrow, context);
    std::printf("inside _Mkl: %d\n", std::getenv("CORUN_POLICY") && asked != 8 && asked != 1 ? -1 : asked);
    return victim::finish();
}
