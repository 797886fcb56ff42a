// SPDX-License-Identifier: Apache-2.0
// gcc's OpenMP runtime is initialised before our constructors, and reads its environment then. Every version
// of it asks for the mask first: the one moment at which we are called in time. The answer is the program's
// own.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "shim/affinity_symbols.h"
#include "shim/openmp_start.h"

namespace corun::affinity {
extern "C" {
#define X(id, symbol, result, parameters)                                        \
    [[gnu::visibility("default")]] result corun_##id parameters __asm__(symbol); \
    using id##_type = result parameters;                                         \
    static id##_type* id##_original() {                                          \
        static constinit std::atomic<id##_type*> known{nullptr};                 \
        id##_type* function = known.load(std::memory_order_relaxed);             \
        if (function != nullptr) return function;                                \
        const int saved = errno;                                                 \
        function = reinterpret_cast<id##_type*>(dlsym(RTLD_NEXT, symbol));       \
        known.store(function, std::memory_order_relaxed);                        \
        errno = saved;                                                           \
        return function;                                                         \
    }
CORUN_AFFINITY_HOOKED(X)
#undef X

// The loader's lock is taken once, at start and not on a thread that somebody who holds it waits for.
[[gnu::constructor]] static void find_originals() {
    get_affinity_original();
}

// The very first version of it had no size: programs that were linked with it reach us too, as our names have
// no versions. What they give there is an address; no mask is of that size.
using oldest_type = int(pthread_t thread, cpu_set_t* mask);
constexpr std::size_t kMostBytes = 1U << 20;
static oldest_type* find_oldest() {
    const int saved = errno;
    auto* const found =
        reinterpret_cast<oldest_type*>(dlvsym(RTLD_NEXT, "pthread_getaffinity_np", "GLIBC_2.3.3"));
    errno = saved;
    return found;
}

int corun_get_affinity(pthread_t thread, std::size_t size, cpu_set_t* mask) {
    if (size > kMostBytes) [[unlikely]]
        if (oldest_type* const oldest = find_oldest())
            return oldest(thread, reinterpret_cast<cpu_set_t*>(size));  // NOLINT(performance-no-int-to-ptr)
    openmp_counts_cpus(__builtin_return_address(0));
    get_affinity_type* const original = get_affinity_original();
    return original != nullptr ? original(thread, size, mask) : ENOSYS;
}
}  // extern "C"
}  // namespace corun::affinity
