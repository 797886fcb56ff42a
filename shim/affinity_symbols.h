// SPDX-License-Identifier: Apache-2.0
// What gcc's OpenMP runtime counts its CPUs by: the list of what is hooked, see tensorflow_symbols.h.
#pragma once

// X(id, symbol, result, parameters)
// clang-format off
#define CORUN_AFFINITY_HOOKED(X)                                                                                  \
    X(get_affinity, "pthread_getaffinity_np", int, (pthread_t thread, std::size_t size, cpu_set_t* mask))
// clang-format on
