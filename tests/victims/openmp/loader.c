// SPDX-License-Identifier: Apache-2.0
// A program without OpenMP that opens libraries which have it, each with a runtime of its own, as the wheels
// of Python do. The words after the first say what to do, in order:
//   local FILE | global FILE | deepbind FILE | lazy FILE   opens it; what follows is about it
//   team N      asks it for N threads (0: does not ask) and runs a team
//   bare        runs a team in a library whose names are all hooked
//   set N       sets the number of the runtime that its handle leads to, past any shim
//   again N     goes back to the Nth library, from 0
//   close       closes it
//   error       what dlerror() has to say
//   runtimes    how many of them are loaded
//   place       whether it lies where the one closed last lay
//   errno       whether that is still as it was at the beginning
//   leave       ends at once, without what is done at the end
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLibraries = 16 };
static void* handles[kLibraries];
static int count, current;

static int open_library(const char* how, const char* path) {
    int flags = RTLD_NOW | RTLD_LOCAL;
    if (strcmp(how, "global") == 0) flags = RTLD_NOW | RTLD_GLOBAL;
    if (strcmp(how, "deepbind") == 0) flags |= RTLD_DEEPBIND;
    if (strcmp(how, "lazy") == 0) flags = RTLD_LAZY | RTLD_LOCAL;
    current = count;
    handles[count++] = dlopen(path, flags);
    if (handles[current] == NULL) printf("%s\n", dlerror());
    return handles[current] != NULL;
}

static int note_runtime(struct dl_phdr_info* info, size_t size, void* seen) {
    (void)size;
    const char* name = strrchr(info->dlpi_name, '/');
    if (name != NULL && (strncmp(name, "/libgom", 7) == 0 || strncmp(name, "/libomp", 7) == 0)) ++*(int*)seen;
    return 0;
}

static void* base_of(void* handle) {
    struct link_map* map = NULL;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? (void*)map->l_ld : NULL;
}

static int act(int argc, char** argv, int at) {
    static void* closed;
    const char* what = argv[at];
    void* handle = handles[current];
    if (strcmp(what, "team") == 0 && at + 1 < argc) {
        int told = 0;
        int (*team)(int, int*) = (int (*)(int, int*))dlsym(handle, "plugin_team");
        const int size = team(atoi(argv[at + 1]), &told);
        printf("told %d team %d\n", told, size);
        return 2;
    }
    if (strcmp(what, "set") == 0 && at + 1 < argc) {
        void (*set)(int) = (void (*)(int))dlsym(handle, "omp_set_num_threads");
        set(atoi(argv[at + 1]));
        return 2;
    }
    if (strcmp(what, "again") == 0 && at + 1 < argc) return current = atoi(argv[at + 1]), 2;
    if (strcmp(what, "bare") == 0) {
        int (*team)(void) = (int (*)(void))dlsym(handle, "plugin_bare");
        printf("team %d\n", team());
    } else if (strcmp(what, "close") == 0) {
        closed = base_of(handle);
        dlclose(handle);
    } else if (strcmp(what, "place") == 0) {
        puts(base_of(handle) == closed ? "same place" : "another place");
    } else if (strcmp(what, "error") == 0) {
        const char* error = dlerror();
        puts(error != NULL ? error : "no error");
    } else if (strcmp(what, "errno") == 0) {
        printf("errno %d\n", errno);
    } else if (strcmp(what, "leave") == 0) {
        fflush(stdout);
        _exit(0);
    } else if (strcmp(what, "runtimes") == 0) {
        int seen = 0;
        dl_iterate_phdr(note_runtime, &seen);
        printf("%d runtimes\n", seen);
    } else {
        return at + 1 < argc && open_library(what, argv[at + 1]) ? 2 : 0;
    }
    return 1;
}

int main(int argc, char** argv) {
    errno = 77;
    for (int at = 1; at < argc;) {
        const int words = act(argc, argv, at);
        if (words == 0) return 2;
        at += words;
    }
    puts("done");
    return 0;
}
