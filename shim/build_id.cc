// SPDX-License-Identifier: Apache-2.0
#include "shim/build_id.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>

namespace corun {
namespace {

struct Search {
    const char* path;
    std::string hex;
};

std::string read_note(const char* note, const char* end) {
    while (note + sizeof(ElfW(Nhdr)) <= end) {
        const auto* header = reinterpret_cast<const ElfW(Nhdr)*>(note);
        const char* name = note + sizeof *header;
        const char* data = name + ((header->n_namesz + 3) & ~3U);
        if (header->n_type == NT_GNU_BUILD_ID && header->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0 &&
            data + header->n_descsz <= end) {
            std::string hex;
            char byte[3];
            for (std::size_t i = 0; i < header->n_descsz; ++i) {
                std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(data[i]));
                hex += byte;
            }
            return hex;
        }
        note = data + ((header->n_descsz + 3) & ~3U);
    }
    return {};
}

int visit(dl_phdr_info* info, std::size_t, void* argument) {
    auto& search = *static_cast<Search*>(argument);
    if (info->dlpi_name == nullptr || std::strcmp(info->dlpi_name, search.path) != 0) return 0;
    for (int i = 0; i < info->dlpi_phnum && search.hex.empty(); ++i) {
        const auto& segment = info->dlpi_phdr[i];
        if (segment.p_type != PT_NOTE) continue;
        const char* note = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
        search.hex = read_note(note, note + segment.p_memsz);
    }
    return 1;
}

}  // namespace

std::string build_id(const char* path) {
    Search search{path, {}};
    dl_iterate_phdr(visit, &search);
    if (!search.hex.empty()) return search.hex;
    struct stat info {};
    const char* slash = std::strrchr(path, '/');
    const long long size = stat(path, &info) == 0 ? static_cast<long long>(info.st_size) : 0;
    return std::string(slash != nullptr ? slash + 1 : path) + ":" + std::to_string(size);
}

}  // namespace corun
