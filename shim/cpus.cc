// SPDX-License-Identifier: Apache-2.0
// What programs ask how many CPUs there are: glibc's functions. Their own answer comes first, always; where
// the program is allowed fewer than the machine has, it hears of those (cpu_view.h).
//
// gcc's OpenMP runtime is initialised before our constructors, and reads its environment then. Every version
// of it asks for the mask first: the one moment at which we are called in time.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "shim/cpu_view.h"
#include "shim/cpus_symbols.h"
#include "shim/loaded_object.h"
#include "shim/openmp.h"
#include "shim/openmp_start.h"

namespace corun::cpus {

// The very first version of these had no size: programs that were linked with it reach us too, as our names
// have no versions. What they give there is an address; no mask is of that size.
constexpr std::size_t kMostBytes = 1U << 20;
template <typename Function>
static Function* oldest(const char* symbol) {
    const int saved = errno;
    auto* const found = reinterpret_cast<Function*>(dlvsym(RTLD_NEXT, symbol, "GLIBC_2.3.3"));
    errno = saved;
    return found;
}

// An OpenMP runtime that is to bind threads to places by their numbers: those are the machine's.
static bool asks_for_places(const void* caller) {
    const bool places = std::getenv("OMP_PLACES") != nullptr || std::getenv("GOMP_CPU_AFFINITY") != nullptr ||
                        std::getenv("KMP_AFFINITY") != nullptr;
    LoadedObject object{};
    if (!places || !find_object(caller, object)) return false;
    const DynamicSection section(object);
    return section.symbol("GOMP_parallel") != nullptr || section.symbol("__kmpc_fork_call") != nullptr;
}

// Exactly the mask that was told stands for the one in whose place it was; any other is the program's own
// from then on, unless it is meant for another process.
template <typename Set>
static int set_as_meant(const cpu_set_t* mask, std::size_t size, bool ours, Set set) {
    CpuMask real;
    if (ours && cpu_view_was_told(mask, size, real))
        return set(sizeof real.words, reinterpret_cast<const cpu_set_t*>(&real.words));
    const int result = set(size, mask);
    if (result == 0 && ours) cpu_view_own_mask(mask, size);
    return result;
}

extern "C" {
#define X(id, symbol, result, parameters)                                        \
    [[gnu::visibility("default")]] result corun_##id parameters __asm__(symbol); \
    using id##_type = result parameters;                                         \
    static id##_type* id##_original() {                                          \
        static constinit std::atomic<id##_type*> known{nullptr};                 \
        id##_type* function = known.load(std::memory_order_relaxed);             \
        if (function != nullptr) [[likely]]                                      \
            return function;                                                     \
        const int saved = errno;                                                 \
        function = reinterpret_cast<id##_type*>(dlsym(RTLD_NEXT, symbol));       \
        known.store(function, std::memory_order_relaxed);                        \
        errno = saved;                                                           \
        return function;                                                         \
    }
CORUN_CPUS_HOOKED(X)
#undef X

// The loader's lock is taken once, at start and not on a thread that somebody who holds it waits for.
[[gnu::constructor]] static void find_originals() {
#define X(id, symbol, result, parameters) id##_original();
    CORUN_CPUS_HOOKED(X)
#undef X
}

int corun_get_mask(pid_t thread, std::size_t size, cpu_set_t* mask) {
    if (size > kMostBytes) [[unlikely]]
        if (auto* const first = oldest<int(pid_t, std::size_t)>("sched_getaffinity"))
            return first(thread, size);
    const int result = get_mask_original()(thread, size, mask);
    if (result == 0 && cpu_view_awake(__builtin_return_address(0)) && cpu_view_is_ours(thread))
        cpu_view_mask(mask, size);
    return result;
}

int corun_get_affinity(pthread_t thread, std::size_t size, cpu_set_t* mask) {
    if (size > kMostBytes) [[unlikely]]
        if (auto* const first = oldest<int(pthread_t, std::size_t)>("pthread_getaffinity_np"))
            return first(thread, size);
    if (openmp_hooked != nullptr) openmp_counts_cpus(__builtin_return_address(0));
    const int result = get_affinity_original()(thread, size, mask);
    if (result == 0 && cpu_view_awake(__builtin_return_address(0)) &&
        !asks_for_places(__builtin_return_address(0)))
        cpu_view_mask(mask, size);
    return result;
}

int corun_set_mask(pid_t thread, std::size_t size, const cpu_set_t* mask) {
    if (size > kMostBytes) [[unlikely]]
        if (auto* const first = oldest<int(pid_t, std::size_t)>("sched_setaffinity"))
            return first(thread, size);
    return set_as_meant(mask, size, cpu_view_is_ours(thread), [&](std::size_t bytes, const cpu_set_t* given) {
        return set_mask_original()(thread, bytes, given);
    });
}

int corun_set_affinity(pthread_t thread, std::size_t size, const cpu_set_t* mask) {
    if (size > kMostBytes) [[unlikely]]
        if (auto* const first = oldest<int(pthread_t, std::size_t)>("pthread_setaffinity_np"))
            return first(thread, size);
    return set_as_meant(mask, size, true, [&](std::size_t bytes, const cpu_set_t* given) {
        return set_affinity_original()(thread, bytes, given);
    });
}

int corun_set_attribute(pthread_attr_t* attribute, std::size_t size, const cpu_set_t* mask) {
    if (size > kMostBytes) [[unlikely]]
        if (auto* const first = oldest<int(pthread_attr_t*, std::size_t)>("pthread_attr_setaffinity_np"))
            return first(attribute, size);
    return set_as_meant(mask, size, true, [&](std::size_t bytes, const cpu_set_t* given) {
        return set_attribute_original()(attribute, bytes, given);
    });
}

long corun_system_value(int name) {
    const long value = system_value_original()(name);
    if (name != _SC_NPROCESSORS_ONLN) [[likely]]
        return value;
    return value > 0 && cpu_view_awake(__builtin_return_address(0)) ? cpu_view_count(static_cast<int>(value))
                                                                    : value;
}

int corun_online_cpus() {
    const int value = online_cpus_original()();
    return cpu_view_awake(__builtin_return_address(0)) ? cpu_view_count(value) : value;
}

int corun_current_cpu() {
    return cpu_view_number(current_cpu_original()());
}

int corun_current_place(unsigned* cpu, unsigned* node) {
    const int result = current_place_original()(cpu, node);
    if (result == 0 && cpu != nullptr) *cpu = static_cast<unsigned>(cpu_view_number(static_cast<int>(*cpu)));
    return result;
}

// The mode is there or not: a register is handed on either way, as the program's call would have.
int corun_open(const char* path, int flags, mode_t mode) {
    const int file = open_original()(path, flags, mode);
    cpu_view_opened(path, file);
    return file;
}

int corun_open64(const char* path, int flags, mode_t mode) {
    const int file = open64_original()(path, flags, mode);
    cpu_view_opened(path, file);
    return file;
}

int corun_open_at(int folder, const char* path, int flags, mode_t mode) {
    const int file = open_at_original()(folder, path, flags, mode);
    cpu_view_opened(path, file);
    return file;
}

int corun_open_at64(int folder, const char* path, int flags, mode_t mode) {
    const int file = open_at64_original()(folder, path, flags, mode);
    cpu_view_opened(path, file);
    return file;
}

int corun_open_2(const char* path, int flags) {
    const int file = open_2_original()(path, flags);
    cpu_view_opened(path, file);
    return file;
}

int corun_open64_2(const char* path, int flags) {
    const int file = open64_2_original()(path, flags);
    cpu_view_opened(path, file);
    return file;
}

int corun_open_at_2(int folder, const char* path, int flags) {
    const int file = open_at_2_original()(folder, path, flags);
    cpu_view_opened(path, file);
    return file;
}

int corun_open_at64_2(int folder, const char* path, int flags) {
    const int file = open_at64_2_original()(folder, path, flags);
    cpu_view_opened(path, file);
    return file;
}

FILE* corun_open_stream(const char* path, const char* mode) {
    FILE* const stream = open_stream_original()(path, mode);
    if (stream != nullptr) cpu_view_opened(path, fileno(stream));
    return stream;
}

FILE* corun_open_stream64(const char* path, const char* mode) {
    FILE* const stream = open_stream64_original()(path, mode);
    if (stream != nullptr) cpu_view_opened(path, fileno(stream));
    return stream;
}
}  // extern "C"
}  // namespace corun::cpus
