// SPDX-License-Identifier: Apache-2.0
// Which OpenMP runtime a caller has. A process may hold several, and each caller keeps the one that the
// loader gave its object, which is not always its own: the words that the loader has filled in tell it, or
// the order in which it would look. What was found is kept for each object.
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
inline constexpr std::size_t kOpenMpFunctions = static_cast<std::size_t>(OpenMp::count);

enum class RuntimeKind : std::uint8_t {
    none,    ///< there is no runtime, or a library that has some functions of one only
    gomp,    ///< gcc's
    libomp,  ///< LLVM's and Intel's
};

inline constexpr std::size_t kRuntimes = 64;

/// A runtime as a caller sees it. It may be unloaded together with its callers: its functions may be called
/// on behalf of a caller only, or if runtime_loaded().
struct Runtime {
    std::array<void*, kOpenMpFunctions> functions;  ///< never null
    LoadedObject object;                            ///< its name lasts
    std::uint64_t bit;    ///< in per-thread sets; 0: it is no runtime, or the table is full: left alone
    std::uint32_t index;  ///< kRuntimes: none
    RuntimeKind kind;
    const std::uint64_t* mark;  ///< a word in its memory that holds `marked` as long as it stays loaded
    std::uint64_t marked;
    bool stays;  ///< never unloaded
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

// gcc's names, those of everybody, clang's: the loader may have given an object another runtime for each.
inline constexpr std::size_t kFamilies = 3;
constexpr std::size_t family_of_name(const char* symbol) {
    return symbol[0] == 'G' ? 0 : symbol[0] == 'o' ? 1 : 2;
}
inline constexpr std::array<const char*, kOpenMpFunctions> kSymbols{
#define X(id, symbol, result, parameters) symbol,
    CORUN_GOMP_HOOKED(X) CORUN_KMP_HOOKED(X) CORUN_GOMP_NEEDED(X)
#undef X
};
inline constexpr std::array<std::size_t, kOpenMpFunctions> kFamily{
#define X(id, symbol, result, parameters) family_of_name(symbol),
    CORUN_GOMP_HOOKED(X) CORUN_KMP_HOOKED(X) CORUN_GOMP_NEEDED(X)
#undef X
};

/// A set of functions.
inline constexpr std::size_t kSetWords = 2;
static_assert(kOpenMpFunctions <= 64 * kSetWords);
constexpr std::size_t set_word(OpenMp function) {
    return static_cast<std::size_t>(function) / 64;
}
constexpr std::uint64_t set_bit(OpenMp function) {
    return std::uint64_t{1} << (static_cast<std::size_t>(function) % 64);
}

// What is known of an object. It must never be believed of another one that was loaded at the same place
// later, nor of the same one that was loaded anew and may have another runtime then. So it holds only as long
// as two words in the object hold their values: a mark of ours in memory that belongs to the object and that
// it does not use, and a word that the loader is still to fill in. Where there is nothing to be watched the
// word is one of ours. The fields are read without a lock; `version` is odd while they change.
struct Word {
    std::atomic<const void* const*> place;
    std::atomic<const void*> value;
};
struct alignas(128) Known {
    std::atomic<std::uint64_t> version;
    std::atomic<const void*> dynamic;
    std::atomic<std::uintptr_t> start;
    std::atomic<std::uintptr_t> end;
    std::array<Word, 2> words;
    std::array<std::atomic<const Runtime*>, kFamilies> runtimes;
    std::atomic<const Runtime*> self;                           ///< it is a runtime itself
    std::array<std::atomic<std::uint64_t>, kSetWords> imports;  ///< names that it was given ours for
    std::array<std::atomic<std::uint64_t>, kSetWords> asked;    ///< of which this was looked up
};
static_assert(sizeof(Known) == 128);

// One whose callers may outlive it is kept with a bit set, and looked at before it is used.
inline bool is_to_be_checked(const Runtime* runtime) {
    return (reinterpret_cast<std::uintptr_t>(runtime) & 1U) != 0;
}
inline const Runtime* to_be_checked(const Runtime* runtime) {
    return runtime != nullptr
               ? reinterpret_cast<const Runtime*>(reinterpret_cast<std::uintptr_t>(runtime) | 1U)
               : nullptr;
}
inline const Runtime* without_check(const Runtime* runtime) {
    return reinterpret_cast<const Runtime*>(reinterpret_cast<std::uintptr_t>(runtime) & ~std::uintptr_t{1});
}

inline constexpr std::size_t kKnown = 1024;
inline constexpr std::size_t kProbes = 4;
extern constinit std::array<Known, kKnown + kProbes> known;

inline std::size_t known_index(const void* dynamic) {
    return (reinterpret_cast<std::uintptr_t>(dynamic) * 0x9E3779B97F4A7C15ULL) >> 54;
}
static_assert(kKnown == 1024);

/// The slow way, not noexcept as a cancellation may be acted upon at its end. `named`: see runtime_of_body().
const Runtime& find(const void* named, const void* caller, OpenMp function);

/// Looks at the objects that the program started with, before it may have forbidden itself what that takes
/// (seccomp), or has forked. Only what can never change is kept.
void look_at_start();

void after_fork() noexcept;  ///< in the child: the other threads are gone

/// Forgets who has this runtime. While the loader's list is held.
void forget(const Runtime& runtime) noexcept;

/// The one that this thread was served by last, which decides where nothing better is known.
extern constinit thread_local const Runtime* last __attribute__((tls_model("initial-exec")));

/// What is known of the object that `address` lies in, for a name that it imports; nullptr if not known.
inline const Runtime* known_runtime(const void* address, OpenMp function) noexcept {
    LoadedObject object;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled in
    if (!find_object(address, object)) [[unlikely]]
        return nullptr;
    const Known* one = &known[known_index(object.dynamic)];
    for (std::size_t i = 0; i < kProbes; ++i, ++one) {
        if (one->dynamic.load(std::memory_order_relaxed) != object.dynamic) continue;
        const std::uint64_t version = one->version.load(std::memory_order_acquire);
        const auto& runtimes = one->runtimes[kFamily[static_cast<std::size_t>(function)]];
        const Runtime* const runtime = runtimes.load(std::memory_order_acquire);
        const std::uint64_t imports = one->imports[set_word(function)].load(std::memory_order_acquire);
        const void* const* const mark = one->words[0].place.load(std::memory_order_acquire);
        const void* const marked = one->words[0].value.load(std::memory_order_acquire);
        const void* const* const slot = one->words[1].place.load(std::memory_order_acquire);
        const void* const unbound = one->words[1].value.load(std::memory_order_acquire);
        const bool same = one->dynamic.load(std::memory_order_acquire) == object.dynamic &&
                          one->start.load(std::memory_order_acquire) == object.start &&
                          one->end.load(std::memory_order_acquire) == object.end;
        if (!same || (version & 1U) != 0 || one->version.load(std::memory_order_relaxed) != version)
            return nullptr;
        // The words lie in the object, which is mapped as code of it runs.
        const bool holds = __atomic_load_n(mark, __ATOMIC_RELAXED) == marked &&
                           __atomic_load_n(slot, __ATOMIC_RELAXED) == unbound;
        return holds && (imports & set_bit(function)) != 0 && !is_to_be_checked(runtime) ? runtime : nullptr;
    }
    return nullptr;
}

inline const Runtime& runtime_by(const void* known_by, const void* named, const void* caller,
                                 OpenMp function) {
    if (const Runtime* const runtime = known_runtime(known_by, function)) [[likely]]
        return *(last = runtime);
    return find(named, caller, function);
}

}  // namespace resolver

// What hooks call, one line each; some nanoseconds without a lock once an object is known. `caller` is the
// hook's return address and decides only where nothing better is known: behind a tail call it is the caller's
// caller. `function` is the hook's own. Never fails: see RuntimeKind::none.

/// A region, or whatever else is handed outlined code of the object that opens it.
inline const Runtime& runtime_of_body(const void* body, const void* caller, OpenMp function) {
    return resolver::runtime_by(body, body, caller, function);
}
/// Calls of clang's code: `place` is their ident_t, in the object that calls.
inline const Runtime& runtime_of_place(const void* place, const void* caller, OpenMp function) {
    return resolver::runtime_by(place, place, caller, function);
}
/// Questions and settings.
inline const Runtime& runtime_asked(const void* caller, OpenMp function) {
    return resolver::runtime_by(caller, nullptr, caller, function);
}

/// The runtimes found so far, for the report.
std::size_t runtime_count() noexcept;
const Runtime& runtime_at(std::size_t index) noexcept;
/// Whether a caller that came through us has it.
bool runtime_reached(const Runtime& runtime) noexcept;

/// Whether it was not unloaded since. Some nanoseconds, no lock.
bool runtime_loaded(const Runtime& runtime) noexcept;

/// Whether an object is an OpenMP runtime whose functions can be seen.
bool is_runtime(const LoadedObject& object) noexcept;

}  // namespace corun
