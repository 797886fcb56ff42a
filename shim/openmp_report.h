// SPDX-License-Identifier: Apache-2.0
// What was seen of OpenMP, for the report.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace corun {

/// Whether any OpenMP function came through us while the hooks did their work.
bool openmp_seen() noexcept;

struct CodePlace {
    std::string text;  ///< "libx.so+0x1290", "the program+0x1290"; "0x7f..." where nothing is loaded
    std::string name;  ///< of the function, or empty
};
/// Where a call returns to. Reads the object's file.
CodePlace place_of_call(const void* returns);

/// Adds "runtimes" and "regions". Reads the files of the objects for the names of regions.
void openmp_report(nlohmann::json& report);

}  // namespace corun
