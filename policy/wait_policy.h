// SPDX-License-Identifier: Apache-2.0
// How the threads of an OpenMP runtime should wait for each other where they have not got the CPUs to
// themselves. Runtimes spin for milliseconds by default: right for a program alone, but on shared CPUs a
// spinning thread keeps the one that it waits for from running. Pure; the shim applies it before a runtime
// reads its environment.
#pragma once

#include <limits>
#include <string>

namespace corun::policy {

struct WaitFacts {
    int threads = 1;      ///< that the program's teams will have
    int wanted = 1;       ///< the same without corun
    int affinity = 1;     ///< CPUs that it may run on
    int machine = 1;      ///< CPUs of the machine, for the two counts below
    double quota = 0.0;   ///< CPUs by cgroup quota; 0: none
    double runnable = 0;  ///< other tasks of the machine that run or want to, at this moment
    double load = 0.0;    ///< the load of the last minute
    /// CPUs of it that others have used on average since this process began; infinity: not known.
    double used = std::numeric_limits<double>::infinity();
    double ran = 0.0;     ///< seconds that this process has run so far
    double waited = 0.0;  ///< seconds in which it could have run, but another task did
    bool chosen = false;  ///< the user has set how to wait
};

enum class WaitKind {
    leave,    ///< as the runtime does by default
    limited,  ///< spin for longer than a program alone has to wait as a rule, then sleep
    bounded,  ///< spin for about as long as going to sleep and waking up cost, then sleep
    brief,    ///< spin for less
    passive,  ///< sleep at once
};

struct WaitChoice {
    WaitKind kind = WaitKind::leave;
    std::string why;
};

/// Turns of gcc's runtime. 1,000 are some 40 us, and a sleep and a wake-up cost a region about 30: whoever
/// spins for as long as they cost pays at most twice what knowing the future would (Karlin, Li, Manasse and
/// Owicki 1990). A neighbour is there for milliseconds: whoever waits for a thread that he has pushed aside
/// spins in vain, so less is better. On 2 CPUs beside 1 neighbour, us per region of 100 us with gaps of 100:
/// 31,201 by default, 882 with 1,000 turns, 222 with 300, 375 with none. For a program alone any such bound
/// costs up to 18 % (151 by default; 167, 179, 182), so it is left alone.
inline constexpr int kBoundedSpins = 1000;
inline constexpr int kBriefSpins = 300;

/// Where more threads than CPUs were asked for gcc's runtime itself spins for no more than some 100 turns, so
/// that neighbours never hurt it much. A cap takes that away: with two threads on two CPUs it spins for
/// 300,000, and how many neighbours there will be is not known at the start. 20,000 turns, under a
/// millisecond, cost a program alone nothing and bound what is lost. Seconds for 300,000, 20,000 and 1,000
/// turns: LAMMPS alone 1.53, 1.53, 1.62, beside two other tasks 4.78, 3.45, 2.92; GROMACS alone 0.29, 0.30,
/// 0.29, beside two 1.09, 0.66, 0.68, and in single runs of thrice the length 14.7 instead of 0.9.
inline constexpr int kLimitedSpins = 20000;

/// Part of a CPU that others must want beyond what is free: less is the machine's own housekeeping.
inline constexpr double kWaitDeadband = 0.75;

/// Tasks of lower priority count in the load, but yield: whoever shares CPUs has waited for one himself.
inline constexpr double kWaitedSeconds = 0.001;
inline constexpr double kWaitedShare = 0.1;  ///< of what it ran

[[nodiscard]] WaitChoice choose_wait(const WaitFacts& facts);

}  // namespace corun::policy
