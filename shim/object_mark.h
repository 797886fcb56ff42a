// SPDX-License-Identifier: Apache-2.0
// Tells an object from another one that is loaded in its place later, and from itself loaded anew: a number
// that no other has, in memory which goes with it.
#pragma once

#include <cstdint>

#include "shim/loaded_list.h"

namespace corun {

struct ObjectMark {
    const std::uint64_t* place;  ///< nullptr: it can have none
    std::uint64_t value;
};

/// The mark of a loaded object, which is made if it has none. It lies behind the object's variables, where
/// the last page of them is not full: nothing else is there, and it is zero. Only while the list is held.
ObjectMark object_mark(const LoadedList& list, std::size_t index) noexcept;

}  // namespace corun
