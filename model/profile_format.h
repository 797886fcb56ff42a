// SPDX-License-Identifier: Apache-2.0
// The text of a profile file. Private to the profile store.
//
// It is one JSON object: {"format", "version", "checksum", "sections"}. That envelope, and the checksum over
// all the rest of it, stay the same in every version, so that an older corun can tell a newer file from a
// broken one.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "model/profile.h"

namespace corun::model::profile_format {

inline constexpr int kVersion = 2;                                // 1: sections without runs, still read
inline constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // larger files are refused as broken
inline constexpr int kMostWidth = 1 << 16;                        // also of a budget

/// what() completes "is damaged (...)".
struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Parsed {  // NOLINT(bugprone-exception-escape): a moved json throws only when it is already corrupt
    int version = 0;
    nlohmann::json sections;  ///< an array when the version is ours; each section is known to decode
};

/// Throws Broken.
[[nodiscard]] Parsed parse(const std::string& content);

/// The whole file.
[[nodiscard]] std::string compose(const nlohmann::json& sections);

[[nodiscard]] nlohmann::json encode(const Identity& identity);        ///< equal when the identities are
[[nodiscard]] Profile decode_section(const nlohmann::json& section);  ///< throws Broken

/// `profile` over what `sections` holds for its identity.
void merge(nlohmann::json& sections, const Profile& profile);

}  // namespace corun::model::profile_format
