// SPDX-License-Identifier: Apache-2.0
#include "shim/build_id.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "model/fnv.h"
#include "shim/readable.h"

namespace corun {
namespace {

constexpr std::size_t kFirstPage = 4096;

struct Search {
    const char* path;
    std::string hex;
};

// The bytes of a build-id and how many they are; none.
const unsigned char* find_id(const char* note, const char* end, std::size_t& length) {
    while (note + sizeof(ElfW(Nhdr)) <= end) {
        const auto* header = reinterpret_cast<const ElfW(Nhdr)*>(note);
        const char* name = note + sizeof *header;
        const char* data = name + ((header->n_namesz + 3) & ~3U);
        if (header->n_type == NT_GNU_BUILD_ID && header->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0 &&
            data + header->n_descsz <= end) {
            length = header->n_descsz;
            return reinterpret_cast<const unsigned char*>(data);
        }
        note = data + ((header->n_descsz + 3) & ~3U);
    }
    return nullptr;
}

std::string read_note(const char* note, const char* end) {
    std::size_t length = 0;
    const unsigned char* const id = find_id(note, end, length);
    std::string hex;
    char byte[3];
    for (std::size_t i = 0; id != nullptr && i < length; ++i) {
        std::snprintf(byte, sizeof byte, "%02x", id[i]);
        hex += byte;
    }
    return hex;
}

std::string find_note(const ElfW(Phdr) * segments, std::size_t count, std::uintptr_t base) {
    std::string hex;
    for (std::size_t i = 0; i < count && hex.empty(); ++i) {
        if (segments[i].p_type != PT_NOTE) continue;
        const char* note = reinterpret_cast<const char*>(base + segments[i].p_vaddr);
        hex = read_note(note, note + segments[i].p_memsz);
    }
    return hex;
}

std::string name_and_size(const char* path) {
    struct stat info {};
    const char* slash = std::strrchr(path, '/');
    const long long size = stat(path, &info) == 0 ? static_cast<long long>(info.st_size) : 0;
    return std::string(slash != nullptr ? slash + 1 : path) + ":" + std::to_string(size);
}

int visit(dl_phdr_info* info, std::size_t, void* argument) {
    auto& search = *static_cast<Search*>(argument);
    if (info->dlpi_name == nullptr || std::strcmp(info->dlpi_name, search.path) != 0) return 0;
    search.hex = find_note(info->dlpi_phdr, info->dlpi_phnum, info->dlpi_addr);
    return 1;
}

}  // namespace

std::string build_id(const char* path) {
    if (path[0] == '\0') return executable_build_id();
    Search search{path, {}};
    dl_iterate_phdr(visit, &search);
    return !search.hex.empty() ? search.hex : name_and_size(path);
}

std::uint64_t build_number(const LoadedObject& object) noexcept {
    model::Fnv1a number;
    const int saved = errno;
    const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(object.start);
    const bool read = readable(header) && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
    errno = saved;
    const unsigned char* id = nullptr;
    std::size_t length = 0;
    // The file's first page lies at the object's start. Tools may have put the table of segments elsewhere.
    const bool near = read && header->e_phentsize == sizeof(ElfW(Phdr)) &&
                      header->e_phnum <= kFirstPage / sizeof(ElfW(Phdr)) &&
                      header->e_phoff <= kFirstPage - header->e_phnum * sizeof(ElfW(Phdr));
    for (int i = 0; near && i < header->e_phnum && id == nullptr; ++i) {
        const auto& segment = reinterpret_cast<const ElfW(Phdr)*>(object.start + header->e_phoff)[i];
        const std::uintptr_t at = object.base + segment.p_vaddr;
        if (segment.p_type != PT_NOTE || at < object.start || at >= object.end ||
            segment.p_memsz > object.end - at)
            continue;
        const char* const note = reinterpret_cast<const char*>(at);
        id = find_id(note, note + segment.p_memsz, length);
    }
    if (id != nullptr)
        number.add(id, length);
    else if (object.name != nullptr)
        number.add(object.name, std::strlen(object.name));
    return std::max<std::uint64_t>(1, number.value());
}

std::string executable_build_id() {
    const auto* const segments = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
    const std::size_t count = segments != nullptr ? getauxval(AT_PHNUM) : 0;
    std::uintptr_t base = 0;  // of a program that lies where it was linked for
    for (std::size_t i = 0; i < count; ++i)
        if (segments[i].p_type == PT_PHDR) base = getauxval(AT_PHDR) - segments[i].p_vaddr;
    std::string hex = find_note(segments, count, base);
    if (!hex.empty()) return hex;
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return name_and_size(path);
}

}  // namespace corun
