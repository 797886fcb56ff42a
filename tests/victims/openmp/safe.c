// SPDX-License-Identifier: Apache-2.0
// What programs do with the number of threads that they are told or read: one behaviour a run, named by the
// first argument; the second is a number, in letters where the shim is not to find it. Built by gcc and by
// clang.
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kMost = 64 };
extern char** environ;
static int number;

static int plain_team(void) {
    int size = 0;
#pragma omp parallel
    {
#pragma omp atomic write
        size = omp_get_num_threads();
    }
    return size;
}

// Work cut into `cut` blocks, each painted by the thread of its number.
static int blocks_left_out(int cut) {
    char block[kMost] = {0};
#pragma omp parallel
    block[omp_get_thread_num()] = 1;
    int blank = 0;
    for (int i = 0; i < cut; i++) blank += block[i] == 0;
    return blank;
}

// A call, for gcc allows no question right inside of `teams`.
static __attribute__((noinline)) int ask(void) {
    return omp_get_max_threads();
}

// A data environment of its own outside of any region, in which the program asks; the team is one outside of
// it, or the other way round. A team that is larger than what was told is memory overrun.
static void scopes(void) {
    int told = 0;
    int team = 0;
#pragma omp task shared(told) if (0)
    told = ask();
    printf("task: told %d, team %d\n", told, plain_team());
#pragma omp task shared(told)
    {
        told = ask();
        omp_set_num_threads(told);
    }
#pragma omp taskwait
    printf("task that sets: told %d, team %d\n", told, plain_team());
    told = ask();
#pragma omp target map(tofrom : team)
    team = plain_team();
    printf("target: told %d, team %d\n", told, team);
#pragma omp target map(tofrom : told)
    told = ask();
    printf("target: told %d, team %d\n", told, plain_team());
#pragma omp teams num_teams(1) shared(told)
    told = ask();
    printf("teams: told %d, team %d\n", told, plain_team());
}

// The same where a region of one thread is the first.
static void serialized(void) {
    int told = 0;
#pragma omp parallel if (0)
    told = ask();
    printf("told %d, team %d\n", told, plain_team());
}

// It was started on one CPU and takes another one.
static void widens(void) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (int i = 0; i < 2; i++) CPU_SET(i, &mask);
    sched_setaffinity(0, sizeof mask, &mask);
    omp_set_num_threads(omp_get_num_procs());
    printf("processors %d, team %d\n", omp_get_num_procs(), plain_team());
}

// It asks, sets the number that it has from elsewhere, and cuts its work by that.
static void asks_and_cuts(void) {
    const int told = omp_get_max_threads();
    omp_set_num_threads(number);
    const int blank = blocks_left_out(number);
    printf("told %d, set %d, blocks left out %d\n", told, number, blank);
}

// The same, but it asks again, and goes by that.
static void asks_again(void) {
    const int told = omp_get_max_threads();
    omp_set_num_threads(number);
    const int again = omp_get_max_threads();
    const int blank = blocks_left_out(again);
    printf("told %d, set %d, told %d, blocks left out %d\n", told, number, again, blank);
}

// Numbers of its own, the last of which is the one that it was told.
static void steps(void) {
    const int told = omp_get_max_threads();
    omp_set_num_threads(1);
    const int team = plain_team();
    omp_set_num_threads(told);
    printf("told %d, teams %d %d\n", told, team, plain_team());
}

static int from_environment(void) {
    const char* text = getenv("OMP_NUM_THREADS");
    return text ? atoi(text) : 0;
}

// It reads the number itself and names each of its teams (GROMACS does).
static void names_all(void) {
    const int read = from_environment();
    int named = 0;
#pragma omp parallel num_threads(read)
    {
#pragma omp atomic write
        named = omp_get_num_threads();
    }
    printf("read %d, team %d, told %d\n", read, named, omp_get_max_threads());
}

// It names a number of its own, then makes room for as many as it is told, and names that number again.
static void names_before(void) {
    char room[kMost] = {0};
    int named = 0;
#pragma omp parallel num_threads(number)
    {
#pragma omp atomic write
        named = omp_get_num_threads();
    }
    const int told = omp_get_max_threads();
#pragma omp parallel num_threads(number)
    room[omp_get_thread_num()] = 1;
    int beyond = 0;
    for (int i = told; i < kMost; i++) beyond += room[i];
    printf("named %d, beyond its room %d\n", named, beyond);
}

// Room for as many as it reads, and teams that it does not name.
static void reads(void) {
    printf("read %d, team %d, OMP_NUM_THREADS=%s\n", from_environment(), plain_team(),
           getenv("OMP_NUM_THREADS"));
}

// main's third argument and a program that it starts see the same.
static void passes_on(char** third) {
    for (char** entry = third; *entry; entry++)
        if (strncmp(*entry, "OMP_NUM_THREADS=", 16) == 0) printf("main %s, ", *entry + 16);
    fflush(stdout);
    char* words[] = {"sh", "-c", "echo child $OMP_NUM_THREADS, spins ${GOMP_SPINCOUNT:-unset}", NULL};
    pid_t child;
    int status;
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, words, environ) == 0) waitpid(child, &status, 0);
}

static void* told_and_team(void* who) {
    const int told = omp_get_max_threads();
    printf("%s: processors %d, told %d, team ", (const char*)who, omp_get_num_procs(), told);
    fflush(stdout);
    printf("%d\n", plain_team());
    fflush(stdout);
    return NULL;
}

// A new thread of a forked child; the one that forked would wait for ever.
static void forks(void) {
    told_and_team("parent");
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        printf("child: processors %d\n", omp_get_num_procs());
        pthread_t thread;
        if (pthread_create(&thread, NULL, told_and_team, "child's thread") == 0) pthread_join(thread, NULL);
        fflush(stdout);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) puts("child: killed");
}

// Each with another first thing that it does.
static void* asks_first(void* nothing) {
    printf("asks first: told %d, team %d\n", omp_get_max_threads(), plain_team());
    return nothing;
}
static void* opens_first(void* nothing) {
    const int team = plain_team();
    printf("opens first: team %d, told %d\n", team, omp_get_max_threads());
    return nothing;
}
static void* names_first(void* nothing) {
    int named = 0;
#pragma omp parallel num_threads(3)
    {
#pragma omp atomic write
        named = omp_get_num_threads();
    }
    const int team = plain_team();
    printf("names first: named %d, team %d, told %d\n", named, team, omp_get_max_threads());
    return nothing;
}
static void new_threads(void) {
    void* (*const first[])(void*) = {asks_first, opens_first, names_first};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, first[i], NULL) == 0) pthread_join(thread, NULL);
    }
}

// Many calls of one small region, and how many threads took part.
static void tiny(void) {
    long sum = 0;
    for (int i = 0; i < 2000; i++) {
#pragma omp parallel for reduction(+ : sum)
        for (int k = 0; k < 8; k++) sum += k;
    }
    printf("sum %ld, told %d, team %d\n", sum, omp_get_max_threads(), plain_team());
}

// A run on one thread takes too long, and is ended.
static void dies(void) {
    printf("team %d\n", plain_team());
    fflush(stdout);
    if (omp_get_max_threads() == 1) raise(SIGKILL);
}

int main(int argc, char** argv, char** third) {
    static const struct {
        const char* name;
        void (*run)(void);
    } kBehaviours[] = {{"asks-and-cuts", asks_and_cuts},
                       {"asks-again", asks_again},
                       {"names-all", names_all},
                       {"names-before", names_before},
                       {"reads", reads},
                       {"scopes", scopes},
                       {"serialized", serialized},
                       {"widens", widens},
                       {"forks", forks},
                       {"new-threads", new_threads},
                       {"steps", steps},
                       {"tiny", tiny},
                       {"dies", dies}};
    if (argc > 2)
        number = strcmp(argv[2], "five") == 0 ? 5 : strcmp(argv[2], "four") == 0 ? 4 : atoi(argv[2]);
    if (argc > 1 && strcmp(argv[1], "passes-on") == 0) return passes_on(third), 0;
    for (size_t i = 0; argc > 1 && i < sizeof kBehaviours / sizeof *kBehaviours; i++)
        if (strcmp(argv[1], kBehaviours[i].name) == 0) return kBehaviours[i].run(), 0;
    return 2;
}
