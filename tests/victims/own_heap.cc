// SPDX-License-Identifier: Apache-2.0
// What the program has allocated when it has run thousands of kinds of ops, and freed all that was its own.
#include <malloc.h>

#include <string>

#include "victim.h"

namespace {

std::size_t in_use() {
#if __GLIBC_PREREQ(2, 33)
    const struct mallinfo2 heap = mallinfo2();
#else
    const struct mallinfo heap = mallinfo();
#endif
    return static_cast<std::size_t>(heap.uordblks) + static_cast<std::size_t>(heap.hblkhd);
}

}  // namespace

int main() {
    constexpr std::size_t kLittle = 64 << 10;
    victim::limit_inside("Warm");
    const std::size_t before = in_use();
    for (int i = 0; i < 3000; ++i) victim::limit_inside(("Kind" + std::to_string(i)).c_str());
    const std::size_t after = in_use();
    CHECK(after < before + kLittle);
    CHECK(before < after + kLittle);
    return victim::finish();
}
