// SPDX-License-Identifier: Apache-2.0
// Two objects with a copy of the library each, under the same names: victim-blas-copies PLUGIN_A PLUGIN_B
// LIBRARY_B. With one plugin: it calls in its last instruction, so that the return address is not in it.
#include <dlfcn.h>

#include "victim.h"

namespace {

void* open(const char* path, int flags) {
    void* const handle = dlopen(path, flags);
    if (handle == nullptr) std::printf("%s\n", dlerror()), std::exit(2);
    return handle;
}

template <typename Function>
Function* named(void* handle, const char* name) {
    return reinterpret_cast<Function*>(dlsym(handle, name));
}

int tail(void* plugin) {
    using Gemm =
        void(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
             const int*, const double*, const int*, const double*, double*, const int*);
    auto* const gemm = named<Gemm>(plugin, "plugin_gemm");
    const int size = 700;
    double c = 0.0;
    for (int i = 0; i < 4; ++i) gemm("N", "N", &size, &size, &size, &c, &c, &size, &c, &size, &c, &c, &size);
    std::printf("calls %d, number %d\n", named<int()>(plugin, "plugin_calls")(),
                named<int()>(plugin, "plugin_get")());
    return victim::finish();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2) return tail(open(argv[1], RTLD_NOW | RTLD_LOCAL));
    if (argc < 4) return 2;
    void* const a = open(argv[1], RTLD_NOW | RTLD_LOCAL);
    open(argv[3], RTLD_NOW | RTLD_GLOBAL);  // too late for the first plugin, whose names are bound
    void* const b = open(argv[2], RTLD_NOW | RTLD_LOCAL);
    auto* const gemm_a = named<int()>(a, "plugin_gemm");
    auto* const gemm_b = named<int()>(b, "plugin_gemm");
    int calls_a = 0;
    int calls_b = 0;
    named<void(int)>(a, "plugin_set")(1);
    for (int i = 0; i < 5; ++i) {
        calls_a = gemm_a();
        if (i < 3) calls_b = gemm_b();
    }
    std::printf("calls of a %d, of b %d, numbers %d %d\n", calls_a, calls_b, named<int()>(a, "plugin_get")(),
                named<int()>(b, "plugin_get")());
    // Unloaded and loaded anew, the other one in its place.
    dlclose(a);
    void* const again = open(argv[1], RTLD_NOW | RTLD_LOCAL);
    std::printf("again %s\n", named<int()>(again, "plugin_gemm")() > 0 ? "its own" : "another's");
    return victim::finish();
}
