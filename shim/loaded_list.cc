// SPDX-License-Identifier: Apache-2.0
#include "shim/loaded_list.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

namespace corun {
namespace {

// FNV-1a; 0 is no name.
std::uint32_t hash_of(const char* name) {
    if (name == nullptr || name[0] == '\0') return 0;
    std::uint32_t hash = 2166136261U;
    for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619U;
    return hash | 1U;
}

const char* last_part(const char* path) {
    const char* const slash = path != nullptr ? std::strrchr(path, '/') : nullptr;
    return slash != nullptr ? slash + 1 : path;
}

int count_all(dl_phdr_info*, std::size_t, void* count) {
    return ++*static_cast<std::size_t*>(count), 0;
}

// Where in a link_map the loader keeps the list that a search goes through, in words; 0: not found yet. It is
// not public, so it is looked for and recognised by what is in it.
constinit std::atomic<std::size_t> scope_word{0};
constexpr std::size_t kFirstWord = sizeof(link_map) / sizeof(void*);
constexpr std::size_t kLastWord = 128;  // less than any loader's link_map has

bool is_mapped(const void* address, std::size_t bytes) {
    constexpr std::uintptr_t kPage = 4096;  // pages are never smaller
    std::array<unsigned char, 64> resident;
    const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t page = std::max(kPage, page_size);
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(address) / page * page;
    const std::uintptr_t length = reinterpret_cast<std::uintptr_t>(address) + bytes - first;
    return length <= resident.size() * page &&
           mincore(reinterpret_cast<void*>(first), length, resident.data()) == 0;
}

// One look at a time, for fork() only: the loader's lock keeps them apart already. Not waited for without
// end, as the one inside may wait for that, and whoever holds it for us.
constinit std::atomic<bool> looking{false};
constinit bool forking = false;

// In a child whose parent had threads the lock of the loader's list may be held by one that the child has not
// got, for ever: then the list is read without it, and only `looking` keeps looks apart.
constinit bool had_threads = false;
constinit std::atomic<bool> lock_is_lost{false};

bool enter() {
    for (int i = 0; i < 2000; ++i) {
        if (!looking.exchange(true, std::memory_order_acquire)) return true;
        const timespec moment{0, i < 50 ? 1000 : 100000};
        nanosleep(&moment, nullptr);
    }
    return false;
}

// Used again and again, while the list is held. Most programs need no more than there is from the start.
constexpr std::size_t kEach = sizeof(ListedObject) + sizeof(std::uint32_t);
constexpr std::size_t kFirstRoom = 256;
alignas(ListedObject) constinit std::array<char, kFirstRoom * kEach> first_memory{};
constinit void* memory = first_memory.data();
constinit std::size_t memory_room = kFirstRoom;  // objects

struct Frozen {
    LoadedList* list;
    void (*action)(LoadedList&, void*);
    void* argument;
    bool made;
};

}  // namespace

std::size_t LoadedList::index_of(const void* dynamic) const {
    for (std::size_t i = 0; i < count_; ++i)
        if (objects_[i].object.dynamic == dynamic) return i;
    return kNone;
}

std::size_t LoadedList::named(const char* name) const {
    const char* const wanted = last_part(name);
    const std::uint32_t hash = hash_of(wanted);
    if (hash == 0) return kNone;
    for (std::size_t i = 0; i < count_; ++i) {
        const ListedObject& one = objects_[i];
        if (one.soname != hash && one.file != hash) continue;
        const char* const soname = DynamicSection(one.object).soname();
        if (soname != nullptr && std::strcmp(soname, wanted) == 0) return i;
        if (one.object.name != nullptr && std::strcmp(last_part(one.object.name), wanted) == 0) return i;
    }
    return kNone;
}

bool LoadedList::stays(std::size_t index) const {
    return index < initial_ || DynamicSection(objects_[index].object).never_unloaded();
}

#if __GLIBC_PREREQ(2, 35) && !defined(CORUN_WITHOUT_DL_FIND_OBJECT)
// The loader's list without its lock. A map is believed if the loader says that it is that of its object.
static bool each_map(bool (*visit)(const link_map&, const dl_find_object&, void*), void* argument) {
    dl_find_object found;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled in
    if (_dl_find_object(&lock_is_lost, &found) != 0) return false;
    const link_map* map = found.dlfo_link_map;
    while (map->l_prev != nullptr) map = map->l_prev;
    for (; map != nullptr; map = map->l_next) {
        if (!is_mapped(map, sizeof *map)) return false;
        if (_dl_find_object(map->l_ld, &found) != 0 || found.dlfo_link_map != map) continue;
        // One that was being closed may be gone already.
        if (!is_mapped(map->l_ld, sizeof *map->l_ld) || !is_mapped(found.dlfo_map_start, sizeof(ElfW(Ehdr))))
            continue;
        if (!visit(*map, found, argument)) break;
    }
    return true;
}

static dl_phdr_info info_of(const link_map& map, const dl_find_object& found) {
    dl_phdr_info info{};
    info.dlpi_addr = map.l_addr;
    info.dlpi_name = map.l_name;
    const auto* const header = static_cast<const ElfW(Ehdr)*>(found.dlfo_map_start);
    if (map.l_prev == nullptr) {
        info.dlpi_phdr = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
        info.dlpi_phnum = static_cast<ElfW(Half)>(getauxval(AT_PHNUM));
    } else if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0) {
        info.dlpi_phdr =
            reinterpret_cast<const ElfW(Phdr)*>(reinterpret_cast<const char*>(header) + header->e_phoff);
        info.dlpi_phnum = header->e_phnum;
    }
    return info;
}

static bool each_object_without_lock(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument) {
    struct Visit {
        int (*visit)(dl_phdr_info*, std::size_t, void*);
        void* argument;
    } wanted{visit, argument};
    return each_map(
        [](const link_map& map, const dl_find_object& found, void* self) {
            const auto& one = *static_cast<Visit*>(self);
            dl_phdr_info info = info_of(map, found);
            return one.visit(&info, sizeof info, one.argument) == 0;
        },
        &wanted);
}
#else
static bool each_object_without_lock(int (*)(dl_phdr_info*, std::size_t, void*), void*) {
    return false;
}
#endif

/// As dl_iterate_phdr().
static void each_object(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument) {
    if (!lock_is_lost.load(std::memory_order_relaxed) || !each_object_without_lock(visit, argument))
        dl_iterate_phdr(visit, argument);
}

int LoadedList::add(dl_phdr_info* info, std::size_t, void* argument) {
    auto& list = *static_cast<LoadedList*>(argument);
    ListedObject one{};
    one.object = object_of(*info);
    one.segments = info->dlpi_phdr;
    one.segment_count = info->dlpi_phnum;
    one.tls = info->dlpi_tls_data;
    if (one.object.dynamic == nullptr || list.count_ == list.room_) return 0;
    one.soname = hash_of(DynamicSection(one.object).soname());
    one.file = hash_of(last_part(one.object.name));
    if (is_our_own(one.object)) list.own_ = list.count_;
    list.objects_[list.count_++] = one;
    return 0;
}

// The loader's own list has the same order, and may have objects that have no name.
void LoadedList::note_maps() {
    const link_map* map = count_ > 0 ? DynamicSection(objects_[0].object).first_map() : nullptr;
    for (std::size_t i = 0; map != nullptr && i < count_; map = map->l_next)
        for (std::size_t k = i; k < count_; ++k)
            if (objects_[k].object.dynamic == map->l_ld) {
                objects_[k].map = map;
                i = k + 1;
                break;
            }
}

// The program, what was preloaded, and what they need, in this order: whatever stands before one that the
// program needs was there when it started.
void LoadedList::find_initial() {
    static constinit std::atomic<std::size_t> known{0};  // they stay, so it never changes
    initial_ = known.load(std::memory_order_relaxed);
    if (initial_ != 0) return;
    initial_ = 1;
    begin_order();
    if (own_ != kNone) objects_[own_].in_order = false;  // what we need was there too
    for (std::size_t end = 1;; end = initial_) {
        for (std::size_t i = 0; i < end; ++i)
            if (append(i)) append_below(order_size_ - 1);
        for (std::size_t i = initial_; i < count_; ++i)
            if (objects_[i].in_order) initial_ = i + 1;
        if (initial_ == end) break;
    }
    known.store(initial_, std::memory_order_relaxed);
}

bool LoadedList::get_room() {
    each_object(count_all, &room_);
    if (room_ > memory_room) {
        const std::size_t wanted = room_ + room_ / 2 + 16;
        void* const more =
            mmap(nullptr, wanted * kEach, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED) return false;
        if (memory != first_memory.data()) munmap(memory, memory_room * kEach);
        memory = more;
        memory_room = wanted;
    }
    objects_ = static_cast<ListedObject*>(memory);
    order_ = reinterpret_cast<std::uint32_t*>(objects_ + memory_room);
    return true;
}

bool LoadedList::make() {
    each_object(add, this);
    if (count_ == 0) return false;
    find_initial();
    return true;
}

void LoadedList::begin_order() {
    order_size_ = 0;
    for (std::size_t i = 0; i < count_; ++i) objects_[i].in_order = i == own_;
}

bool LoadedList::append(std::size_t index) {
    if (index >= count_ || objects_[index].in_order) return false;
    objects_[index].in_order = true;
    order_[order_size_++] = static_cast<std::uint32_t>(index);
    return true;
}

// What is needed by those in the order from there on, and by these.
void LoadedList::append_below(std::size_t from) {
    for (std::size_t place = from; place < order_size_; ++place)
        DynamicSection(objects_[order_[place]].object).each_needed([&](const char* name) {
            append(named(name));
        });
}

void LoadedList::order_below(std::size_t root) {
    begin_order();
    if (append(root)) append_below(0);
}

// A list of objects, the program first and ourselves among them.
bool LoadedList::is_scope(const link_map* const* list, std::size_t count) const {
    if (list == nullptr || reinterpret_cast<std::uintptr_t>(list) % sizeof(void*) != 0) return false;
    if (count + 1 < initial_ || count > count_) return false;  // the kernel's object is not in it
    if (!is_mapped(list, count * sizeof(void*)) || list[0] != objects_[0].map) return false;
    bool own = false;
    for (std::size_t i = 0; i < count; ++i) {
        std::size_t k = 0;
        while (k < count_ && objects_[k].map != list[i]) ++k;
        if (k == count_) return false;
        own = own || k == own_;
    }
    return own;
}

const link_map* const* LoadedList::global_scope(std::size_t& count) const {
    const link_map* const program = objects_[0].map;
    if (program == nullptr) return nullptr;
    const auto* const words = reinterpret_cast<const std::uintptr_t*>(program);
    const std::size_t known = scope_word.load(std::memory_order_relaxed);
    for (std::size_t i = known != 0 ? known : kFirstWord; i < (known != 0 ? known + 1 : kLastWord); ++i) {
        const auto* const list = reinterpret_cast<const link_map* const*>(words[i]);
        count = static_cast<std::uint32_t>(words[i + 1]);
        if (!is_scope(list, count)) continue;
        scope_word.store(i, std::memory_order_relaxed);
        return list;
    }
    return nullptr;
}

// Objects that a dlopen() has made global, of those before `before` in the list.
void LoadedList::append_promoted(std::size_t before) {
    if (initial_ == count_) return;
    note_maps();
    std::size_t count = 0;
    const link_map* const* const list = global_scope(count);
    for (std::size_t i = 0; list != nullptr && i < count; ++i)
        for (std::size_t k = initial_; k < before; ++k)
            if (objects_[k].map == list[i]) append(k);
}

bool LoadedList::needs(std::size_t index, const ListedObject& other) const {
    bool found = false;
    DynamicSection(objects_[index].object).each_needed([&](const char* name) {
        const std::uint32_t hash = hash_of(last_part(name));
        found = found || hash == other.soname || hash == other.file;
    });
    return found;
}

// The object for which dlopen() was called when this one was loaded: what it loads stands in one row, that
// object first, and then one that it needs itself.
std::size_t LoadedList::root_of(std::size_t index) {
    for (std::size_t root = initial_; root < index; ++root) {
        if (!needs(root, objects_[root + 1])) continue;
        order_below(root);
        bool whole = true;
        for (std::size_t i = root; i <= index && whole; ++i) whole = objects_[i].in_order;
        if (whole) return root;
    }
    return index;
}

void LoadedList::order_for(std::size_t caller) {
    const bool later = caller != kNone && caller >= initial_;
    const std::size_t root = later ? root_of(caller) : kNone;
    begin_order();
    const std::size_t first = own_ < initial_ ? own_ + 1 : 0;
    for (std::size_t i = first; i < initial_; ++i) append(i);
    // Names were bound when it was loaded, to what was global then, or are bound when they are used.
    const bool by_then = later && !DynamicSection(objects_[caller].object).bound_lazily();
    append_promoted(by_then ? caller : count_);
    if (root == kNone) return;
    // What stands before us is not asked.
    for (std::size_t i = 0; i < first; ++i) objects_[i].in_order = true;
    const std::size_t from = order_size_;
    if (append(root)) append_below(from);
}

Definition LoadedList::definition(const char* name) const {
    for (std::size_t place = 0; place < order_size_; ++place)
        if (void* const address = DynamicSection(objects_[order_[place]].object).symbol(name))
            return {address, order_[place]};
    return {nullptr, kNone};
}

int freeze(dl_phdr_info*, std::size_t, void* argument) {
    auto& frozen = *static_cast<Frozen*>(argument);
    LoadedList& list = *frozen.list;
    frozen.made = list.get_room() && list.make();
    if (frozen.made) frozen.action(list, frozen.argument);
    return 1;
}

void loaded_list_before_fork() noexcept {
    had_threads = !__libc_single_threaded;
    const bool entered = enter();
    forking = entered;
}

void loaded_list_after_fork(bool in_child) noexcept {
    if (in_child && had_threads) lock_is_lost.store(true, std::memory_order_relaxed);
    if (forking || in_child) looking.store(false, std::memory_order_release);
}

bool with_loaded_list_of(void (*action)(LoadedList&, void*), void* argument) noexcept {
    LoadedList list;
    Frozen frozen{&list, action, argument, false};
    bool entered = enter();
    const bool alone = lock_is_lost.load(std::memory_order_relaxed);
    while (alone && !entered) entered = enter();  // nothing else keeps the others out
    each_object(freeze, &frozen);
    if (entered) looking.store(false, std::memory_order_release);
    return frozen.made;
}

}  // namespace corun
