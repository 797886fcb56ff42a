// SPDX-License-Identifier: Apache-2.0
// The loader keeps a runtime as long as an object is loaded that it has bound to it. One that was given our
// hooks instead holds nothing, so we keep the runtime on its behalf. Asking for that takes the loader's lock,
// which must not be done where the program would not: it is done where the program is about to close
// something, which takes it too, and loses a pending dlerror() too. What was seen of an object ends there.
//
// Built as gomp.cc is.
#include <atomic>

#include "shim/loader_symbols.h"
#include "shim/originals.h"
#include "shim/regions.h"
#include "shim/runtimes.h"

namespace corun::loader {

#define X(id, symbol, result, parameters) using id##_type = result parameters;
CORUN_LOADER_HOOKED(X)
#undef X

constinit std::atomic<close_type*> real_close{nullptr};

// Nowhere else may dlsym() be called: see above.
[[gnu::noinline]] static close_type* find_close() {
    auto* const found = reinterpret_cast<close_type*>(dlsym(RTLD_NEXT, "dlclose"));
    real_close.store(found, std::memory_order_relaxed);
    return found;
}

extern "C" {
#define X(id, symbol, result, parameters) \
    [[gnu::visibility("default")]] result corun_##id parameters __asm__(symbol);
CORUN_LOADER_HOOKED(X)
#undef X

int corun_close(void* handle) {
    close_type* real = real_close.load(std::memory_order_relaxed);
    if (real == nullptr) [[unlikely]]
        real = find_close();
    if (runtimes_to_keep.load(std::memory_order_acquire)) [[unlikely]]
        keep_runtimes();
    const int result = real(handle);
    if (regions_may_leave.load(std::memory_order_relaxed)) [[unlikely]]
        regions_left();
    return result;
}
}  // extern "C"
}  // namespace corun::loader
