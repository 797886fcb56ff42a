// SPDX-License-Identifier: Apache-2.0
// Prints what train.py learns from: one line for each random loop, its features and then the seconds that it
// takes at each power of two, up to the first chunk that is a thread's whole share.
//   chunk-samples LOOPS SEED
#include <cstdio>
#include <cstdlib>

#include "tools/chunk_tree/loop_simulation.h"

int main(int count, char** words) {
    if (count != 3) {
        std::fputs("usage: chunk-samples LOOPS SEED\n", stderr);
        return 2;
    }
    corun::chunk_tree::LoopMaker maker(static_cast<unsigned>(std::strtoul(words[2], nullptr, 10)));
    for (long left = std::strtol(words[1], nullptr, 10); left > 0; --left) {
        const corun::chunk_tree::Loop loop = maker();
        std::printf("%s %lld %.6g %.6g %d %.6g", loop.kind.c_str(), static_cast<long long>(loop.iterations()),
                    loop.mean(), loop.spread(), loop.threads, loop.dispatch());
        for (const auto chunk : corun::chunk_tree::chunk_candidates(loop.iterations(), loop.threads))
            std::printf(" %.6g", run_dynamic(loop, chunk));
        std::putchar('\n');
    }
    return 0;
}
