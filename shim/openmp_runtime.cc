// SPDX-License-Identifier: Apache-2.0
#include "shim/openmp_runtime.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "shim/loaded_object.h"
#include "shim/message.h"
#include "shim/openmp_difference.h"
#include "shim/process.h"
#include "shim/resolver.h"
#include "shim/undisturbed.h"

namespace corun {
namespace {

constinit LoadedObject runtime{};  // the one that was preloaded; written before `in_force`
constinit std::atomic<bool> in_force{false};
constinit std::atomic<bool> said{false};  // one message is enough: the rest is in the report
constinit std::array<std::atomic<const void*>, 256> looked_at{};

/// What the loader has bound the OpenMP names of an object to.
struct Bound {
    std::size_t to_runtime = 0;       ///< to the preloaded one, or to us, who ask it
    const char* elsewhere = nullptr;  ///< a name that another runtime has got
    LoadedObject other{};             ///< which
    const char* different = nullptr;  ///< a name that the preloaded one means otherwise
    const char* own = nullptr;        ///< a name that it has itself, and that was given the preloaded one
};

bool is_named_file(const LoadedObject& object, const char* path) {
    struct stat one {};
    struct stat other {};
    return object.name != nullptr && stat(object.name, &one) == 0 && stat(path, &other) == 0 &&
           one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

void note(Bound& bound, const char* name, const LoadedObject& target) {
    if (target.dynamic == runtime.dynamic || is_our_own(target)) {
        ++bound.to_runtime;
        if (bound.different == nullptr && !openmp_difference(name).empty()) bound.different = name;
    } else if (bound.elsewhere == nullptr && is_runtime(target)) {
        bound.elsewhere = name;
        bound.other = target;
    }
}

Bound look(const LoadedObject& object) {
    Bound bound;
    const DynamicSection preloaded(runtime);
    DynamicSection(object).any_relocation([&](const char* name, void* const* slot, const ElfW(Sym) & symbol) {
        const bool defined = symbol.st_shndx != SHN_UNDEF;
        LoadedObject target{};
        const void* const value = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (!is_openmp_name(name) || value == nullptr || !find_object(value, target)) return false;
        if (target.dynamic != object.dynamic) {
            if (defined && (target.dynamic == runtime.dynamic || is_our_own(target))) bound.own = name;
            return note(bound, name, target), false;
        }
        // Bound when it is called: to the preloaded one if that has it.
        if (!defined && preloaded.symbol(name) != nullptr) note(bound, name, runtime);
        return false;
    });
    return bound;
}

void tell(const LoadedObject& object, const Bound& bound) {
    char text[400];
    if (bound.to_runtime > 0 && bound.elsewhere != nullptr) {
        std::snprintf(text, sizeof text, "%s takes %s from %s and the rest from %s", file_name(object),
                      bound.elsewhere, file_name(bound.other), file_name(runtime));
    } else if (bound.different != nullptr) {
        const auto how = openmp_difference(bound.different);
        std::snprintf(text, sizeof text, "%s calls %s, where LLVM's runtime %.*s", file_name(object),
                      bound.different, static_cast<int>(how.size()), how.data());
    } else if (bound.own != nullptr) {
        std::snprintf(text, sizeof text, "%s has %s of its own and is given that of %s", file_name(object),
                      bound.own, file_name(runtime));
    } else {
        if (bound.elsewhere == nullptr) return;
        // RTLD_DEEPBIND: whole as it is, and none of our business.
        std::snprintf(text, sizeof text, "%s keeps %s", file_name(object), file_name(bound.other));
        return lever_in_force("another OpenMP runtime", text, "CORUN_OPENMP_RUNTIME");
    }
    lever_in_force("another OpenMP runtime", text, "CORUN_OPENMP_RUNTIME");
    if (said.exchange(true)) return;
    char sentence[600];
    std::snprintf(
        sentence, sizeof sentence,
        "CORUN_OPENMP_RUNTIME does not suit this program: %s. Results may be wrong or the program may "
        "crash: run it without that option",
        text);
    message(Level::warning, sentence);
}

/// Whether it is the first time.
bool to_be_looked_at(const LoadedObject& object) {
    const auto hash = (reinterpret_cast<std::uintptr_t>(object.dynamic) * 0x9E3779B97F4A7C15ULL) >> 56;
    for (std::size_t i = 0; i < looked_at.size(); ++i) {
        std::atomic<const void*>& place = looked_at[(hash + i) % looked_at.size()];
        const void* there = place.load(std::memory_order_relaxed);
        if (there == nullptr &&
            place.compare_exchange_strong(there, object.dynamic, std::memory_order_relaxed))
            return true;
        if (there == object.dynamic) return false;
    }
    return false;
}

void look_and_tell(const LoadedObject& object) {
    if (object.dynamic == runtime.dynamic || is_our_own(object)) return;
    const Bound bound = look(object);
    if (bound.elsewhere == nullptr && bound.different == nullptr && bound.own == nullptr) return;
    if (!is_runtime(object)) tell(object, bound);
}

// --- all objects
// ---------------------------------------------------------------------------------------------------------

struct Search {
    const char* path;
    LoadedObject first;  ///< the first runtime; at the start the order of loading is that of the search
    bool is_first;       ///< it is the one that is asked for
    bool is_there;
};

int search_runtime(dl_phdr_info* info, std::size_t, void* argument) {
    auto& search = *static_cast<Search*>(argument);
    const LoadedObject object = object_of(*info);
    if (object.dynamic == nullptr || is_our_own(object) || !is_runtime(object)) return 0;
    const bool is_it = is_named_file(object, search.path);
    if (search.first.dynamic == nullptr) search.first = object, search.is_first = is_it;
    search.is_there = search.is_there || is_it;
    return 0;
}

int look_at_new(dl_phdr_info* info, std::size_t, void*) {
    const LoadedObject object = object_of(*info);
    if (object.dynamic != nullptr && to_be_looked_at(object)) look_and_tell(object);
    return 0;
}

// For a lazy name may have been bound since.
int look_again(dl_phdr_info* info, std::size_t, void*) {
    const LoadedObject object = object_of(*info);
    if (object.dynamic != nullptr) look_and_tell(object);
    return 0;
}

void say_without_effect(const Search& search) {
    char sentence[900];
    if (search.is_there)
        std::snprintf(sentence, sizeof sentence, "CORUN_OPENMP_RUNTIME=%s has no effect: %s comes before it",
                      search.path, search.first.name);
    else
        std::snprintf(
            sentence, sizeof sentence,
            "CORUN_OPENMP_RUNTIME=%s has no effect: it is not preloaded, and nothing can bring it in "
            "now. Start the program with corun run, or name it in LD_PRELOAD behind libcorun.so",
            search.path);
    message(Level::warning, sentence);
    unsetenv("CORUN_OPENMP_RUNTIME");  // the children would say the same again
}

void start(const char* path) {
    Search search{path, {}, false, false};
    dl_iterate_phdr(search_runtime, &search);
    if (!search.is_first) return say_without_effect(search);
    runtime = search.first;
    in_force.store(true, std::memory_order_release);
    char effect[200];
    std::snprintf(effect, sizeof effect, "%s under every object", file_name(runtime));
    lever_in_force("another OpenMP runtime", effect, "CORUN_OPENMP_RUNTIME");
    dl_iterate_phdr(look_at_new, nullptr);
    for (const char* name : kPinningVariables) {
        const char* const value = std::getenv(name);
        if (value == nullptr || !pins_threads(value) || said.exchange(true)) continue;
        char sentence[300];
        std::snprintf(
            sentence, sizeof sentence,
            "CORUN_OPENMP_RUNTIME does not go with %s: gcc's runtime, which is loaded too, may pin the "
            "first thread before it looks for CPUs, and all teams have one thread then",
            name);
        message(Level::warning, sentence);
    }
}

}  // namespace

void openmp_runtime_start() noexcept {
    const Options& options = process_options();
    if (!options.set[static_cast<std::size_t>(OptionId::openmp_runtime)]) return;
    const Undisturbed quiet;
    start(options.text[static_cast<std::size_t>(OptionId::openmp_runtime)].data());
}

void openmp_runtime_met(const void* body) noexcept {
    if (!in_force.load(std::memory_order_acquire)) return;
    LoadedObject object{};
    if (!find_object(body, object) || !to_be_looked_at(object)) return;
    const Undisturbed quiet;
    look_and_tell(object);
}

void openmp_runtime_end() noexcept {
    if (!in_force.load(std::memory_order_acquire)) return;
    const Undisturbed quiet;
    dl_iterate_phdr(look_again, nullptr);
}

}  // namespace corun
