// SPDX-License-Identifier: Apache-2.0
// Which OpenMP runtime a caller has. A process may hold several, and each caller keeps the one that the
// loader gave its object, which is not always its own: we ask the words that the loader has filled in. A
// caller is told by its return address; what was found is kept for each object.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/gomp_symbols.h"
#include "shim/kmp_symbols.h"
#include "shim/loaded_object.h"

namespace corun {

enum class OpenMp : std::size_t {
#define X(id, symbol, result, parameters) id,
    CORUN_GOMP_HOOKED(X) CORUN_KMP_HOOKED(X) CORUN_GOMP_NEEDED(X)
#undef X
        count
};

enum class RuntimeKind : std::uint8_t {
    none,    ///< the caller has no runtime (it was a weak reference): one thread, always
    gomp,    ///< gcc's
    libomp,  ///< LLVM's and Intel's
};

inline constexpr std::size_t kRuntimes = 64;

/// A loaded runtime. It stays loaded once it was found: its threads would not survive it either.
struct Runtime {
    std::array<void*, static_cast<std::size_t>(OpenMp::count)> functions;  ///< never null
    LoadedObject object;
    std::uint64_t bit;  ///< in per-thread sets; 0: the table is full, and it is left alone
    std::uint32_t index;
    RuntimeKind kind;
};

// parallel_of(runtime) and so on: the runtime's own functions.
#define X(id, symbol, result, parameters)                                                             \
    using id##_type = result parameters;                                                              \
    [[maybe_unused]] inline id##_type* id##_of(const Runtime& runtime) {                              \
        return reinterpret_cast<id##_type*>(runtime.functions[static_cast<std::size_t>(OpenMp::id)]); \
    }
CORUN_GOMP_HOOKED(X)
CORUN_KMP_HOOKED(X)
CORUN_GOMP_NEEDED(X)
#undef X

namespace resolver {

// What is known of a caller's object. It must never be believed of another one that was loaded at the same
// place later: `proof` points to a word which the loader fills in and which held `value`, the address of a
// function of the runtime. As long as it does, the caller, whoever it is, was given that runtime. The fields
// are read without a lock; `version` is odd while they change.
struct alignas(64) Known {
    std::atomic<std::uint64_t> version;
    std::atomic<const void*> dynamic;
    std::atomic<std::uintptr_t> start;
    std::atomic<std::uintptr_t> end;
    std::atomic<void* const*> proof;
    std::atomic<const void*> value;
    std::atomic<const Runtime*> runtime;
    // Without such a word: valid while the counters are as they were.
    std::atomic<unsigned long long> loaded;
    std::atomic<unsigned long long> unloaded;
    std::atomic<std::uint64_t> asked;
};

inline constexpr std::size_t kKnown = 1024;
inline constexpr std::size_t kProbes = 4;
extern constinit std::array<Known, kKnown + kProbes> known;

inline std::size_t known_index(const void* dynamic) {
    return (reinterpret_cast<std::uintptr_t>(dynamic) * 0x9E3779B97F4A7C15ULL) >> 54;
}
static_assert(kKnown == 1024);

const Runtime& find(const void* caller) noexcept;  ///< the slow way
void after_fork() noexcept;                        ///< in the child: the other threads are gone

}  // namespace resolver

/// The runtime of the object that `caller` (a return address) lies in. A few nanoseconds without a lock once
/// the object is known. Never fails: see RuntimeKind::none.
inline const Runtime& runtime_of(const void* caller) noexcept {
    using resolver::known;
    LoadedObject object;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled in
    if (!find_object(caller, object)) [[unlikely]]
        return resolver::find(caller);
    const resolver::Known* one = &known[resolver::known_index(object.dynamic)];
    for (std::size_t i = 0; i < resolver::kProbes; ++i, ++one) {
        if (one->dynamic.load(std::memory_order_relaxed) != object.dynamic) continue;
        const std::uint64_t version = one->version.load(std::memory_order_acquire);
        const Runtime* runtime = one->runtime.load(std::memory_order_acquire);
        void* const* proof = one->proof.load(std::memory_order_acquire);
        const void* value = one->value.load(std::memory_order_acquire);
        const bool same = one->dynamic.load(std::memory_order_acquire) == object.dynamic &&
                          one->start.load(std::memory_order_acquire) == object.start &&
                          one->end.load(std::memory_order_acquire) == object.end;
        if (!same || (version & 1U) != 0 || one->version.load(std::memory_order_relaxed) != version) break;
        // The word lies in the object, which is mapped as its caller runs.
        if (__atomic_load_n(proof, __ATOMIC_RELAXED) == value) [[likely]]
            return *runtime;
        break;
    }
    return resolver::find(caller);
}

// What hooks call, one line each. `caller` is the hook's return address and decides only where nothing better
// is known: behind a tail call it is the caller's caller. `function` is the hook's own, as the loader may
// have given an object another definition for each name.

/// A region, or whatever else is handed outlined code of the object that opens it.
inline const Runtime& runtime_of_body(const void* body, const void* caller, OpenMp function) noexcept {
    (void)body, (void)function;
    return runtime_of(caller);
}
/// Calls of clang's code: `place` is their ident_t, in the object that calls.
inline const Runtime& runtime_of_place(const void* place, const void* caller, OpenMp function) noexcept {
    (void)place, (void)function;
    return runtime_of(caller);
}
/// Questions and settings.
inline const Runtime& runtime_asked(const void* caller, OpenMp function) noexcept {
    (void)function;
    return runtime_of(caller);
}

/// The runtimes found so far, for the report.
std::size_t runtime_count() noexcept;
const Runtime& runtime_at(std::size_t index) noexcept;

/// Whether an object is an OpenMP runtime whose functions can be seen.
bool is_runtime(const LoadedObject& object) noexcept;

}  // namespace corun
