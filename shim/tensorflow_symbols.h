// SPDX-License-Identifier: Apache-2.0
// TensorFlow: the one list of what is hooked and what is needed. It generates the declarations, the types of
// the originals, the start-up check and (the HOOKED part) the version script of the library.
#pragma once

// X(id, symbol, result, parameters): the parameters are what the ABI makes of those of the member function.
// clang-format off
#define CORUN_TENSORFLOW_HOOKED(X)                                                                                \
    X(compute, "_ZN10tensorflow16ThreadPoolDevice7ComputeEPNS_8OpKernelEPNS_15OpKernelContextE",                  \
      void, (void* device, void* kernel, void* context))                                                          \
    X(compute_async, "_ZN10tensorflow16ThreadPoolDevice12ComputeAsyncEPNS_13AsyncOpKernelEPNS_15OpKernelContextESt8functionIFvvEE", \
      void, (void* device, void* kernel, void* context, void* done))                                              \
    X(kernel_end, "_ZN10tensorflow8OpKernelD2Ev", void, (void* kernel))                                           \
    X(kernel_end_complete, "_ZN10tensorflow8OpKernelD1Ev", void, (void* kernel))                                  \
    X(num_threads, "_ZNK5Eigen15ThreadPoolTemplIN3tsl6thread16EigenEnvironmentEE10NumThreadsEv",                  \
      int, (const void* pool))                                                                                    \
    X(pool, "_ZN3tsl6thread10ThreadPoolC2EPNS_3EnvERKNS_13ThreadOptionsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEibPN5Eigen9AllocatorE", \
      void, (void* pool, void* env, const void* options, const CxxString* name, int threads, bool low_latency, void* allocator)) \
    X(pool_complete, "_ZN3tsl6thread10ThreadPoolC1EPNS_3EnvERKNS_13ThreadOptionsERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEibPN5Eigen9AllocatorE", \
      void, (void* pool, void* env, const void* options, const CxxString* name, int threads, bool low_latency, void* allocator)) \
    X(get_parallelism, "_ZN10tensorflow26GetPerThreadMaxParallelismEv", int, ())                                  \
    X(set_parallelism, "_ZN10tensorflow26SetPerThreadMaxParallelismEi", void, (int width))

// Hooked too, but a build may lack them: found by their caller, no part of the start-up check.
#define CORUN_TENSORFLOW_OPTIONAL_HOOKED(X)                                                                       \
    X(key_append, "_ZN10tensorflow17FactoryKeyCreator6AppendESt17basic_string_viewIcSt11char_traitsIcEE",         \
      void, (CxxString* creator, std::size_t length, const char* piece))                                          \
    X(inter_op, "_ZN10tensorflow32NumInterOpThreadsFromEnvironmentEv", int, ())

#define CORUN_TENSORFLOW_NEEDED(X)                                                                                \
    X(trace_string, "_ZNK10tensorflow8OpKernel11TraceStringB5cxx11ERKNS_15OpKernelContextEb",                     \
      void, (CxxString* result, const void* kernel, const void* context, bool verbose))
// clang-format on
