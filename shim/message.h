// SPDX-License-Identifier: Apache-2.0
// Messages: on stderr only, few, through spdlog. Nothing of them reaches the program's own output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace corun {

enum class Level { error, warning, info, debug };

void message_start(std::string_view level);  ///< CORUN_LOG: quiet, error, warning, info, debug
/// Says one sentence, at most kMessages in all. Never throws.
void message(Level level, const char* sentence) noexcept;
/// A fault of ours: said once for the whole process. With CORUN_STRICT it ends the program.
void message_fault(const char* what) noexcept;
/// What was said, for the report.
std::vector<std::string> messages_said();

}  // namespace corun
