// SPDX-License-Identifier: Apache-2.0
// The report at exit: one JSON document (schema "corun-report", version 1); the text form is made from it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "policy/controller.h"
#include "shim/driver.h"

namespace corun {

inline constexpr int kReportVersion = 1;
inline constexpr std::size_t kReportOps = 20;

/// Everything known, as JSON.
[[nodiscard]] nlohmann::json report_make(const policy::Controller& controller, const DriverFigures& figures);

/// Writes it to `path` (text unless it ends in .json; "%p" becomes the process id; empty: nothing is
/// written). The file appears whole or not at all.
void report_write(const std::string& path, const policy::Controller& controller,
                  const DriverFigures& figures);

}  // namespace corun
