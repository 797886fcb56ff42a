// SPDX-License-Identifier: Apache-2.0
// What can be seen of the objects that regions lie in, for CORUN_OPENMP=adaptive.
#pragma once

#include <cstdint>

#include "shim/loaded_object.h"

namespace corun {

/// Remembers which objects were there at the start of the program: those stay. As early as possible.
void adaptive_objects_start() noexcept;

/// Whether `address` lies in one of those. Some nanoseconds, no lock.
bool there_from_the_start(const void* address) noexcept;

/// policy::ObjectFact bits that its file and its names show. Goes through its relocations: microseconds.
std::uint32_t object_facts(const LoadedObject& object) noexcept;

/// Whether something is loaded by which a runtime can be called past the hooks: libffi, which Python's ctypes
/// (and so threadpoolctl) rests on. Goes through the list of objects.
bool reached_past_hooks() noexcept;

}  // namespace corun
