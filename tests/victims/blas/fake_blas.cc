// SPDX-License-Identifier: Apache-2.0
#include "fake_blas.h"

#include <atomic>

#include "shim/blas_symbols.h"

namespace {

std::atomic<int> number{2};
std::atomic<int> inside{0};
std::atomic<int> changes_inside{0};
std::atomic<int> uneven{0};
std::atomic<int> calls{0};
thread_local FakeCall last;
thread_local void (*during)() = nullptr;

Word called(const char* name, const Word* words, int count, double x, double y) {
    inside.fetch_add(1);
    calls.fetch_add(1);
    const int width = number.load();
    last.name = name;
    for (int i = 0; i < kWords; ++i) last.words[i] = i < count ? words[i] : 0;
    last.x = x;
    last.y = y;
    if (during != nullptr) during();
    last.name = name;  // it may have called another
    last.width = width;
    if (number.load() != width) uneven.fetch_add(1);
    inside.fetch_sub(1);
    return reinterpret_cast<Word>(name);
}

}  // namespace

extern "C" {
int fake_on_openmp = 1;
const FakeCall* fake_last() {
    return &last;
}
void fake_during(void (*action)()) {
    during = action;
}
int fake_changes_inside() {
    return changes_inside.load();
}
int fake_uneven() {
    return uneven.load();
}
int fake_own_calls() {
    return calls.load();
}
void openblas_set_num_threads(int threads) {
    if (inside.load() > 0) changes_inside.fetch_add(1);
    number.store(threads);
}
int openblas_get_num_threads() {
    return number.load();
}
int openblas_get_parallel() {
    return fake_on_openmp;
}

// clang-format off
#define CORUN_WORDS_16(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define CORUN_WORDS_26(X) CORUN_WORDS_16(X) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25)
// clang-format on
#define PARAMETER(i) Word a##i,
#define ARGUMENT(i) a##i,
#define H(type, routine, job, m, n, k, work, cost, vendor, before, after, count, by_value)    \
    Word fake_##vendor##_##type##routine(CORUN_WORDS_##count(PARAMETER) double x,             \
                                         double y) __asm__(before #type #routine after);      \
    Word fake_##vendor##_##type##routine(CORUN_WORDS_##count(PARAMETER) double x, double y) { \
        const Word words[] = {CORUN_WORDS_##count(ARGUMENT)};                                 \
        return called(before #type #routine after, words, count, x, y);                       \
    }
CORUN_EACH_BLAS_NAME(H)
#undef H
}
