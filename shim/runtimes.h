// SPDX-License-Identifier: Apache-2.0
// The runtimes that were found, and where their real functions are. All but what the header of the resolver
// declares is for its slow way, while the loader's list is held.
#pragma once

#include "shim/loaded_list.h"
#include "shim/resolver.h"

namespace corun {

/// The runtime that is the object `index` of the list, with what stands between a program and it: a
/// definition that comes first in the global scope and belongs to no runtime (a tool, a library of
/// stand-ins). nullptr only if there are too many. Changes the list's order.
const Runtime* runtime_in(LoadedList& list, std::size_t index) noexcept;

/// `base` (nullptr: no runtime) with other functions, for callers that the loader has given those.
const Runtime* runtime_with(const Runtime* base, const std::array<void*, kOpenMpFunctions>& functions,
                            const LoadedObject& object) noexcept;

/// It must not be unloaded before its callers, and nothing else keeps it: see loader.cc. While the list is
/// held.
void keep_loaded(const Runtime& runtime) noexcept;
/// Some are still to be kept.
extern constinit std::atomic<bool> runtimes_to_keep;
/// Takes the loader's lock, and forgets a pending dlerror().
void keep_runtimes();

/// For a caller that has none: a single thread.
const Runtime& no_runtime() noexcept;

}  // namespace corun
