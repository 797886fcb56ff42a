// SPDX-License-Identifier: Apache-2.0
// One place that opens regions, and who calls it: `smooth` has many items to go through for some callers and
// few for others. One behaviour a run, named by the first argument. Built by gcc and by clang;
// OMP_NUM_THREADS is 2 in every run.
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <link.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { kRounds = 900, kFew = 4, kMany = 300, kWork = 3000 };
#ifdef __clang__
#define KEEP __attribute__((noinline))
#else
#define KEEP __attribute__((noinline, noclone))
#endif

static int wrong;
static _Atomic long used;  // so that the work is done

static long work(long item) {
    unsigned long value = (unsigned long)item;
    for (int i = 0; i < kWork; i++) value = value * 6364136223846793005UL + 1442695040888963407UL;
    return (long)(value >> 60) + 1;
}

KEEP void smooth(long items) {
    _Atomic long sum = 0, entered = 0;
#pragma omp parallel for schedule(dynamic)
    for (long i = 0; i < items; i++) {
        if (items != kFew) used += work(i);
        sum++;
        entered++;
    }
    wrong += sum != items || entered != items;
}

KEEP void coarse(void) {
    smooth(kFew);
    __asm__ volatile("");  // no tail call
}

KEEP void fine(void) {
    smooth(kMany);
    __asm__ volatile("");
}

static void two_callers(void) {
    coarse();
    fine();
}

// Between them and the place there is a function that has one caller more to tell.
KEEP void apply(long items) {
    smooth(items);
    __asm__ volatile("");
}
KEEP void solve_coarse(void) {
    apply(kFew);
    __asm__ volatile("");
}
KEEP void solve_fine(void) {
    apply(kMany);
    __asm__ volatile("");
}
static void wrapped(void) {
    solve_coarse();
    solve_fine();
}

// The same code in two places: one outlined function, which two places open.
static volatile int asks_now;
static _Atomic int team;
static inline __attribute__((always_inline)) void shared(long items, int asks) {
    _Atomic long sum = 0;
    team = 0;
#pragma omp parallel
    {
        team++;
        if (asks) sum += omp_get_num_threads() > 64;
#pragma omp for schedule(dynamic)
        for (long i = 0; i < items; i++) sum += 1;
    }
    wrong += sum != items;
}
KEEP void first_place(void) {
    shared(kFew, asks_now);
    __asm__ volatile("");
}
KEEP void second_place(void) {
    shared(kFew, 0 * asks_now);
    __asm__ volatile("");
}
static void two_places(void) {
    first_place();
    second_place();
}

// What is seen in one of them holds for the other.
static void asks_in_one(void) {
    asks_now = 1;
    first_place();
    wrong += team != 2;
    second_place();
    wrong += team != 2;
}

// Who differs is not who calls.
static void same_caller(void) {
    static int round;
    apply(round++ % 2 == 0 ? kFew : kMany);
}

static void steady(void) {
    fine();
    apply(kMany);
}

// The caller lies at another distance each time.
KEEP void far(long items, size_t room) {
    char* const used = alloca(room);
    used[room - 1] = 1;
    smooth(items);
    __asm__ volatile("" ::"r"(used));
}
static void frames(void) {
    static unsigned round;
    ++round;
    far(kFew, 64 + round * 7919 % 4000);
    fine();
}

// On a stack of its own, that ends right above: what lies as far from there as one caller did can not be read.
static ucontext_t here, there;
static char* stack;
KEEP void far_few(size_t room) {
    far(kFew, room);
    __asm__ volatile("");
}
KEEP void far_many(size_t room) {
    far(kMany, room);
    __asm__ volatile("");
}
static void on_its_own(void) {
    far_few(64);
    far_many(64);
    swapcontext(&there, &here);
}
static void coroutine(void) {
    const size_t size = 1 << 20, far_away = 60000;
    static int round;
    if (++round < kRounds - 100) {
        far_few(far_away);
        far_many(far_away);
        return;
    }
    if (stack == NULL) {
        stack = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(stack + size, size, PROT_NONE);
    }
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = size;
    there.uc_link = NULL;
    makecontext(&there, on_its_own, 0);
    swapcontext(&here, &there);
}

static _Atomic long ticked;
static void on_tick(int number) {
    (void)number;
    char* const used = malloc(100);
    ticked += used != NULL;
    free(used);
}
static void signals(void) {
    static int started;
    if (!started++) {
        const struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
        const struct itimerval often = {{0, 700}, {0, 700}};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    two_callers();
}

// The library that calls is closed, and another one lies in its place.
static void closed(void) {
    static int round;
    const char* const libraries[] = {getenv("FIRST_LIBRARY"), getenv("SECOND_LIBRARY")};
    void* const library = dlopen(libraries[round++ / 40 % 2], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) exit(3);
    void (*const call)(void (*)(long), long) = (void (*)(void (*)(long), long))dlsym(library, "calls_back");
    call(smooth, round % 2 == 0 ? kFew : kMany);
    dlclose(library);
    two_callers();
}

// Somebody is inside the loader's list for some time whenever it is looked at: a child that is made meanwhile
// must not wait for him.
static pthread_mutex_t list = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static _Atomic int slow;
int dl_iterate_phdr(int (*call)(struct dl_phdr_info*, size_t, void*), void* argument) {
    static int (*real)(int (*)(struct dl_phdr_info*, size_t, void*), void*);
    if (real == NULL)
        real = (int (*)(int (*)(struct dl_phdr_info*, size_t, void*), void*))dlsym(RTLD_NEXT, "dl_iterate_phdr");
    if (!slow) return real(call, argument);
    pthread_mutex_lock(&list);
    usleep(1500);
    const int result = real(call, argument);
    pthread_mutex_unlock(&list);
    return result;
}
static int look(struct dl_phdr_info* info, size_t size, void* argument) {
    (void)info, (void)size, (void)argument;
    return 1;
}
static _Atomic int stop;
static void* forks(void* unused) {
    while (!stop) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(3);
            signal(SIGALRM, SIG_DFL);
            dl_iterate_phdr(look, NULL);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    return unused;
}
static void forked(void) {
    static pthread_t thread;
    static int round;
    if (round == 0) {
        slow = 1;
        pthread_create(&thread, NULL, forks, NULL);
    }
    if (++round == kRounds) {
        stop = 1;
        pthread_join(thread, NULL);
    }
    two_callers();
}

// A library's constructor waits, and holds the loader's lock, for a thread that opens regions.
static void* rounds(void* unused) {
    for (int i = 0; i < kRounds; i++) two_callers();
    return unused;
}
void wait_for_rounds(void) {
    static pthread_t thread;
    pthread_create(&thread, NULL, rounds, NULL);
    pthread_join(thread, NULL);
}
static void constructor(void) {
    static int round;
    if (round++ == 0 && dlopen(getenv("WAITING_LIBRARY"), RTLD_NOW | RTLD_GLOBAL) == NULL) exit(3);
}

static const struct {
    const char* name;
    void (*run)(void);
} behaviours[] = {{"two-callers", two_callers}, {"wrapped", wrapped}, {"same-caller", same_caller},
                  {"steady", steady},           {"frames", frames},   {"coroutine", coroutine},
                  {"signals", signals},         {"closed", closed},   {"forked", forked},
                  {"constructor", constructor}, {"two-places", two_places}, {"asks-in-one", asks_in_one}};

int main(int argc, char** argv) {
    for (size_t i = 0; argc > 1 && i < sizeof behaviours / sizeof *behaviours; i++) {
        if (strcmp(argv[1], behaviours[i].name) != 0) continue;
        // Of a region that is not split every call counts for one: it takes more of them until that is known.
        const int rounds = behaviours[i].run == same_caller ? 5 * kRounds : kRounds;
        for (int round = 0; round < rounds; round++) behaviours[i].run();
        printf("wrong %d\n", wrong);
        return 0;
    }
    return 2;
}
