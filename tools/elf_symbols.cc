// SPDX-License-Identifier: Apache-2.0
#include "tools/elf_symbols.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>

#include <map>
#include <memory>

#include "shim/openmp_difference.h"
#include "tools/child.h"

namespace corun::tools {
namespace {

using Handle = std::unique_ptr<Elf, decltype(&elf_end)>;

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE;
#endif

struct Table {
    Elf_Data* data = nullptr;
    GElf_Shdr header{};
    explicit operator bool() const { return data != nullptr; }
    [[nodiscard]] int rows() const {
        return header.sh_entsize > 0 ? static_cast<int>(header.sh_size / header.sh_entsize) : 0;
    }
};

Table find_table(Elf* elf, GElf_Word type) {
    Elf_Scn* section = nullptr;
    while ((section = elf_nextscn(elf, section)) != nullptr) {
        Table table;
        if (gelf_getshdr(section, &table.header) == nullptr || table.header.sh_type != type) continue;
        table.data = elf_getdata(section, nullptr);
        return table;
    }
    return {};
}

std::string text_at(Elf* elf, const Table& table, std::size_t offset) {
    const char* const text = elf_strptr(elf, table.header.sh_link, offset);
    return text != nullptr ? text : "";
}

// The names behind the numbers in the table of versions, those that are needed and those that are defined.
std::map<int, std::string> read_versions(Elf* elf) {
    std::map<int, std::string> names;
    const Table needed = find_table(elf, SHT_GNU_verneed);
    int at = 0;
    for (unsigned i = 0; needed && i < needed.header.sh_info; ++i) {
        GElf_Verneed file{};
        if (gelf_getverneed(needed.data, at, &file) == nullptr) break;
        int inner = at + static_cast<int>(file.vn_aux);
        for (int j = 0; j < file.vn_cnt; ++j) {
            GElf_Vernaux version{};
            if (gelf_getvernaux(needed.data, inner, &version) == nullptr) break;
            names[version.vna_other & 0x7FFF] = text_at(elf, needed, version.vna_name);
            inner += static_cast<int>(version.vna_next);
        }
        at += static_cast<int>(file.vn_next);
    }
    const Table defined = find_table(elf, SHT_GNU_verdef);
    at = 0;
    for (unsigned i = 0; defined && i < defined.header.sh_info; ++i) {
        GElf_Verdef version{};
        GElf_Verdaux name{};
        if (gelf_getverdef(defined.data, at, &version) == nullptr) break;
        // The first one is the file itself, which the loader takes for no version.
        if ((version.vd_flags & VER_FLG_BASE) == 0 &&
            gelf_getverdaux(defined.data, at + static_cast<int>(version.vd_aux), &name) != nullptr)
            names[version.vd_ndx & 0x7FFF] = text_at(elf, defined, name.vda_name);
        at += static_cast<int>(version.vd_next);
    }
    return names;
}

std::vector<ElfSymbol> read_symbols(Elf* elf, bool& has_versions) {
    std::vector<ElfSymbol> symbols;
    const Table table = find_table(elf, SHT_DYNSYM);
    const Table versions = find_table(elf, SHT_GNU_versym);
    has_versions = static_cast<bool>(versions);
    const std::map<int, std::string> names = read_versions(elf);
    for (int i = 1; table && i < table.rows(); ++i) {
        GElf_Sym entry{};
        if (gelf_getsym(table.data, i, &entry) == nullptr) continue;
        ElfSymbol symbol;
        symbol.name = text_at(elf, table, entry.st_name);
        if (!is_openmp_name(symbol.name)) continue;
        symbol.defined = entry.st_shndx != SHN_UNDEF;
        symbol.weak = GELF_ST_BIND(entry.st_info) == STB_WEAK;
        GElf_Versym version = 0;
        if (versions && gelf_getversym(versions.data, i, &version) != nullptr) {
            const auto name = names.find(version & 0x7FFF);
            if (name != names.end()) symbol.version = name->second;
            symbol.hidden = (version & 0x8000) != 0;
        }
        symbols.push_back(std::move(symbol));
    }
    return symbols;
}

std::vector<std::string> read_needed(Elf* elf) {
    std::vector<std::string> names;
    const Table table = find_table(elf, SHT_DYNAMIC);
    for (int i = 0; table && i < table.rows(); ++i) {
        GElf_Dyn entry{};
        if (gelf_getdyn(table.data, i, &entry) != nullptr && entry.d_tag == DT_NEEDED)
            names.push_back(text_at(elf, table, entry.d_un.d_val));
    }
    return names;
}

std::string read_interpreter(Elf* elf) {
    std::size_t count = 0;
    if (elf_getphdrnum(elf, &count) != 0) return "";
    for (std::size_t i = 0; i < count; ++i) {
        GElf_Phdr segment{};
        if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_INTERP)
            continue;
        std::size_t size = 0;
        const char* const file = elf_rawfile(elf, &size);
        if (file == nullptr || segment.p_filesz < 2 || segment.p_offset > size ||
            segment.p_filesz > size - segment.p_offset)
            return "";
        return std::string(file + segment.p_offset, segment.p_filesz).c_str();  // up to its NUL
    }
    return "";
}

}  // namespace

const ElfSymbol* ElfFile::definition(const std::string& name) const {
    for (const ElfSymbol& symbol : symbols)
        if (symbol.defined && symbol.name == name) return &symbol;
    return nullptr;
}

std::optional<ElfFile> read_elf(const std::filesystem::path& path) {
    if (elf_version(EV_CURRENT) == EV_NONE) return std::nullopt;
    const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return std::nullopt;
    const Handle elf(elf_begin(file.get(), ELF_C_READ_MMAP, nullptr), elf_end);
    GElf_Ehdr header{};
    if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF || gelf_getehdr(elf.get(), &header) == nullptr ||
        header.e_machine != kMachine || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        (header.e_type != ET_DYN && header.e_type != ET_EXEC))
        return std::nullopt;
    ElfFile result;
    result.shared_object = header.e_type == ET_DYN;
    result.interpreter = read_interpreter(elf.get());
    result.needed = read_needed(elf.get());
    result.symbols = read_symbols(elf.get(), result.has_versions);
    return result;
}

bool satisfies(const ElfFile& definer, const ElfSymbol& symbol, const ElfSymbol& wanted) {
    if (!symbol.defined || symbol.name != wanted.name) return false;
    if (!definer.has_versions) return true;
    if (wanted.version.empty()) return !symbol.hidden;
    return symbol.version == wanted.version || (symbol.version.empty() && !symbol.hidden);
}

}  // namespace corun::tools
