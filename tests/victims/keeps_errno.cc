// SPDX-License-Identifier: Apache-2.0
// errno, untouched by every call that is hooked, from the first one on, and so is an error of the loader that
// the program has not asked about yet.
#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "victim.h"

int main() {
    using fake::Kernel;
    using fake::OpKernelContext;
    OpKernelContext context({{2, 3}});
    auto kernel = std::make_unique<Kernel>("k", "Kind");
    fake::AsyncKernel async("a", "Async", [](OpKernelContext*) {});
    const std::function<void()> done = [] {};
    const std::string name = "Compute";
    CHECK(dlopen("there-is-no-such-library.so", RTLD_NOW) == nullptr);
    errno = 77;
    {
        const tsl::thread::ThreadPool pool(nullptr, {}, name, 16, true, nullptr);
        CHECK(errno == 77);
        CHECK(pool.eigen().NumThreads() >= 1);
        CHECK(errno == 77);
    }
    for (int i = 0; i < 300000; ++i) {
        fake::run(*kernel, context);
        if (i % 1000 == 0) CHECK(errno == 77);
        if (errno != 77) break;
    }
    CHECK(errno == 77);
    fake::device().ComputeAsync(&async, &context, done);
    CHECK(errno == 77);
    kernel.reset();
    CHECK(errno == 77);
    const char* const error = dlerror();
    CHECK(error != nullptr && std::strstr(error, "there-is-no-such-library") != nullptr);
    return victim::finish();
}
