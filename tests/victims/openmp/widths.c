// SPDX-License-Identifier: Apache-2.0
// How wide regions are, against what the program was told before: one behaviour a run, named by the first
// argument. Built by gcc and by clang. Whatever must hold in every setting is checked here; the numbers are
// for the test.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kItems = 1000, kMost = 64 };

static int failures;
static long sum;
#define CHECK(condition)                                                                               \
    do {                                                                                               \
        if (!(condition) && ++failures <= 10) printf("line %d: not true: %s\n", __LINE__, #condition); \
    } while (0)

// The size of a team and whether its members were numbered 0, 1, 2... With gcc's old pairs of calls the thread that
// opens a region of LLVM's runtime is told 1 and the others the size of their team.
static _Atomic int entered, size, differ;
static _Atomic unsigned long ids;
static void enter(void) {
    const int n = omp_get_num_threads();
    int other = 0;
    if (!atomic_compare_exchange_strong(&size, &other, n) && other != n) {
        differ = 1;
        while (other < n && !atomic_compare_exchange_weak(&size, &other, n)) {}
    }
    atomic_fetch_add(&entered, 1);
    atomic_fetch_or(&ids, 1UL << omp_get_thread_num());
}
static int leave(void) {
    const int n = entered;
    CHECK(n == size);
    CHECK(ids == (1UL << n) - 1);
    if (differ) printf(" (two sizes)");
    size = 0;
    differ = 0;
    entered = 0;
    ids = 0;
    return n;
}

static int plain_team(void) {
#pragma omp parallel
    enter();
    return leave();
}

// Combined constructs enter gcc's runtime by a function each. Who takes part is known from the items.
static _Atomic unsigned long workers;
static int member(void) {
    atomic_fetch_or(&workers, 1UL << omp_get_thread_num());
    return omp_get_num_threads();
}
#define COMBINED(text)                                   \
    do {                                                 \
        int n = 0;                                       \
        sum = 0;                                         \
        _Pragma(text) for (int i = 0; i < kItems; i++) { \
            const int team = member();                   \
            (void)team;                                  \
            _Pragma("omp atomic") sum += i;              \
            _Pragma("omp atomic write") n = team;        \
        }                                                \
        CHECK(sum == (long)kItems * (kItems - 1) / 2);   \
        CHECK(workers < 1UL << n);                       \
        workers = 0;                                     \
        printf(" %d", n);                                \
    } while (0)

static void kinds(void) {
    printf("told %d, teams", omp_get_max_threads());
    printf(" %d", plain_team());
    COMBINED("omp parallel for");
    COMBINED("omp parallel for schedule(static, 7)");
    COMBINED("omp parallel for schedule(dynamic)");
    COMBINED("omp parallel for schedule(monotonic : dynamic, 3)");
    COMBINED("omp parallel for schedule(guided)");
    COMBINED("omp parallel for schedule(monotonic : guided)");
    COMBINED("omp parallel for schedule(runtime)");
    COMBINED("omp parallel for schedule(monotonic : runtime)");
    COMBINED("omp parallel for schedule(nonmonotonic : runtime)");
    int n = 0;
#pragma omp parallel sections
    {
#pragma omp section
        n = omp_get_num_threads();
#pragma omp section
        sum++;
    }
    printf(" %d", n);
    int total = 0;
#pragma omp parallel reduction(task, + : total)
    {
        total += 1;
        n = omp_get_num_threads();
    }
    CHECK(total == n);
    printf(" %d\n", n);
}

// What gcc before 4.9 made of a region; every runtime still has it.
void GOMP_parallel_start(void (*)(void*), void*, unsigned);
void GOMP_parallel_end(void);
void GOMP_parallel_loop_dynamic_start(void (*)(void*), void*, unsigned, long, long, long, long);
_Bool GOMP_loop_dynamic_next(long*, long*);
void GOMP_loop_end_nowait(void);
static void old_body(void* data) {
    (void)data;
    enter();
}
static void old_loop(void* data) {
    (void)data;
    enter();
    for (long from, to; GOMP_loop_dynamic_next(&from, &to);)
        for (long i = from; i < to; i++) {
#pragma omp atomic
            sum += i;
        }
    GOMP_loop_end_nowait();
}
static void old(void) {
    printf("told %d, teams", omp_get_max_threads());
    GOMP_parallel_start(old_body, 0, 0);
    old_body(0);
    GOMP_parallel_end();
    printf(" %d", leave());
    sum = 0;
    GOMP_parallel_loop_dynamic_start(old_loop, 0, 0, 0, kItems, 1, 4);
    old_loop(0);
    GOMP_parallel_end();
    CHECK(sum == (long)kItems * (kItems - 1) / 2);
    printf(" %d", leave());
    GOMP_parallel_start(old_body, 0, 3);
    old_body(0);
    GOMP_parallel_end();
    printf(", named %d\n", leave());
}

static void named(void) {
    for (int n = 1; n <= 5; n += 2) {
#pragma omp parallel num_threads(n)
        enter();
        printf("asked %d, got %d\n", n, leave());
    }
    int n = 0;
#pragma omp parallel for schedule(dynamic) num_threads(5)
    for (int i = 0; i < kItems; i++) n = member();
    printf("asked 5, got %d; told %d\n", n, omp_get_max_threads());
}

// A clause of a region that is none: the clause ends with it.
static void serialized(void) {
    const int parallel = failures > 0;
    for (int i = 0; i < 20; i++) {
        int n = 0;
#pragma omp parallel if (parallel) num_threads(3)
        n = omp_get_num_threads();
        CHECK(n == 1);
        plain_team();
    }
}

// The program's own number, and work cut by it without another question.
static void own(void) {
    enum { kOwn = 5, kRows = 100 };
    char rows[kOwn][kRows] = {{0}};
    omp_set_num_threads(kOwn);
#pragma omp parallel
    memset(rows[omp_get_thread_num()], 1, kRows);
    int blank = 0;
    for (int i = 0; i < kOwn; i++) blank += rows[i][0] == 0;
    printf("set %d, told %d, blocks left out %d\n", kOwn, omp_get_max_threads(), blank);
    omp_set_num_threads(1);
    printf("set 1, told %d, team %d\n", omp_get_max_threads(), plain_team());
}

// As many as the machine has, which it has from elsewhere.
static void own_count(void) {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    omp_set_num_threads(CPU_COUNT(&all));
    const int team = plain_team();
    printf("team %s, told %s\n", team == CPU_COUNT(&all) ? "as set" : "other",
           omp_get_max_threads() == CPU_COUNT(&all) ? "as set" : "other");
}

// The environment's number, which it reads and sets itself, as GraphicsMagick does; then it asks.
static int from_environment(void) {
    const char* text = getenv("OMP_NUM_THREADS");
    return text ? atoi(text) : 5;
}
static void repeats(void) {
    omp_set_num_threads(from_environment());
    const int told = omp_get_max_threads();
    const int team = plain_team();
    omp_set_num_threads(from_environment());
    printf("told %d, team %d, then %d\n", told, team, plain_team());
}

// It asks nothing, and has cut its work by what it has set.
static void repeats_and_cuts(void) {
    char block[kMost] = {0};
    const int cut = from_environment();
    omp_set_num_threads(cut);
#pragma omp parallel
    block[omp_get_thread_num()] = 1;
    int blank = 0;
    for (int i = 0; i < cut; i++) blank += block[i] == 0;
    printf("set %d, blocks left out %d, told %d\n", cut, blank, omp_get_max_threads());
}

// It has asked before it sets, and has room for so many.
static void asks_and_repeats(void) {
    const int room = omp_get_max_threads();
    omp_set_num_threads(from_environment());
    const int team = plain_team();
    printf("%s\n", team == room  ? "a team as told"
                   : team > room ? "a larger team than told"
                                 : "a smaller one");
}

// By a way that does not lead through the shim: Python's ctypes and threadpoolctl do it.
static void own_aside(void) {
    Dl_info runtime;
    if (!dladdr((void*)omp_get_level, &runtime)) return;
    void* handle = dlopen(runtime.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void (*set)(int) = (void (*)(int))dlsym(handle, "omp_set_num_threads");
    set(3);
    printf("set 3 aside, team %d, told %d\n", plain_team(), omp_get_max_threads());
}

static void processors(void) {
    printf("processors %d\n", omp_get_num_procs());
    omp_set_num_threads(omp_get_num_procs());
    printf("set to that: told %d, team %d\n", omp_get_max_threads(), plain_team());
}

extern int omp_get_max_threads_(void), omp_get_num_procs_(void);
extern void omp_set_num_threads_(const int*);
static void fortran(void) {
    printf("told %d, team %d, processors %d\n", omp_get_max_threads_(), plain_team(), omp_get_num_procs_());
    const int own_number = 3;
    omp_set_num_threads_(&own_number);
    printf("set 3, told %d, team %d\n", omp_get_max_threads_(), plain_team());
}

static void* on_a_thread(void* team_first) {
    if (team_first) {
        const int team = plain_team();
        printf("team %d, told %d\n", team, omp_get_max_threads());
    } else {
        printf("told %d, team %d\n", omp_get_max_threads(), plain_team());
    }
    return 0;
}
static void threads(void) {
    for (long i = 0; i < 4; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, on_a_thread, i % 2 ? &failures : 0);
        pthread_join(thread, 0);
    }
    on_a_thread(0);
}

// One region in another: what the inner one gets is inherited, and asking there changes nothing.
static void nested(void) {
    int inner[3] = {0}, told[3] = {0};
    for (int i = 0; i < 3; i++) {
#pragma omp parallel num_threads(2)
        {
            const int asked = omp_get_max_threads();
            int n = 0;
#pragma omp parallel
            {
#pragma omp atomic write
                n = omp_get_num_threads();
            }
#pragma omp critical
            {
                CHECK(inner[i] == 0 || inner[i] == n);
                CHECK(told[i] == 0 || told[i] == asked);
                inner[i] = n;
                told[i] = asked;
            }
        }
    }
    printf("inside told %d %d %d, teams %d %d %d; outside told %d, team %d\n", told[0], told[1], told[2],
           inner[0], inner[1], inner[2], omp_get_max_threads(), plain_team());
}

// Whoever pins its first thread before it asks has teams as wide as before.
static void pinned(void) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    const int told = omp_get_max_threads();
    sched_setaffinity(0, sizeof all, &all);
    const int team = plain_team();
    printf("told %s, team %s\n", told == CPU_COUNT(&all) ? "all" : "other",
           team == told ? "as told" : "other");
}

// Many regions of every kind: one size, one promise, the same threads all the time.
static int tids[4096];
static _Atomic int known_tids;
static void note_thread(void) {
    static __thread int mine;
    if (!mine) tids[atomic_fetch_add(&known_tids, 1) % 4096] = mine = (int)syscall(SYS_gettid);
}
static int* private_work;
#pragma omp threadprivate(private_work)
static void constant(void) {
    const int told = omp_get_max_threads();
    int other_teams = 0, other_told = 0, lost = 0;
#pragma omp parallel
    {
        private_work = calloc(1, sizeof *private_work);
        note_thread();
    }
    for (int i = 0; i < 300; i++) {
        other_teams += plain_team() != told;
#pragma omp parallel for schedule(dynamic, 8) reduction(+ : lost)
        for (int k = 0; k < 64; k++) {
            note_thread();
            lost += private_work == 0;
        }
        other_told += omp_get_max_threads() != told;
    }
    printf("told %d; other teams %d, other answers %d, state lost %d, threads %s\n", told, other_teams,
           other_told, lost, known_tids == told ? "constant" : "made anew");
}

// A stable parallel counting sort: its two regions must have equal teams, and it cuts its data itself.
static void counting_sort(void) {
    enum { kKeys = 20000, kValues = 16 };
    static int in[kKeys], out[kKeys], offset[kMost][kValues];
    int wrong = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < kKeys; i++) in[i] = (i * 7919 + round) % kValues;
        memset(offset, 0, sizeof offset);
#pragma omp parallel
        {
            const int t = omp_get_thread_num(), n = omp_get_num_threads();
            for (int i = kKeys * t / n; i < kKeys * (t + 1) / n; i++) offset[t][in[i]]++;
        }
        int at = 0;
        for (int v = 0; v < kValues; v++)
            for (int t = 0; t < kMost; t++) {
                const int count = offset[t][v];
                offset[t][v] = at;
                at += count;
            }
#pragma omp parallel
        {
            const int t = omp_get_thread_num(), n = omp_get_num_threads();
            for (int i = kKeys * t / n; i < kKeys * (t + 1) / n; i++) out[offset[t][in[i]]++] = in[i];
        }
        for (int i = 1; i < kKeys; i++) wrong += out[i - 1] > out[i];
    }
    printf("out of order %d\n", wrong);
}

// Scratch for as many as were promised, and a minimum over all of it.
static void slots(void) {
    int overrun = 0, unset = 0;
    for (int round = 0; round < 50; round++) {
        const int promised = omp_get_max_threads();
        int* slot = malloc((promised + kMost) * sizeof *slot);
        for (int i = 0; i < promised + kMost; i++) slot[i] = -1;
#pragma omp parallel
        slot[omp_get_thread_num()] = 1;
        for (int i = 0; i < promised; i++) unset += slot[i] < 0;
        for (int i = promised; i < promised + kMost; i++) overrun += slot[i] > 0;
        free(slot);
    }
    printf("overrun %d, unset %d\n", overrun, unset);
}

// Meets at a barrier of its own that waits for as many as it has named (BLIS does).
static void own_barrier(void) {
    enum { kNamed = 3 };
    static _Atomic int arrived[50];
    alarm(20);  // of a hang
    for (int round = 0; round < 50; round++) {
#pragma omp parallel num_threads(kNamed)
        {
            atomic_fetch_add(&arrived[round], 1);
            while (arrived[round] < kNamed) sched_yield();
        }
    }
    printf("met %d times\n", (int)(sizeof arrived / sizeof *arrived));
}

// The bits of a sum depend on the number of threads, and on nothing else.
static void bits(void) {
    enum { kNumbers = 20000 };
    static float x[kNumbers];
    unsigned state = 12345, first = 0;
    int kinds_seen = 0;
    for (int i = 0; i < kNumbers; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
    // The parts are added in the order of the threads: a reduction clause would take them as they come.
    for (int round = 0; round < 100; round++) {
        float part[kMost] = {0}, s = 0;
        int n = 0;
#pragma omp parallel
        {
            const int t = omp_get_thread_num(), team = omp_get_num_threads();
            for (int i = kNumbers / team * t; i < kNumbers / team * (t + 1); i++) part[t] += x[i] * 1.0001f;
#pragma omp atomic write
            n = team;
        }
        for (int t = 0; t < n; t++) s += part[t];
        unsigned b;
        memcpy(&b, &s, sizeof b);
        if (round == 0) first = b;
        kinds_seen += round == 0 || b != first;
    }
    printf("%d kind, %08x\n", kinds_seen, first);
}

static const struct {
    const char* name;
    void (*run)(void);
} kBehaviours[] = {
    {"kinds", kinds},
    {"old", old},
    {"named", named},
    {"serialized", serialized},
    {"own", own},
    {"own-aside", own_aside},
    {"own-count", own_count},
    {"repeats", repeats},
    {"repeats-and-cuts", repeats_and_cuts},
    {"asks-and-repeats", asks_and_repeats},
    {"processors", processors},
    {"fortran", fortran},
    {"threads", threads},
    {"nested", nested},
    {"pinned", pinned},
    {"constant", constant},
    {"counting-sort", counting_sort},
    {"slots", slots},
    {"own-barrier", own_barrier},
    {"bits", bits},
};

int main(int argc, char** argv) {
    for (size_t i = 0; argc > 1 && i < sizeof kBehaviours / sizeof *kBehaviours; i++)
        if (strcmp(argv[1], kBehaviours[i].name) == 0) {
            kBehaviours[i].run();
            puts(failures == 0 ? "done" : "FAILED");
            return failures != 0;
        }
    return 2;
}
