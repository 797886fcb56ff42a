// SPDX-License-Identifier: Apache-2.0
// Regions that are left by an exception, longjmp() or pthread_exit(), 10,000 times, with objects to be
// destroyed on the way.
#include <pthread.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "fake_openmp.h"

namespace {

constexpr int kTimes = 10000;
int caught = 0, destroyed = 0, entered = 0;
std::jmp_buf back;

struct Object {
    ~Object() { ++destroyed; }
};

enum class Way { exception, jump, exit };
Way way;

void leave() {
    ++entered;
    if (way == Way::exception) throw std::runtime_error("out");
    if (way == Way::jump) std::longjmp(back, 1);
    pthread_exit(nullptr);
}
void body(void*) {
    leave();
}
void outlined(int*, int*, ...) {
    leave();
}

using Region = void();
void parallel() {
    GOMP_parallel(body, nullptr, 0, 0);
}
void loop() {
    GOMP_parallel_loop_dynamic(body, nullptr, 0, 0, 10, 1, 1, 0);
}
void sections() {
    GOMP_parallel_sections(body, nullptr, 0, 2, 0);
}
void reductions() {
    GOMP_parallel_reductions(body, nullptr, 0, 0);
}
void fork_call() {
    __kmpc_fork_call(nullptr, 2, outlined, &entered, &entered);
}
void fork_call_if() {
    __kmpc_fork_call_if(nullptr, 1, outlined, 1, &entered);
}

Region* region;
void* on_a_thread(void*) {
    const Object object;
    region();
    return nullptr;
}

void once() {
    if (way == Way::exception) {
        try {
            const Object object;
            region();
        } catch (const std::runtime_error&) {
            ++caught;
        }
    } else if (way == Way::jump) {
        if (setjmp(back) == 0) region();
        ++caught;
    } else {
        pthread_t thread;
        if (pthread_create(&thread, nullptr, on_a_thread, nullptr) == 0) pthread_join(thread, nullptr);
        ++caught;
    }
}

}  // namespace

int main(int argc, char** argv) {
    const char* const name = argc > 1 ? argv[1] : "";
    way = std::strcmp(name, "jump") == 0   ? Way::jump
          : std::strcmp(name, "exit") == 0 ? Way::exit
                                           : Way::exception;
    fake_quiet = 1;
    for (Region* one : {parallel, loop, sections, reductions, fork_call, fork_call_if}) {
        region = one;
        for (int i = 0; i < kTimes; ++i) once();
    }
    std::printf("entered %d, caught %d, destroyed %d, told %d\n", entered, caught, destroyed,
                omp_get_max_threads());
    return 0;
}
