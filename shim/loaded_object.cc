// SPDX-License-Identifier: Apache-2.0
#include "shim/loaded_object.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <csignal>

namespace corun {
namespace {

struct Search {
    std::uintptr_t address;
    LoadedObject* object;
    LoadCounters counters;
    bool found;
};

void note_counters(const dl_phdr_info& info, LoadCounters& counters) {
    counters = {info.dlpi_adds, info.dlpi_subs};
}

int count_only(dl_phdr_info* info, std::size_t, void* argument) {
    note_counters(*info, *static_cast<LoadCounters*>(argument));
    return 1;
}

int look_into(dl_phdr_info* info, std::size_t, void* argument) {
    auto& search = *static_cast<Search*>(argument);
    note_counters(*info, search.counters);
    const LoadedObject object = object_of(*info);
    if (object.dynamic == nullptr || !object.holds(reinterpret_cast<void*>(search.address))) return 0;
    *search.object = object;
    search.found = true;
    return 1;
}

// The last objects that this thread's calls came from.
struct Recent {
    std::array<LoadedObject, 4> objects;
    LoadCounters counters;
    unsigned next;
};
constinit thread_local Recent recent __attribute__((tls_model("initial-exec"))){};

std::uint32_t gnu_hash_of(const char* name) {
    std::uint32_t hash = 5381;
    for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
    return hash;
}

std::uint32_t sysv_hash_of(const char* name) {
    std::uint32_t hash = 0;
    for (; *name != '\0'; ++name) {
        hash = (hash << 4) + static_cast<unsigned char>(*name);
        hash = (hash ^ ((hash & 0xF0000000U) >> 24)) & 0x0FFFFFFFU;
    }
    return hash;
}

}  // namespace

LoadCounters load_counters() noexcept {
    LoadCounters counters;
    dl_iterate_phdr(count_only, &counters);
    return counters;
}

LoadedObject object_of(const dl_phdr_info& info) noexcept {
    LoadedObject object{nullptr, info.dlpi_addr, UINTPTR_MAX, 0, info.dlpi_name};
    for (int i = 0; i < info.dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = info.dlpi_phdr[i];
        const std::uintptr_t begin = info.dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_DYNAMIC) object.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
        if (segment.p_type != PT_LOAD) continue;
        object.start = std::min(object.start, begin);
        object.end = std::max(object.end, begin + segment.p_memsz);
    }
    return object;
}

const char* file_name(const LoadedObject& object) noexcept {
    if (object.name == nullptr || object.name[0] == '\0') return "the program";
    const char* const slash = std::strrchr(object.name, '/');
    return slash != nullptr ? slash + 1 : object.name;
}

bool is_our_own(const LoadedObject& object) noexcept {
    return object.dynamic == _DYNAMIC;
}

static bool find_listed(const void* address, LoadedObject& object) {
    const LoadCounters now = load_counters();
    if (recent.counters == now) {
        for (const LoadedObject& known : recent.objects)
            if (known.holds(address)) return object = known, true;
    } else {
        recent.objects = {};
    }
    Search search{reinterpret_cast<std::uintptr_t>(address), &object, {}, false};
    dl_iterate_phdr(look_into, &search);
    if (!search.found) return false;
    if (search.counters == now) {
        recent.counters = now;
        recent.objects[recent.next++ % recent.objects.size()] = object;
    } else {
        recent = {};
    }
    return true;
}

bool find_object_by_list(const void* address, LoadedObject& object) noexcept {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const bool found = find_listed(address, object);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return found;
}

DynamicSection::DynamicSection(const LoadedObject& object) noexcept
    : dynamic_(object.dynamic), base_(object.base) {
    const auto at = [&](const ElfW(Dyn) & entry) {  // most loaders have made them absolute
        return entry.d_un.d_ptr < base_ ? entry.d_un.d_ptr + base_ : entry.d_un.d_ptr;
    };
    std::size_t plain = 0;  // relative ones come first and name no symbol
    const ElfW(Dyn)* soname = nullptr;
    for (const ElfW(Dyn)* entry = object.dynamic; entry->d_tag != DT_NULL; ++entry) {
        switch (entry->d_tag) {
            case DT_SYMTAB:
                symbols_ = reinterpret_cast<const ElfW(Sym)*>(at(*entry));
                break;
            case DT_STRTAB:
                strings_ = reinterpret_cast<const char*>(at(*entry));
                break;
            case DT_GNU_HASH:
                gnu_hash_ = reinterpret_cast<const std::uint32_t*>(at(*entry));
                break;
            case DT_HASH:
                hash_ = reinterpret_cast<const std::uint32_t*>(at(*entry));
                break;
            case DT_VERSYM:
                versions_ = reinterpret_cast<const ElfW(Half)*>(at(*entry));
                break;
            case DT_JMPREL:
                calls_ = reinterpret_cast<const ElfW(Rela)*>(at(*entry));
                break;
            case DT_PLTRELSZ:
                call_count_ = entry->d_un.d_val / sizeof(ElfW(Rela));
                break;
            case DT_RELA:
                data_ = reinterpret_cast<const ElfW(Rela)*>(at(*entry));
                break;
            case DT_RELASZ:
                data_count_ = entry->d_un.d_val / sizeof(ElfW(Rela));
                break;
            case DT_RELACOUNT:
                plain = entry->d_un.d_val;
                break;
            case DT_PLTGOT:
                got_ = reinterpret_cast<const std::uintptr_t*>(at(*entry));
                break;
            case DT_DEBUG:
                debug_ = entry->d_un.d_ptr;
                break;
            case DT_FLAGS_1:
                flags_ = entry->d_un.d_val;
                break;
            case DT_SONAME:
                soname = entry;
                break;
            default:
                break;
        }
    }
    if (soname != nullptr && strings_ != nullptr) soname_ = strings_ + soname->d_un.d_val;
    if (symbols_ == nullptr || strings_ == nullptr || calls_ == nullptr) call_count_ = 0;
    if (symbols_ == nullptr || strings_ == nullptr || data_ == nullptr || plain > data_count_)
        data_count_ = plain = 0;
    data_ += plain;
    data_count_ -= plain;
}

bool DynamicSection::is_definition(std::uint32_t index, const char* name) const noexcept {
    constexpr ElfW(Half) kHidden = 0x8000;  // not the default version
    const ElfW(Sym)& symbol = symbols_[index];
    return symbol.st_shndx != SHN_UNDEF && (versions_ == nullptr || (versions_[index] & kHidden) == 0) &&
           std::strcmp(strings_ + symbol.st_name, name) == 0;
}

std::uint32_t DynamicSection::find_by_gnu_hash(const char* name) const noexcept {
    constexpr std::uint32_t kBits = 8 * sizeof(ElfW(Addr));
    const std::uint32_t buckets = gnu_hash_[0];
    const std::uint32_t first = gnu_hash_[1];
    const std::uint32_t words = gnu_hash_[2];
    const auto* const bloom = reinterpret_cast<const ElfW(Addr)*>(gnu_hash_ + 4);
    const auto* const bucket = reinterpret_cast<const std::uint32_t*>(bloom + words);
    const std::uint32_t* const chain = bucket + buckets;
    if (buckets == 0 || words == 0) return 0;
    const std::uint32_t hash = gnu_hash_of(name);
    const ElfW(Addr) word = bloom[(hash / kBits) % words];
    const ElfW(Addr) mask = ElfW(Addr){1} << (hash % kBits) | ElfW(Addr){1}
                                                                  << ((hash >> gnu_hash_[3]) % kBits);
    if ((word & mask) != mask) return 0;
    for (std::uint32_t index = bucket[hash % buckets]; index >= first && index != 0; ++index) {
        const std::uint32_t other = chain[index - first];
        if ((other | 1U) == (hash | 1U) && is_definition(index, name)) return index;
        if ((other & 1U) != 0) break;
    }
    return 0;
}

std::uint32_t DynamicSection::find_by_hash(const char* name) const noexcept {
    const std::uint32_t buckets = hash_[0];
    const std::uint32_t* const bucket = hash_ + 2;
    const std::uint32_t* const chain = bucket + buckets;
    if (buckets == 0) return 0;
    for (std::uint32_t index = bucket[sysv_hash_of(name) % buckets]; index != 0; index = chain[index])
        if (is_definition(index, name)) return index;
    return 0;
}

const ElfW(Sym) * DynamicSection::entry(const char* name) const noexcept {
    if (symbols_ == nullptr || strings_ == nullptr) return nullptr;
    const std::uint32_t index = gnu_hash_ != nullptr ? find_by_gnu_hash(name)
                                : hash_ != nullptr   ? find_by_hash(name)
                                                     : 0;
    return index != 0 ? &symbols_[index] : nullptr;
}

void* DynamicSection::symbol(const char* name) const noexcept {
    const ElfW(Sym)* const found = entry(name);
    if (found == nullptr || ELF64_ST_TYPE(found->st_info) == STT_TLS) return nullptr;
    void* const address = reinterpret_cast<void*>(base_ + found->st_value);
#if defined(__x86_64__)
    if (ELF64_ST_TYPE(found->st_info) == STT_GNU_IFUNC) return reinterpret_cast<void* (*)()>(address)();
#else
    if (ELF64_ST_TYPE(found->st_info) == STT_GNU_IFUNC) return nullptr;  // it would want to know the machine
#endif
    return address;
}

const link_map* DynamicSection::first_map() const noexcept {
    return debug_ != 0 ? reinterpret_cast<const r_debug*>(debug_)->r_map : nullptr;
}

}  // namespace corun
