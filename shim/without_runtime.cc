// SPDX-License-Identifier: Apache-2.0
#include "shim/without_runtime.h"

#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstring>

#include "shim/message.h"

namespace corun {
namespace {

// The loader says the same and ends the program in the same way.
[[noreturn]] void missing() {
    message(Level::error, "the program calls an OpenMP function that its runtime does not have");
    _exit(127);
}

int one() {
    return 1;
}
int zero() {
    return 0;
}
void nothing() {}

// A region is its body, on this thread.
void alone(void (*body)(void*), void* data, unsigned /*threads*/, unsigned /*flags*/) {
    body(data);
}

// Its arguments are pointers. More of them than it takes do no harm.
using Outlined = void(int*, int*, ...);
void alone_outlined(const void* /*place*/, int count, Outlined* body, ...) {
    std::array<void*, 15> a{};
    if (count < 0 || static_cast<std::size_t>(count) > a.size()) missing();
    va_list list;
    va_start(list, body);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) a[i] = va_arg(list, void*);
    va_end(list);
    int number[]{0, 0};
    body(&number[0], &number[1], a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11],
         a[12], a[13], a[14]);
}
void alone_outlined_if(const void* /*place*/, int /*count*/, Outlined* body, int /*condition*/,
                       void* argument) {
    int number[]{0, 0};
    body(&number[0], &number[1], argument);
}

struct Stand {
    const char* symbol;
    void* function;
};

}  // namespace

void* function_without_runtime(const char* symbol) noexcept {
    // GOMP_parallel_start: the program runs the body itself.
    const Stand stands[]{
        {"GOMP_parallel", reinterpret_cast<void*>(alone)},
        {"GOMP_parallel_start", reinterpret_cast<void*>(nothing)},
        {"__kmpc_fork_call", reinterpret_cast<void*>(alone_outlined)},
        {"__kmpc_fork_call_if", reinterpret_cast<void*>(alone_outlined_if)},
        {"__kmpc_serialized_parallel", reinterpret_cast<void*>(nothing)},
        {"__kmpc_push_num_threads", reinterpret_cast<void*>(nothing)},
        {"__kmpc_push_num_threads_strict", reinterpret_cast<void*>(nothing)},
        {"__kmpc_push_num_threads_list", reinterpret_cast<void*>(nothing)},
        {"__kmpc_push_num_threads_list_strict", reinterpret_cast<void*>(nothing)},
        {"omp_get_max_threads", reinterpret_cast<void*>(one)},
        {"omp_get_max_threads_", reinterpret_cast<void*>(one)},
        {"omp_get_num_procs", reinterpret_cast<void*>(one)},
        {"omp_get_num_procs_", reinterpret_cast<void*>(one)},
        {"omp_get_num_threads", reinterpret_cast<void*>(one)},
        {"omp_get_num_threads_", reinterpret_cast<void*>(one)},
        {"omp_get_thread_num", reinterpret_cast<void*>(zero)},
        {"omp_get_thread_num_", reinterpret_cast<void*>(zero)},
        {"omp_get_level", reinterpret_cast<void*>(zero)},
        {"omp_get_level_", reinterpret_cast<void*>(zero)},
        {"omp_in_parallel", reinterpret_cast<void*>(zero)},
        {"omp_in_parallel_", reinterpret_cast<void*>(zero)},
        {"omp_get_dynamic", reinterpret_cast<void*>(zero)},
        {"omp_set_num_threads", reinterpret_cast<void*>(nothing)},
        {"omp_set_num_threads_", reinterpret_cast<void*>(nothing)},
        {"omp_set_num_threads_8_", reinterpret_cast<void*>(nothing)},
        {"omp_set_dynamic", reinterpret_cast<void*>(nothing)},
    };
    for (const Stand& stand : stands)
        if (std::strcmp(stand.symbol, symbol) == 0) return stand.function;
    return reinterpret_cast<void*>(missing);
}

}  // namespace corun
