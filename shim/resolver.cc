// SPDX-License-Identifier: Apache-2.0
#include "shim/resolver.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include "shim/message.h"
#include "shim/undisturbed.h"

namespace corun {

namespace resolver {
constinit std::array<Known, kKnown + kProbes> known{};
}

namespace {

using resolver::kKnown;
using resolver::Known;
using resolver::known;
using resolver::known_index;
using resolver::kProbes;

constexpr std::array<const char*, static_cast<std::size_t>(OpenMp::count)> kSymbols{
#define X(id, symbol, result, parameters) symbol,
    CORUN_GOMP_HOOKED(X) CORUN_KMP_HOOKED(X) CORUN_GOMP_NEEDED(X)
#undef X
};

// Every runtime defines it and nobody else cares to.
constexpr char kProbe[] = "omp_get_level";

constinit std::array<Runtime, kRuntimes> runtimes{};
constinit std::atomic<std::size_t> runtimes_known{0};

// Held for a few stores: no call that could come back to a hook is made under it.
constinit std::atomic_flag busy = ATOMIC_FLAG_INIT;

class Holder {
  public:
    Holder() {
        for (int i = 0; busy.test_and_set(std::memory_order_acquire); ++i)
            if (i > 100) sched_yield();
    }
    ~Holder() { busy.clear(std::memory_order_release); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
};

// --- a caller without a runtime
// ----------------------------------------------------------------------------------

// A weak reference to a function of OpenMP is no longer null when we are there, so the program believes in a
// runtime that it does not have. It gets the answers of one that has a single thread.
int one_thread() {
    return 1;
}
int no_level() {
    return 0;
}
void set_nothing() {}

// The loader says the same and ends the program in the same way.
[[noreturn]] void missing() {
    message(Level::error, "the program calls an OpenMP function that its runtime does not have");
    _exit(127);
}

void* any_function(OpenMp function) {
    switch (function) {
        case OpenMp::get_max:
        case OpenMp::get_max_fortran:
        case OpenMp::get_procs:
        case OpenMp::get_procs_fortran:
        case OpenMp::team_number:
        case OpenMp::team_number_fortran:
            return reinterpret_cast<void*>(one_thread);
        case OpenMp::set_threads:
        case OpenMp::set_threads_fortran:
        case OpenMp::set_threads_fortran_8:
            return reinterpret_cast<void*>(set_nothing);
        case OpenMp::get_level:
        case OpenMp::thread_num:
        case OpenMp::thread_num_fortran:
        case OpenMp::in_parallel:
        case OpenMp::in_parallel_fortran:
            return reinterpret_cast<void*>(no_level);
        default:
            return reinterpret_cast<void*>(missing);
    }
}

const Runtime& no_runtime() {
    static Runtime none{};
    static std::atomic<bool> made{false};
    if (!made.load(std::memory_order_acquire)) {
        const Holder holder;
        for (std::size_t i = 0; i < kSymbols.size(); ++i)
            none.functions[i] = any_function(static_cast<OpenMp>(i));
        made.store(true, std::memory_order_release);
    }
    return none;
}

// --- runtimes
// ------------------------------------------------------------------------------------------------------

// The definition after us in the global scope, in an object that is not ours.
void* next_in_scope(const char* symbol, LoadedObject& object) {
    void* function = dlsym(RTLD_NEXT, symbol);
    if (function == nullptr) {
        dlerror();  // the program is not to find a failure of ours
        return nullptr;
    }
    return find_object(function, object) && !is_our_own(object) ? function : nullptr;
}

// Another preloaded tool may stand between the program and the runtime; it stays there.
void* function_of(const DynamicSection& section, std::size_t index) {
    LoadedObject other{};
    void* const next = next_in_scope(kSymbols[index], other);
    if (next != nullptr && !is_runtime(other)) return next;
    if (void* const own = section.symbol(kSymbols[index])) return own;
    return next != nullptr ? next : reinterpret_cast<void*>(missing);
}

// Callers of an unloaded runtime are unloaded with it, but its address may come back for another copy of it.
bool stay_loaded(const LoadedObject& object) {
    if (object.name == nullptr || object.name[0] == '\0') return true;  // the program itself
    return dlopen(object.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

const Runtime* known_runtime(const LoadedObject& object) {
    const std::size_t count = runtimes_known.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i)
        if (runtimes[i].object.dynamic == object.dynamic) return &runtimes[i];
    return nullptr;
}

const Runtime* register_runtime(const LoadedObject& object) {
    if (const Runtime* runtime = known_runtime(object)) return runtime;
    if (!stay_loaded(object)) dlerror();
    const DynamicSection section(object);
    Runtime made{};
    made.object = object;
    made.kind = section.symbol("__kmpc_fork_call") != nullptr ? RuntimeKind::libomp : RuntimeKind::gomp;
    for (std::size_t i = 0; i < kSymbols.size(); ++i) made.functions[i] = function_of(section, i);
    const Holder holder;
    if (const Runtime* runtime = known_runtime(object)) return runtime;
    const std::size_t index = runtimes_known.load(std::memory_order_relaxed);
    // Each copy takes of the little room that the loader keeps for such libraries: there cannot be as many.
    if (index == kRuntimes) return nullptr;
    made.index = static_cast<std::uint32_t>(index);
    made.bit = std::uint64_t{1} << index;
    runtimes[index] = made;
    runtimes_known.store(index + 1, std::memory_order_release);
    return &runtimes[index];
}

// --- which one a caller has
// --------------------------------------------------------------------------------------

struct Answer {
    const Runtime* runtime = nullptr;
    void* const* proof = nullptr;  ///< see Known
    const void* value = nullptr;
};

bool is_openmp(const char* name) {
    return std::strncmp(name, "GOMP_", 5) == 0 || std::strncmp(name, "omp_", 4) == 0 ||
           std::strncmp(name, "__kmpc_", 7) == 0;
}

// A name that we do not hook and that the loader has bound already says it all.
Answer by_relocations(const LoadedObject& caller) {
    Answer answer;
    const DynamicSection section(caller);
    const void* refused = nullptr;
    section.any_relocation([&](const char* name, void* const* slot, bool defined) {
        if (!is_openmp(name)) return false;
        const void* const value = __atomic_load_n(slot, __ATOMIC_RELAXED);
        LoadedObject target{};
        if (value == nullptr || !find_object(value, target) || is_our_own(target)) return false;
        // The way to the loader, not bound yet, unless it is the object's own definition.
        if (target.dynamic == caller.dynamic && (!defined || section.symbol(name) != value)) return false;
        if (target.dynamic == refused) return false;
        if (!is_runtime(target)) return refused = target.dynamic, false;
        answer = {register_runtime(target), slot, value};
        return answer.runtime != nullptr;
    });
    return answer;
}

const Runtime* holder_of(void* function) {
    LoadedObject object{};
    if (function == nullptr || !find_object(function, object)) return nullptr;
    return !is_our_own(object) && is_runtime(object) ? register_runtime(object) : nullptr;
}

// The loader is still to bind some of the object's functions when they are called.
bool is_bound_lazily(const LoadedObject& object) {
    return DynamicSection(object).any_relocation([&](const char*, void* const* slot, bool defined) {
        return !defined && object.holds(__atomic_load_n(slot, __ATOMIC_RELAXED));
    });
}

const Runtime* by_handle(const LoadedObject& caller) {
    if (caller.name == nullptr || caller.name[0] == '\0') return nullptr;  // the global scope is its own
    void* const handle = dlopen(caller.name, RTLD_LAZY | RTLD_NOLOAD);
    void* const function = handle != nullptr ? dlsym(handle, kProbe) : nullptr;
    if (function == nullptr) dlerror();
    const Runtime* const runtime = holder_of(function);
    if (handle != nullptr) dlclose(handle);
    return runtime;
}

// Nothing is bound yet, or all its names are hooked: what the loader finds, or has found when it bound them.
// Whoever prefers his own scope to the global one (RTLD_DEEPBIND) and comes to us all the same has no runtime
// in it.
const Runtime* by_scope(const LoadedObject* caller) {
    LoadedObject object{};
    const Runtime* const next = holder_of(next_in_scope(kProbe, object));
    if (caller == nullptr) return next;
    const bool was_there = next != nullptr && !loaded_before(*caller, next->object);
    if (was_there || (next != nullptr && is_bound_lazily(*caller))) return next;
    const Runtime* const own = by_handle(*caller);
    return own != nullptr ? own : next;
}

// --- what is kept
// --------------------------------------------------------------------------------------------------

void* const kWord = nullptr;

Known& place_for(const LoadedObject& caller) {
    Known* const first = &known[known_index(caller.dynamic)];
    Known* free = nullptr;
    for (Known* one = first; one != first + kProbes; ++one) {
        const void* const dynamic = one->dynamic.load(std::memory_order_relaxed);
        if (dynamic == caller.dynamic) return *one;
        if (dynamic == nullptr && free == nullptr) free = one;
    }
    return free != nullptr ? *free : *first;
}

void keep(const LoadedObject& caller, const Answer& answer, const LoadCounters& counters) {
    const Holder holder;
    Known& one = place_for(caller);
    const std::uint64_t version = one.version.load(std::memory_order_relaxed);
    one.version.store(version + 1, std::memory_order_relaxed);
    one.dynamic.store(caller.dynamic, std::memory_order_release);
    one.start.store(caller.start, std::memory_order_release);
    one.end.store(caller.end, std::memory_order_release);
    one.proof.store(answer.proof, std::memory_order_release);
    one.value.store(answer.value, std::memory_order_release);
    one.runtime.store(answer.runtime, std::memory_order_release);
    one.loaded.store(counters.loaded, std::memory_order_release);
    one.unloaded.store(counters.unloaded, std::memory_order_release);
    one.version.store(version + 2, std::memory_order_release);
}

// Valid by the counters; from time to time, whether the loader has bound a name meanwhile.
const Runtime* unchanged(const LoadedObject& caller) {
    Known* one = &known[known_index(caller.dynamic)];
    for (std::size_t i = 0; i < kProbes; ++i, ++one) {
        if (one->dynamic.load(std::memory_order_relaxed) != caller.dynamic) continue;
        const std::uint64_t version = one->version.load(std::memory_order_acquire);
        const Runtime* const runtime = one->runtime.load(std::memory_order_acquire);
        const LoadCounters then{one->loaded.load(std::memory_order_acquire),
                                one->unloaded.load(std::memory_order_acquire)};
        const bool whole = one->proof.load(std::memory_order_acquire) == &kWord &&
                           one->dynamic.load(std::memory_order_acquire) == caller.dynamic &&
                           (version & 1U) == 0 && one->version.load(std::memory_order_relaxed) == version;
        if (!whole || then != load_counters()) return nullptr;
        const std::uint64_t asked = one->asked.fetch_add(1, std::memory_order_relaxed) + 1;
        return (asked & (asked - 1)) != 0 ? runtime : nullptr;
    }
    return nullptr;
}

const Runtime& find_anew(const LoadedObject& caller) {
    const LoadCounters counters = load_counters();
    Answer answer = by_relocations(caller);
    if (answer.runtime == nullptr) {
        answer.runtime = by_scope(&caller);
        if (answer.runtime == nullptr) answer.runtime = &no_runtime();
        answer.proof = &kWord;
        // The program itself is never unloaded, and neither is a runtime.
        const bool lasting = (caller.name != nullptr && caller.name[0] == '\0') ||
                             answer.runtime->object.dynamic == caller.dynamic;
        answer.value = lasting && answer.runtime->kind != RuntimeKind::none ? kWord : &kWord;
    }
    keep(caller, answer, counters);
    return *answer.runtime;
}

}  // namespace

const Runtime& resolver::find(const void* caller) noexcept {
    LoadedObject object{};
    if (!find_object(caller, object) || is_our_own(object)) {  // code made while the program runs
        const Undisturbed quiet;
        const Runtime* const runtime = by_scope(nullptr);
        return runtime != nullptr ? *runtime : no_runtime();
    }
    if (const Runtime* const runtime = unchanged(object)) return *runtime;
    const Undisturbed quiet;
    return find_anew(object);
}

void resolver::after_fork() noexcept {
    busy.clear();
    for (Known& one : known) {
        if ((one.version.load(std::memory_order_relaxed) & 1U) == 0) continue;
        one.dynamic.store(nullptr, std::memory_order_relaxed);
        one.version.fetch_add(1, std::memory_order_relaxed);
    }
}

std::size_t runtime_count() noexcept {
    return runtimes_known.load(std::memory_order_acquire);
}

const Runtime& runtime_at(std::size_t index) noexcept {
    return runtimes[index];
}

bool is_runtime(const LoadedObject& object) noexcept {
    const DynamicSection section(object);
    const auto has = [&](const char* name) { return section.symbol(name) != nullptr; };
    return has(kProbe) && has("omp_get_max_threads") && has("omp_set_num_threads") &&
           (has("GOMP_parallel") || has("__kmpc_fork_call"));
}

}  // namespace corun
