// SPDX-License-Identifier: Apache-2.0
// The sizes that pools get.
#include "victim.h"

int main() {
    fake::Kernel first("first", "First");  // the source becomes active with the first op
    fake::OpKernelContext context({{2, 3}});
    if (std::getenv("OPS_FIRST") != nullptr) fake::run(first, context);
    for (const char* name :
         {"Compute", "numa_-1_Eigen", "tf_data_private_threadpool", "numa_-1_EigenX", "Computer"}) {
        for (const int threads : {16, 1}) {
            const tsl::thread::ThreadPool pool(nullptr, {}, name, threads, true, nullptr);
            std::printf("%s %d: %d\n", name, threads, pool.eigen().NumThreads());
        }
    }
    // As TensorFlow makes its pool: the number that the program has set, else the environment's, else its
    // own.
    for (const int set : {0, 4}) {
        int threads = set;
        if (threads == 0) threads = tensorflow::NumInterOpThreadsFromEnvironment();
        if (threads == 0) threads = 4;
        const tsl::thread::ThreadPool other(nullptr, {}, "numa_-1_Eigen", 1, true, nullptr);
        const tsl::thread::ThreadPool pool(nullptr, {}, "Compute", threads, true, nullptr);
        std::printf("set %d: %d\n", set, pool.eigen().NumThreads());
    }
    fake::run(first, context);
    return victim::finish();
}
