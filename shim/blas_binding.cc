// SPDX-License-Identifier: Apache-2.0
#include "shim/blas_binding.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "shim/loaded_list.h"
#include "shim/message.h"
#include "shim/object_mark.h"
#include "shim/undisturbed.h"

namespace corun {
namespace {

constexpr std::size_t kBindings = 4096;
constexpr int kNotFound = 127;  // the loader's own exit code

// Both are written while the list is held.
constinit std::array<BlasBinding, kBindings> bindings{};
constinit std::size_t bindings_made = 0;
// For those that there is no room for.
constinit thread_local BlasBinding unkept __attribute__((tls_model("initial-exec"))) = {};
constexpr std::uint64_t kUnmarked = 0;  // watched where an object can have no mark: its place tells it

bool imports(const LoadedObject& object, const char* symbol) {
    return DynamicSection(object).any_relocation(
        [&](const char* name, void* const*, const auto&) { return std::strcmp(name, symbol) == 0; });
}

// The loader had its own time to look: a library that came into the global scope later is not the one that an
// object was given. Another name of both libraries, which is not ours to hook, tells which one it was.
std::size_t given_instead(const LoadedList& list, std::size_t caller, std::size_t found, const char* symbol) {
    const DynamicSection there(list[found].object);
    std::size_t other = LoadedList::kNone;
    const LoadedObject object = list[caller].object;
    DynamicSection(object).any_relocation([&](const char* name, void* const* slot, const auto&) {
        LoadedObject target{};
        const void* const value = __atomic_load_n(slot, __ATOMIC_RELAXED);
        if (value == nullptr || !find_object(value, target) || is_our_own(target)) return false;
        if (target.dynamic == object.dynamic || target.dynamic == list[found].object.dynamic) return false;
        const DynamicSection section(target);
        if (there.symbol(name) == nullptr || section.symbol(name) != value) return false;
        if (section.symbol(symbol) == nullptr) return false;
        other = list.index_of(target.dynamic);
        return other != LoadedList::kNone;
    });
    return other;
}

Definition definition_for(LoadedList& list, std::size_t caller, const char* symbol) {
    list.order_for(caller);
    const Definition found = list.definition(symbol);
    if (found.address == nullptr) return found;
    const std::size_t other = given_instead(list, caller, found.index, symbol);
    if (other == LoadedList::kNone) return found;
    return {DynamicSection(list[other].object).symbol(symbol), other};
}

// Behind a tail call the return address is the caller's caller's, who does not know the name: whoever imports
// it and is called from there. One of them says it for all but in a process with several libraries that share
// names and are called in this way both.
Definition definition_for_importers(LoadedList& list, const char* symbol) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (i == list.own() || !imports(list[i].object, symbol)) continue;
        const Definition found = definition_for(list, i, symbol);
        if (found.address != nullptr) return found;
    }
    list.order_for(LoadedList::kNone);
    Definition found = list.definition(symbol);
    for (std::size_t i = 0; i < list.size() && found.address == nullptr; ++i)
        if (i != list.own()) found = {DynamicSection(list[i].object).symbol(symbol), i};
    return found;
}

void watch(const LoadedList& list, std::size_t index, std::size_t which, BlasBinding& binding) {
    const ObjectMark mark = object_mark(list, index);
    binding.places[which] = mark.place != nullptr ? mark.place : &kUnmarked;
    binding.values[which] = mark.place != nullptr ? mark.value : kUnmarked;
}

bool look_up(LoadedList& list, const char* symbol, const void* caller, BlasBinding& binding) {
    binding = {};
    LoadedObject object{};
    const bool in_object = find_object(caller, object);
    const std::size_t index = in_object ? list.index_of(object.dynamic) : LoadedList::kNone;
    const bool by_name = index != LoadedList::kNone && imports(list[index].object, symbol);
    Definition found{};
    if (by_name) found = definition_for(list, index, symbol);
    if (found.address == nullptr) found = definition_for_importers(list, symbol);
    if (found.address == nullptr) return false;
    binding.caller = object;
    binding.function = found.address;
    LoadedObject target{};
    find_object(found.address, target);
    binding.target = target;
    if (index != LoadedList::kNone) {
        list.order_below(index);
        binding.keeps_target = list[found.index].in_order || list.stays(found.index);
    }
    binding.library = blas_library_in(list, found.index);
    watch(list, found.index, 1, binding);
    if (index != LoadedList::kNone) watch(list, index, 0, binding);
    if (!in_object) binding.places[0] = &kUnmarked, binding.values[0] = kUnmarked;
    return index != LoadedList::kNone || !in_object;
}

const BlasBinding* keep(BlasCallers& callers, const BlasBinding& binding) {
    if (bindings_made == kBindings) return nullptr;
    BlasBinding& kept = bindings[bindings_made++];
    kept = binding;
    const std::size_t first = blas_caller_place(binding.caller.dynamic);
    auto* place = &callers[first];
    for (std::size_t i = 0; i < kBlasCallers; ++i) {
        auto& one = callers[(first + i) % kBlasCallers];
        const BlasBinding* const known = one.load(std::memory_order_relaxed);
        if (known != nullptr && known->caller.dynamic != binding.caller.dynamic) continue;
        place = &one;
        break;
    }
    place->store(&kept, std::memory_order_release);
    return &kept;
}

[[noreturn]] void end_without(const char* symbol) {
    char text[200];
    std::snprintf(text, sizeof text, "%s is called, and nothing that the program has loaded defines it",
                  symbol);
    message(Level::error, text);
    _exit(kNotFound);
}

}  // namespace

const BlasBinding& blas_find(BlasCallers& callers, const char* symbol, const void* caller) {
    const Undisturbed quiet;
    const BlasBinding* kept = nullptr;
    BlasBinding binding{};
    with_loaded_list([&](LoadedList& list) {
        if (look_up(list, symbol, caller, binding)) kept = keep(callers, binding);
    });
    if (binding.function == nullptr) end_without(symbol);
    if (kept != nullptr) return *kept;
    unkept = binding;
    return unkept;
}

}  // namespace corun
