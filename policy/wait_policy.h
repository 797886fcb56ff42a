// SPDX-License-Identifier: Apache-2.0
// How the threads of an OpenMP runtime should wait for each other where they have not got the CPUs to
// themselves. Runtimes spin for milliseconds by default: right for a program alone, but on shared CPUs a
// spinning thread keeps the one that it waits for from running. Pure; the shim applies it before a runtime
// reads its environment.
#pragma once

#include <string>

namespace corun::policy {

struct WaitFacts {
    int threads = 1;      ///< that the program's teams will have
    int affinity = 1;     ///< CPUs that it may run on
    int machine = 1;      ///< CPUs of the machine, for the two counts below
    double quota = 0.0;   ///< CPUs by cgroup quota; 0: none
    double runnable = 0;  ///< other tasks of the machine that run or want to, at this moment
    double load = 0.0;    ///< the load of the last minute
    bool chosen = false;  ///< the user has set how to wait
};

enum class WaitKind {
    leave,    ///< as the runtime does by default
    bounded,  ///< spin for about as long as going to sleep and waking up cost, then sleep
    passive,  ///< sleep at once
};

struct WaitChoice {
    WaitKind kind = WaitKind::leave;
    std::string why;
};

/// Turns of gcc's runtime: some ten microseconds, what a sleep and a wake-up cost. Whoever spins for as long
/// as they cost pays at most twice what knowing the future would (Karlin, Li, Manasse and Owicki 1990).
inline constexpr int kBoundedSpins = 1000;
/// Part of a CPU that others must want beyond what is free: less is the machine's own housekeeping.
inline constexpr double kWaitDeadband = 0.75;

[[nodiscard]] WaitChoice choose_wait(const WaitFacts& facts);

}  // namespace corun::policy
