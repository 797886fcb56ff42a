// SPDX-License-Identifier: Apache-2.0
// BLAS and LAPACK (the OpenBLAS of the numpy and scipy wheels, the system's, MKL): their routines as the
// source, the library's number of threads as the lever. The hooks decide nothing. Built without exceptions
// and without destructors, so that exceptions, pthread_exit and longjmp of the program pass through.
#include "shim/blas.h"

#include "shim/blas_symbols.h"

namespace corun::blas {

// The sets that a call may be found in: one for each name, with what its object was given.
enum class Function : std::size_t {
#define H(type, routine, job, m, n, k, work, cost, vendor, ...) vendor##_##type##routine,
    CORUN_EACH_BLAS_NAME(H)
#undef H
        count
};
constinit std::array<BlasCallers, static_cast<std::size_t>(Function::count)> bound{};

#define H(type, routine, job, m, n, k, work, cost, ...) \
    constexpr BlasOperation k_##type##routine{#type #routine, job, m, n, k, work, policy::BlasCost::cost};
CORUN_EACH_BLAS(H)
CORUN_EACH_LAPACK(H)
#undef H

}  // namespace corun::blas

// --- hooks
// ---------------------------------------------------------------------------------------------------
// All alike: what is no floating-point number is a word, in a register or on the stack; there are at most two
// numbers, alpha and beta of CBLAS, and of a float the lower half of the register is handed on as it is.

namespace corun::blas {

// clang-format off
#define CORUN_WORDS_16(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define CORUN_WORDS_26(X) CORUN_WORDS_16(X) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25)
// clang-format on
// The first of them, which tell the sizes of a call.
#define CORUN_HEAD_16(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define CORUN_HEAD_26(X) CORUN_WORDS_16(X) X(16) X(17)
#define PARAMETER(i) BlasWord a##i,
#define ARGUMENT(i) a##i,

extern "C" {
#define H(type, routine, job, m, n, k, work, cost, vendor, before, after, words, by_value)                 \
    [[gnu::visibility("default")]] BlasWord corun_blas_##vendor##_##type##routine(                         \
        CORUN_WORDS_##words(PARAMETER) double x, double y) __asm__(before #type #routine after);           \
    BlasWord corun_blas_##vendor##_##type##routine(CORUN_WORDS_##words(PARAMETER) double x, double y) {    \
        using Routine = BlasWord(CORUN_WORDS_##words(PARAMETER) double, double);                           \
        const BlasWord head[] = {CORUN_HEAD_##words(ARGUMENT)};                                            \
        BlasCall call;                                                                                     \
        void* const real = blas_begin(call, k_##type##routine, head, by_value,                             \
                                      bound[static_cast<std::size_t>(Function::vendor##_##type##routine)], \
                                      before #type #routine after, __builtin_return_address(0));           \
        const BlasWord result = reinterpret_cast<Routine*>(real)(CORUN_WORDS_##words(ARGUMENT) x, y);      \
        blas_end(call);                                                                                    \
        return result;                                                                                     \
    }
CORUN_EACH_BLAS_NAME(H)
#undef H
}  // extern "C"
}  // namespace corun::blas
