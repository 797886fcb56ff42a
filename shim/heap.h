// SPDX-License-Identifier: Apache-2.0
// The library's C++ memory (what is aligned to more than 16 bytes aside), apart from the program's: heap.cc
// replaces operator new for what is inside of us (libstdc++ is; the version script keeps it there). What we
// allocate and free between the program's blocks would decide where its heap ends, and with it whether malloc
// gives memory back to the kernel in each step of the program and has it again page by page.
#pragma once

namespace corun {

/// Weak: programs of the tests that have the core in them keep their own heap, and have neither.
[[gnu::weak]] void heap_before_fork() noexcept;           ///< the last of what is done before
[[gnu::weak]] void heap_after_fork(bool child) noexcept;  ///< the first of what is done after, in both

}  // namespace corun
