// SPDX-License-Identifier: Apache-2.0
// Every number that the comparison of arms rests on, in one place, with its reason.
#pragma once

#include <array>
#include <cstddef>

namespace corun::policy {

// --- windows -------------------------------------------------------------------------------------
inline constexpr double kWindowSeconds = 0.100;       // shorter ones drown in scheduler noise
inline constexpr int kWindowPeriods = 5;              // so that one odd period does not decide a window
inline constexpr double kWindowJitter = 0.25;         // +-: breaks resonance with what is periodic
inline constexpr int kSettlePeriods = 2;              // carry-over after a switch: caches, queued work
inline constexpr double kMixTolerance = 0.05;         // op histogram against the partner's; else discarded
inline constexpr double kUnreferencedShare = 0.05;    // work without a reference cost: not measurable
inline constexpr double kInputShare = 0.20;           // more waiting than this: arms are picked on open time
inline constexpr std::size_t kHistogramBuckets = 64;  // 0 is "no reference", the others hash the op keys
inline constexpr int kStuckDiscards = 20;             // discarded since a round or block was completed

// --- race ----------------------------------------------------------------------------------------
// Rounds.
inline constexpr std::array<int, 5> kRaceLooks{3, 6, 12, 24, 48};

// Rounds that are run first and not counted: runtimes build what they keep for a width, once on each thread.
inline constexpr int kRaceWarmRounds = 1;

inline constexpr double kWinsor = 0.10;        // share of each tail that is pulled in before averaging
inline constexpr double kIndifference = 0.02;  // arms this close to the best are the same
inline constexpr double kRaceError = 0.05;     // to drop the best arm: shared by looks and arms
inline constexpr int kGoodEnoughRounds = 6;    // a race may end among arms that are about as good
inline constexpr double kGoodEnoughError =
    0.015;                                    // that one of them is more than kIndifference better after all
inline constexpr int kRacePooledRounds = 12;  // before, one pair's spread is too uncertain: pool
inline constexpr int kDiscardsPerArm = 2;     // more in a round: its first window is the odd one

// --- guard ---------------------------------------------------------------------------------------
// ABBA blocks.
inline constexpr std::array<int, 6> kGuardLooks{8, 16, 32, 64, 128, 256};

inline constexpr double kGuardError = 0.05;       // shared among the looks
inline constexpr int kGuardLateEvery = 64;        // after them: blocks between looks at the latest 256
inline constexpr double kGuardLateError = 0.001;  // at each of those, as there is no end to them
inline constexpr int kRecentBlocks = 16;          // a proven arm may turn bad: its latest blocks alone
inline constexpr int kRecentEvery = 8;            // ... are judged this often, with kGuardLateError
inline constexpr double kNoGain = 0.02;           // upper limit below this: not worth having
inline constexpr int kIntervalBlocks = 16;        // no interval is shown before
inline constexpr double kTotalsAgree = 0.02;      // untrimmed against trimmed: trimming hides stalls
inline constexpr int kTotalsBlocks = 32;          // before, totals and tails are too noisy to judge by
inline constexpr double kTailRatio = 1.25;        // slowest periods surely longer by this: harm
inline constexpr double kShareFirst = 0.50;       // pass-through share until kIntervalBlocks
inline constexpr double kShareThen = 0.10;        // until kShareThenBlocks, or until the gain is certain
inline constexpr int kClearBlocks = 4;            // sooner where the gain is ...
inline constexpr double kClearGain = 0.25;        // ... surely so large
inline constexpr double kClearTail = 0.01;        // only what looking costs hangs on it, no verdict
inline constexpr int kShareThenBlocks = 128;
inline constexpr double kShareLast = 0.02;
inline constexpr double kRetryFirstSeconds = 60.0;  // after standing down; doubles each time

// --- rests ---------------------------------------------------------------------------------------
// While nothing is in force, windows only show whether the program has changed: it may have done so for a
// rest longer, and threads have come side by side.
inline constexpr double kRest = 0.8;            // seconds between two windows
inline constexpr double kSteadySeconds = 60.0;  // in one phase of several: it is the program's main one

// --- anchor --------------------------------------------------------------------------------------
inline constexpr double kAnchorVariation = 0.25;   // of work between returns; above it: no period
inline constexpr double kAnchorFactor = 2.0;       // variations per root of work this near are alike
inline constexpr double kAnchorSlack = 0.005;      // ... or this near: counters of many threads jitter
inline constexpr double kAnchorSamePeriod = 0.90;  // of the longest: they return once in the same step
inline constexpr double kAnchorPeriodEnough = kWindowSeconds;  // every tenth step is no better
inline constexpr double kAnchorPeriodMax = 2.0;  // seconds; five of them a window is the most to ask
inline constexpr double kAnchorGone = 3.0;       // means of work since its last return: of the past
inline constexpr double kAnchorMemory = 5.0;     // seconds after which samples count half

// --- epoch ---------------------------------------------------------------------------------------
inline constexpr double kPhaseDistance = 2.0 * kMixTolerance;  // of two windows that agree with one mean
inline constexpr int kPhaseConfirm = 4;             // windows alike; mixed ones seldom agree so often
inline constexpr double kPhaseFollow = 1.0 / 16.0;  // weight of a window in its phase's mean mix
inline constexpr int kPhasesMax = 64;               // a program with more has no phases worth learning

}  // namespace corun::policy
