// SPDX-License-Identifier: Apache-2.0
#include "shim/resolver.h"

#include <cstring>

#include "shim/loaded_list.h"
#include "shim/object_mark.h"
#include "shim/runtimes.h"
#include "shim/undisturbed.h"

namespace corun {

namespace resolver {
constinit std::array<Known, kKnown + kProbes> known{};
constinit thread_local const Runtime* last __attribute__((tls_model("initial-exec"))) = nullptr;
}  // namespace resolver

namespace {

using namespace resolver;  // NOLINT(google-build-using-namespace): the other half of its header

using Set = std::array<std::uint64_t, kSetWords>;

bool holds(const Set& set, OpenMp function) {
    return (set[set_word(function)] & set_bit(function)) != 0;
}

/// What is known of an object, out of the table.
struct Seen {
    std::array<const Runtime*, kFamilies> runtimes;
    const Runtime* self;
    Set imports;
    Set asked;
};

// Who answers where the caller's object does not say it: written while the list is held.
constinit std::atomic<const Runtime*> agreed{nullptr};  // the one that all who are known have
constinit std::array<std::atomic<const Runtime*>, kFamilies> otherwise{};

constinit std::atomic<std::uint64_t> reached{0};  // bits of those that serve a caller

void note_reached(const Runtime* runtime) {
    if (runtime != nullptr) reached.fetch_or(runtime->bit, std::memory_order_relaxed);
}

// --- what is kept
// --------------------------------------------------------------------------------------------------

constinit const void* const nothing_to_watch = nullptr;

// An object without room for a mark (its variables fill their last page) is told by its place and its name,
// which is slower. Loaded anew it is the same, and it is not seen if something global came in between.
constinit const void* const no_mark = nullptr;

const void* name_mark(const LoadedObject& object) {
    std::uintptr_t hash = 5381;
    for (const char* at = object.name; at != nullptr && *at != '\0'; ++at)
        hash = hash * 33 + static_cast<unsigned char>(*at);
    return reinterpret_cast<const void*>(hash | 1U);
}

bool read(const Known& one, const LoadedObject& object, Seen& seen) {
    const std::uint64_t version = one.version.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < kFamilies; ++i)
        seen.runtimes[i] = one.runtimes[i].load(std::memory_order_acquire);
    seen.self = one.self.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < kSetWords; ++i) {
        seen.imports[i] = one.imports[i].load(std::memory_order_acquire);
        seen.asked[i] = one.asked[i].load(std::memory_order_acquire);
    }
    std::array<const void* const*, 2> places;
    std::array<const void*, 2> values;
    for (std::size_t i = 0; i < places.size(); ++i) {
        places[i] = one.words[i].place.load(std::memory_order_acquire);
        values[i] = one.words[i].value.load(std::memory_order_acquire);
    }
    const bool same = one.dynamic.load(std::memory_order_acquire) == object.dynamic &&
                      one.start.load(std::memory_order_acquire) == object.start &&
                      one.end.load(std::memory_order_acquire) == object.end;
    if (!same || (version & 1U) != 0 || one.version.load(std::memory_order_relaxed) != version) return false;
    const void* const mark =
        places[0] == &no_mark ? name_mark(object) : __atomic_load_n(places[0], __ATOMIC_RELAXED);
    return mark == values[0] && __atomic_load_n(places[1], __ATOMIC_RELAXED) == values[1];
}

bool recall(const LoadedObject& object, Seen& seen) {
    const Known* one = &known[known_index(object.dynamic)];
    for (std::size_t i = 0; i < kProbes; ++i, ++one)
        if (one->dynamic.load(std::memory_order_relaxed) == object.dynamic) return read(*one, object, seen);
    return false;
}

Known& place_for(const LoadedObject& object) {
    Known* const first = &known[known_index(object.dynamic)];
    Known* free = nullptr;
    for (Known* one = first; one != first + kProbes; ++one) {
        const void* const dynamic = one->dynamic.load(std::memory_order_relaxed);
        if (dynamic == object.dynamic) return *one;
        if (dynamic == nullptr && free == nullptr) free = one;
    }
    return free != nullptr ? *free : *first;
}

// One writer at a time: the list is held.
void keep(const LoadedObject& object, const Seen& seen, const ObjectMark& mark, const void* const* slot) {
    Known& one = place_for(object);
    const std::uint64_t version = one.version.load(std::memory_order_relaxed);
    one.version.store(version | 1U, std::memory_order_relaxed);
    one.dynamic.store(object.dynamic, std::memory_order_release);
    one.start.store(object.start, std::memory_order_release);
    one.end.store(object.end, std::memory_order_release);
    const bool marked = mark.place != nullptr;
    one.words[0].place.store(marked ? reinterpret_cast<const void* const*>(mark.place) : &no_mark,
                             std::memory_order_release);
    one.words[0].value.store(marked ? reinterpret_cast<const void*>(mark.value) : name_mark(object),
                             std::memory_order_release);
    one.words[1].place.store(slot != nullptr ? slot : &nothing_to_watch, std::memory_order_release);
    one.words[1].value.store(slot != nullptr ? __atomic_load_n(slot, __ATOMIC_RELAXED) : nullptr,
                             std::memory_order_release);
    for (std::size_t i = 0; i < kFamilies; ++i)
        one.runtimes[i].store(seen.runtimes[i], std::memory_order_release);
    one.self.store(seen.self, std::memory_order_release);
    for (std::size_t i = 0; i < kSetWords; ++i) {
        one.imports[i].store(seen.imports[i], std::memory_order_release);
        one.asked[i].store(seen.asked[i], std::memory_order_release);
    }
    one.version.store((version | 1U) + 1, std::memory_order_release);
}

void empty(Known& one) {
    const std::uint64_t version = one.version.load(std::memory_order_relaxed);
    one.version.store(version | 1U, std::memory_order_relaxed);
    one.dynamic.store(nullptr, std::memory_order_release);
    one.version.store((version | 1U) + 1, std::memory_order_release);
}

// --- what an object's words say
// --------------------------------------------------------------------------------------------------

bool is_openmp(const char* name) {
    return std::strncmp(name, "GOMP_", 5) == 0 || std::strncmp(name, "omp_", 4) == 0 ||
           std::strncmp(name, "__kmpc_", 7) == 0;
}

std::size_t function_index(const char* name) {
    std::size_t i = 0;
    while (i < kOpenMpFunctions && std::strcmp(kSymbols[i], name) != 0) ++i;
    return i;
}

/// Of an object's relocations.
struct Words {
    Set imports{};                                  ///< names that we know of
    Set weak{};                                     ///< those that may be missing
    std::array<const Runtime*, kFamilies> bound{};  ///< to which the loader has bound a name of each family
    const void* const* unbound = nullptr;           ///< one that it is still to bind
};

// A name that we do not hook and that the loader has bound says it all. Ours may be bound past us too.
Words words_of(LoadedList& list, const LoadedObject& object) {
    Words words;
    const DynamicSection section(object);
    section.any_relocation([&](const char* name, void* const* slot, const ElfW(Sym) & symbol) {
        if (!is_openmp(name)) return false;
        const std::size_t index = function_index(name);
        if (index < kOpenMpFunctions) {
            const auto function = static_cast<OpenMp>(index);
            words.imports[set_word(function)] |= set_bit(function);
            if (DynamicSection::is_weak_reference(symbol))
                words.weak[set_word(function)] |= set_bit(function);
        }
        const void* const value = __atomic_load_n(slot, __ATOMIC_RELAXED);
        LoadedObject target{};
        if (value == nullptr || !find_object(value, target) || is_our_own(target)) return false;
        const bool own = target.dynamic == object.dynamic;
        if (own &&
            (symbol.st_shndx == SHN_UNDEF || section.symbol(name) != value)) {  // the way to the loader
            if (words.unbound == nullptr && index == kOpenMpFunctions) words.unbound = slot;
            return false;
        }
        const Runtime*& bound = words.bound[family_of_name(name)];
        if (bound != nullptr || !is_runtime(target)) return false;
        const std::size_t at = list.index_of(target.dynamic);
        if (at != LoadedList::kNone) bound = runtime_in(list, at);
        return false;
    });
    return words;
}

bool serves(const Runtime& runtime, std::size_t family) {
    return family != family_of_name("__kmpc_") || runtime.kind == RuntimeKind::libomp;
}

// A bound name of another family, if all of those say the same.
const Runtime* only_one(const Words& words, std::size_t family) {
    const Runtime* one = nullptr;
    for (const Runtime* bound : words.bound) {
        if (one != nullptr && bound != nullptr && bound != one) return nullptr;
        if (bound != nullptr) one = bound;
    }
    return one != nullptr && serves(*one, family) ? one : nullptr;
}

/// What the names of a family lead to.
struct Found {
    const Runtime* runtime = nullptr;
    std::array<std::size_t, 2> objects{LoadedList::kNone, LoadedList::kNone};  ///< that its functions lie in
    bool lasting = true;  ///< whenever the loader had looked it would have been the same
};

// In the order in which the loader would have looked for the caller. Names that nobody has are taken out of
// the set.
Found by_order(LoadedList& list, std::size_t family, const Words& words, Set& imports) {
    Found result;
    const Runtime* base = nullptr;
    bool without = false;
    std::array<void*, kOpenMpFunctions> given{};
    for (std::size_t i = 0; i < kOpenMpFunctions; ++i) {
        const auto function = static_cast<OpenMp>(i);
        if (kFamily[i] != family || !holds(words.imports, function)) continue;
        const Definition found = list.definition(kSymbols[i]);
        result.lasting = result.lasting && found.address != nullptr && found.index < list.initial();
        if (found.address == nullptr) {
            // Bound to nothing without us, which the program would have seen: no runtime. Any other name the
            // loader has found, by a way that we do not know.
            without = without || holds(words.weak, function);
            if (!holds(words.weak, function)) imports[set_word(function)] &= ~set_bit(function);
        } else if (is_runtime(list[found.index].object)) {
            if (base == nullptr) base = runtime_in(list, result.objects[0] = found.index);
        } else {
            given[i] = found.address;
            result.objects[1] = found.index;
        }
    }
    if (base == nullptr && !without && result.objects[1] == LoadedList::kNone) return result;
    auto functions = base != nullptr ? base->functions : no_runtime().functions;
    for (std::size_t i = 0; i < kOpenMpFunctions; ++i)
        if (given[i] != nullptr) functions[i] = given[i];
    result.runtime = &no_runtime();
    if (base != nullptr || result.objects[1] != LoadedList::kNone)
        result.runtime =
            runtime_with(base, functions, base != nullptr ? base->object : list[result.objects[1]].object);
    return result;
}

// The loader keeps what an object needs, and would have kept what it had bound it to. That is us.
bool may_go_first(LoadedList& list, std::size_t index, const Found& found) {
    list.order_below(index);
    for (const std::size_t object : found.objects)
        if (object != LoadedList::kNone && !list[object].in_order && !list.stays(object)) return true;
    return false;
}

// An object that is not in the table, or not with this function.
void look_at(LoadedList& list, std::size_t index, OpenMp function, Seen& seen) {
    const LoadedObject object = list[index].object;
    Seen before{};
    const bool again = recall(object, before);
    const Words words = words_of(list, object);
    seen = {};
    seen.imports = words.imports;
    seen.self = is_runtime(object) ? runtime_in(list, index) : nullptr;
    bool lasting = true;
    for (std::size_t family = 0; family < kFamilies; ++family) {
        seen.runtimes[family] =
            words.bound[family] != nullptr ? words.bound[family] : only_one(words, family);
        bool wanted = false;
        for (std::size_t i = 0; i < kOpenMpFunctions; ++i)
            wanted = wanted || (kFamily[i] == family && holds(words.imports, static_cast<OpenMp>(i)));
        if (seen.runtimes[family] != nullptr || !wanted) continue;
        list.order_for(index);
        const Found found = by_order(list, family, words, seen.imports);
        lasting = lasting && found.lasting;
        seen.runtimes[family] = found.runtime;
        if (!may_go_first(list, index, found)) continue;
        keep_loaded(*found.runtime);
        seen.runtimes[family] = to_be_checked(found.runtime);
    }
    // What is bound only when it is first used was given what there was then: each function on its own.
    const bool open = !lasting && DynamicSection(object).bound_lazily();
    seen.asked.fill(~std::uint64_t{0});
    if (open) {
        seen.asked = again && before.runtimes == seen.runtimes ? before.asked : Set{};
        seen.asked[set_word(function)] |= set_bit(function);
        for (std::size_t i = 0; i < kSetWords; ++i) seen.imports[i] &= seen.asked[i];
    }
    for (const Runtime* one : seen.runtimes) note_reached(without_check(one));
    for (const Runtime* one : seen.runtimes)
        if (one != nullptr && one != agreed.load(std::memory_order_relaxed)) {
            agreed.store(nullptr, std::memory_order_relaxed);
            for (auto& other : otherwise) other.store(nullptr, std::memory_order_relaxed);
        }
    keep(object, seen, object_mark(list, index), words.unbound);
}

// Of those that the program started with: it imports names of ours, and all of them are found in such ones.
bool is_settled(LoadedList& list, std::size_t index) {
    const Words words = words_of(list, list[index].object);
    list.order_for(index);
    bool any = false;
    for (std::size_t i = 0; i < kOpenMpFunctions; ++i) {
        if (!holds(words.imports, static_cast<OpenMp>(i))) continue;
        const Definition found = list.definition(kSymbols[i]);
        if (found.address == nullptr || found.index >= list.initial()) return false;
        any = true;
    }
    return any;
}

// --- which one it is
// --------------------------------------------------------------------------------------------------

bool is_usable(const Runtime* runtime) {
    return runtime != nullptr && runtime->bit != 0 && runtime_loaded(*runtime);
}

// One that may have been unloaded before its caller is looked at first.
const Runtime* checked(const Runtime* runtime) {
    if (!is_to_be_checked(runtime)) return runtime;
    const Runtime* const one = without_check(runtime);
    return is_usable(one) ? one : nullptr;
}

// `named` is the object that surely opens the region, `there` that of the return address.
const Runtime* decide(const Seen& named, const Seen& there, OpenMp function) {
    const std::size_t family = kFamily[static_cast<std::size_t>(function)];
    if (holds(named.imports, function)) return checked(named.runtimes[family]);
    if (holds(there.imports, function)) return checked(there.runtimes[family]);
    if (named.runtimes[family] != nullptr) return checked(named.runtimes[family]);
    for (const Runtime* one : named.runtimes)
        if (one != nullptr) return checked(one);
    if (named.self != nullptr) return named.self;
    if (there.self != nullptr) return there.self;  // it has called what ends in this call
    const Runtime* const all = agreed.load(std::memory_order_acquire);
    if (is_usable(all)) return all;
    const Runtime* const other = otherwise[family].load(std::memory_order_acquire);
    if (other == nullptr) return nullptr;
    return is_usable(last) ? last : is_usable(other) ? other : nullptr;
}

// What those have that are known: nullptr if not all the same.
const Runtime* agreed_by_known(const LoadedList& list) {
    const Runtime* one = nullptr;
    for (const Known& entry : known) {
        const std::size_t index = list.index_of(entry.dynamic.load(std::memory_order_relaxed));
        Seen seen{};
        if (index == LoadedList::kNone || !read(entry, list[index].object, seen)) continue;
        for (const Runtime* tagged : seen.runtimes) {
            const Runtime* const runtime = without_check(tagged);
            if (runtime == nullptr || runtime->bit == 0 || runtime == one) continue;
            if (one != nullptr) return nullptr;
            one = runtime;
        }
    }
    return one;
}

// Nobody knows who calls.
const Runtime& anybodys(LoadedList& list, OpenMp function) {
    const Runtime* only = nullptr;
    std::size_t count = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
        if (i == list.own() || !is_runtime(list[i].object)) continue;
        if (const Runtime* const one = runtime_in(list, i)) only = count++ == 0 ? one : only;
    }
    const Runtime* const all = count == 1 ? only : count > 1 ? agreed_by_known(list) : nullptr;
    if (all != nullptr) return agreed.store(all, std::memory_order_release), *all;
    const std::size_t family = kFamily[static_cast<std::size_t>(function)];
    list.order_for(LoadedList::kNone);
    Words any{};
    any.imports.fill(~std::uint64_t{0});
    Set imports = any.imports;
    const Runtime* next = by_order(list, family, any, imports).runtime;
    if (next == nullptr) next = only != nullptr ? only : &no_runtime();
    otherwise[family].store(next, std::memory_order_release);
    return is_usable(last) ? *last : *next;
}

// False if it is to be looked at: an object that is not known.
bool see(const void* address, OpenMp function, Seen& seen) {
    LoadedObject object{};
    if (address == nullptr || !find_object(address, object) || is_our_own(object)) return true;
    if (!recall(object, seen)) return false;
    const Runtime* const one = seen.runtimes[kFamily[static_cast<std::size_t>(function)]];
    return holds(seen.asked, function) && (!is_to_be_checked(one) || is_usable(without_check(one)));
}

void see_or_look(LoadedList& list, const void* address, OpenMp function, Seen& seen) {
    if (see(address, function, seen)) return;
    LoadedObject object{};
    const std::size_t index =
        find_object(address, object) ? list.index_of(object.dynamic) : LoadedList::kNone;
    if (index != LoadedList::kNone)
        look_at(list, index, function, seen);
    else
        seen = {};
}

const Runtime& answer(LoadedList& list, const void* named, const void* caller, OpenMp function) {
    for (std::size_t i = 0; i < list.size(); ++i)
        if (i != list.own() && is_runtime(list[i].object)) runtime_in(list, i);
    Seen here{};
    Seen there{};
    see_or_look(list, named, function, here);
    see_or_look(list, caller, function, there);
    const Runtime* const runtime = decide(here, there, function);
    return runtime != nullptr ? *runtime : anybodys(list, function);
}

}  // namespace

const Runtime& resolver::find(const void* named, const void* caller, OpenMp function) {
    Seen here{};
    Seen there{};
    if (see(named, function, here) && see(caller, function, there))
        if (const Runtime* const runtime = decide(here, there, function)) return *(last = runtime);
    const Undisturbed quiet;
    const Runtime* runtime = nullptr;
    const bool listed =
        with_loaded_list([&](LoadedList& list) { runtime = &answer(list, named, caller, function); });
    if (!listed) runtime = last != nullptr ? last : &no_runtime();
    note_reached(runtime);
    return *(last = runtime);
}

void resolver::look_at_start() {
    const Undisturbed quiet;
    with_loaded_list([](LoadedList& list) {
        for (std::size_t i = 0; i < list.size(); ++i)
            if (i != list.own() && is_runtime(list[i].object)) runtime_in(list, i);
        for (std::size_t i = 0; i < list.initial(); ++i)
            if (i != list.own() && !is_runtime(list[i].object) && is_settled(list, i)) {
                Seen seen{};
                look_at(list, i, OpenMp::get_max, seen);
            }
    });
}

bool runtime_reached(const Runtime& runtime) noexcept {
    return (reached.load(std::memory_order_relaxed) & runtime.bit) != 0;
}

void resolver::after_fork() noexcept {
    for (Known& one : known)
        if ((one.version.load(std::memory_order_relaxed) & 1U) != 0) empty(one);
}

void resolver::forget(const Runtime& runtime) noexcept {
    for (Known& one : known) {
        bool has = one.self.load(std::memory_order_relaxed) == &runtime;
        for (const auto& other : one.runtimes)
            has = has || without_check(other.load(std::memory_order_relaxed)) == &runtime;
        if (has) empty(one);
    }
}

}  // namespace corun
