// SPDX-License-Identifier: Apache-2.0
// The way to the place that opens a region: the return addresses on the stack, read by libunwind. That is no
// dependency of ours; without it no way is known.
#pragma once

#include <array>
#include <cstdint>

#include "policy/region_paths.h"

namespace corun {

struct CallPathRead {
    policy::CallPath path;
    /// Bytes from `reference` to where each of its addresses lies: in a frame of fixed size always the same.
    std::array<std::uint32_t, policy::kPathDepth> offsets;
};

/// Opens libunwind. In our constructor or not at all: the loader's lock, which that takes, may be held by a
/// thread that waits for the region which would ask.
void call_path_start() noexcept;
bool call_path_known() noexcept;  ///< it was found

/// Of the calling thread, which is in a hook that was called from `caller` and has `reference` in its frame.
/// Ends at the first address that does not lie in an object that was there from the start: what is read here
/// is never an address that another object may have later. Some microseconds; libunwind takes the lock of
/// the loader's list for what it has not seen yet. @return whether it has an address at all
bool call_path_read(CallPathRead& read, const void* caller, const void* reference) noexcept;

struct StackRange {
    std::uintptr_t low = 0, high = 0;  ///< none: not known
    [[nodiscard]] bool holds(std::uintptr_t address) const { return address >= low && address < high; }
};
/// The stack that the calling thread was given; it may run on another one. May allocate.
StackRange thread_stack() noexcept;

}  // namespace corun
