// SPDX-License-Identifier: Apache-2.0
// Names of functions from the symbol tables of files, for the report: outlined functions are local symbols,
// which the loader does not know.
#pragma once

#include <cstdint>
#include <string>

namespace corun {

/// The function of the ELF file `path` that holds `offset` (relative to the base of the loaded object), or an
/// empty string: the file is stripped, gone or no such file. Never throws but for memory.
std::string function_name(const std::string& path, std::uint64_t offset);

}  // namespace corun
