// SPDX-License-Identifier: Apache-2.0
// All loaded objects, and the order in which the loader looks for a name on behalf of one of them, found out
// from what it has left in memory. dlsym() would say it too, but takes the loader's lock, which another
// thread may hold until this one has done its work (a constructor that waits for a thread), and forgets the
// program's pending dlerror().
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/loaded_object.h"

namespace corun {

struct ListedObject {
    LoadedObject object;
    const ElfW(Phdr) * segments;
    void* tls;             ///< this thread's block of its variables; nullptr: none yet
    const link_map* map;   ///< what the loader calls it; nullptr: not known
    std::uint32_t soname;  ///< hashes of the names under which others need it
    std::uint32_t file;
    std::uint16_t segment_count;
    bool in_order;  ///< of the order that was asked for last
};

/// Where a name is defined; `address` is nullptr where it is not.
struct Definition {
    void* address;
    std::size_t index;
};

/// Valid only in the function given to with_loaded_list(), during which no object comes or goes: the lock of
/// the loader's list is held. Not the one above, so nobody waits for long. Signals must be held back.
class LoadedList {
  public:
    static constexpr std::size_t kNone = SIZE_MAX;

    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] const ListedObject& operator[](std::size_t index) const { return objects_[index]; }
    [[nodiscard]] std::size_t index_of(const void* dynamic) const;
    [[nodiscard]] std::size_t own() const { return own_; }
    /// By its soname or by the last part of its path.
    [[nodiscard]] std::size_t named(const char* name) const;
    /// The objects that the program started with: they come first and stay.
    [[nodiscard]] std::size_t initial() const { return initial_; }
    [[nodiscard]] bool stays(std::size_t index) const;

    /// Puts together where the loader looks for what `caller` (kNone: nobody known) uses, after ourselves:
    /// the global scope, then the objects that were loaded on behalf of the same dlopen().
    void order_for(std::size_t caller);
    /// `root` and what it needs, breadth first, ourselves left out.
    void order_below(std::size_t root);
    [[nodiscard]] std::size_t order_size() const { return order_size_; }
    [[nodiscard]] std::size_t ordered(std::size_t place) const { return order_[place]; }
    /// The first definition in that order.
    [[nodiscard]] Definition definition(const char* name) const;

  private:
    friend bool with_loaded_list_of(void (*action)(LoadedList&, void*), void* argument) noexcept;
    friend int freeze(dl_phdr_info*, std::size_t, void*);
    bool get_room();
    bool make();
    static int add(dl_phdr_info* info, std::size_t, void* list);
    void note_maps();
    void find_initial();
    void begin_order();
    bool append(std::size_t index);
    void append_below(std::size_t from);
    void append_promoted(std::size_t before);
    [[nodiscard]] bool is_scope(const link_map* const* list, std::size_t count) const;
    [[nodiscard]] const link_map* const* global_scope(std::size_t& count) const;
    [[nodiscard]] bool needs(std::size_t index, const ListedObject& other) const;
    [[nodiscard]] std::size_t root_of(std::size_t index);

    ListedObject* objects_ = nullptr;
    std::uint32_t* order_ = nullptr;
    std::size_t room_ = 0;
    std::size_t count_ = 0;
    std::size_t order_size_ = 0;
    std::size_t initial_ = 0;
    std::size_t own_ = kNone;
};

/// Around fork(), so that no child finds the loader's list held by a thread that it does not have.
void loaded_list_before_fork() noexcept;
void loaded_list_after_fork(bool in_child) noexcept;

/// Calls action(list). False if there was no memory for the list, which is the system's and no allocator's.
bool with_loaded_list_of(void (*action)(LoadedList&, void*), void* argument) noexcept;

template <typename Action>
bool with_loaded_list(Action action) noexcept {
    return with_loaded_list_of([](LoadedList& list, void* self) { (*static_cast<Action*>(self))(list); },
                               &action);
}

}  // namespace corun
