// SPDX-License-Identifier: Apache-2.0
// The quota changes while ops run: FILE is where it stands, in version 1's way.
//   budget FILE CPUS...   writes each, and runs ops until they are told another limit than before
#include <chrono>
#include <fstream>

#include "victim.h"

namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs ops for some time, until their limit is no longer `old`; -1: it stays.
int limit_after(int old, double seconds) {
    for (const double end = now() + seconds; now() < end; victim::spin(20))
        if (const int limit = victim::limit_inside(); limit != old) return limit;
    return -1;
}

}  // namespace

int main(int argc, char** argv) {
    int limit = victim::limit_inside();
    std::printf("at first %d\n", limit);
    CHECK(limit_after(limit, 0.3) == -1);
    for (int i = 2; i < argc; ++i) {
        std::ofstream(argv[1]) << static_cast<long>(std::atof(argv[i]) * 100000) << '\n';
        const int next = limit_after(limit, 1.0);
        std::printf("%s CPUs: %d\n", argv[i], next);
        if (next != -1) limit = next;
    }
    return victim::finish();
}
