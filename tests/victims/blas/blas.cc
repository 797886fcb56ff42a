// SPDX-License-Identifier: Apache-2.0
// Calls of a BLAS library, and what it was given each time: victim-blas BEHAVIOUR.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <csetjmp>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "fake_blas.h"
#include "shim/blas_symbols.h"
#include "victim.h"

using Any = Word(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word,
                 Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, double, double);

extern "C" {
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*,
            const int*, const double*, const int*, const double*, double*, const int*);
void dgesdd_(const char*, const int*, const int*, double*, const int*, double*, double*, const int*, double*,
             const int*, double*, const int*, int*, int*);
#define H(type, routine, job, m, n, k, work, cost, vendor, before, after, count, by_value) \
    Any victim_##vendor##_##type##routine __asm__(before #type #routine after);
CORUN_EACH_BLAS_NAME(H)
#undef H
}

namespace {

using victim::check;

int gemm(int size) {
    const double one = 1.0;
    double c = 0.0;
    dgemm_("N", "N", &size, &size, &size, &one, &c, &size, &c, &size, &one, &c, &size);
    return fake_last()->width;
}

int svd(int size, int work = 1) {
    double a = 0.0;
    int integers[8] = {};
    dgesdd_("A", &size, &size, &a, &size, &a, &a, &size, &a, &size, &a, &work, integers, integers);
    return fake_last()->width;
}

// Every argument of every name arrives as it was given, and so does the result.
void arguments() {
    struct Name {
        const char* name;
        int words;
        Any* function;
    };
    const Name names[] = {
#define H(type, routine, job, m, n, k, work, cost, vendor, before, after, count, by_value) \
    {before #type #routine after, count, victim_##vendor##_##type##routine},
        CORUN_EACH_BLAS_NAME(H)
#undef H
    };
    int integers[kWords];
    Word w[kWords];
    const double x = std::bit_cast<double>(0x7FF4000012345678);  // a signalling NaN: no arithmetic touches it
    const double y = std::bit_cast<double>(0xFFFFFFFF89ABCDEF);
    int called = 0;
    for (int round = 0; round < 3; ++round)
        for (const Name& name : names) {
            for (int i = 0; i < kWords; ++i) {
                integers[i] = 3 + i + 7 * round;
                w[i] = reinterpret_cast<Word>(&integers[i]);
            }
            errno = 77;
            const Word result = name.function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9],
                                              w[10], w[11], w[12], w[13], w[14], w[15], w[16], w[17], w[18],
                                              w[19], w[20], w[21], w[22], w[23], w[24], w[25], x, y);
            const FakeCall& got = *fake_last();
            CHECK(errno == 77);
            CHECK(std::string(got.name) == name.name);
            CHECK(result == reinterpret_cast<Word>(got.name));
            CHECK(std::memcmp(got.words, w, sizeof(Word) * static_cast<std::size_t>(name.words)) == 0);
            CHECK(std::bit_cast<std::uint64_t>(got.x) == std::bit_cast<std::uint64_t>(x));
            CHECK(std::bit_cast<std::uint64_t>(got.y) == std::bit_cast<std::uint64_t>(y));
            ++called;
        }
    std::printf("%d calls of %zu names\n", called, std::size(names));
}

void limits() {
    std::printf("small %d", gemm(40));
    std::printf(", large %d", gemm(1000));
    std::printf(", svd %d", svd(100));
    std::printf(", after %d\n", openblas_get_num_threads());
}

void ceiling() {
    for (const int own : {2, 1}) {
        openblas_set_num_threads(own);
        int highest = 0;
        int lowest = 99;
        for (int i = 0; i < 2000; ++i) {
            const int width = gemm(500);
            highest = width > highest ? width : highest;
            lowest = width < lowest ? width : lowest;
            CHECK(openblas_get_num_threads() == own);
        }
        std::printf("own %d: %d to %d\n", own, lowest, highest);
    }
    openblas_set_num_threads(2);
    fake_during([] { openblas_set_num_threads(3); });  // the program's own word inside a call stays
    gemm(500);
    std::printf("set inside: %d\n", openblas_get_num_threads());
}

void capped() {
    openblas_set_num_threads(8);
    const int large = gemm(1000);
    std::printf("large %d, then %d\n", large, openblas_get_num_threads());
}

// Many threads: the number never changes under anybody.
void inside() {
    std::vector<std::thread> threads;
    std::atomic<int> narrow{0};
    fake_during(nullptr);
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([t, &narrow] {
            fake_during([] { victim::spin(0.2); });
            for (int i = 0; i < 20000; ++i) {
                if (gemm(i % 7 == 0 ? 40 : 300 + t) == 1) narrow.fetch_add(1);
                if (i % 64 == 0) victim::spin(5);
            }
        });
    for (std::thread& thread : threads) thread.join();
    std::printf("changed inside %d, uneven %d, narrow %s, after %d\n", fake_changes_inside(), fake_uneven(),
                narrow.load() > 0 ? "some" : "none", openblas_get_num_threads());
}

// Two threads that call side by side: each has half of the CPUs; one that calls alone again has all.
void crowd() {
    std::vector<std::thread> threads;
    std::atomic<int> narrow{0};
    for (int t = 0; t < 2; ++t)
        threads.emplace_back([&narrow] {
            fake_during([] { usleep(300); });
            for (int i = 0; i < 500; ++i)
                if (gemm(1000) == 1) narrow.fetch_add(1);
        });
    for (std::thread& thread : threads) thread.join();
    usleep(400000);
    const int alone = gemm(1000);
    std::printf("side by side %s, changed inside %d, alone %d, after %d\n",
                narrow.load() > 500 ? "narrow" : "wide", fake_changes_inside(), alone,
                openblas_get_num_threads());
}

std::jmp_buf out;

// A call that is left by a jump: the next ones are as before.
void jump() {
    static int times = 0;
    fake_during([] { std::longjmp(out, 1); });
    static_cast<void>(setjmp(out));
    while (++times < 100) gemm(500);
    fake_during(nullptr);
    const int later = gemm(500);
    std::printf("later %d, after %d\n", later, openblas_get_num_threads());
}

// LAPACK calls BLAS: the outermost call decides for all.
void nested() {
    static int seen = 0;
    fake_during([] {
        if (std::string(fake_last()->name) == "dgesdd_") seen = gemm(8);
    });
    int outer = 0;
    for (int i = 0; i < 300; ++i) outer = svd(1000);
    std::printf("outer %d, nested %d, after %d\n", outer, seen, openblas_get_num_threads());
}

// Only asks how much work space it should have.
void query() {
    for (int i = 0; i < 10; ++i) svd(1000, -1);
    for (int i = 0; i < 300; ++i) svd(1000, 100000);
    std::puts("asked");
}

// A child that was forked in the middle of a call has the program's own number again with its next one.
void forked() {
    fflush(stdout);
    static pid_t child = 0;
    fake_during([] { child = fork(); });
    gemm(500);
    fake_during(nullptr);
    if (child == 0) {
        gemm(500);
        std::printf("child after %d\n", openblas_get_num_threads());
        fflush(stdout);
        _exit(victim::failures);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child %d, parent after %d\n", status, openblas_get_num_threads());
}

// Forks while another thread's first call is being looked at: the child's own calls wait for nobody.
void forked_early() {
    const char* const delay = std::getenv("VICTIM_DELAY");
    std::atomic<bool> begun{false};
    std::thread first([&begun] {
        begun.store(true);
        gemm(500);
    });
    while (!begun.load()) {
    }
    victim::spin(delay != nullptr ? std::atof(delay) : 0.0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(5);
        gemm(500);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    first.join();
    std::printf("child %d\n", status);
}

}  // namespace

int main(int argc, char** argv) {
    const std::map<std::string, void (*)()> behaviours{{"arguments", arguments},
                                                       {"limits", limits},
                                                       {"ceiling", ceiling},
                                                       {"capped", capped},
                                                       {"inside", inside},
                                                       {"crowd", crowd},
                                                       {"jump", jump},
                                                       {"nested", nested},
                                                       {"query", query},
                                                       {"forked", forked},
                                                       {"forked-early", forked_early}};
    behaviours.at(victim::argument(argc, argv, 1, "limits"))();
    return victim::finish();
}
