// SPDX-License-Identifier: Apache-2.0
// Between what a run has shown and the history that the start width of the next one is chosen from. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/profile.h"
#include "policy/openmp_width.h"

namespace corun::policy {

/// What was seen of one region until the end of the run.
struct RegionSeen {
    RegionRecord record;
    bool timed = false;  ///< `record.seconds` is known
    int widest = 0;      ///< threads that its calls could have; 0: no call was looked at
};

/// What was seen of a run.
struct RunSeen {
    int width = 1;          ///< in force from before the first region
    double seconds = 0.0;   ///< wall
    bool own_word = false;  ///< the program has set another number itself
    std::vector<RegionSeen> regions;
};

inline constexpr std::size_t kRegionsKept = 64;  ///< of a run: those that took longest, and one for the rest

/// The run as the history keeps it; nothing when it says nothing about a width: no region, a number that the
/// program chose, or regions of another width. Where regions were not timed, or overlapped on several
/// threads, the wall time stands for all.
[[nodiscard]] std::optional<RunRecord> run_record(const RunSeen& seen);

[[nodiscard]] StartHistory history_of(const std::vector<model::ProfileRun>& runs);
[[nodiscard]] model::ProfileRun profile_run(const ProcessKey& key, const RunRecord& run);

}  // namespace corun::policy
