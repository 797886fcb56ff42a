// SPDX-License-Identifier: Apache-2.0
// What an ELF file asks of others and offers to them, read by libelf without loading it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace corun::tools {

struct ElfSymbol {
    std::string name;
    std::string version;  ///< empty: none
    bool defined = false;
    bool hidden = false;  ///< a definition that only who asks for its version gets
    bool weak = false;
};

struct ElfFile {
    std::string interpreter;          ///< the loader that a program names; empty: none
    std::vector<std::string> needed;  ///< libraries, by the names in it
    bool shared_object = false;       ///< a library, or a program that can be anywhere
    bool has_versions = false;        ///< its definitions have versions
    std::vector<ElfSymbol> symbols;   ///< dynamic ones whose names are those of OpenMP

    /// Its own definition of the name, of any version, or nullptr.
    [[nodiscard]] const ElfSymbol* definition(const std::string& name) const;
};

/// Empty when it is no ELF file of this machine that can be read.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::filesystem::path& path);

/// Whether the loader, at `symbol` of `definer`, would take it for what `wanted` asks.
[[nodiscard]] bool satisfies(const ElfFile& definer, const ElfSymbol& symbol, const ElfSymbol& wanted);

}  // namespace corun::tools
