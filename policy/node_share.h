// SPDX-License-Identifier: Apache-2.0
// Who of the processes of one machine gets how many of its CPUs. Pure: the claims come from the node's
// segment, and every process that reads the same claims comes to the same result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "policy/cpu_set.h"

namespace corun::policy {

/// Throughput at 1, 2, 4, ... CPUs as a multiple of that at one; 0: not known, which counts as "no less than
/// the CPUs".
using Gains = std::array<float, 11>;

/// Throughput at `cpus` (>= 1) by `gains`: a line between known points; beyond them in proportion.
[[nodiscard]] double throughput(const Gains& gains, int cpus);

/// What one process asks for.
struct Claim {
    CpuSet cpus;               ///< where it may run
    int most = 1;              ///< CPUs that it can use at all: mask, quota, CORUN_CPUS
    double wanted = 0.0;       ///< of them, by what it has used lately; 0: not known, so all
    double weight = 1.0;       ///< > 0; twice the weight, twice the CPUs
    Gains gains{};             ///< by its own curves
    std::uint64_t group = 0;   ///< of processes under one quota; 0: none
    double group_quota = 0.0;  ///< CPUs that they may use together
    bool idle = false;         ///< lends all that it has
};

struct Share {
    double cpus = 0.0;     ///< below 1 where there are more processes than CPUs; 0: idle
    int width = 0;         ///< threads that an op may use: >= 1; 0: idle
    int peers = 0;         ///< others that are not idle and may run on the same CPUs
    bool crowded = false;  ///< more of them than CPUs: a thread that spins keeps another from running
};

/// A CPU more is worth having when it adds this much of what the first one gives.
inline constexpr double kWorthOfCpu = 0.05;

/// Fair by weight. Everybody who is not idle gets one CPU (or its part of what there is); each further CPU
/// goes to whoever has least for its weight among those that want it and gain from one more; then among those
/// that gain; what nobody gains from is given in the same way. Ties: the larger gain, then the earlier claim.
[[nodiscard]] std::vector<Share> share_out(std::span<const Claim> claims);

}  // namespace corun::policy
