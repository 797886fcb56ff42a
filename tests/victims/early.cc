// SPDX-License-Identifier: Apache-2.0
// Early life: a library's constructor has run ops, made a pool and freed a kernel before any constructor of
// ours.
#include "early.h"

#include "victim.h"

int main() {
    const EarlyLife early = early_life();
    std::printf("early: %d ops, pool of %d, limit %d, %s\n", early.ops, early.pool, early.limit,
                early.limit == early.inside ? "untouched" : "narrowed");
    for (int i = 0; i < 1000; ++i) CHECK(victim::limit_inside() == victim::limit_inside());
    std::printf("now an op sees %d\n", victim::limit_inside());
    return victim::finish();
}
