// SPDX-License-Identifier: Apache-2.0
#include "shim/symbol_names.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

namespace corun {
namespace {

// A file in memory; nothing in it is believed.
class Mapped {
  public:
    explicit Mapped(const char* path) {
        const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (file < 0) return;
        struct stat about {};
        if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
            size_ = static_cast<std::size_t>(about.st_size);
            void* const memory = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
            if (memory != MAP_FAILED) data_ = static_cast<const char*>(memory);
        }
        close(file);
    }
    ~Mapped() {
        if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
    }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;

    template <typename T>
    [[nodiscard]] const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
        if (data_ == nullptr || offset > size_ || count > (size_ - offset) / sizeof(T) ||
            offset % alignof(T) != 0)
            return nullptr;
        return reinterpret_cast<const T*>(data_ + offset);
    }

  private:
    const char* data_ = nullptr;
    std::size_t size_ = 0;
};

std::string text_at(const Mapped& file, const ElfW(Shdr) & strings, std::uint32_t offset) {
    const char* const text = file.at<char>(strings.sh_offset, strings.sh_size);
    if (text == nullptr || offset >= strings.sh_size) return {};
    return {text + offset, strnlen(text + offset, strings.sh_size - offset)};
}

}  // namespace

std::string function_name(const std::string& path, std::uint64_t offset) {
    const Mapped file(path.empty() ? "/proc/self/exe" : path.c_str());
    const auto* const header = file.at<ElfW(Ehdr)>(0);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(ElfW(Shdr)))
        return {};
    const auto* const sections = file.at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
    if (sections == nullptr) return {};
    for (int i = 0; i < header->e_shnum; ++i) {
        const ElfW(Shdr)& table = sections[i];
        if (table.sh_type != SHT_SYMTAB || table.sh_link >= header->e_shnum) continue;
        const std::uint64_t count = table.sh_size / sizeof(ElfW(Sym));
        const auto* const symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
        for (std::uint64_t k = 0; symbols != nullptr && k < count; ++k) {
            const ElfW(Sym)& symbol = symbols[k];
            if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && offset >= symbol.st_value &&
                offset - symbol.st_value < (symbol.st_size > 0 ? symbol.st_size : 1))
                return text_at(file, sections[table.sh_link], symbol.st_name);
        }
    }
    return {};
}

}  // namespace corun
