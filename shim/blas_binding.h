// SPDX-License-Identifier: Apache-2.0
// Which function a call of a BLAS routine was meant for. A process may hold several libraries that define the
// same name (a wheel's, the system's), and each caller keeps the one that the loader has given its object.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/blas_library.h"
#include "shim/loaded_object.h"

namespace corun {

/// What is known of one name as one object uses it. Never changed once it is in the table.
struct BlasBinding {
    LoadedObject caller;   ///< all zero: code that lies in no object, as a compiler at run time makes it
    void* function;        ///< the program's own
    BlasLibrary* library;  ///< nullptr: its calls are forwarded as they are
    LoadedObject target;   ///< that the function lies in
    bool keeps_target;     ///< it is not unloaded before the caller
    // Words that hold these values as long as the two are still the same and loaded.
    std::array<const std::uint64_t*, 2> places;
    std::array<std::uint64_t, 2> values;
};

/// Kept of each name. Modules that call scipy through its pointers are dozens.
inline constexpr std::size_t kBlasCallers = 32;
using BlasCallers = std::array<std::atomic<const BlasBinding*>, kBlasCallers>;

/// Where the search for a caller begins; it goes on behind it, to the first empty place.
inline std::size_t blas_caller_place(const void* dynamic) {
    return (reinterpret_cast<std::uintptr_t>(dynamic) * 0x9E3779B97F4A7C15ULL) >> 59;
}
static_assert(kBlasCallers == 32);

/// The slow way: reads what the loader has left in memory. Ends the program as the loader would when nobody
/// has the name. Not noexcept: see undisturbed.h.
const BlasBinding& blas_find(BlasCallers& callers, const char* symbol, const void* caller);

inline bool is_same_object(const LoadedObject& a, const LoadedObject& b) {
    return a.dynamic == b.dynamic && a.start == b.start && a.end == b.end;
}

/// @param caller the hook's return address. Some nanoseconds without a lock once it is known.
inline const BlasBinding& blas_binding(BlasCallers& callers, const char* symbol, const void* caller) {
    LoadedObject object;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled in
    if (!find_object(caller, object)) [[unlikely]]
        object = {};
    const std::size_t first = blas_caller_place(object.dynamic);
    for (std::size_t i = 0; i < kBlasCallers; ++i) {
        const BlasBinding* const known = callers[(first + i) % kBlasCallers].load(std::memory_order_acquire);
        if (known == nullptr) break;
        if (!is_same_object(known->caller, object) || *known->places[0] != known->values[0]) continue;
        if (known->keeps_target) [[likely]]
            return *known;
        LoadedObject target;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled in
        if (!find_object(known->function, target) || !is_same_object(known->target, target)) continue;
        if (*known->places[1] == known->values[1]) return *known;
    }
    return blas_find(callers, symbol, caller);
}

}  // namespace corun
