// SPDX-License-Identifier: Apache-2.0
#pragma once

using Parallel = void(void (*body)(void*), void* data, unsigned threads, unsigned flags);
using Caller = void(Parallel* parallel, void* data, unsigned threads, int times);
extern "C" Caller openmp_caller;

// Starts a loop of 1,000 iterations, handed out one by one, and ends it, so many times; inside a region.
using LoopStart = bool(long first, long end, long step, long chunk, long* from, long* to);
using LoopEnd = void();
using LoopCaller = void(LoopStart* start, LoopEnd* end, int times);
extern "C" LoopCaller openmp_loop_caller;
