// SPDX-License-Identifier: Apache-2.0
// Ops inside ops: the innermost that is no container decides, its end restores the enclosing width.
#include "victim.h"

namespace {

using fake::Kernel;
using fake::OpKernelContext;

// A tower of ops, each of another kind, so many deep.
void tower(int depth, OpKernelContext& context) {
    int deepest = 0;
    std::function<void(int)> go = [&](int level) {
        Kernel step("step", "Level" + std::to_string(level), [&](OpKernelContext*) {
            if (level + 1 < depth)
                go(level + 1);
            else
                deepest = victim::limit();
            if (level > 0 && level + 1 < depth) CHECK(victim::limit() == victim::kUnlimited || depth > 32);
        });
        fake::run(step, context);
    };
    for (int i = 0; i < 50; ++i) {
        go(0);
        CHECK(victim::limit() == victim::kUnlimited);
    }
    std::printf("%d deep: %d\n", depth, deepest);
}

}  // namespace

int main() {
    OpKernelContext context({{2, 3}});
    int before = 0;
    int inside = 0;
    int after = 0;
    Kernel leaf("leaf", "Leaf", [&](OpKernelContext*) { inside = victim::limit(); });
    const auto body = [&](OpKernelContext* c) {
        before = victim::limit();
        fake::run(leaf, *c);
        after = victim::limit();
    };
    // Known by name.
    Kernel call("call", "PartitionedCall", body);
    fake::run(call, context);
    std::printf("call: %d %d %d\n", before, inside, after);
    // Found out: at first it looks like a leaf itself.
    Kernel unknown("unknown", "Unheard", body);
    fake::run(unknown, context);
    std::printf("first: %d %d %d\n", before, inside, after);
    fake::run(unknown, context);
    std::printf("then: %d %d %d\n", before, inside, after);
    CHECK(victim::limit() == victim::kUnlimited);
    tower(3, context);
    tower(32, context);
    tower(40, context);
    return victim::finish();
}
