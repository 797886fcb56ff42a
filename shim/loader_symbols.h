// SPDX-License-Identifier: Apache-2.0
// What is hooked of the loader, see tensorflow_symbols.h. Nothing is changed in what it does.
#pragma once

// X(id, symbol, result, parameters)
// clang-format off
#define CORUN_LOADER_HOOKED(X)                                                                                    \
    X(close, "dlclose", int, (void* handle))
// clang-format on
