// SPDX-License-Identifier: Apache-2.0
// The width that an OpenMP process starts with, from its earlier runs in CORUN_PROFILE, and what this run
// adds.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace corun {

/// At most `own`: the program's own number, capped at the `budget`. Without a profile it is that. Reads
/// files.
int start_profile_width(int own, int budget);

/// At exit: adds what this run has shown. Only where the profile may be written; says once why it cannot.
void start_profile_save();

/// Adds "start_width" (null without a profile).
void start_profile_report(nlohmann::json& report);

}  // namespace corun
