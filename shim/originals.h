// SPDX-License-Identifier: Apache-2.0
// Where the program's own functions are, for hooks that have one runtime (those of OpenMP have several, see
// resolver.h). Found in what the loader has left in memory (loaded_list.h): its lock is not taken, and the
// program's pending dlerror() stays. Microseconds: not on the path of an op. Not noexcept, as a cancellation
// may be acted upon at their end.
#pragma once

namespace corun {

/// The definition of `symbol` that the program would reach without us, never one of our own hooks: in the
/// loaded object `library` (by soname), else in the object that holds `caller` (a return address), and in
/// what they need, else after us in the global scope. nullptr when there is none.
void* original_function(const char* library, const char* symbol, const void* caller);

/// The first definition for a program that asks without saying where; nullptr when there is none.
void* global_function(const char* symbol);

/// A thread-local variable of the loaded object `library` on this thread; nullptr if it does not export it or
/// has not made it for this thread yet.
void* variable_of_thread(const char* library, const char* symbol);

/// Path of the loaded object `library`, or nullptr. The loader's text, which lasts as long as the object.
const char* loaded_path(const char* library);

}  // namespace corun
