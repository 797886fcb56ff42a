// SPDX-License-Identifier: Apache-2.0
// Linked against the runtime, as TensorFlow's own libraries with their registrations are.
#include "early.h"
#include "victim.h"

namespace {

EarlyLife seen{};

[[gnu::constructor(101)]] void live() {
    using fake::Kernel;
    auto* kernel =
        new Kernel("early", "Early", [](fake::OpKernelContext*) { seen.inside = victim::limit(); });
    {
        const fake::OpKernelContext context({{2, 3}});
        for (int i = 0; i < 50; ++i) {
            fake::run(*kernel, const_cast<fake::OpKernelContext&>(context));
            ++seen.ops;
        }
    }
    delete kernel;
    const tsl::thread::ThreadPool pool(nullptr, {}, "other", 6, true, nullptr);
    seen.pool = pool.eigen().NumThreads();
    seen.limit = victim::limit();
}

}  // namespace

EarlyLife early_life() {
    return seen;
}
