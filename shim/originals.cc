// SPDX-License-Identifier: Apache-2.0
#include "shim/originals.h"

#include <dlfcn.h>
#include <link.h>

#include "shim/undisturbed.h"

namespace corun {
namespace {

const char self_marker = 0;

bool is_ours(void* function) {
    Dl_info theirs{};
    Dl_info ours{};
    return dladdr(function, &theirs) != 0 && dladdr(&self_marker, &ours) != 0 &&
           theirs.dli_fbase == ours.dli_fbase;
}

void* find_in(const char* path, const char* symbol) {
    void* handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return nullptr;
    void* function = dlsym(handle, symbol);
    dlclose(handle);  // NOLOAD counted a reference; the object stays as it was
    return function != nullptr && !is_ours(function) ? function : nullptr;
}

}  // namespace

static void* find_original(const char* library, const char* symbol, const void* caller) {
    if (void* function = find_in(library, symbol)) return function;
    Dl_info info{};
    if (caller != nullptr && dladdr(caller, &info) != 0 && info.dli_fname != nullptr)
        if (void* function = find_in(info.dli_fname, symbol)) return function;
    void* function = dlsym(RTLD_NEXT, symbol);
    return function != nullptr && !is_ours(function) ? function : nullptr;
}

void* original_function(const char* library, const char* symbol, const void* caller) noexcept {
    const Undisturbed quiet;  // the loader's lock, and its look-ups set errno
    return find_original(library, symbol, caller);
}

const char* loaded_path(const char* library) noexcept {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) return nullptr;
    link_map* map = nullptr;
    const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
    const char* path = known ? map->l_name : nullptr;
    dlclose(handle);
    return path;
}

}  // namespace corun
