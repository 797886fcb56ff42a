// SPDX-License-Identifier: Apache-2.0
// Runs a program as a child so that its report can be printed when it has ended.
#pragma once

#include <string>
#include <vector>

#include "tools/launch.h"

namespace corun::tools {

/// Runs the program under `environment`, passes signals on, prints its report on stderr and returns its exit
/// code; a program that a signal ended ends this process by the same signal.
int run_and_report(const std::vector<std::string>& words, Environment& environment);

}  // namespace corun::tools
