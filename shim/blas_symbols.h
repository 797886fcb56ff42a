// SPDX-License-Identifier: Apache-2.0
// BLAS and LAPACK: the one table of the routines that are hooked. It generates the hooks under all the names
// that libraries give a routine, what the report says of a call, and the version script of the library.
#pragma once

// X(routine, job, m, n, k, work, cost): places of arguments in the Fortran interface, from 1; 0: it has none.
// `job` is the letter that says most of what is to be computed; `work` the size of the work space, where -1
// only asks how large that should be. CBLAS puts the layout before them all and hands sizes over by value.
// clang-format off

// s, d, c and z, in Fortran and in CBLAS: those of level 3, and the one of level 2 that is called with much work.
#define CORUN_BLAS_ROUTINES(X, ...)                          \
    X(gemm,  0, 3, 4, 5,  0, multiply, __VA_ARGS__)          \
    X(symm,  0, 3, 4, 0,  0, triangle, __VA_ARGS__)          \
    X(syrk,  0, 0, 3, 4,  0, rank, __VA_ARGS__)              \
    X(syr2k, 0, 0, 3, 4,  0, rank, __VA_ARGS__)              \
    X(trmm,  0, 5, 6, 0,  0, triangle, __VA_ARGS__)          \
    X(trsm,  0, 5, 6, 0,  0, triangle, __VA_ARGS__)          \
    X(gemv,  0, 2, 3, 0,  0, vector, __VA_ARGS__)           
#define CORUN_BLAS_COMPLEX_ROUTINES(X, ...)                  \
    X(hemm,  0, 3, 4, 0,  0, triangle, __VA_ARGS__)          \
    X(herk,  0, 0, 3, 4,  0, rank, __VA_ARGS__)              \
    X(her2k, 0, 0, 3, 4,  0, rank, __VA_ARGS__)             

// s, d, c and z, in Fortran.
#define CORUN_LAPACK_ROUTINES(X, ...)                        \
    X(gesv,  0, 0, 1, 2,  0, lu_solve, __VA_ARGS__)          \
    X(getrf, 0, 1, 2, 0,  0, lu, __VA_ARGS__)                \
    X(getrs, 0, 0, 2, 3,  0, solve, __VA_ARGS__)             \
    X(getri, 0, 0, 1, 0,  6, lu, __VA_ARGS__)                \
    X(sysv,  0, 0, 2, 3, 10, lu_solve, __VA_ARGS__)          \
    X(sytrf, 0, 0, 2, 0,  7, lu, __VA_ARGS__)                \
    X(potrf, 0, 0, 2, 0,  0, cholesky, __VA_ARGS__)          \
    X(potrs, 0, 0, 2, 3,  0, solve, __VA_ARGS__)             \
    X(potri, 0, 0, 2, 0,  0, cholesky, __VA_ARGS__)          \
    X(posv,  0, 0, 2, 3,  0, lu_solve, __VA_ARGS__)          \
    X(trtrs, 0, 0, 4, 5,  0, solve, __VA_ARGS__)             \
    X(trtri, 0, 0, 3, 0,  0, cholesky, __VA_ARGS__)          \
    X(trsyl, 0, 4, 5, 0,  0, triangle, __VA_ARGS__)          \
    X(geqrf, 0, 1, 2, 0,  7, qr, __VA_ARGS__)                \
    X(gelqf, 0, 1, 2, 0,  7, qr, __VA_ARGS__)                \
    X(gerqf, 0, 1, 2, 0,  7, qr, __VA_ARGS__)                \
    X(geqp3, 0, 1, 2, 0,  8, qr, __VA_ARGS__)                \
    X(gels,  0, 2, 3, 0, 10, qr, __VA_ARGS__)                \
    X(gelsy, 0, 1, 2, 0, 12, qr, __VA_ARGS__)                \
    X(gelsd, 0, 1, 2, 0, 12, svd, __VA_ARGS__)               \
    X(gelss, 0, 1, 2, 0, 12, svd, __VA_ARGS__)               \
    X(gesdd, 1, 2, 3, 0, 12, svd, __VA_ARGS__)               \
    X(gesvd, 1, 3, 4, 0, 13, svd, __VA_ARGS__)               \
    X(gehrd, 0, 0, 1, 0,  8, eigen, __VA_ARGS__)
#define CORUN_LAPACK_REAL_ROUTINES(X, ...)                   \
    X(geev,  2, 0, 3, 0, 13, eigen, __VA_ARGS__)             \
    X(gees,  1, 0, 4, 0, 13, eigen, __VA_ARGS__)             \
    X(ggev,  2, 0, 3, 0, 16, eigen, __VA_ARGS__)             \
    X(orgqr, 0, 1, 2, 0,  8, qr, __VA_ARGS__)                \
    X(orglq, 0, 1, 2, 0,  8, qr, __VA_ARGS__)                \
    X(orgrq, 0, 1, 2, 0,  8, qr, __VA_ARGS__)                \
    X(ormqr, 0, 3, 4, 0, 12, qr, __VA_ARGS__)                \
    X(sytrd, 0, 0, 2, 0,  9, eigen_symmetric, __VA_ARGS__)   \
    X(syev,  1, 0, 3, 0,  8, eigen_symmetric, __VA_ARGS__)   \
    X(syevd, 1, 0, 3, 0,  8, eigen_symmetric, __VA_ARGS__)   \
    X(syevr, 1, 0, 4, 0, 18, eigen_symmetric, __VA_ARGS__)   \
    X(sygv,  2, 0, 4, 0, 11, eigen_symmetric, __VA_ARGS__)   \
    X(sygvd, 2, 0, 4, 0, 11, eigen_symmetric, __VA_ARGS__)  
#define CORUN_LAPACK_COMPLEX_ROUTINES(X, ...)                \
    X(geev,  2, 0, 3, 0, 12, eigen, __VA_ARGS__)             \
    X(gees,  1, 0, 4, 0, 12, eigen, __VA_ARGS__)             \
    X(ggev,  2, 0, 3, 0, 15, eigen, __VA_ARGS__)             \
    X(ungqr, 0, 1, 2, 0,  8, qr, __VA_ARGS__)                \
    X(unglq, 0, 1, 2, 0,  8, qr, __VA_ARGS__)                \
    X(ungrq, 0, 1, 2, 0,  8, qr, __VA_ARGS__)                \
    X(unmqr, 0, 3, 4, 0, 12, qr, __VA_ARGS__)                \
    X(hetrd, 0, 0, 2, 0,  9, eigen_symmetric, __VA_ARGS__)   \
    X(heev,  1, 0, 3, 0,  8, eigen_symmetric, __VA_ARGS__)   \
    X(heevd, 1, 0, 3, 0,  8, eigen_symmetric, __VA_ARGS__)   \
    X(heevr, 1, 0, 4, 0, 18, eigen_symmetric, __VA_ARGS__)   \
    X(hegv,  2, 0, 4, 0, 11, eigen_symmetric, __VA_ARGS__)   \
    X(hegvd, 2, 0, 4, 0, 11, eigen_symmetric, __VA_ARGS__)  

// N(vendor, beginning, end): what stands around type and routine in everybody's names, in those of builds with
// 64-bit integers, in those of the wheels of scipy and numpy (64-bit).
#define CORUN_FORTRAN_NAMES(N, ...)                          \
    N(plain, "", "_", __VA_ARGS__)                           \
    N(plain64, "", "_64_", __VA_ARGS__)                      \
    N(scipy, "scipy_", "_", __VA_ARGS__)                     \
    N(scipy64, "scipy_", "_64_", __VA_ARGS__)
#define CORUN_CBLAS_NAMES(N, ...)                            \
    N(c, "cblas_", "", __VA_ARGS__)                          \
    N(c64, "cblas_", "64_", __VA_ARGS__)                     \
    N(scipy_c, "scipy_cblas_", "", __VA_ARGS__)              \
    N(scipy_c64, "scipy_cblas_", "64_", __VA_ARGS__)

// H(type, routine, job, m, n, k, work, cost, ...) for each type of each routine.
#define CORUN_SDCZ(routine, job, m, n, k, work, cost, H, ...)                       \
    CORUN_SD(routine, job, m, n, k, work, cost, H, __VA_ARGS__)                     \
    CORUN_CZ(routine, job, m, n, k, work, cost, H, __VA_ARGS__)
#define CORUN_SD(routine, job, m, n, k, work, cost, H, ...)                         \
    H(s, routine, job, m, n, k, work, cost, __VA_ARGS__)                            \
    H(d, routine, job, m, n, k, work, cost, __VA_ARGS__)
#define CORUN_CZ(routine, job, m, n, k, work, cost, H, ...)                         \
    H(c, routine, job, m, n, k, work, cost, __VA_ARGS__)                            \
    H(z, routine, job, m, n, k, work, cost, __VA_ARGS__)
#define CORUN_EACH_BLAS(H, ...)                                               \
    CORUN_BLAS_ROUTINES(CORUN_SDCZ, H, __VA_ARGS__)                           \
    CORUN_BLAS_COMPLEX_ROUTINES(CORUN_CZ, H, __VA_ARGS__)
#define CORUN_EACH_LAPACK(H, ...)                                             \
    CORUN_LAPACK_ROUTINES(CORUN_SDCZ, H, __VA_ARGS__)                         \
    CORUN_LAPACK_REAL_ROUTINES(CORUN_SD, H, __VA_ARGS__)                      \
    CORUN_LAPACK_COMPLEX_ROUTINES(CORUN_CZ, H, __VA_ARGS__)

// The same with (..., vendor, beginning, end, words, by value) for each of their names. Arguments are handed on as words,
// as many as the longest have with the lengths of letters that Fortran adds; more than were given is harmless.
#define CORUN_EACH_BLAS_NAME(H)                                               \
    CORUN_FORTRAN_NAMES(CORUN_NAMED_FORTRAN, H)                               \
    CORUN_CBLAS_NAMES(CORUN_NAMED_CBLAS, H)
#define CORUN_NAMED_FORTRAN(vendor, before, after, H)                         \
    CORUN_EACH_BLAS(H, vendor, before, after, 16, false)                      \
    CORUN_EACH_LAPACK(H, vendor, before, after, 26, false)
#define CORUN_NAMED_CBLAS(vendor, before, after, H)                           \
    CORUN_EACH_BLAS(H, vendor, before, after, 16, true)
// clang-format on
