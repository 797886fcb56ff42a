// SPDX-License-Identifier: Apache-2.0
// The report as text, for CORUN_REPORT=*.txt, `corun run --report` and `corun report`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace corun {

/// Renders a report (schema "corun-report", version 1) as UTF-8 text of at most 110 columns that ends in a
/// newline. Missing and ill-typed fields are left out; of what is no report at all it says so in one
/// sentence. Never throws, unless memory is exhausted.
[[nodiscard]] std::string render_report(const nlohmann::json& report);

}  // namespace corun
