// SPDX-License-Identifier: Apache-2.0
// Ops that are left in every way but the usual one, 10,000 times each: the limit of the thread is at once
// what it was, whatever stands between is destroyed, later ops are tuned.
#include <pthread.h>

#include <csetjmp>
#include <new>
#include <stdexcept>

#include "victim.h"

namespace {

using fake::AsyncKernel;
using fake::Kernel;
using fake::OpKernelContext;

constexpr int kTimes = 10000;
int destroyed = 0;
int caught = 0;
int cleaned = 0;

struct Witness {
    ~Witness() { ++destroyed; }
};

[[gnu::noinline]] void deep(int levels) {
    const Witness witness;
    if (levels == 0) throw std::runtime_error("bad shape");
    deep(levels - 1);
    victim::spin(0);
}

template <typename Action>
void expect_exception(Action action) {
    for (int i = 0; i < kTimes; ++i) {
        try {
            action();
            std::puts("no exception");
        } catch (const std::runtime_error& error) {
            ++caught;
            if (*error.what() == '\0') std::puts("no text");
        }
        CHECK(victim::limit() == victim::kUnlimited);
    }
}

void exceptions(OpKernelContext& context) {
    Kernel thrower("t", "Thrower", [](OpKernelContext*) { deep(3); });
    expect_exception([&] { fake::run(thrower, context); });
}

// Nobody asks for the limit, only other ops follow.
void unasked_exceptions(OpKernelContext& context) {
    Kernel thrower("t", "Thrower", [](OpKernelContext*) { deep(0); });
    Kernel follower("f", "Follower", [](OpKernelContext*) {});
    for (int i = 0; i < kTimes; ++i) {
        try {
            fake::run(thrower, context);
        } catch (const std::runtime_error&) {
            ++caught;
        }
        fake::run(follower, context);
    }
}

void nested_exceptions(OpKernelContext& context) {
    Kernel thrower("t", "Thrower", [](OpKernelContext*) { deep(1); });
    Kernel middle("m", "Middle", [&](OpKernelContext* c) { fake::run(thrower, *c); });
    Kernel outer("o", "PartitionedCall", [&](OpKernelContext* c) {
        const Witness witness;
        fake::run(middle, *c);
    });
    expect_exception([&] { fake::run(outer, context); });
}

// Caught inside an outer op: the outer one is open all the time and its own limit holds.
void caught_inside(OpKernelContext& context) {
    Kernel thrower("t", "Thrower", [](OpKernelContext*) { deep(1); });
    Kernel outer("o", "Outer", [&](OpKernelContext* c) {
        try {
            fake::run(thrower, *c);
        } catch (const std::runtime_error&) {
            ++caught;
        }
        CHECK(victim::limit() == victim::kUnlimited);  // it has held another op: a container
    });
    for (int i = 0; i < kTimes; ++i) fake::run(outer, context);
    CHECK(victim::limit() == victim::kUnlimited);
}

void async_exceptions(OpKernelContext& context) {
    AsyncKernel thrower("t", "AsyncThrower", [](OpKernelContext*) { deep(2); });
    expect_exception([&] { fake::device().ComputeAsync(&thrower, &context, [] {}); });
}

void pool_exceptions(OpKernelContext&) {
    fake::at_pool_begin = [] { deep(0); };
    expect_exception([] { tsl::thread::ThreadPool(nullptr, {}, "other", 4, true, nullptr); });
    fake::at_pool_begin = nullptr;
}

void end_exceptions(OpKernelContext&) {
    fake::at_kernel_end = [] { deep(0); };
    expect_exception([] { const Kernel kernel("end", "End"); });
    fake::at_kernel_end = nullptr;
}

// An exception from an asked kernel: afterwards NumThreads() tells the truth.
void asked_exceptions(OpKernelContext& context) {
    const tsl::thread::ThreadPool pool(nullptr, {}, "other", 5, true, nullptr);
    Kernel thrower("t", "_MklThrower", [](OpKernelContext*) { deep(1); });
    expect_exception([&] { fake::run(thrower, context); });
    for (int i = 0; i < kTimes; ++i) {
        try {
            fake::run(thrower, context);
        } catch (const std::runtime_error&) {
            ++caught;
        }
        CHECK(pool.eigen().NumThreads() == 5);
    }
}

void clean(void*) {
    ++cleaned;
}

void* leave_thread(void* kernel) {
    const Witness witness;
    OpKernelContext context({{2, 3}});
    pthread_cleanup_push(clean, nullptr);
    fake::run(*static_cast<tensorflow::OpKernel*>(kernel), context);
    pthread_cleanup_pop(0);
    std::puts("came back");
    return nullptr;
}

void thread_exits(OpKernelContext&) {
    Kernel leaver("l", "Leaver", [](OpKernelContext*) {
        const Witness witness;
        pthread_exit(&destroyed);
    });
    for (int i = 0; i < kTimes; ++i) {
        pthread_t thread;
        void* result = nullptr;
        if (pthread_create(&thread, nullptr, leave_thread, &leaver) != 0) std::abort();
        pthread_join(thread, &result);
        CHECK(result == &destroyed);
    }
}

void async_thread_exits(OpKernelContext&) {
    static AsyncKernel leaver("l", "AsyncLeaver", [](OpKernelContext*) { pthread_exit(&destroyed); });
    for (int i = 0; i < kTimes; ++i) {
        pthread_t thread;
        void* result = nullptr;
        const auto body = [](void*) -> void* {
            OpKernelContext context({{2, 3}});
            pthread_cleanup_push(clean, nullptr);
            fake::device().ComputeAsync(&leaver, &context, [] {});
            pthread_cleanup_pop(0);
            return nullptr;
        };
        if (pthread_create(&thread, nullptr, body, nullptr) != 0) std::abort();
        pthread_join(thread, &result);
        CHECK(result == &destroyed);
    }
}

jmp_buf back;
int turn = 0;  // not on the stack: setjmp may lose what is

void jumps(OpKernelContext& context) {
    Kernel jumper("j", "Jumper", [](OpKernelContext*) { std::longjmp(back, 1); });
    for (turn = 0; turn < kTimes; ++turn) {
        if (setjmp(back) == 0)
            fake::run(jumper, context);
        else
            ++caught;
        CHECK(victim::limit() == victim::kUnlimited);
    }
}

void end_jumps(OpKernelContext&) {
    alignas(Kernel) static unsigned char room[sizeof(Kernel)];
    fake::at_kernel_end = [] { std::longjmp(back, 1); };
    for (turn = 0; turn < kTimes; ++turn) {
        auto* kernel = new (room) Kernel("end", "End");
        if (setjmp(back) == 0)
            kernel->~Kernel();
        else
            ++caught;
    }
    fake::at_kernel_end = nullptr;
}

void pool_jumps(OpKernelContext&) {
    for (turn = 0; turn < kTimes; ++turn) {
        if (setjmp(back) == 0) {
            fake::at_pool_begin = [] { std::longjmp(back, 1); };
            alignas(tsl::thread::ThreadPool) static unsigned char room[sizeof(tsl::thread::ThreadPool)];
            new (room) tsl::thread::ThreadPool(nullptr, {}, "other", 4, true, nullptr);
        } else {
            ++caught;
        }
    }
    fake::at_pool_begin = nullptr;
}

void async_jumps(OpKernelContext& context) {
    AsyncKernel jumper("j", "AsyncJumper", [](OpKernelContext*) { std::longjmp(back, 1); });
    const std::function<void()> done = [] {};
    for (turn = 0; turn < kTimes; ++turn) {
        if (setjmp(back) == 0)
            fake::device().ComputeAsync(&jumper, &context, done);
        else
            ++caught;
    }
}

// The program sets the very width that the op had: its word stays, though the op never ended.
void set_after_jump(OpKernelContext& context) {
    Kernel jumper("j", "Jumper", [](OpKernelContext*) { std::longjmp(back, 1); });
    Kernel plain("p", "Plain", [](OpKernelContext*) {});
    if (setjmp(back) == 0)
        fake::run(jumper, context);
    else
        ++caught;
    tensorflow::SetPerThreadMaxParallelism(1);
    fake::run(plain, context);
    CHECK(victim::limit() == 1);
    tensorflow::SetPerThreadMaxParallelism(victim::kUnlimited);
}

struct Case {
    const char* name;
    void (*run)(OpKernelContext&);
};
constexpr Case kCases[]{
    {"exception", exceptions},
    {"unasked", unasked_exceptions},
    {"nested", nested_exceptions},
    {"caught-inside", caught_inside},
    {"async-exception", async_exceptions},
    {"pool", pool_exceptions},
    {"kernel-end", end_exceptions},
    {"asked", asked_exceptions},
    {"pthread-exit", thread_exits},
    {"async-pthread-exit", async_thread_exits},
    {"longjmp", jumps},
    {"async-longjmp", async_jumps},
    {"set-after-longjmp", set_after_jump},
    {"kernel-end-longjmp", end_jumps},
    {"pool-longjmp", pool_jumps},
};

}  // namespace

int main(int argc, char** argv) {
    const char* wanted = victim::argument(argc, argv, 1, "exception");
    OpKernelContext context({{2, 3}});
    victim::limit_inside();  // so that this thread is known before others are
    for (const Case& one : kCases)
        if (std::strcmp(one.name, wanted) == 0) one.run(context);
    std::printf("caught %d, destroyed %d, cleaned %d\n", caught, destroyed, cleaned);
    CHECK(victim::limit() == victim::kUnlimited);
    std::printf("a later op sees %d, then %d\n", victim::limit_inside(), victim::limit_inside());
    CHECK(victim::limit() == victim::kUnlimited);
    return victim::finish();
}
