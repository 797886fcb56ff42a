// SPDX-License-Identifier: Apache-2.0
// The constructs of OpenMP that gcc turns into calls of its runtime and that LLVM's does as well (differs.c has
// the others). What is printed depends on neither the number of threads nor the runtime: each check says how
// many of its values are wrong.
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { kCount = 1000 };
static int seen[kCount];

static void clear(void) {
    memset(seen, 0, sizeof seen);
}
static int wrong(int times) {
    int bad = 0;
    for (int i = 0; i < kCount; ++i) bad += seen[i] != times;
    return bad;
}
static void say(const char* what, int bad) {
    printf("%s: %d\n", what, bad);
}

#define LOOP(name, clause) \
    static void name(void) { \
        clear(); \
        _Pragma(clause) for (int i = 0; i < kCount; ++i) _Pragma("omp atomic") seen[i]++; \
        say(#name, wrong(1)); \
    }
LOOP(loop_static, "omp parallel for schedule(static)")
LOOP(loop_static_chunk, "omp parallel for schedule(static, 7)")
LOOP(loop_dynamic, "omp parallel for schedule(dynamic, 3)")
LOOP(loop_guided, "omp parallel for schedule(guided, 2)")
LOOP(loop_runtime, "omp parallel for schedule(runtime)")
LOOP(loop_auto, "omp parallel for schedule(auto)")
LOOP(loop_mono, "omp parallel for schedule(monotonic: dynamic, 3)")
LOOP(loop_nonmono, "omp parallel for schedule(nonmonotonic: guided, 3)")
LOOP(loop_bind, "omp parallel for schedule(runtime) proc_bind(spread)")
LOOP(loop_named, "omp parallel for schedule(dynamic) num_threads(3)")

static void ordered(void) {
    int next = 0, bad = 0;
#pragma omp parallel for ordered schedule(dynamic, 2)
    for (int i = 0; i < kCount; ++i) {
#pragma omp ordered
        bad += next++ != i;
    }
    say("ordered", bad);
    next = 0;
#pragma omp parallel for ordered schedule(static, 2)
    for (int i = 0; i < kCount; ++i) {
#pragma omp ordered
        bad += next++ != i;
    }
    next = 0;
#pragma omp parallel for ordered schedule(runtime)
    for (int i = 0; i < kCount; ++i) {
#pragma omp ordered
        bad += next++ != i;
    }
    say("ordered static, runtime", bad);
}

static void ull(void) {
    clear();
#pragma omp parallel for schedule(dynamic, 3)
    for (unsigned long long i = 0; i < kCount; ++i)
#pragma omp atomic
        seen[i]++;
#pragma omp parallel for schedule(runtime)
    for (unsigned long long i = kCount; i > 0; --i)
#pragma omp atomic
        seen[i - 1]++;
    say("unsigned loops", wrong(2));
}

static void shared_work(void) {
    clear();
    int singles = 0, copied = 0, masters = 0, team = 0;
#pragma omp parallel
    {
        int mine = 0;
#pragma omp single copyprivate(mine)
        mine = 42;
#pragma omp atomic
        copied += mine == 42;
#pragma omp atomic
        team++;
#pragma omp single
        singles++;
#pragma omp master
        masters++;
#pragma omp for schedule(dynamic) nowait
        for (int i = 0; i < kCount; ++i)
#pragma omp atomic
            seen[i]++;
#pragma omp for schedule(guided)
        for (int i = 0; i < kCount; ++i)
#pragma omp atomic
            seen[i]++;
#pragma omp for schedule(runtime)
        for (int i = 0; i < kCount; ++i)
#pragma omp atomic
            seen[i]++;
#pragma omp barrier
    }
    say("single, master, for", wrong(3) + (singles != 1) + (masters != 1) + (copied != team));
}

static void sections(void) {
    int a = 0, b = 0, c = 0;
#pragma omp parallel sections
    {
#pragma omp section
#pragma omp atomic
        a++;
#pragma omp section
#pragma omp atomic
        b++;
#pragma omp section
#pragma omp atomic
        c++;
    }
#pragma omp parallel
    {
#pragma omp sections nowait
        {
#pragma omp section
#pragma omp atomic
            a++;
#pragma omp section
#pragma omp atomic
            b++;
        }
    }
    say("sections", (a != 2) + (b != 2) + (c != 1));
}

static void locks(void) {
    // As small as gcc's are: a runtime that thinks them larger overwrites the neighbour.
    omp_lock_t lock[8];
    omp_nest_lock_t nest[8];
    int guard = 0, inner = 0;
    for (int i = 0; i < 8; ++i) omp_init_lock(&lock[i]), omp_init_nest_lock(&nest[i]);
#pragma omp parallel for
    for (int i = 0; i < kCount; ++i) {
        omp_set_lock(&lock[i % 2]);
        omp_set_lock(&lock[2]);
        guard++;
        omp_unset_lock(&lock[2]);
        omp_unset_lock(&lock[i % 2]);
        omp_set_nest_lock(&nest[3]);
        omp_set_nest_lock(&nest[3]);
        inner++;
        omp_unset_nest_lock(&nest[3]);
        omp_unset_nest_lock(&nest[3]);
    }
    for (int i = 0; i < 8; ++i) omp_destroy_lock(&lock[i]), omp_destroy_nest_lock(&nest[i]);
    int named = 0, plain = 0;
    long double wide = 0;
#pragma omp parallel for
    for (int i = 0; i < kCount; ++i) {
#pragma omp critical(name)
        named++;
#pragma omp critical
        plain++;
#pragma omp atomic
        wide += 1;
    }
    say("locks, critical, atomic", (guard != kCount) + (inner != kCount) + (named != kCount) + (plain != kCount) + (wide != kCount));
}

static int fib(int n) {
    if (n < 2) return n;
    int a, b;
#pragma omp task shared(a) if (n > 8)
    a = fib(n - 1);
#pragma omp task shared(b) final(n < 5) mergeable
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

static void tasks(void) {
    int result = 0;
#pragma omp parallel
#pragma omp single
    result = fib(16);
    say("tasks", result != 987);
    int chain = 1, bad = 0;
    int cells[64];
    memset(cells, 0, sizeof cells);
#pragma omp parallel
#pragma omp single
    {
        for (int i = 0; i < 50; ++i) {
#pragma omp task depend(inout : chain) priority(i % 3)
            chain = chain * 3 % 10007;
        }
        for (int i = 0; i < 64; ++i) {
#pragma omp task depend(out : cells[i])
            cells[i] = i;
        }
        for (int i = 1; i < 64; ++i) {
#pragma omp task depend(in : cells[i - 1]) depend(in : cells[i]) shared(bad)
            if (cells[i] != i || cells[i - 1] != i - 1) {
#pragma omp atomic
                bad++;
            }
        }
#pragma omp taskwait depend(in : cells[5])
        if (cells[5] != 5) bad++;
        char bytes[100];
        memset(bytes, 7, sizeof bytes);
#pragma omp task firstprivate(bytes) untied
        {
#pragma omp taskyield
            for (int i = 0; i < 100; ++i) bad += bytes[i] != 7;
        }
    }
    int alone = 1;
    for (int i = 0; i < 50; ++i) alone = alone * 3 % 10007;
    say("dependences", bad + (alone != chain));
    int mutex = 0, done = 0;
    omp_depend_t dep;
#pragma omp depobj(dep) depend(inout : done)
#pragma omp parallel
#pragma omp single
    {
        for (int i = 0; i < 20; ++i) {
#pragma omp task depend(mutexinoutset : mutex)
            mutex++;
#pragma omp task depend(depobj : dep)
            done++;
        }
    }
#pragma omp depobj(dep) destroy
    say("mutexinoutset, depobj", (mutex != 20) + (done != 20));
}

static void groups(void) {
    clear();
    int after = 0, total = 0;
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup
        for (int i = 0; i < kCount; ++i) {
#pragma omp task
#pragma omp atomic
            seen[i]++;
        }
        after = wrong(1);
#pragma omp taskgroup task_reduction(+ : total)
        for (int i = 0; i < 100; ++i) {
#pragma omp task in_reduction(+ : total)
            total += i;
        }
    }
    say("taskgroup", after);
    say("task reductions", total != 4950);
}

static void reductions(void) {
    long sum = 0, product = 1;
    int most = -1, tasks = 0;
    double real = 0;
#pragma omp parallel for reduction(+ : sum, real) reduction(max : most)
    for (int i = 0; i < kCount; ++i) sum += i, real += i, most = i > most ? i : most;
#pragma omp parallel for reduction(* : product) schedule(dynamic)
    for (int i = 1; i < 11; ++i) product *= i;
#pragma omp parallel reduction(task, + : tasks)
    {
#pragma omp single
        for (int i = 0; i < 10; ++i) {
#pragma omp task in_reduction(+ : tasks)
            tasks += i;
        }
    }
    say("reductions", (sum != 499500) + (real != 499500) + (most != 999) + (product != 3628800) + (tasks != 45));
    int work = 0, parts = 0;
#pragma omp parallel for reduction(task, + : work) schedule(dynamic, 3)
    for (int i = 0; i < 30; ++i) {
#pragma omp task in_reduction(+ : work)
        work += i;
    }
#pragma omp parallel
#pragma omp sections reduction(task, + : parts)
    {
#pragma omp section
#pragma omp task in_reduction(+ : parts)
        parts += 1;
#pragma omp section
        parts += 2;
    }
    say("work-sharing with task reductions", (work != 435) + (parts != 3));
}

static void cancels(void) {
    int reached = 0;
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < kCount; ++i) {
            if (i == 5) {
#pragma omp cancel for
            }
#pragma omp cancellation point for
        }
#pragma omp atomic
        reached++;
    }
#pragma omp parallel
#pragma omp single
    {
#pragma omp taskgroup
        for (int i = 0; i < 50; ++i) {
#pragma omp task
            {
#pragma omp cancel taskgroup
            }
        }
    }
#pragma omp parallel
    {
#pragma omp cancel parallel
#pragma omp cancellation point parallel
    }
    say("cancel", reached < 1);
}

static int inside;
#pragma omp threadprivate(inside)

static void state(void) {
    int bad = 0, team = 0;
    inside = 5;
#pragma omp parallel copyin(inside) num_threads(3)
    {
#pragma omp atomic
        bad += inside != 5;
        inside = 100 + omp_get_thread_num();
#pragma omp single
        team = omp_get_num_threads();
    }
#pragma omp parallel num_threads(3)
#pragma omp atomic
    bad += inside != 100 + omp_get_thread_num();
    say("threadprivate", bad + (team != 3));
    bad = 0;
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
    {
        const int outer = omp_get_thread_num();
#pragma omp parallel num_threads(2)
        {
            const int level_bad = (omp_get_level() != 2) + (omp_get_ancestor_thread_num(1) != outer) +
                                  (omp_get_team_size(1) != 2) + (omp_get_num_threads() != 2);
#pragma omp atomic
            bad += level_bad;
        }
    }
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2)
    {
        int now = 0;
#pragma omp parallel num_threads(2)
        {
#pragma omp atomic
            now++;
        }
#pragma omp atomic
        bad += now != 1;
    }
    say("nesting", bad + omp_in_parallel() + omp_get_dynamic());
    omp_sched_t kind;
    int chunk;
    omp_get_schedule(&kind, &chunk);
    say("schedule that nobody chose", kind != omp_sched_dynamic);
    omp_set_schedule(omp_sched_guided, 3);
    omp_get_schedule(&kind, &chunk);
    say("schedule set", (kind != omp_sched_guided) + (chunk != 3));
    loop_runtime();
    ordered();
}

// LLVM's runtime would say so on stderr.
static void deprecated(void) {
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    omp_set_nested(1);
    say("deprecated", omp_get_nested() != 1);
}

int main(int argc, char** argv) {
    (void)argv;
    if (argc > 1) return deprecated(), 0;
    loop_static();
    loop_static_chunk();
    loop_dynamic();
    loop_guided();
    loop_runtime();
    loop_auto();
    loop_mono();
    loop_nonmono();
    loop_bind();
    loop_named();
    ordered();
    ull();
    shared_work();
    sections();
    locks();
    tasks();
    groups();
    reductions();
    cancels();
    state();
    puts("done");
    return 0;
}
