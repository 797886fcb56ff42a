// SPDX-License-Identifier: Apache-2.0
// PyTorch: the one list of what is hooked and what is needed, see tensorflow_symbols.h.
#pragma once

// X(id, symbol, result, parameters): the parameters are what the ABI makes of those of the function.
// clang-format off
#define CORUN_TORCH_HOOKED(X)                                                                                     \
    X(step_callbacks, "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE",                                    \
      void*, (void* result, std::uint8_t scope))                                                                  \
    X(init_threads, "_ZN2at16init_num_threadsEv", void, ())                                                       \
    X(set_threads, "_ZN2at15set_num_threadsEi", void, (int threads))

#define CORUN_TORCH_NEEDED(X)                                                                                     \
    X(record_name, "_ZNK2at14RecordFunction4nameEv", const char*, (const void* record))                           \
    X(record_inputs, "_ZNK2at14RecordFunction10num_inputsEv", std::size_t, (const void* record))

// A build may lack them: the first tells its version, the others are MKL's.
#define CORUN_TORCH_OPTIONAL_NEEDED(X)                                                                            \
    X(abi_version, "aoti_torch_abi_version", std::uint64_t, ())                                                   \
    X(mkl_threads, "MKL_Get_Max_Threads", int, ())                                                                \
    X(mkl_set_threads, "MKL_Set_Num_Threads_Local", int, (int threads))
// clang-format on
