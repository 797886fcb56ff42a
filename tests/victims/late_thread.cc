// SPDX-License-Identifier: Apache-2.0
// A thread that was there before another one ended runs its first op after that: what is kept of the ended
// one must not be taken for its own.
#include <semaphore>
#include <thread>

#include "victim.h"

int main() {
    std::binary_semaphore go{0};
    int late = 0;
    int outside = 0;
    std::thread other([&] {
        go.acquire();
        for (int i = 0; i < 30; ++i) late = victim::limit_inside();
        outside = victim::limit();
    });
    std::thread([] {
        for (int i = 0; i < 30; ++i) victim::limit_inside();
    }).join();
    go.release();
    other.join();
    std::printf("a late thread: outside %d, inside %d\n", outside, late);
    return victim::finish();
}
