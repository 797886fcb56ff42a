// SPDX-License-Identifier: Apache-2.0
// Opens libraries that have what stood_for.c has.
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
    for (int i = 1; i < argc; i++) {
        void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        int (*ask)(void) = library != NULL ? (int (*)(void))dlsym(library, "stood_for") : NULL;
        if (ask == NULL) return printf("%s\n", dlerror()), 2;
        ask();
    }
    return 0;
}
