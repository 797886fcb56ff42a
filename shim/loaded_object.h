// SPDX-License-Identifier: Apache-2.0
// What the loader has put into memory, read in place: no lock of the loader is taken and nothing allocated,
// so that a worker thread may ask while another thread is inside dlopen() and waits for it.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace corun {

/// A loaded object as long as it is loaded; `dynamic` tells objects apart.
struct LoadedObject {
    const ElfW(Dyn) * dynamic;
    std::uintptr_t base;   ///< what its addresses are relative to
    std::uintptr_t start;  ///< first byte
    std::uintptr_t end;    ///< one past the last
    const char* name;      ///< its path; empty for the main program

    [[nodiscard]] bool holds(const void* address) const {
        const auto at = reinterpret_cast<std::uintptr_t>(address);
        return at >= start && at < end;
    }
};

/// How many objects were ever loaded and unloaded: equal counters mean that nothing changed in between.
struct LoadCounters {
    unsigned long long loaded = 0;
    unsigned long long unloaded = 0;
    bool operator==(const LoadCounters&) const = default;
};
/// Takes the lock of the loader's list: no handler of the program may leave it by a jump.
LoadCounters load_counters() noexcept;

bool is_our_own(const LoadedObject& object) noexcept;

/// As dl_iterate_phdr() shows it, `end` one past its last byte in memory; `dynamic` is null where it has
/// none.
LoadedObject object_of(const dl_phdr_info& info) noexcept;

/// Its path without folders, for a message; "the program" for that. Lasts as long as the object's name.
const char* file_name(const LoadedObject& object) noexcept;

/// For loaders without _dl_find_object (glibc before 2.35): goes through the list of objects unless the
/// thread's last answers still hold. Signals wait meanwhile, for some hundred nanoseconds.
bool find_object_by_list(const void* address, LoadedObject& object) noexcept;

#if __GLIBC_PREREQ(2, 35) && !defined(CORUN_WITHOUT_DL_FIND_OBJECT)
/// The object that holds `address`, e.g. a return address. Some nanoseconds, no lock. No weak reference: an
/// older loader refuses the library, as meson.build does.
inline bool find_object(const void* address, LoadedObject& object) noexcept {
    dl_find_object found;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled in
    if (_dl_find_object(const_cast<void*>(address), &found) != 0) return false;
    const link_map* map = found.dlfo_link_map;
    object = {map->l_ld, map->l_addr, reinterpret_cast<std::uintptr_t>(found.dlfo_map_start),
              reinterpret_cast<std::uintptr_t>(found.dlfo_map_end), map->l_name};
    return true;
}
#else
inline bool find_object(const void* address, LoadedObject& object) noexcept {
    return find_object_by_list(address, object);
}
#endif

/// The dynamic section of a loaded object.
class DynamicSection {
  public:
    explicit DynamicSection(const LoadedObject& object) noexcept;

    /// Where the object itself defines `name` (its default version), or nullptr. For a function that picks
    /// its own implementation (IFUNC) the one that it picks.
    [[nodiscard]] void* symbol(const char* name) const noexcept;
    /// The entry itself, whatever its type, or nullptr: of a variable of each thread, where it is in its
    /// block.
    [[nodiscard]] const ElfW(Sym) * entry(const char* name) const noexcept;
    /// The name under which others need it; nullptr if it has none.
    [[nodiscard]] const char* soname() const noexcept { return soname_; }
    /// Whether the loader binds its calls when they are first made: it has left its own entry there then.
    [[nodiscard]] bool bound_lazily() const noexcept { return got_ != nullptr && got_[1] != 0; }
    /// It asks to stay once it is loaded.
    [[nodiscard]] bool never_unloaded() const noexcept { return (flags_ & DF_1_NODELETE) != 0; }
    /// For the main program: the loader's list of objects.
    [[nodiscard]] const link_map* first_map() const noexcept;

    /// Calls visit(name) for the objects that it needs, in order.
    template <typename Visit>
    void each_needed(Visit visit) const {
        if (strings_ == nullptr) return;
        for (const ElfW(Dyn)* entry = dynamic_; entry->d_tag != DT_NULL; ++entry)
            if (entry->d_tag == DT_NEEDED) visit(strings_ + entry->d_un.d_val);
    }

    /// Calls visit(name, slot, symbol) for its relocations against symbols until one returns true: `slot` is
    /// the word that the loader fills in, `symbol` says whether the object has a definition of its own.
    template <typename Visit>
    bool any_relocation(Visit visit) const {
        // Those of calls first: they are few.
        return any_of(calls_, call_count_, visit) || any_of(data_, data_count_, visit);
    }

    /// Calls visit(name) for names that it uses and may find missing, until one returns true.
    template <typename Visit>
    bool any_weak_reference(Visit visit) const {
        // Where they can be told apart those that are defined come last.
        const std::uint32_t count = gnu_hash_ != nullptr ? gnu_hash_[1] : hash_ != nullptr ? hash_[1] : 0;
        for (std::uint32_t i = 1; i < count && symbols_ != nullptr; ++i)
            if (is_weak_reference(symbols_[i]) && visit(strings_ + symbols_[i].st_name)) return true;
        return false;
    }
    static bool is_weak_reference(const ElfW(Sym) & symbol) noexcept {
        return ELF64_ST_BIND(symbol.st_info) == STB_WEAK && symbol.st_shndx == SHN_UNDEF;
    }

  private:
    template <typename Visit>
    bool any_of(const ElfW(Rela) * first, std::size_t count, Visit& visit) const {
        for (const ElfW(Rela)* one = first; one != first + count; ++one) {
            const auto index = ELF64_R_SYM(one->r_info);
            if (index == 0) continue;
            const ElfW(Sym)& symbol = symbols_[index];
            auto* const slot = reinterpret_cast<void* const*>(base_ + one->r_offset);
            if (visit(strings_ + symbol.st_name, slot, symbol)) return true;
        }
        return false;
    }
    [[nodiscard]] bool is_definition(std::uint32_t index, const char* name) const noexcept;
    [[nodiscard]] std::uint32_t find_by_gnu_hash(const char* name) const noexcept;
    [[nodiscard]] std::uint32_t find_by_hash(const char* name) const noexcept;

    const ElfW(Dyn) * dynamic_;
    std::uintptr_t base_;
    const char* soname_ = nullptr;
    const std::uintptr_t* got_ = nullptr;
    std::uintptr_t debug_ = 0;
    std::uint64_t flags_ = 0;
    const ElfW(Sym) * symbols_ = nullptr;
    const char* strings_ = nullptr;
    const std::uint32_t* gnu_hash_ = nullptr;
    const std::uint32_t* hash_ = nullptr;
    const ElfW(Half) * versions_ = nullptr;
    const ElfW(Rela) * calls_ = nullptr;
    const ElfW(Rela) * data_ = nullptr;
    std::size_t call_count_ = 0;
    std::size_t data_count_ = 0;
};

static_assert(sizeof(void*) == 8, "the relocations of 32-bit machines are of another kind");

}  // namespace corun
