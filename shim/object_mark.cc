// SPDX-License-Identifier: Apache-2.0
#include "shim/object_mark.h"

#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace corun {
namespace {

constinit const std::uint64_t always = 0;
constinit std::uint64_t secret = 0;  // upper half of all marks; both are written while the list is held
constinit std::uint64_t serial = 0;

constexpr std::uintptr_t kPage = 4096;  // pages are never smaller

bool overlap(std::uintptr_t begin, std::uintptr_t end, std::uintptr_t at) {
    return at + sizeof(std::uint64_t) > begin && at < end;
}

// Of no other segment's page, and none that was made read-only.
bool is_free(const ListedObject& one, const ElfW(Phdr) & own, std::uintptr_t at) {
    for (std::uint16_t i = 0; i < one.segment_count; ++i) {
        const ElfW(Phdr)& segment = one.segments[i];
        const std::uintptr_t begin = (one.object.base + segment.p_vaddr) / kPage * kPage;
        const std::uintptr_t end = one.object.base + segment.p_vaddr + segment.p_memsz;
        if (segment.p_type == PT_LOAD && &segment != &own &&
            overlap(begin, (end + kPage - 1) / kPage * kPage, at))
            return false;
        if (segment.p_type == PT_GNU_RELRO && overlap(begin, end, at)) return false;
    }
    return true;
}

// The last one that the program may write to.
const ElfW(Phdr) * variables_of(const ListedObject& one) {
    const ElfW(Phdr)* found = nullptr;
    for (std::uint16_t i = 0; i < one.segment_count; ++i)
        if (one.segments[i].p_type == PT_LOAD && (one.segments[i].p_flags & PF_W) != 0)
            found = &one.segments[i];
    return found;
}

// The system writes it first: it says so where that is not allowed, instead of a signal.
bool write(std::uint64_t* place, std::uint64_t value) {
    if (syscall(SYS_getrandom, place, sizeof *place, GRND_NONBLOCK) != sizeof *place) return false;
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
    return true;
}

bool is_ours(std::uint64_t word) {
    return secret != 0 && word >> 32 == secret >> 32;
}

}  // namespace

ObjectMark object_mark(const LoadedList& list, std::size_t index) noexcept {
    if (list.stays(index)) return {&always, always};
    if (secret == 0 && syscall(SYS_getrandom, &secret, sizeof secret, GRND_NONBLOCK) != sizeof secret)
        return {};
    secret |= std::uint64_t{1} << 63;  // not zero, and no address
    const ListedObject& one = list[index];
    const ElfW(Phdr)* const variables = variables_of(one);
    if (variables == nullptr) return {};
    const std::uintptr_t end = one.object.base + variables->p_vaddr + variables->p_memsz;
    constexpr std::uintptr_t kSize = sizeof(std::uint64_t);
    for (std::uintptr_t at = (end + kSize - 1) / kSize * kSize; at / kPage == (end - 1) / kPage;
         at += kSize) {
        auto* const place = reinterpret_cast<std::uint64_t*>(at);
        if (!is_free(one, *variables, at)) return {};
        const std::uint64_t there = __atomic_load_n(place, __ATOMIC_RELAXED);
        if (is_ours(there)) return {place, there};
        if (there != 0) continue;
        const std::uint64_t value = (secret >> 32 << 32) | ++serial;
        return write(place, value) ? ObjectMark{place, value} : ObjectMark{};
    }
    return {};
}

}  // namespace corun
