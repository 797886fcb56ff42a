// SPDX-License-Identifier: Apache-2.0
// What was seen of OpenMP, for the report.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace corun {

/// Whether any OpenMP function came through us while the hooks did their work.
bool openmp_seen() noexcept;

/// Adds "runtimes" and "regions". Reads the files of the objects for the names of regions.
void openmp_report(nlohmann::json& report);

}  // namespace corun
