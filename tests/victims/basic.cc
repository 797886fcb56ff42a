// SPDX-License-Identifier: Apache-2.0
// Some ops of a few kinds, many times; exits with 3.
#include "victim.h"

int main(int argc, char** argv) {
    const long rounds = victim::number(argc, argv, 1, 100);
    long sum = 0;
    const auto add = [&](fake::OpKernelContext* context) {
        sum += static_cast<long>(context->params().input_count);
    };
    fake::Kernel product("dense/MatMul", "MatMul", add);
    fake::Kernel bias("dense/BiasAdd", "BiasAdd", add);
    fake::Kernel nothing("step/NoOp", "NoOp", add);
    fake::OpKernelContext two({{3, 4}, {4, 5}});
    fake::OpKernelContext none({});
    for (long i = 0; i < rounds; ++i) {
        fake::run(product, two);
        fake::run(bias, two);
        fake::run(nothing, none);
    }
    std::printf("%ld inputs\n", sum);
    return victim::failures == 0 ? 3 : 1;
}
