// SPDX-License-Identifier: Apache-2.0
#include "tools/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace corun::tools {
namespace {

// Above these a difference of a few per cent cannot be trusted.
constexpr double kBusyLimit = 0.10;
constexpr double kStealLimit = 0.01;
constexpr double kLoadLimit = 0.30;  // per CPU

struct Ticks {
    double total = 0;
    double idle = 0;
    double steal = 0;
};

// The first line of /proc/stat: user nice system idle iowait irq softirq steal ...
Ticks read_ticks() {
    std::ifstream file("/proc/stat");
    std::string label;
    std::array<double, 8> fields{};
    file >> label;
    for (double& field : fields) file >> field;
    Ticks ticks;
    for (double field : fields) ticks.total += field;
    ticks.idle = fields[3] + fields[4];
    ticks.steal = fields[7];
    return ticks;
}

}  // namespace

std::string cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line)) {
        if (line.compare(0, 10, "model name") != 0) continue;
        const auto colon = line.find(": ");
        if (colon != std::string::npos) return line.substr(colon + 2);
    }
    return "unknown";
}

int usable_cpus() {
    for (int size = 1024; size <= 65536; size *= 4) {
        std::vector<unsigned long> mask(static_cast<std::size_t>(size) / (8 * sizeof(unsigned long)));
        auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
        const std::size_t bytes = mask.size() * sizeof(unsigned long);
        if (sched_getaffinity(0, bytes, set) == 0) return CPU_COUNT_S(bytes, set);
    }
    return static_cast<int>(std::thread::hardware_concurrency());
}

double load_average() {
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

std::string time_text() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

bool Quiet::is_quiet(int cpus) const {
    return busy <= kBusyLimit && steal <= kStealLimit && load <= kLoadLimit * cpus;
}

std::string Quiet::sentence(int cpus) const {
    return fmt::format("the machine is {}: load {:.2f} on {} CPUs, {:.0f} % busy, {:.1f} % stolen",
                       is_quiet(cpus) ? "quiet" : "not quiet, so expect wide intervals", load, cpus,
                       100 * busy, 100 * steal);
}

Quiet look_at_machine() {
    const Ticks before = read_ticks();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const Ticks after = read_ticks();
    Quiet quiet;
    quiet.load = load_average();
    const double total = after.total - before.total;
    if (total > 0) {
        quiet.busy = 1 - (after.idle - before.idle) / total;
        quiet.steal = (after.steal - before.steal) / total;
    }
    return quiet;
}

}  // namespace corun::tools
