// SPDX-License-Identifier: Apache-2.0
// One width for a whole OpenMP process, chosen before its first region from what earlier runs of it have
// shown: all that is right for regions that ask their team, gcc's static loops above all (DESIGN S5). Pure;
// whoever keeps the profile stores the records.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace corun::policy {

/// What one region did in one run.
struct RegionRecord {
    std::string key;
    std::uint64_t calls = 0;
    double seconds = 0.0;  ///< wall, all calls, from before the fork to after the join
    /// Of the calls that were looked at closely, scaled to all calls: time within the region's own code,
    /// summed over its threads, and of the slowest thread of each call. 0: nobody looked.
    double work_seconds = 0.0;
    double longest_seconds = 0.0;
};

/// One run of a process. Without regions: one that was begun at a width that had not been measured, written
/// before it could end.
struct RunRecord {
    int width = 1;         ///< that all its regions could have, from the first on
    double seconds = 0.0;  ///< wall
    std::vector<RegionRecord> regions;
};

struct StartWidth {
    int width = 1;
    bool tries = false;                 ///< nothing was measured there yet
    std::optional<double> seconds;      ///< predicted for a run like the latest one
    std::optional<double> own_seconds;  ///< the same at the program's own width
    std::string why;                    ///< a sentence for the report
};

inline constexpr double kStartDeadband = 0.03;  ///< another width than the program's own has to gain more
inline constexpr double kStartStop = 1.25;      ///< so much slower than the best: half of it is not tried
inline constexpr int kStartSettled = 2;  ///< runs at the chosen width before one is tried that promises less
inline constexpr double kStartUnknown = 0.05;  ///< share of the time in regions not seen at a width

/// The width for the next run. `own`: the program's own number (its word, else its default), capped at the
/// budget; candidates are 1, 2, 4 ... own.
///
/// A run's time at a width is predicted region by region: calls of the latest run x the median of what a call
/// took in runs of that width; where there are none, from what its threads did at another width w: the work
/// alone at 1, else work / n x imbalance + what fork and join took x n / w. Time outside regions is added.
/// The fastest wins, so a width that only promises to be is tried once, and left again if it does not hold.
/// Without knowledge of the work one narrower width is tried a run, in halves, so that a try at most doubles
/// the time of regions that scale, until one is slower than the best by kStartStop. With it, so that the
/// second run is a good one, that waits for kStartSettled runs, and only widths are tried that should cost
/// less than kStartStop: the prediction is too high where threads are in each other's way. Without `may_try`
/// only widths that were measured are chosen. A width that was begun and never measured is not tried again.
[[nodiscard]] StartWidth choose_start_width(std::span<const RunRecord> runs, int own, bool may_try = true);

/// Which process this is: the same program with the same words does about the same again.
struct ProcessKey {
    std::string program;  ///< build-id of the executable, or a hash of it
    std::string words;    ///< of its command line, hashed by hash_words()
};

/// 16 hexadecimal digits (FNV-1a over words and their ends); the first word counts without its folders.
[[nodiscard]] std::string hash_words(std::span<const std::string> words);

/// The latest runs of all processes.
class StartHistory {
  public:
    static constexpr std::size_t runs_kept = 16;       ///< of a process
    static constexpr std::size_t processes_kept = 64;  ///< of a program; the one not seen longest goes

    void add(const ProcessKey& key, RunRecord run);
    /// Of this process alone: what other words mean to a program (a script to python) says nothing of these.
    [[nodiscard]] StartWidth choose(const ProcessKey& key, int own, bool may_try = true) const;
    [[nodiscard]] std::span<const RunRecord> runs(const ProcessKey& key) const;  ///< oldest first

  private:
    struct Process {
        std::uint64_t added = 0;
        std::vector<RunRecord> runs;
    };
    std::map<std::string, std::map<std::string, Process>> programs_;
    std::uint64_t added_ = 0;
};

}  // namespace corun::policy
