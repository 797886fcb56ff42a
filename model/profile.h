// SPDX-License-Identifier: Apache-2.0
// What was learned, on disk: versioned, checksummed, written atomically, never trusted blindly.
#pragma once

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

struct Profile {
    Identity identity;
    std::vector<ProfileOp> ops;
    std::vector<ProfilePhase> phases;
};

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
/// are replaced; phases, when it has any, replace those of the section; other sections are untouched; a
/// broken file is replaced, one of a newer version or that is no regular file is left alone: an error). Ops
/// with absurd figures are left out. Written to a temporary file beside it, fsynced and renamed, so that the
/// file is whole at every moment; of two processes that save at once the later one wins (what the other
/// learned is lost). Returns an error sentence, or nothing when all went well. Never throws.
[[nodiscard]] std::optional<std::string> save_profile(const std::string& path, const Profile& profile);

}  // namespace corun::model
