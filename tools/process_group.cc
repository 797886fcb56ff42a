// SPDX-License-Identifier: Apache-2.0
#include "tools/process_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace corun::tools {
namespace {

struct ProcessState {
    char letter = 'X';
    long group = 0;
    double cpu_seconds = 0;
};

// See proc(5): the fields of stat from the third on; the second, the name, may hold spaces and brackets.
ProcessState read_stat(const std::filesystem::path& folder) {
    std::ifstream file(folder / "stat");
    std::string text;
    std::getline(file, text);
    ProcessState state;
    const auto end_of_name = text.rfind(')');
    if (end_of_name == std::string::npos) return state;
    std::istringstream fields(text.substr(end_of_name + 1));
    std::string skipped;
    fields >> state.letter >> skipped >> state.group;
    for (int field = 6; field < 14; ++field) fields >> skipped;
    double ticks = 0;
    for (int field = 14; field <= 17; ++field) {
        double one = 0;
        fields >> one;
        ticks += one;
    }
    state.cpu_seconds = ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
    return state;
}

double peak_rss_bytes(const std::filesystem::path& folder) {
    std::ifstream file(folder / "status");
    std::string line;
    while (std::getline(file, line))
        if (line.compare(0, 6, "VmHWM:") == 0) return 1024 * std::strtod(line.c_str() + 6, nullptr);
    return 0;
}

}  // namespace

GroupState look_at_group(pid_t group) {
    GroupState result;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
        if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0])) == 0) continue;
        const ProcessState one = read_stat(entry.path());
        if (one.group != group) continue;
        const bool still = one.letter == 'T' || one.letter == 't' || one.letter == 'Z' || one.letter == 'X';
        result.stopped = result.stopped && still;
        result.cpu_seconds += one.cpu_seconds;
        result.max_rss_bytes = std::max(result.max_rss_bytes, peak_rss_bytes(entry.path()));
    }
    return result;
}

}  // namespace corun::tools
