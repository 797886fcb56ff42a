// SPDX-License-Identifier: Apache-2.0
// Opens libraries and calls them in a way that the runtime is not told by the return address (tail.c), and
// what else may happen around such calls:
//   tails ONE TWO       the runtimes of both have other numbers, each answers its own
//   outer ONE TWO       the first calls the second, and has regions too (outer.c)
//   open FILE           opens it, no more
//   jumps FILE          a handler jumps out of questions, and a thread has to be able to use the loader then
//   missing FILE        the program's pending dlerror() is still there after the first question
//   late ONE TWO        a global one comes between the first's first question and its first region
//   often FILE          opens it, asks and closes it, more often than there is a place for what is known
//   threads FILE        many threads ask for the first time at once
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static void* function(void* library, const char* name) {
    void* found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) printf("no %s: %s\n", name, dlerror()), exit(3);
    return found;
}

struct tail {
    int (*max)(void);
    void (*set)(int);
    void (*region)(void);
    int (*entered)(void);
    void (*direct)(int);  // the runtime's own, past any shim
};

static struct tail open_tail(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return (struct tail){
        (int (*)(void))function(library, "tail_max"), (void (*)(int))function(library, "tail_set"),
        (void (*)(void))function(library, "tail_region"), (int (*)(void))function(library, "tail_entered"),
        (void (*)(int))function(library, "omp_set_num_threads")};
}

static void tails(const char* one_path, const char* two_path) {
    struct tail one = open_tail(one_path), two = open_tail(two_path);
    one.direct(2), two.direct(3);
    for (int i = 0; i < 3; i++) {
        one.region();
        printf("team %d, told %d; ", one.entered(), one.max());
        two.region();
        printf("team %d, told %d\n", two.entered(), two.max());
    }
    one.region(), one.entered(), one.set(4);
    two.region(), two.entered(), two.set(5);
    one.region(), two.region();
    printf("teams %d %d\n", one.entered(), two.entered());
}

// Calls a library by way of another one, which has a runtime and regions too.
static void outer(const char* between, const char* path) {
    void* library = dlopen(between, RTLD_NOW | RTLD_LOCAL);
    int (*call)(void (*)(void)) = (int (*)(void (*)(void)))function(library, "outer");
    struct tail last = open_tail(path);
    last.direct(2);
    for (int i = 0; i < 3; i++) {
        const int team = call(last.region);
        printf("between %d, library %d\n", team, last.entered());
    }
}

static sigjmp_buf back;
static volatile sig_atomic_t jumps, asking;
static void handler(int signal_number) {
    (void)signal_number;
    if (!asking) return;
    jumps++;
    siglongjmp(back, 1);
}

static int note(struct dl_phdr_info* info, size_t size, void* count) {
    (void)info, (void)size;
    return ++*(int*)count, 0;
}
static void* use_loader(void* unused) {
    int count = 0;
    (void)unused;
    dl_iterate_phdr(note, &count);
    return dlopen("libm.so.6", RTLD_NOW);
}

static void jump_out(const char* path) {
    struct tail library = open_tail(path);
    const int told = library.max();
    volatile int other = 0;
    struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &often, NULL);
    while (jumps < 500) {
        if (sigsetjmp(back, 1) == 0) {
            asking = 1;
            for (int i = 0; i < 100000; i++) other += library.max() != told;
        }
        asking = 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    pthread_t thread;
    void* result = NULL;
    if (pthread_create(&thread, NULL, use_loader, NULL) == 0) pthread_join(thread, &result);
    printf("jumped, other answers %d, the loader %s\n", other, result != NULL ? "works" : "fails");
}

static void missing(const char* path) {
    struct tail library = open_tail(path);
    if (dlopen("there-is-no-such-library.so", RTLD_NOW) != NULL) exit(4);
    const int told = library.max();
    library.region();
    const char* error = dlerror();
    printf("told %d team %d error %s\n", told, library.entered(),
           error != NULL && strstr(error, "there-is-no-such-library") != NULL ? "kept" : "lost");
}

// Bound when it is first used, to what there is by then.
static void late(const char* path, const char* other) {
    void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    int (*asked)(void) = (int (*)(void))function(library, "tail_asked");
    void (*region)(void) = (void (*)(void))function(library, "tail_region");
    int (*entered)(void) = (int (*)(void))function(library, "tail_entered");
    ((void (*)(int))function(library, "omp_set_num_threads"))(2);
    const int told = -asked();
    void* global = dlopen(other, RTLD_NOW | RTLD_GLOBAL);
    ((void (*)(int))function(global, "omp_set_num_threads"))(3);
    region();
    printf("told %d, team %d\n", told, entered());
}

static void often(const char* path) {
    int wrong = 0;
    for (int i = 0; i < 200; i++) {
        void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        int (*max)(void) = (int (*)(void))function(library, "tail_max");
        void (*set)(int) = (void (*)(int))function(library, "tail_set");
        set(i + 1);
        wrong += max() != i + 1;
        dlclose(library);
    }
    printf("wrong %d\n", wrong);
}

static struct tail shared;
static pthread_barrier_t barrier;
static void* ask_first(void* wrong) {
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 100; i++)
        if (shared.max() != 2) __atomic_fetch_add((int*)wrong, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void many_threads(const char* path) {
    enum { kThreads = 32 };
    pthread_t threads[kThreads];
    int wrong = 0;
    shared = open_tail(path);
    pthread_barrier_init(&barrier, NULL, kThreads);
    for (int i = 0; i < kThreads; i++)
        if (pthread_create(&threads[i], NULL, ask_first, &wrong) != 0) exit(5);
    for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
    printf("wrong %d\n", wrong);
}

int main(int argc, char** argv) {
    const char* what = argc > 2 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(what, "tails") == 0 && argc > 3)
        tails(argv[2], argv[3]);
    else if (strcmp(what, "outer") == 0 && argc > 3)
        outer(argv[2], argv[3]);
    else if (strcmp(what, "open") == 0)
        for (int i = 2; i < argc; i++)
            printf("%s\n", dlopen(argv[i], RTLD_NOW) != NULL ? "opened" : dlerror());
    else if (strcmp(what, "jumps") == 0)
        jump_out(argv[2]);
    else if (strcmp(what, "missing") == 0)
        missing(argv[2]);
    else if (strcmp(what, "late") == 0 && argc > 3)
        late(argv[2], argv[3]);
    else if (strcmp(what, "often") == 0)
        often(argv[2]);
    else if (strcmp(what, "threads") == 0)
        many_threads(argv[2]);
    else
        return 2;
    puts("done");
    return 0;
}
