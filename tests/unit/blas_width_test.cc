// SPDX-License-Identifier: Apache-2.0
#include "policy/blas_width.h"

#include <gtest/gtest.h>

#include <climits>

namespace corun::policy {
namespace {

constexpr int kBudget = 16;

int square(BlasCost cost, int n, int budget = kBudget) {
    return blas_useful_width(cost, {n, n, n}, budget);
}

TEST(BlasSizes, ClassesAreDenseAndOrdered) {
    std::uint32_t before = blas_size_class(0);
    EXPECT_EQ(before, 0U);
    for (int size = 1; size < 100000; ++size) {
        const std::uint32_t now = blas_size_class(size);
        EXPECT_TRUE(now == before || now == before + 1) << size;
        EXPECT_GE(blas_class_size(now), size);
        EXPECT_LE(blas_class_size(now), size + size / 2);
        EXPECT_EQ(blas_size_class(blas_class_size(now)), now);
        before = now;
    }
}

TEST(BlasSizes, TheSizesThatPeopleUseAreTheirOwnNames) {
    for (const int size : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 1024, 1536})
        EXPECT_EQ(blas_class_size(blas_size_class(size)), size);
}

TEST(BlasSizes, NonsenseAndTheLargest) {
    EXPECT_EQ(blas_size_class(-5), 0U);
    EXPECT_EQ(blas_size_class(INT_MIN), 0U);
    EXPECT_LT(blas_size_class(INT_MAX), 64U);
    EXPECT_EQ(blas_class_size(blas_size_class(INT_MAX)), INT_MAX);
}

TEST(BlasUsefulWidth, SmallIsOneAndLargeIsAll) {
    for (const BlasCost cost : {BlasCost::multiply, BlasCost::rank, BlasCost::triangle, BlasCost::lu,
                                BlasCost::lu_solve, BlasCost::solve, BlasCost::cholesky, BlasCost::qr,
                                BlasCost::svd, BlasCost::eigen, BlasCost::eigen_symmetric}) {
        EXPECT_EQ(square(cost, 16), 1) << static_cast<int>(cost);
        EXPECT_EQ(square(cost, 2000), kBudget) << static_cast<int>(cost);
        EXPECT_EQ(square(cost, 2000, 1), 1);
    }
    EXPECT_EQ(square(BlasCost::vector, 8), kBudget);  // the library's own rule
}

TEST(BlasUsefulWidth, GrowsWithTheWork) {
    int before = 1;
    for (int n = 16; n < 600; n += 8) {
        const int now = square(BlasCost::multiply, n, 64);
        EXPECT_GE(now, before);
        EXPECT_LE(now, 64);
        before = now;
    }
    EXPECT_EQ(before, 64);
}

// What was measured: the second thread pays where these say 2, and costs where they say 1.
TEST(BlasUsefulWidth, WhereTwoThreadsBeginToPay) {
    EXPECT_EQ(square(BlasCost::multiply, 48, 2), 1);
    EXPECT_EQ(square(BlasCost::multiply, 96, 2), 2);         // 1.6
    EXPECT_EQ(square(BlasCost::qr, 128, 2), 1);              // 0.89
    EXPECT_EQ(square(BlasCost::qr, 192, 2), 2);              // 1.14
    EXPECT_EQ(square(BlasCost::svd, 192, 2), 1);             // 0.89
    EXPECT_EQ(square(BlasCost::svd, 256, 2), 2);             // 1.09
    EXPECT_EQ(square(BlasCost::eigen, 192, 2), 1);           // 0.93
    EXPECT_EQ(square(BlasCost::cholesky, 192, 2), 1);        // 0.44
    EXPECT_EQ(square(BlasCost::eigen_symmetric, 48, 2), 2);  // 1.07
    EXPECT_EQ(square(BlasCost::lu_solve, 128, 2), 2);        // 1.29, with as many right-hand sides
    EXPECT_EQ(blas_useful_width(BlasCost::lu_solve, {0, 128, 1}, 2), 1);
}

TEST(BlasLikelySeconds, TheOrderOfWhatWasMeasured) {
    const auto within = [](double guess, double measured) {
        EXPECT_GT(guess, measured / 3.0);
        EXPECT_LT(guess, measured * 2.0);
    };
    within(blas_likely_seconds(BlasCost::multiply, {384, 384, 384}), 1.87e-3);
    within(blas_likely_seconds(BlasCost::svd, {384, 384, 0}), 25.6e-3);
    within(blas_likely_seconds(BlasCost::eigen, {0, 384, 0}), 57e-3);
    within(blas_likely_seconds(BlasCost::cholesky, {0, 384, 0}), 1.02e-3);
    within(blas_likely_seconds(BlasCost::lu_solve, {0, 384, 384}), 4.5e-3);
    EXPECT_EQ(blas_likely_seconds(BlasCost::multiply, {-1, 5, 5}), 0.0);
}

TEST(BlasStaysOnOneThread, ProductsOnly) {
    EXPECT_TRUE(blas_stays_on_one_thread(BlasCost::multiply, {32, 32, 32}));
    EXPECT_TRUE(blas_stays_on_one_thread(BlasCost::vector, {8, 8, 0}));
    EXPECT_FALSE(blas_stays_on_one_thread(BlasCost::multiply, {33, 8, 8}));
    EXPECT_FALSE(blas_stays_on_one_thread(BlasCost::vector, {8, 1000000, 0}));
    EXPECT_FALSE(
        blas_stays_on_one_thread(BlasCost::triangle, {8, 8, 0}));  // OpenBLAS's trsm uses threads there
    EXPECT_FALSE(blas_stays_on_one_thread(BlasCost::eigen, {0, 8, 0}));
}

TEST(BlasUsefulWidth, MissingAndNegativeSizes) {
    EXPECT_EQ(blas_useful_width(BlasCost::lu, {0, 500, 0}, 4), 4);  // getri has n alone
    EXPECT_EQ(blas_useful_width(BlasCost::svd, {0, 0, 0}, 4), 1);
    EXPECT_EQ(blas_useful_width(BlasCost::multiply, {-1, 500, 500}, 4), 1);
    EXPECT_EQ(blas_useful_width(BlasCost::multiply, {INT_MAX, INT_MAX, INT_MAX}, 4), 4);
}

TEST(BlasWidth, NobodyWaitsForLong) {
    const BlasSizes small{100, 100, 100};
    const BlasSizes large{20000, 20000, 20000};
    EXPECT_DOUBLE_EQ(blas_patience(BlasCost::multiply, small),
                     0.5 * blas_likely_seconds(BlasCost::multiply, small));
    EXPECT_DOUBLE_EQ(blas_patience(BlasCost::multiply, large), 0.1);
}

}  // namespace
}  // namespace corun::policy
