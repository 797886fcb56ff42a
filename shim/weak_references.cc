// SPDX-License-Identifier: Apache-2.0
#include "shim/weak_references.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "shim/loaded_list.h"
#include "shim/resolver.h"
#include "shim/undisturbed.h"

namespace corun {
namespace {

bool is_hooked(const char* name) {
    return std::any_of(resolver::kSymbols.begin(), resolver::kSymbols.end(),
                       [&](const char* symbol) { return std::strcmp(symbol, name) == 0; });
}

bool holds_a_hook(void* const* slot) {
    LoadedObject object{};
    return *slot != nullptr && find_object(*slot, object) && is_our_own(object);
}

// What the loader protects once it has filled it in.
bool is_protected(const ListedObject& one, std::uintptr_t at) {
    for (std::uint16_t i = 0; i < one.segment_count; ++i) {
        const ElfW(Phdr)& segment = one.segments[i];
        const std::uintptr_t begin = one.object.base + segment.p_vaddr;
        if (segment.p_type == PT_GNU_RELRO && at >= begin && at < begin + segment.p_memsz) return true;
    }
    return false;
}

// Where the system does not allow it the word stays as it is.
void empty(const ListedObject& one, void* const* slot) {
    const auto at = reinterpret_cast<std::uintptr_t>(slot);
    const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    void* const page = reinterpret_cast<void*>(at / size * size);
    const bool locked = is_protected(one, at);
    if (locked && mprotect(page, size, PROT_READ | PROT_WRITE) != 0) return;
    *const_cast<void**>(slot) = nullptr;
    if (locked) mprotect(page, size, PROT_READ);
}

void empty_those_of(LoadedList& list, std::size_t index) {
    const DynamicSection section(list[index].object);
    if (!section.any_weak_reference(is_hooked)) return;  // nearly all
    list.order_for(index);
    section.any_relocation([&](const char* name, void* const* slot, const ElfW(Sym) & symbol) {
        if (DynamicSection::is_weak_reference(symbol) && is_hooked(name) && holds_a_hook(slot) &&
            list.definition(name).address == nullptr)
            empty(list[index], slot);
        return false;
    });
}

}  // namespace

void empty_weak_references() {
    const Undisturbed quiet;
    with_loaded_list([](LoadedList& list) {
        for (std::size_t i = 0; i < list.initial(); ++i)
            if (i != list.own()) empty_those_of(list, i);
    });
}

}  // namespace corun
