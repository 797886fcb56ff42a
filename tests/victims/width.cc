// SPDX-License-Identifier: Apache-2.0
// The limit that ops see: constant inside, what it was outside, never above the program's own word.
#include "victim.h"

namespace {

using fake::Kernel;
using fake::OpKernelContext;
using tensorflow::SetPerThreadMaxParallelism;

int highest = 0;
int distinct = 0;

// Runs ops that look at their limit at their begin, in the middle and at their end.
void run_many(int times, int own) {
    bool seen[64] = {};
    Kernel looker("looker", "Looker", [&](OpKernelContext*) {
        const int first = victim::limit();
        victim::spin(1);
        CHECK(victim::limit() == first);
        CHECK(first >= 1 && first <= own);
        if (first > highest) highest = first;
        if (first < 64 && !seen[first]) seen[first] = true, ++distinct;
    });
    OpKernelContext context({{8, 8}});
    for (int i = 0; i < times; ++i) {
        fake::run(looker, context);
        CHECK(victim::limit() == own);
    }
}

// The program's own word inside an op, other than the width in force, stays after it.
void set_inside() {
    Kernel setter("setter", "Setter", [&](OpKernelContext*) { SetPerThreadMaxParallelism(50); });
    OpKernelContext context({{8, 8}});
    fake::run(setter, context);
    std::printf("set inside: %d\n", victim::limit());
    SetPerThreadMaxParallelism(victim::kUnlimited);
}

// A guard object of the program inside an op puts back what it found; that was no word of the program.
void saved_inside() {
    Kernel saver("saver", "Saver", [&](OpKernelContext*) {
        const int found = victim::limit();
        SetPerThreadMaxParallelism(70);
        SetPerThreadMaxParallelism(found);
    });
    OpKernelContext context({{8, 8}});
    fake::run(saver, context);
    std::printf("saved inside: %d\n", victim::limit());
}

}  // namespace

int main() {
    run_many(2000, victim::kUnlimited);
    std::printf("free: highest %s, %s\n",
                highest == victim::kUnlimited ? "unlimited"
                : highest == 1                ? "1"
                                              : "some",
                distinct > 4    ? "many"
                : distinct == 0 ? "none"
                                : "one");
    for (const int own : {3, 2, 1}) {
        highest = 0;
        SetPerThreadMaxParallelism(own);
        run_many(1000, own);
        std::printf("own %d: highest %d\n", own, highest);
    }
    SetPerThreadMaxParallelism(victim::kUnlimited);
    set_inside();
    saved_inside();
    return victim::finish();
}
