// SPDX-License-Identifier: Apache-2.0
// Regions that another width would spoil, and some that it would not: one behaviour a run, named by the first
// argument. Built by gcc and by clang. OMP_NUM_THREADS is 2 in every run. How many threads a region had is
// counted by those that entered it: whoever asks is of another kind. All have a loop that the runtime hands
// out, but for those that are about regions without.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRounds = 600, kItems = 64, kTeam = 2 };

static _Atomic int entered, widest;
static _Atomic long sum;
static int other;  // teams that were not of the size that the program could rely on
static int narrow, wrong;

#define DO(text) _Pragma(#text)
#define COMMA ,
#define LOOP(schedule_kind)                                  \
    DO(omp for schedule(schedule_kind))                      \
    for (int i = 0; i < kItems; i++) atomic_fetch_add(&sum, i)

static void expect(int team) {
    other += entered != team;
    narrow += entered == 1;
    wrong += sum != kItems * (kItems - 1) / 2;
    entered = 0;
    sum = 0;
}

// --- resizable
static void resizable(void) {
#pragma omp parallel
    {
        entered++;
        LOOP(dynamic);
    }
    expect(kTeam);
}

static void combined(void) {
    long total = 0, most = 0;
#pragma omp parallel for schedule(guided) reduction(+ : total) reduction(max : most)
    for (int i = 0; i < kItems; i++) {
        total += i;
        if (i > most) most = i;
    }
    wrong += total != kItems * (kItems - 1) / 2 || most != kItems - 1;
#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < kItems; i++) atomic_fetch_add(&sum, i);
    expect(0);
}

// Everything that may stand in a loop's region and is right at any width.
static void constructs(void) {
    static long last;
    long order = 0, tasks = 0, singles = 0, section = 0;
    int lastly = 0;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 3) ordered
        for (int i = 0; i < kItems; i++) {
#pragma omp ordered
            order = order * 31 + i;
        }
#pragma omp for schedule(monotonic : dynamic) lastprivate(lastly)  // LLVM's runtime is wrong without
        for (int i = 0; i < kItems; i++) {
            lastly = i;
#pragma omp task shared(tasks)
#pragma omp atomic
            tasks += i;
        }
#pragma omp single
        singles++;
#pragma omp sections
        {
#pragma omp section
#pragma omp atomic
            section += 1;
#pragma omp section
#pragma omp atomic
            section += 2;
        }
#pragma omp barrier
    }
    static long grid[kItems];
#pragma omp parallel
#pragma omp for schedule(dynamic) ordered(1)
    for (int i = 0; i < kItems; i++) {
#pragma omp ordered depend(sink : i - 1)
        grid[i] = i > 0 ? grid[i - 1] + i : 0;
#pragma omp ordered depend(source)
    }
    if (last == 0) last = order;
    wrong += order != last || tasks != kItems * (kItems - 1) / 2 || singles != 1 || section != 3;
    wrong += lastly != kItems - 1 || grid[kItems - 1] != kItems * (kItems - 1) / 2;
}

#ifndef __clang__  // LLVM's runtime is wrong here
static void cancelled(void) {
    _Atomic int found = -1;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < kItems; i++) {
            if (i == 40) {
                found = i;
#pragma omp cancel for
            }
#pragma omp cancellation point for
            atomic_fetch_add(&sum, 1);
        }
    }
    wrong += found != 40 || sum < 1 || sum > kItems;
    sum = 0;
}

#endif

// As many captured variables as need the stack, of every kind.
static void captures(void) {
    long a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, k = 9;
    int small = -3;
    double real = 0.5;
    float single = 0.25F;
    int64_t* const pointer = &(int64_t){11};
    long total = 0;
#pragma omp parallel firstprivate(a, b, c, d, e, f, g, h, k, small, real, single, pointer) reduction(+ : total)
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < kItems; i++)
            total += a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + k * 9 + small +
                     (long)(real * 2) + (long)(single * 4) + *pointer;
    }
    wrong += total != kItems * (285 - 3 + 1 + 1 + 11);
}

// --- not to be resized
// A counting sort: what each thread counted in one region it has to find in the next.
static void counting_sort(void) {
    enum { kKeys = 4 };
    static int keys[kItems], out[kItems], counts[64][kKeys];
    for (int i = 0; i < kItems; i++) keys[i] = (i * 7 + 3) % kKeys;
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < kItems; i++) out[i] = -1 - i;
    _Atomic int team = 0;
#pragma omp parallel
    {
        const int n = omp_get_num_threads(), t = omp_get_thread_num();
        team = n;
        LOOP(dynamic);
        for (int i = kItems * t / n; i < kItems * (t + 1) / n; i++) counts[t][keys[i]]++;
    }
    sum = 0;
    for (int key = 0, start = 0; key < kKeys; key++)
        for (int t = 0; t < team; t++) {
            const int count = counts[t][key];
            counts[t][key] = start;
            start += count;
        }
#pragma omp parallel
    {
        const int n = omp_get_num_threads(), t = omp_get_thread_num();
        LOOP(dynamic);
        for (int i = kItems * t / n; i < kItems * (t + 1) / n; i++)
            out[counts[t][keys[i]]++ % kItems] = keys[i];
    }
    sum = 0;
    for (int i = 1; i < kItems; i++) wrong += out[i - 1] > out[i] || out[i] < 0;
}

static void asks_number(void) {
#pragma omp parallel
    {
        entered++;
        if (omp_get_thread_num() > widest) widest = omp_get_thread_num();
        LOOP(dynamic);
    }
    expect(kTeam);
}

static void asks_ancestor(void) {
#pragma omp parallel
    {
        entered++;
        if (omp_get_ancestor_thread_num(1) > widest) widest = 1;
        LOOP(dynamic);
    }
    expect(kTeam);
}

static void asks_size(void) {
#pragma omp parallel
    {
        entered++;
        widest = omp_get_team_size(1);
        LOOP(dynamic);
    }
    expect(kTeam);
}

static void asks_maximum(void) {
#pragma omp parallel
    {
        entered++;
        if (omp_get_max_threads() > 0) widest = 1;
        LOOP(dynamic);
    }
    expect(kTeam);
}

// It locks only where others may be.
static void asks_parallel(void) {
    _Atomic int alone = 0;
#pragma omp parallel
    {
        entered++;
        if (!omp_in_parallel()) alone++;
        LOOP(dynamic);
    }
    wrong += alone;
    expect(kTeam);
}

// It asks where nobody has seen it at first.
static void asks_late(void) {
    static int round;
    const int asks = ++round > 100;
    int n = 0;
#pragma omp parallel
    {
        entered++;
        LOOP(dynamic);
        if (asks) {
#pragma omp atomic write
            n = omp_get_num_threads();
        }
    }
    if (round > 101) {  // from the next region on
        wrong += n != kTeam;
        expect(kTeam);
    }
    entered = 0;
    sum = 0;
}

#ifdef THREADPRIVATE
// Data of a region that the next one finds again, thread by thread.
static int* kept;
#pragma omp threadprivate(kept)
static void threadprivate(void) {
#pragma omp parallel
    {
        entered++;
        if (kept == NULL) kept = calloc(1, sizeof *kept);
        ++*kept;
        LOOP(dynamic);
    }
    expect(kTeam);
}
#endif

static void named(void) {
#pragma omp parallel num_threads(3)
    {
        entered++;
        LOOP(dynamic);
    }
    expect(3);
}

// By default only one of two nested regions is wide. With the outer one narrow the inner would be.
static void nested(void) {
    static _Atomic int inner[kItems];
    for (int i = 0; i < kItems; i++) inner[i] = 0;
#pragma omp parallel
    {
        entered++;
#pragma omp for schedule(dynamic)
        for (int i = 0; i < kItems; i++) {
#pragma omp parallel
            {
                inner[i]++;
#pragma omp for schedule(dynamic)
                for (int j = 0; j < 4; j++) atomic_fetch_add(&sum, j);
            }
        }
    }
    for (int i = 0; i < kItems; i++) wrong += inner[i] != 1;
    sum = kItems * (kItems - 1) / 2;
    expect(kTeam);
}

// The same, but the inner one comes late, and only where the outer one may be narrow.
static void nested_late(void) {
    static int round;
    const int nests = ++round > 100;
    _Atomic int inner = 0, regions = 0;
#pragma omp parallel
    {
        entered++;
#pragma omp for schedule(dynamic)
        for (int i = 0; i < kItems; i++) {
            if (nests && i == kItems - 1 && entered == 1) {
                regions++;
#pragma omp parallel num_threads(2)
                inner++;
            }
        }
    }
    wrong += inner != regions;
    entered = 0;
}

// As many blocks as it was told that there would be threads: each thread takes one.
static void planned(void) {
    static int round, told;
    if (++round == 300) told = omp_get_max_threads();
    resizable();
    if (round < 300) other = narrow = 0;
    (void)told;
}

static void planned_fortran(void) {
    static int round, told;
    // Found by its name: an object that imports it counts as Fortran's all the way.
    if (++round == 300) told = ((int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_max_threads_"))();
    resizable();
    if (round < 300) other = narrow = 0;
    (void)told;
}

static void planned_processors(void) {
    static int round, told;
    if (++round == 300) told = omp_get_num_procs();
    resizable();
    if (round < 300) other = narrow = 0;
    (void)told;
}

// Before there was any region.
static void set_first(void) {
    static int round;
    if (++round == 1) omp_set_num_threads(kTeam);
    resizable();
}

static void processors_first(void) {
    static int round, told;
    if (++round == 1) told = omp_get_num_procs();
    resizable();
    (void)told;
}

static void set(void) {
    static int round;
    if (++round == 300) omp_set_num_threads(kTeam);
    resizable();
    if (round < 300) other = narrow = 0;
}

// Halfway the runtime itself says one thread, and nobody has seen who told it.
static void lowered_unseen(void) {
    static int round;
    if (++round == 300) {
#ifdef __clang__
        void* const runtime = dlopen("libomp.so.5", RTLD_LAZY | RTLD_NOLOAD);
#else
        void* const runtime = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
#endif
        if (runtime == NULL) exit(3);
        ((void (*)(int))dlsym(runtime, "omp_set_num_threads"))(1);
    }
#pragma omp parallel
    {
        entered++;
        LOOP(dynamic);
    }
    if (round >= 300) other += entered > 1;
    entered = 0;
    sum = 0;
}

// Who does what is the program's own business where no loop is handed out.
static void no_loop(void) {
#pragma omp parallel
    {
        entered++;
        sum += kItems * (kItems - 1) / 4;
    }
    expect(kTeam);
}

static void tasks(void) {
#pragma omp parallel
    {
        entered++;
#pragma omp single
        for (int i = 0; i < kItems; i++) {
#pragma omp task firstprivate(i)
            sum += i;
        }
    }
    expect(kTeam);
}

// --- chunks: each iteration must run once, whatever a thread takes at a time
static _Atomic int taken[kItems];
static int length;  // of the loops, another one from round to round

static void expect_once(int items) {
    for (int i = 0; i < kItems; i++) {
        wrong += taken[i] != (i < items ? 1 : 0);
        taken[i] = 0;
    }
}

#define CHUNKED(name, type, from, condition, next, schedule_kind, item) \
    __attribute__((noinline)) static void name(void) {                  \
        DO(omp parallel for schedule(schedule_kind))                    \
        for (type i = from; condition; next) taken[item]++;             \
        expect_once(length);                                            \
    }
CHUNKED(chunk_int, int, 0, i < length, i++, dynamic, i)
CHUNKED(chunk_down, long, length - 1, i >= 0, i--, dynamic, i)
CHUNKED(chunk_steps, long, -6, i < 3 * length - 6, i += 3, dynamic, (i + 6) / 3)
CHUNKED(chunk_unsigned, unsigned, 0, i < (unsigned)length, i++, dynamic, i)
CHUNKED(chunk_size, size_t, 0, i < (size_t)length, i++, dynamic, i)
CHUNKED(chunk_size_down, size_t, 7 * (size_t)length, i > 0, i -= 7, dynamic, i / 7 - 1)
CHUNKED(chunk_top, uint64_t, UINT64_MAX - (uint64_t)length, i < UINT64_MAX, i++, dynamic, UINT64_MAX - 1 - i)
CHUNKED(chunk_monotonic, int, 0, i < length, i++, monotonic : dynamic, i)
CHUNKED(chunk_runtime, int, 0, i < length, i++, runtime, i)
CHUNKED(chunk_size_runtime, size_t, 0, i < (size_t)length, i++, runtime, i)
CHUNKED(chunk_named, int, 0, i < length, i++, dynamic COMMA 4, i)
CHUNKED(chunk_guided, int, 0, i < length, i++, guided, i)

__attribute__((noinline)) static void chunk_in_turn(void) {
#pragma omp parallel
    for (int turn = 0; turn < 3; turn++) {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < length - turn; i++) taken[i]++;
#pragma omp single
        expect_once(length - turn);
#pragma omp for schedule(dynamic) nowait
        for (long i = 0; i < length; i++) atomic_fetch_add(&sum, 1);
    }
    wrong += sum != 3 * length;
    sum = 0;
}

__attribute__((noinline)) static void chunk_ordered(void) {
    static int next;
    next = 0;
#pragma omp parallel for schedule(dynamic) ordered
    for (int i = 0; i < length; i++) {
        taken[i]++;
#pragma omp ordered
        wrong += next++ != i;
    }
    expect_once(length);
}

static void chunks(void) {
    static int round;
    length = 3 + round++ % 5 * 15;
    void (*const all[])(void) = {chunk_int,       chunk_down,    chunk_steps,        chunk_unsigned,
                                 chunk_size,      chunk_top,     chunk_monotonic,    chunk_runtime,
                                 chunk_named,     chunk_guided,  chunk_size_runtime, chunk_in_turn,
                                 chunk_size_down, chunk_ordered};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]();
}

// What the environment says of the runtime schedule is not looked at any more.
static void chunk_set(void) {
    static int round;
    length = kItems;
    if (++round == 300) omp_set_schedule(omp_sched_dynamic, 1);
    chunk_runtime();
}

// The loop of a region, run by a team that is opened inside it too: of that only one thread is in the region.
__attribute__((noinline)) static void shared_loop(void) {
#pragma omp barrier
#pragma omp for schedule(monotonic : dynamic)
    for (int i = 0; i < kItems; i++) {
        atomic_fetch_add(&sum, i);
        sched_yield();  // each thread gets some
    }
}
enum { kInside = 20 };
static void chunk_inside(void) {
    static int round;
    const int nests = ++round > 100 && round < 120;
    if (round == 1) omp_set_max_active_levels(2);
#pragma omp parallel
    {
        shared_loop();
#pragma omp single
        for (int i = 0; nests && i < kInside; i++) {
#pragma omp parallel num_threads(2)
            shared_loop();
        }
    }
    wrong += sum != (nests ? kInside + 1 : 1) * (kItems * (kItems - 1) / 2);
    sum = 0;
}

static const struct {
    const char* name;
    void (*run)(void);
} behaviours[] = {{"resizable", resizable},
                  {"combined", combined},
                  {"constructs", constructs},
#ifndef __clang__
                  {"cancelled", cancelled},
#endif
                  {"captures", captures},
                  {"counting-sort", counting_sort},
                  {"asks-number", asks_number},
                  {"asks-ancestor", asks_ancestor},
                  {"asks-size", asks_size},
                  {"asks-maximum", asks_maximum},
                  {"asks-parallel", asks_parallel},
                  {"asks-late", asks_late},
#ifdef THREADPRIVATE
                  {"threadprivate", threadprivate},
#endif
                  {"named", named},
                  {"nested", nested},
                  {"nested-late", nested_late},
                  {"planned", planned},
                  {"planned-fortran", planned_fortran},
                  {"planned-processors", planned_processors},
                  {"set", set},
                  {"set-first", set_first},
                  {"processors-first", processors_first},
                  {"lowered-unseen", lowered_unseen},
                  {"no-loop", no_loop},
                  {"tasks", tasks},
                  {"chunks", chunks},
                  {"chunk-set", chunk_set},
                  {"chunk-inside", chunk_inside}};

int main(int argc, char** argv) {
    for (size_t i = 0; argc > 1 && i < sizeof behaviours / sizeof *behaviours; i++) {
        if (strcmp(argv[1], behaviours[i].name) != 0) continue;
        for (int round = 0; round < kRounds; round++) behaviours[i].run();
        printf("other teams %s, wrong %d\n", other == 0 ? "none" : narrow > 0 ? "some" : "wide", wrong);
        return 0;
    }
    return 2;
}
