// SPDX-License-Identifier: Apache-2.0
#include "shim/runtimes.h"

#include <dlfcn.h>

#include <cstring>

#include "shim/object_mark.h"
#include "shim/undisturbed.h"
#include "shim/without_runtime.h"

namespace corun {
namespace {

using resolver::kSymbols;

// Written while the loader's list is held, and before their number is.
constinit std::array<Runtime, kRuntimes> runtimes{};
constinit std::atomic<std::size_t> runtimes_known{0};
constinit std::array<Runtime, kRuntimes> more{};  // when all the others were used up; has no place in any set
constinit std::array<Runtime, kRuntimes> variants{};
constinit std::size_t variants_known = 0;
constinit std::array<std::array<char, 512>, 2 * kRuntimes> names{};  // the loader's go with the object
constinit const std::uint64_t unmarked = 0;
constinit Runtime none{};
constinit std::atomic<bool> none_made{false};

bool is_same(const Runtime& runtime, const LoadedObject& object) {
    return runtime.object.dynamic == object.dynamic && runtime.object.start == object.start &&
           runtime.object.end == object.end && runtime.mark != nullptr &&
           __atomic_load_n(runtime.mark, __ATOMIC_RELAXED) == runtime.marked;
}

const Runtime* known_runtime(const LoadedObject& object) {
    const std::size_t count = runtimes_known.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < count; ++i)
        if (is_same(runtimes[i], object)) return &runtimes[i];
    if (count == kRuntimes)
        for (const Runtime& one : more)
            if (is_same(one, object)) return &one;
    return nullptr;
}

// A place for one more: of one that was unloaded, if it must be. No thread calls that any more.
Runtime* free_place() {
    for (Runtime& one : more) {
        if (one.mark != nullptr && runtime_loaded(one)) continue;
        resolver::forget(one);
        return &one;
    }
    return nullptr;
}

const char* keep_name(std::size_t index, const char* name) {
    std::strncpy(names[index].data(), name != nullptr ? name : "", names[index].size() - 1);
    return names[index].data();
}

void* function_of(const LoadedList& list, const DynamicSection& section, const char* symbol) {
    const Definition next = list.definition(symbol);
    if (next.address != nullptr && !is_runtime(list[next.index].object)) return next.address;
    if (void* const own = section.symbol(symbol)) return own;
    return next.address != nullptr ? next.address : function_without_runtime(symbol);
}

struct Wanted {
    std::atomic<bool> wanted;
    std::atomic<bool> done;
};
constinit std::array<Wanted, kRuntimes> wanted{};

}  // namespace

constinit std::atomic<bool> runtimes_to_keep{false};

void keep_loaded(const Runtime& runtime) noexcept {
    if (runtime.index >= kRuntimes || runtime.stays ||
        wanted[runtime.index].done.load(std::memory_order_relaxed))
        return;
    wanted[runtime.index].wanted.store(true, std::memory_order_relaxed);
    runtimes_to_keep.store(true, std::memory_order_release);
}

void keep_runtimes() {
    const Undisturbed quiet;
    if (!runtimes_to_keep.exchange(false, std::memory_order_acquire)) return;
    for (std::size_t i = 0; i < kRuntimes; ++i) {
        if (!wanted[i].wanted.exchange(false, std::memory_order_acquire) || !runtime_loaded(runtimes[i]))
            continue;
        if (dlopen(runtimes[i].object.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr)
            wanted[i].done.store(true, std::memory_order_relaxed);
    }
}

const Runtime* runtime_in(LoadedList& list, std::size_t index) noexcept {
    const LoadedObject& object = list[index].object;
    if (const Runtime* runtime = known_runtime(object)) return runtime;
    const std::size_t count = runtimes_known.load(std::memory_order_relaxed);
    Runtime* const made = count < kRuntimes ? &runtimes[count] : free_place();
    if (made == nullptr) return nullptr;
    const ObjectMark mark = object_mark(list, index);
    const DynamicSection section(object);
    made->object = object;
    made->object.name = keep_name(count < kRuntimes ? count : kRuntimes + (made - more.data()), object.name);
    made->kind = section.symbol("__kmpc_fork_call") != nullptr ? RuntimeKind::libomp : RuntimeKind::gomp;
    made->mark = mark.place != nullptr ? mark.place : &unmarked;  // then it is told by its place alone
    made->marked = mark.value;
    made->stays = list.stays(index);
    made->index = static_cast<std::uint32_t>(count);
    made->bit = count < kRuntimes ? std::uint64_t{1} << count : 0;
    list.order_for(LoadedList::kNone);
    for (std::size_t i = 0; i < kSymbols.size(); ++i)
        made->functions[i] = function_of(list, section, kSymbols[i]);
    if (count < kRuntimes) runtimes_known.store(count + 1, std::memory_order_release);
    return made;
}

const Runtime* runtime_with(const Runtime* base, const std::array<void*, kOpenMpFunctions>& functions,
                            const LoadedObject& object) noexcept {
    if (base != nullptr && base->functions == functions) return base;
    for (std::size_t i = 0; i < variants_known; ++i)
        if (variants[i].functions == functions && variants[i].object.dynamic == object.dynamic &&
            variants[i].bit == (base != nullptr ? base->bit : 0))
            return &variants[i];
    if (variants_known == kRuntimes) return base;
    Runtime& made = variants[variants_known];
    made = base != nullptr ? *base : no_runtime();
    made.object = object;
    made.object.name = base != nullptr ? base->object.name : "";
    made.functions = functions;
    ++variants_known;
    return &made;
}

const Runtime& no_runtime() noexcept {
    if (!none_made.load(std::memory_order_acquire)) {
        // Each thread would write the same; nobody else does as the list is held.
        for (std::size_t i = 0; i < kSymbols.size(); ++i)
            none.functions[i] = function_without_runtime(kSymbols[i]);
        none.index = kRuntimes;
        none_made.store(true, std::memory_order_release);
    }
    return none;
}

std::size_t runtime_count() noexcept {
    return runtimes_known.load(std::memory_order_acquire);
}

const Runtime& runtime_at(std::size_t index) noexcept {
    return runtimes[index];
}

bool runtime_loaded(const Runtime& runtime) noexcept {
    LoadedObject object{};
    if (runtime.stays) return true;
    return runtime.mark != nullptr && find_object(runtime.object.dynamic, object) && is_same(runtime, object);
}

bool is_runtime(const LoadedObject& object) noexcept {
    const DynamicSection section(object);
    const auto has = [&](const char* name) { return section.entry(name) != nullptr; };
    return has("omp_get_level") && has("omp_get_max_threads") && has("omp_set_num_threads") &&
           (has("GOMP_parallel") || has("__kmpc_fork_call"));
}

}  // namespace corun
