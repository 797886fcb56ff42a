// SPDX-License-Identifier: Apache-2.0
// What was learned, on disk: versioned, checksummed, written atomically, never trusted blindly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/curve.h"

namespace corun::model {

/// Whose knowledge it is. A profile of another machine or runtime build is foreign; of another budget it is
/// kept beside ours (a profile file holds one section per identity).
struct Identity {
    std::string cpu_model;               ///< as in /proc/cpuinfo
    int budget = 0;                      ///< CPUs
    std::vector<std::string> build_ids;  ///< of the runtimes (libtensorflow_framework.so.2, ...), sorted
    bool operator==(const Identity&) const = default;
};

struct ProfileOp {
    std::string name;           ///< op key as text: "tensorflow/MatMul(float[3,4];float[4,5])"
    std::vector<Point> solo;    ///< medians, seconds
    std::map<int, int> counts;  ///< solo samples behind each point
    double reference = 0.0;     ///< reference cost, seconds
    int width = 0;              ///< the width that was decided; 0: the program's own
};

struct ProfilePhase {
    std::vector<double> histogram;  ///< work shares by key bucket, see policy/epoch.h
    std::string arm;                ///< name of the arm that was kept
    double gain = 0.0;              ///< log ratio over pass-through
};

/// What one OpenMP region did in one run, see policy/openmp_width.h. Seconds.
struct ProfileRegion {
    std::string key;
    std::uint64_t calls = 0;
    double seconds = 0.0;
    double work_seconds = 0.0;
    double longest_seconds = 0.0;
};

/// One run of a process that used OpenMP.
struct ProfileRun {
    std::string program;  ///< build-id of the executable
    std::string words;    ///< its command line, hashed
    int width = 1;        ///< that all its regions could have
    double seconds = 0.0;
    std::vector<ProfileRegion> regions;
};

struct Profile {
    Identity identity;
    std::vector<ProfileOp> ops;
    std::vector<ProfilePhase> phases;
    std::vector<ProfileRun> runs;  ///< oldest first
};

inline constexpr std::size_t kProfileRuns = 16;       ///< of a process that are kept: the latest
inline constexpr std::size_t kProfileAllRuns = 1024;  ///< of all processes

/// The measured points of `curve` and their counts into `op`.
void put_curve(ProfileOp& op, const Curve& curve);

/// The curve that `op` describes, for Explorer::restore: each median as often as it had samples (15 at most).
[[nodiscard]] Curve curve_of(const ProfileOp& op);

enum class LoadStatus { ok, missing, unreadable, broken, newer_version, foreign };

struct LoadResult {
    LoadStatus status = LoadStatus::missing;
    Profile profile;
    std::string message;  ///< one clear sentence for the user that says what to do; empty when ok or missing
};

/// Reads the section of `identity` out of the file. Errors: see LoadStatus. Never throws.
[[nodiscard]] LoadResult load_profile(const std::string& path, const Identity& identity);

/// Merges `profile` into the file's section for its identity (ops it does not name are kept, those it does
/// are replaced; phases, when it has any, replace those of the section; runs come after those that are there,
/// the oldest go; other sections are untouched; a broken file is replaced, one of a newer version or that is
/// no regular file is left alone: an error). Ops with absurd figures are left out. Written to a temporary
/// file beside it, fsynced and renamed, so that the file is whole at every moment; of two processes that save
/// at once the later one wins (what the other learned is lost). Returns an error sentence, or nothing when
/// all went well. Never throws. @param patient false: not at all where another process is writing it
[[nodiscard]] std::optional<std::string> save_profile(const std::string& path, const Profile& profile,
                                                      bool patient = true);

}  // namespace corun::model
