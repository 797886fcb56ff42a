// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "shim/loaded_object.h"

namespace corun {

/// What identifies the build of a loaded object: its GNU build-id in hex, else its base name and size.
/// @param path as the loader knows it. May allocate.
[[nodiscard]] std::string build_id(const char* path);

/// The same of the program itself; takes no lock of the loader.
[[nodiscard]] std::string executable_build_id();

/// Stands for the build of a loaded object, read in place: no lock, no allocation. Never 0. Keeps errno.
[[nodiscard]] std::uint64_t build_number(const LoadedObject& object) noexcept;

}  // namespace corun
