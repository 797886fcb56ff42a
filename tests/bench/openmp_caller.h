// SPDX-License-Identifier: Apache-2.0
#pragma once

using Parallel = void(void (*body)(void*), void* data, unsigned threads, unsigned flags);
using Caller = void(Parallel* parallel, void* data, unsigned threads, int times);
extern "C" Caller openmp_caller;
