// SPDX-License-Identifier: Apache-2.0
#include "shim/blas_library.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "shim/scope.h"

namespace corun {
namespace {

constexpr std::uint32_t kChanging = 1U << 31;
constexpr int kOpenBlasOnOpenMp = 2;  // what its get_parallel() says

constinit std::array<BlasLibrary, kBlasLibraries> libraries{};
constinit std::atomic<std::size_t> known{0};

struct OpenBlasNames {
    const char *set, *get, *parallel;
};
constexpr std::array<OpenBlasNames, 4> kOpenBlas{{
    {"openblas_set_num_threads", "openblas_get_num_threads", "openblas_get_parallel"},
    {"openblas_set_num_threads64_", "openblas_get_num_threads64_", "openblas_get_parallel64_"},
    {"scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads", "scipy_openblas_get_parallel"},
    {"scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_",
     "scipy_openblas_get_parallel64_"},
}};

template <typename Function>
bool find(const LoadedList& list, const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(list.definition(symbol).address);
    return function != nullptr;
}

// The runtime that asks for a number on its behalf is the one that the loader has bound it to.
std::size_t openmp_of(LoadedList& list, std::size_t index) {
    list.order_for(index);
    std::size_t runtime = list.definition("omp_get_max_threads").index;
    DynamicSection(list[index].object).any_relocation([&](const char* name, void* const* slot, const auto&) {
        LoadedObject target{};
        const void* const value = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (std::strncmp(name, "omp_", 4) != 0 && std::strncmp(name, "GOMP_", 5) != 0) return false;
        if (value == nullptr || !find_object(value, target) || is_our_own(target)) return false;
        if (target.dynamic == list[index].object.dynamic) return false;
        runtime = list.index_of(target.dynamic);
        return true;
    });
    return runtime;
}

void find_level(const LoadedList& list, std::size_t runtime, BlasLibrary& made) {
    if (runtime == LoadedList::kNone) return;
    made.level = reinterpret_cast<int (*)()>(DynamicSection(list[runtime].object).symbol("omp_get_level"));
}

bool find_openmp(LoadedList& list, std::size_t index, BlasLibrary& made) {
    const std::size_t runtime = openmp_of(list, index);
    if (runtime == LoadedList::kNone) return false;
    find_level(list, runtime, made);
    const DynamicSection section(list[runtime].object);
    made.get = reinterpret_cast<int (*)()>(section.symbol("omp_get_max_threads"));
    made.set = reinterpret_cast<void (*)(int)>(section.symbol("omp_set_num_threads"));
    made.kind = BlasKind::openmp;
    return made.get != nullptr && made.set != nullptr;
}

// In the object itself or in what it needs: Debian's libblas.so.3 holds the routines, libopenblas.so.0 their
// number of threads.
std::size_t identify(LoadedList& list, std::size_t index, BlasLibrary& made) {
    list.order_below(index);
    int (*parallel)() = nullptr;
    for (const OpenBlasNames& names : kOpenBlas) {
        if (!find(list, names.set, made.set) || !find(list, names.get, made.get)) continue;
        const std::size_t holder = list.definition(names.set).index;
        made.kind = BlasKind::process;
        if (!find(list, names.parallel, parallel)) return holder;
        const int way = parallel();
        if (way == 0) return LoadedList::kNone;
        if (way != kOpenBlasOnOpenMp || find_openmp(list, holder, made)) return holder;
        return LoadedList::kNone;
    }
    if (find(list, "MKL_Set_Num_Threads_Local", made.set_local) &&
        find(list, "MKL_Get_Max_Threads", made.get)) {
        made.kind = BlasKind::thread;
        const std::size_t holder = list.definition("MKL_Set_Num_Threads_Local").index;
        find_level(list, openmp_of(list, holder), made);
        return holder;
    }
    return LoadedList::kNone;
}

// The program's own number, cut down while it is above the budget. Only with nobody inside.
int own_number(BlasLibrary& library, int limit) {
    const int now = library.get();
    if (limit <= 0 || library.kind != BlasKind::process || (now <= limit && now != library.cut)) return now;
    const int word = now == library.cut ? library.word : now;
    const int own = std::min(word, limit);
    if (own != now) library.set(own);
    if (own < word && (word != library.word || own != library.cut)) pool_capped(library.name, word, own);
    library.word = word;
    library.cut = own < word ? own : 0;
    return own;
}

// Another number than what was set is the program's own word, spoken meanwhile.
void put_back(BlasLibrary& library) {
    const int width = library.width.load(std::memory_order_relaxed);
    if (library.kind == BlasKind::process && width != 0 && library.get() == width) library.set(library.own);
    library.width.store(0, std::memory_order_relaxed);
}

// Of two numbers of threads; 0 is the program's own, the largest.
int at_least(int wanted, int room) {
    return wanted == 0 || room == 0 ? 0 : std::max(wanted, room);
}

// For the calling thread alone.
int set_for_thread(BlasStay& stay, BlasLibrary& library, int wanted, int limit) {
    const int own = library.get();
    int width = wanted > 0 && wanted < own ? wanted : own;
    if (limit > 0 && width > limit) width = limit;
    if (width >= own) return own;
    stay.width = width;
    if (library.kind == BlasKind::thread) {
        stay.saved = library.set_local(width);
    } else {
        stay.saved = own;
        library.set(width);
    }
    return width;
}

}  // namespace

BlasLibrary* blas_library_in(LoadedList& list, std::size_t index) {
    BlasLibrary found{};
    const std::size_t holder = identify(list, index, found);
    if (holder == LoadedList::kNone) return nullptr;
    const LoadedObject& object = list[holder].object;
    const std::size_t count = known.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i) {
        BlasLibrary& one = libraries[i];
        // Unloaded and loaded anew it may lie where another has been: all that is used must be the same.
        if (one.dynamic == object.dynamic && one.get == found.get && one.set == found.set &&
            one.set_local == found.set_local && one.level == found.level &&
            std::strcmp(one.name, file_name(object)) == 0)
            return &one;
    }
    if (count == libraries.size()) return nullptr;
    BlasLibrary& made = libraries[count];
    made.dynamic = object.dynamic;
    std::snprintf(made.name, sizeof made.name, "%s", file_name(object));
    made.kind = found.kind;
    made.get = found.get;
    made.set = found.set;
    made.set_local = found.set_local;
    made.level = found.level;
    known.store(count + 1, std::memory_order_release);
    return &made;
}

int blas_enter(BlasStay& stay, BlasLibrary& library, int wanted, int limit) noexcept {
    stay = {&library, 0, 0, false};
    if (library.kind == BlasKind::thread) return set_for_thread(stay, library, wanted, limit);
    stay.counted = true;
    std::uint32_t state = library.state.load(std::memory_order_relaxed);
    while (true) {
        if ((state & kChanging) != 0) {  // for some nanoseconds, unless that thread has lost its CPU
            sched_yield();
            state = library.state.load(std::memory_order_relaxed);
        } else if (state > 0) {
            if (!library.state.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) continue;
            const int width = library.width.load(std::memory_order_relaxed);
            if (library.kind == BlasKind::openmp) return set_for_thread(stay, library, width, 0);
            return width > 0 ? width : library.get();
        } else {
            if (!library.state.compare_exchange_weak(state, kChanging, std::memory_order_acquire)) continue;
            if (library.width.load(std::memory_order_relaxed) != 0) put_back(library);  // from before a fork
            const int own = own_number(library, limit);
            int width = own;
            if (library.waiting.load(std::memory_order_relaxed) > 0)
                wanted = at_least(wanted, library.room.load(std::memory_order_relaxed));
            if (library.kind == BlasKind::openmp) {
                width = set_for_thread(stay, library, wanted, limit);
                library.width.store(stay.width, std::memory_order_relaxed);
            } else if (wanted > 0 && wanted < own) {
                // First what has to be put back: a child may be forked at any moment.
                library.own = own;
                library.width.store(width = wanted, std::memory_order_relaxed);
                library.set(width);
            }
            library.state.store(1, std::memory_order_release);
            return width;
        }
    }
}

void blas_leave(const BlasStay& stay) noexcept {
    BlasLibrary& library = *stay.library;
    if (stay.width != 0 && library.get() == stay.width) {
        if (library.kind == BlasKind::thread)
            library.set_local(stay.saved);
        else
            library.set(stay.saved);
    }
    if (!stay.counted) return;
    std::uint32_t state = library.state.load(std::memory_order_relaxed);
    while (state != 0) {  // 0: a child that was forked in the middle of a call
        const int width = library.width.load(std::memory_order_relaxed);
        if ((state & kChanging) != 0) {
            sched_yield();
            state = library.state.load(std::memory_order_relaxed);
        } else if (state > 1 || width == 0) {
            if (library.state.compare_exchange_weak(state, state - 1, std::memory_order_release)) return;
        } else if (library.state.compare_exchange_weak(state, state | kChanging, std::memory_order_acquire)) {
            put_back(library);
            library.state.store(0, std::memory_order_release);
            return;
        }
    }
}

bool blas_in_team(const BlasLibrary& library) noexcept {
    return library.level != nullptr && library.level() > 0;
}

int blas_callers() noexcept {
    const std::size_t count = known.load(std::memory_order_acquire);
    std::uint32_t callers = 0;
    for (std::size_t i = 0; i < count; ++i)
        callers += libraries[i].state.load(std::memory_order_relaxed) & ~kChanging;
    return static_cast<int>(callers);
}

bool blas_is_held_wide(const BlasLibrary& library) noexcept {
    return (library.state.load(std::memory_order_relaxed) & ~kChanging) != 0 &&
           library.width.load(std::memory_order_relaxed) == 0;
}

bool blas_is_held_below(const BlasLibrary& library, int width) noexcept {
    if (library.kind == BlasKind::thread) return false;
    const int held = library.width.load(std::memory_order_relaxed);
    return held != 0 && (width == 0 || held < width) &&
           (library.state.load(std::memory_order_relaxed) & ~kChanging) != 0;
}

void blas_wait_begins(BlasLibrary& library, int width) noexcept {
    library.room.store(width, std::memory_order_relaxed);
    library.waiting.fetch_add(1, std::memory_order_relaxed);
}

void blas_wait_ends(BlasLibrary& library) noexcept {
    library.waiting.fetch_sub(1, std::memory_order_relaxed);
}

void blas_libraries_after_fork() noexcept {
    const std::size_t count = known.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) {
        libraries[i].state.store(0, std::memory_order_relaxed);
        libraries[i].waiting.store(0, std::memory_order_relaxed);
    }
}

void blas_put_back(BlasLibrary& library) noexcept {
    std::uint32_t nobody = 0;
    if (!library.state.compare_exchange_strong(nobody, kChanging, std::memory_order_acquire)) return;
    put_back(library);
    library.state.store(0, std::memory_order_release);
}

}  // namespace corun
