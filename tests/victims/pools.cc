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
    fake::run(first, context);
    return victim::finish();
}
