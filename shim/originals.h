// SPDX-License-Identifier: Apache-2.0
// The one place that knows where a runtime's real functions are.
#pragma once

namespace corun {

/// The definition of `symbol` that the program would reach without us, never one of our own hooks: in the
/// loaded object `library` (by soname), else in the object that holds `caller` (a return address) and what it
/// depends on, else after us in the global scope. nullptr when there is none. Takes the loader's lock: not on
/// the path of an op.
void* original_function(const char* library, const char* symbol, const void* caller) noexcept;

/// Path of the loaded object `library`, or nullptr.
const char* loaded_path(const char* library) noexcept;

}  // namespace corun
