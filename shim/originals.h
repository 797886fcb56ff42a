// SPDX-License-Identifier: Apache-2.0
// Where the program's own functions are, for hooks that have one runtime (those of OpenMP have several, see
// resolver.h). Found in what the loader has left in memory (loaded_list.h): its lock is not taken, and the
// program's pending dlerror() stays. Microseconds: not on the path of an op. Not noexcept, as a cancellation
// may be acted upon at their end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

namespace corun {

/// The definition of `symbol` that the program would reach without us, never one of our own hooks: in the
/// loaded object `library` (by soname), else in the object that holds `caller` (a return address), and in
/// what they need, else after us in the global scope. nullptr when there is none.
void* original_function(const char* library, const char* symbol, const void* caller);

/// The first definition for a program that asks without saying where; nullptr when there is none.
void* global_function(const char* symbol);

/// A thread-local variable of the loaded object `library` on this thread; nullptr if it does not export it or
/// has not made it for this thread yet.
void* variable_of_thread(const char* library, const char* symbol);

/// Path of the loaded object `library`, or nullptr. The loader's text, which lasts as long as the object.
const char* loaded_path(const char* library);

}  // namespace corun

// What a source calls of its library, each found on first use: in its namespace
//     #define FUNCTIONS(X) X(compute, "_ZN6Device7ComputeEv", void, (void* device))
//     CORUN_ORIGINALS(kLibrary, FUNCTIONS)
// makes compute_type (the function's type) and real_compute(caller), which is null where there is no such
// function; Function::compute, kSymbols and find() for who looks at all of them at once.
#define CORUN_ORIGINAL_ID(id, symbol, result, parameters) id,
#define CORUN_ORIGINAL_SYMBOL(id, symbol, result, parameters) symbol,
#define CORUN_ORIGINAL_CALL(id, symbol, result, parameters)                                              \
    using id##_type = result parameters;                                                                 \
    [[maybe_unused]] static inline id##_type* real_##id(const void* caller = nullptr) {                  \
        void* known = originals[static_cast<std::size_t>(Function::id)].load(std::memory_order_relaxed); \
        if (known == nullptr) [[unlikely]]                                                               \
            known = find(Function::id, caller);                                                          \
        return reinterpret_cast<id##_type*>(known);                                                      \
    }
#define CORUN_ORIGINALS(library, functions)                                                \
    enum class Function : std::size_t { functions(CORUN_ORIGINAL_ID) count };              \
    constexpr std::array<const char*, static_cast<std::size_t>(Function::count)> kSymbols{ \
        functions(CORUN_ORIGINAL_SYMBOL)};                                                 \
    constinit std::array<std::atomic<void*>, kSymbols.size()> originals{};                 \
    [[gnu::noinline]] static void* find(Function function, const void* caller) {           \
        const auto index = static_cast<std::size_t>(function);                             \
        void* found = original_function(library, kSymbols[index], caller);                 \
        originals[index].store(found, std::memory_order_relaxed);                          \
        return found;                                                                      \
    }                                                                                      \
    functions(CORUN_ORIGINAL_CALL)
