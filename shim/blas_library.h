// SPDX-License-Identifier: Apache-2.0
// The BLAS libraries of the process, each with its own number of threads, and the lever that sets it for the
// time of a call. Where that number is the whole library's it changes only while nobody is inside.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/loaded_list.h"

namespace corun {

enum class BlasKind : std::uint8_t {
    serial,   ///< no threads, or none that we know how to set: its calls are forwarded as they are
    process,  ///< OpenBLAS with threads of its own: one number for all callers
    openmp,   ///< OpenBLAS on OpenMP: asks the runtime for the calling thread's number in each call
    thread,   ///< MKL: a number for each calling thread
};

inline constexpr std::size_t kBlasLibraries = 16;

struct BlasLibrary {
    const void* dynamic;  ///< tells it; of the object that has the number
    char name[64];        ///< without folders
    BlasKind kind;
    int (*get)();
    void (*set)(int);
    int (*set_local)(int);             ///< of `thread`: returns what it replaces
    int (*level)();                    ///< of the OpenMP runtime that it stands on, if any: regions around us
    std::atomic<std::uint32_t> state;  ///< callers inside; the highest bit while the number is being changed
    std::atomic<int> width;            ///< in force for those inside; 0: the program's own
    std::atomic<int> waiting;          ///< callers for whom what is in force is too narrow
    std::atomic<int> room;             ///< threads that the latest of them waits for
    int own;                           ///< to be put back; only who changes the number looks at it
    int word, cut;  ///< the program's own number where it was above the budget, and what it was cut down to
};

/// One call, from enter to leave, on one thread.
struct BlasStay {
    BlasLibrary* library;
    int saved;  ///< of this thread alone, to be put back
    int width;  ///< that was set in its place; 0: nothing
    bool counted;
};

/// The library that the functions of object `index` belong to; made if need be. nullptr: it is serial, or
/// there are too many. Changes the list's order.
BlasLibrary* blas_library_in(LoadedList& list, std::size_t index);

/// Comes in at `wanted` threads (0: the program's own), or at what is in force when somebody else is inside.
/// Never above the program's own number. @param limit the budget, which that is cut down to; 0: none
/// @return the number of threads that the call will have
int blas_enter(BlasStay& stay, BlasLibrary& library, int wanted, int limit) noexcept;
void blas_leave(const BlasStay& stay) noexcept;

/// This thread is one of a team: its calls are part of whatever has opened that.
bool blas_in_team(const BlasLibrary& library) noexcept;
/// Callers inside of any library now.
int blas_callers() noexcept;
/// Somebody is inside at the program's own number, so that it cannot be changed.
bool blas_is_held_wide(const BlasLibrary& library) noexcept;
/// Somebody is inside at fewer threads than `width` (0: the program's own number), which all would have.
bool blas_is_held_below(const BlasLibrary& library, int width) noexcept;
/// Between these two, whoever comes in asks for `width` as well, and not for less.
void blas_wait_begins(BlasLibrary& library, int width) noexcept;
void blas_wait_ends(BlasLibrary& library) noexcept;

void blas_libraries_after_fork() noexcept;  ///< in the child: nobody is inside
/// What such a child has found set, for it will see no blas_leave().
void blas_put_back(BlasLibrary& library) noexcept;

}  // namespace corun
