// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/cost.h"

#include <algorithm>

namespace corun::tools::sim {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;

}  // namespace

int sockets_for(const Machine& machine, int width) {
    const int each = machine.cores / machine.sockets;
    return std::clamp((width + each - 1) / each, 1, machine.sockets);
}

CostParts cost_parts(const Machine& machine, const GraphKey& key, int width, int sockets) {
    CostParts parts;
    const double one = key.seconds[0];
    const auto at = static_cast<std::size_t>(width - 1);
    const bool measured = machine.as_measured && at < key.seconds.size() && key.seconds[at] > 0.0;
    const double whole = measured ? key.seconds[at] : one;
    const double moved = key.bytes / (machine.reference_core_gbs * kGiga);
    // What came faster than the memory delivers came from a cache.
    parts.bytes = std::min(moved, one) * machine.reference_core_gbs * kGiga;
    parts.fixed = machine.dispatch_us * kMicro;
    if (measured) {
        // It holds waking already: what it is over its fair share of the time on one thread.
        const double ideal = one / std::min(width, key.parts);
        parts.wait = std::max(0.0, whole - ideal);
        parts.memory = std::min(moved / std::min(width, key.parts), whole - parts.wait);
        parts.compute = whole - parts.wait - parts.memory;
        return parts;
    }
    const double memory = std::min(moved, whole);
    const double compute = (whole - memory) * machine.core_slowdown;
    const int threads = std::min(width, key.parts);
    const int rounds = (key.parts + threads - 1) / threads;  // the last one may leave threads idle
    const double share = static_cast<double>(rounds) / key.parts;
    const double serial = key.parts > 1 ? machine.serial_share : 0.0;
    parts.compute = compute * (serial + (1.0 - serial) * share);
    const double cores_gbs = machine.core_gbs * threads;
    const double gbs = std::min(cores_gbs, machine.socket_gbs * sockets);
    parts.memory = memory * machine.reference_core_gbs / gbs * (sockets > 1 ? machine.remote : 1.0);
    if (width > 1 && key.parts > 1)
        parts.fixed += (machine.wake_us + machine.wake_per_thread_us * (width - 1)) * kMicro;
    return parts;
}

double solo_seconds(const Machine& machine, const GraphKey& key, int width, model::Placement placement) {
    CostParts parts = cost_parts(machine, key, width, sockets_for(machine, width));
    if (placement == model::Placement::compact && machine.cores_per_cache > 1) {
        const int mates = std::min(width, machine.cores_per_cache) - 1;
        parts.memory *= 1.0 + (machine.cache_share - 1.0) * mates / (machine.cores_per_cache - 1);
    }
    return parts.seconds();
}

}  // namespace corun::tools::sim
