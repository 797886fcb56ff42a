// SPDX-License-Identifier: Apache-2.0
// What the victims share. A victim prints what it sees; run_victims.py knows what that has to be, plain and
// under the preload. What must hold in every setting is a CHECK: its failure is printed and makes the exit
// code 1.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fake_tensorflow/fake_tensorflow.h"

namespace victim {

inline int failures = 0;

inline void check(bool holds, const char* what, const char* file, int line) {
    if (holds) return;
    if (++failures <= 10) std::printf("%s:%d: not true: %s\n", file, line, what);
}
#define CHECK(condition) victim::check(condition, #condition, std::strrchr("/" __FILE__, '/') + 1, __LINE__)

inline int finish() {
    std::puts(failures == 0 ? "done" : "FAILED");
    return failures == 0 ? 0 : 1;
}

inline constexpr int kUnlimited = 1000000;  ///< a thread's limit before anybody sets one

inline int limit() {
    return tensorflow::GetPerThreadMaxParallelism();
}

/// The limit that one more op sees.
inline int limit_inside(const char* type = "Probe") {
    int seen = 0;
    fake::Kernel probe("probe", type, [&](fake::OpKernelContext*) { seen = limit(); });
    fake::OpKernelContext context({{2, 2}});
    fake::run(probe, context);
    return seen;
}

inline const char* argument(int argc, char** argv, int index, const char* otherwise) {
    return argc > index ? argv[index] : otherwise;
}

inline long number(int argc, char** argv, int index, long otherwise) {
    return argc > index ? std::strtol(argv[index], nullptr, 10) : otherwise;
}

/// Burns about so many microseconds without a system call.
inline void spin(double microseconds) {
    volatile double x = 1.0;
    for (long i = 0; i < static_cast<long>(microseconds * 200); ++i) x = x * 1.0000001;
}

}  // namespace victim
