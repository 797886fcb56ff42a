// SPDX-License-Identifier: Apache-2.0
// What a function of OpenMP does for a program that has no runtime. It was a weak reference, or the program
// has asked the loader whether the name is there: without us both are null, and the program does without. Now
// it believes in a runtime, and is given one that has a single thread.
#pragma once

namespace corun {

/// Never nullptr. Work that a runtime would have to hand out piece by piece cannot be done: that function
/// ends the program with a message and exit code 127, as the loader does where a function is missing.
void* function_without_runtime(const char* symbol) noexcept;

}  // namespace corun
