// SPDX-License-Identifier: Apache-2.0
// Asks for the machine's CPUs in every way there is, and uses the answers.
//   asks             prints them all
//   early            asks before any constructor ran, then again
//   pins             sets the mask that it was told, and others
//   indexes          keeps data for each CPU that it was told of, and finds it by the CPU it is on
//   files            what is special about an open file, and errors
//   refused          without memfd_create()
//   forks            a child asks, and sets what its parent was told
//   interrupted      a signal handler asks all the time
//   follows FILE     writes a quota of 2 CPUs there and waits until it is told of them
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int folder, const char* path, int flags);
int __openat64_2(int folder, const char* path, int flags);

static int failures;
#define CHECK(condition)                                                                               \
    do {                                                                                               \
        if (!(condition) && ++failures <= 10) printf("line %d: not true: %s\n", __LINE__, #condition); \
    } while (0)

static int raw_mask(cpu_set_t* mask) {
    memset(mask, 0, sizeof *mask);
    return syscall(SYS_sched_getaffinity, 0, sizeof *mask, mask) > 0;
}

static void print_mask(const char* name, const cpu_set_t* mask) {
    printf("%s %d:", name, CPU_COUNT(mask));
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, mask)) printf(" %d", cpu);
    printf("\n");
}

static void print_file(const char* name, int file) {
    static char text[1 << 20];
    size_t length = 0;
    ssize_t got = 0;
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) length += (size_t)got;
    text[length] = 0;
    close(file);
    int processors = 0;
    for (const char* at = text; (at = strstr(at, "processor\t:")) != NULL; ++at) ++processors;
    if (processors > 0)
        printf("%s %d processors\n", name, processors);
    else
        printf("%s %s", name, text);
}

static void asks(void) {
    cpu_set_t mask;
    CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
    print_mask("mask", &mask);
    CHECK(sched_getaffinity(getpid(), sizeof mask, &mask) == 0);
    print_mask("mask by pid", &mask);
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof mask, &mask) == 0);
    print_mask("mask of thread", &mask);
    printf("online %ld %d, configured %ld %d\n", sysconf(_SC_NPROCESSORS_ONLN), get_nprocs(),
           sysconf(_SC_NPROCESSORS_CONF), get_nprocs_conf());
    static const char kOnline[] = "/sys/devices/system/cpu/online";
    print_file("open", open(kOnline, O_RDONLY));
    print_file("open64", open64(kOnline, O_RDONLY | O_CLOEXEC));
    print_file("openat", openat(AT_FDCWD, kOnline, O_RDONLY));
    print_file("openat64", openat64(AT_FDCWD, kOnline, O_RDONLY));
    print_file("open_2", __open_2(kOnline, O_RDONLY));
    print_file("open64_2", __open64_2(kOnline, O_RDONLY));
    print_file("openat_2", __openat_2(AT_FDCWD, kOnline, O_RDONLY));
    print_file("openat64_2", __openat64_2(AT_FDCWD, kOnline, O_RDONLY));
    FILE* stream = fopen(kOnline, "r");
    print_file("fopen", dup(fileno(stream)));
    fclose(stream);
    stream = fopen64(kOnline, "re");
    print_file("fopen64", dup(fileno(stream)));
    fclose(stream);
    print_file("present", open("/sys/devices/system/cpu/present", O_RDONLY));
    print_file("possible", open("/sys/devices/system/cpu/possible", O_RDONLY));
    print_file("kernel_max", open("/sys/devices/system/cpu/kernel_max", O_RDONLY));
    print_file("cpuinfo", open("/proc/cpuinfo", O_RDONLY));
}

// Before any constructor, then in one of a library (asks_early.c).
static long first_online;
static void ask_first(int argc, char** argv, char** environment) {
    (void)environment;
    if (argc > 1 && strcmp(argv[1], "early") == 0) first_online = sysconf(_SC_NPROCESSORS_ONLN);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char**,
                                                                              char**) = ask_first;
extern long early_online, early_mask;

static void early(void) {
    cpu_set_t mask;
    CHECK(sched_getaffinity(0, sizeof mask, &mask) == 0);
    printf("first %ld, early %ld %ld, then %ld %d\n", first_online, early_online, early_mask,
           sysconf(_SC_NPROCESSORS_ONLN), CPU_COUNT(&mask));
}

static void* print_own_mask(void* name) {
    cpu_set_t mask;
    CHECK(raw_mask(&mask));
    print_mask(name, &mask);
    return NULL;
}

static void pins(void) {
    cpu_set_t real, told, one, now;
    CHECK(raw_mask(&real));
    CHECK(sched_getaffinity(0, sizeof told, &told) == 0);
    CHECK(CPU_COUNT(&told) < CPU_COUNT(&real));
    CPU_AND(&now, &told, &real);
    CHECK(CPU_EQUAL(&now, &told));
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &real) || CPU_ISSET(cpu, &told)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        CHECK(sched_setaffinity(0, sizeof one, &one) == 0);  // not what it was told: as it says
        CHECK(raw_mask(&now) && CPU_EQUAL(&now, &one));
        CHECK(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one));
    }
    CHECK(sched_setaffinity(0, sizeof told, &told) == 0);
    CHECK(raw_mask(&now) && CPU_EQUAL(&now, &real));
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(pthread_setaffinity_np(pthread_self(), sizeof told, &told) == 0);
    CHECK(raw_mask(&now) && CPU_EQUAL(&now, &real));
    pthread_attr_t attribute;
    CHECK(pthread_attr_init(&attribute) == 0);
    CHECK(pthread_attr_setaffinity_np(&attribute, sizeof told, &told) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, &attribute, print_own_mask, "a thread has") == 0);
    pthread_join(thread, NULL);
    CHECK(pthread_attr_setaffinity_np(&attribute, sizeof one, &one) == 0);
    CHECK(pthread_create(&thread, &attribute, print_own_mask, "a pinned one has") == 0);
    pthread_join(thread, NULL);
    // Another process's mask is not ours to translate.
    const pid_t child = fork();
    if (child == 0) pause();
    CHECK(sched_setaffinity(child, sizeof told, &told) == 0);
    memset(&now, 0, sizeof now);
    CHECK(syscall(SYS_sched_getaffinity, child, sizeof now, &now) > 0 && CPU_EQUAL(&now, &told));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    // What it has set by itself it finds again.
    CHECK(sched_setaffinity(0, sizeof real, &real) == 0);
    CHECK(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &real));
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof now, &now) == 0 && CPU_EQUAL(&now, &real));
}

static void indexes(void) {
    const int count = get_nprocs();
    cpu_set_t real, one;
    CHECK(raw_mask(&real));
    int beyond = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &real)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        syscall(SYS_sched_setaffinity, 0, sizeof one, &one);
        unsigned here = 0;
        CHECK(getcpu(&here, NULL) == 0);
        beyond += sched_getcpu() >= count || sched_getcpu() < 0 || (int)here >= count;
        CHECK(cpu < sysconf(_SC_NPROCESSORS_CONF));
    }
    printf("told of %d, on one beyond %d times\n", count, beyond);
}

static void files(void) {
    static const char kInfo[] = "/proc/cpuinfo";
    struct stat status;
    const int lowest = dup(0);
    close(lowest);
    errno = 99;
    int file = open(kInfo, O_RDONLY);
    CHECK(file == lowest && errno == 99);
    CHECK(fcntl(file, F_GETFD) == 0);
    CHECK(lseek(file, 0, SEEK_CUR) == 0);
    CHECK(fstat(file, &status) == 0 && S_ISREG(status.st_mode));
    close(file);
    file = open(kInfo, O_RDONLY | O_CLOEXEC);
    CHECK(file == lowest && fcntl(file, F_GETFD) == FD_CLOEXEC);
    close(file);
    file = open(kInfo, O_PATH);
    CHECK(file == lowest && (fcntl(file, F_GETFL) & O_PATH) != 0);
    close(file);
    const int next = dup(0);
    CHECK(next == lowest);
    close(next);
    // Nothing else is touched, and errors are the kernel's.
    const char* volatile nowhere = NULL;
    CHECK(open(nowhere, O_RDONLY) == -1 && errno == EFAULT);
    CHECK(open((const char*)8, O_RDONLY) == -1 && errno == EFAULT);
    CHECK(open("", O_RDONLY) == -1 && errno == ENOENT);
    CHECK(open("/sys/devices/system/cpu/online/x", O_RDONLY) == -1 && errno == ENOTDIR);
    CHECK(fopen("/sys/devices/system/cpu/nothing", "r") == NULL && errno == ENOENT);
    CHECK(openat(-7, "cpu", O_RDONLY) == -1 && errno == EBADF);
    file = open("/tmp", O_TMPFILE | O_RDWR, 0640);
    if (file >= 0) {
        CHECK(fstat(file, &status) == 0 && (status.st_mode & 0777) == 0640);
        close(file);
    }
    char name[] = "/tmp/corun-victim-XXXXXX";
    file = mkstemp(name);
    close(file);
    unlink(name);
    umask(0);
    file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0604);
    CHECK(file >= 0 && fstat(file, &status) == 0 && (status.st_mode & 0777) == 0604);
    close(file);
    unlink(name);
    cpu_set_t mask;
    CHECK(sched_getaffinity(-5, sizeof mask, &mask) == -1 && errno == ESRCH);
    CHECK(sched_getaffinity(0, 1, &mask) == -1 && errno == EINVAL);
    CHECK(sysconf(-1) == -1 && errno == EINVAL);
}

static void refused(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        printf("no filter\n");
        exit(77);
    }
    errno = 99;
    const int file = open("/sys/devices/system/cpu/online", O_RDONLY);
    CHECK(errno == 99);
    print_file("online", file);
}

static void forks(void) {
    cpu_set_t real, told, mine, now;
    CHECK(raw_mask(&real));
    CHECK(sched_getaffinity(0, sizeof told, &told) == 0);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        CHECK(sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_EQUAL(&mine, &told));
        CHECK(sched_setaffinity(0, sizeof told, &told) == 0);
        CHECK(raw_mask(&now) && CPU_EQUAL(&now, &real));
        CHECK(get_nprocs() == CPU_COUNT(&told));
        // A process that is not of ours has the mask that it has.
        CHECK(sched_getaffinity(getppid(), sizeof mine, &mine) == 0 && CPU_EQUAL(&mine, &real));
        fflush(stdout);
        _exit(failures);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static volatile sig_atomic_t handled, wrong;
static int expected;
static void ask_again(int signal) {
    (void)signal;
    const int saved = errno;
    cpu_set_t mask;
    ++handled;
    wrong += get_nprocs() != expected;
    wrong += sched_getaffinity(0, sizeof mask, &mask) != 0 || CPU_COUNT(&mask) != expected;
    errno = saved;
}

static void interrupted(void) {
    expected = get_nprocs();
    signal(SIGALRM, ask_again);
    const struct itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, NULL);
    const time_t end = time(NULL) + 2;
    while (time(NULL) < end) {
        cpu_set_t mask;
        if (get_nprocs() != expected) ++wrong;
        if (sched_getaffinity(0, sizeof mask, &mask) != 0 || CPU_COUNT(&mask) != expected) ++wrong;
    }
    const struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK(handled > 20 && wrong == 0);
}

static void follows(const char* path) {
    printf("told of %d", get_nprocs());
    FILE* const file = fopen(path, "w");
    CHECK(file != NULL);
    fputs("200000\n", file);
    fclose(file);
    int waited = 0;
    while (get_nprocs() < 2 && ++waited < 100) usleep(10000);
    printf(", then of %d\n", get_nprocs());
}

int main(int argc, char** argv) {
    const char* const what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "asks") == 0) asks();
    if (strcmp(what, "early") == 0) early();
    if (strcmp(what, "pins") == 0) pins();
    if (strcmp(what, "indexes") == 0) indexes();
    if (strcmp(what, "files") == 0) files();
    if (strcmp(what, "refused") == 0) refused();
    if (strcmp(what, "forks") == 0) forks();
    if (strcmp(what, "interrupted") == 0) interrupted();
    if (strcmp(what, "follows") == 0) follows(argv[2]);
    puts(failures == 0 ? "done" : "FAILED");
    return failures != 0;
}
