// SPDX-License-Identifier: Apache-2.0
// A variable for somebody who is about to read the environment, while other threads of the program may be
// reading it too: setenv() and unsetenv() move what they are going through.
#pragma once

namespace corun {

/// Adds `entry` ("NAME=value", which must last) in a new array: whoever is reading the old one stays there.
/// One at a time; false if there is no memory.
bool environment_lend(const char* entry) noexcept;

/// Puts the array of before back. Where the program has changed something meanwhile ours stays, or, while it
/// has a single thread, the variable is removed from it.
void environment_take_back() noexcept;

}  // namespace corun
