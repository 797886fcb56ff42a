// SPDX-License-Identifier: Apache-2.0
// A signal whose handler ends the program (exit), or a cancellation (cancel; asynchronous: of a thread that
// may be cancelled at any moment), that comes while corun describes an op for itself, with a lock of the
// runtime held. Without corun nobody asks for descriptions, and both come after the op.
#include <pthread.h>
#include <unistd.h>

#include <csignal>

#include "victim.h"

namespace {

bool in_runtime = false;

void leave(int) {
    std::exit(in_runtime ? 1 : 9);
}

void in_trace(void (*what)()) {
    in_runtime = true;
    what();
    in_runtime = false;
}

void by_exit() {
    std::signal(SIGTERM, leave);
    fake::at_trace = [] { in_trace([] { std::raise(SIGTERM); }); };
    fake::OpKernelContext context({{2, 3}});
    fake::Kernel kernel("k", "Kind");
    for (int i = 0; i < 30; ++i) fake::run(kernel, context);
    std::raise(SIGTERM);
}

void* thread(void*) {
    fake::at_trace = [] { in_trace(pthread_testcancel); };
    fake::OpKernelContext context({{2, 3}});
    fake::Kernel kernel("k", "Kind");
    pthread_cancel(pthread_self());
    for (int i = 0; i < 30; ++i) fake::run(kernel, context);
    pthread_testcancel();
    return nullptr;
}

void* asynchronous(void*) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    fake::at_trace = [] { in_trace([] { pthread_cancel(pthread_self()); }); };
    fake::OpKernelContext context({{2, 3}});
    fake::Kernel& kernel = *new fake::Kernel("k", "Kind");
    for (int i = 0; i < 30; ++i) fake::run(kernel, context);
    pthread_cancel(pthread_self());
    return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string how = victim::argument(argc, argv, 1, "");
    if (how == "exit") by_exit();
    pthread_t id{};
    if (pthread_create(&id, nullptr, how == "asynchronous" ? asynchronous : thread, nullptr) != 0) return 1;
    void* result = nullptr;
    pthread_join(id, &result);
    CHECK(result == PTHREAD_CANCELED);
    CHECK(!in_runtime);
    return victim::finish();
}
