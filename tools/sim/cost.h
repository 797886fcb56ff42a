// SPDX-License-Identifier: Apache-2.0
// What an op costs on a machine: its measured time at width 1, split by a roofline into what the cores
// compute and what the memory delivers, plus what its runtime takes to gather threads.
#pragma once

#include "tools/sim/machine.h"

namespace corun::tools::sim {

/// The parts of an op's time at one width, alone, in seconds. They add up; each is stretched by another
/// thing.
struct CostParts {
    double wait = 0.0;     ///< for threads to wake, cores idle meanwhile: by nothing
    double fixed = 0.0;    ///< dispatch and waking, cores busy: by cores that are shared
    double compute = 0.0;  ///< by cores that are shared
    double memory = 0.0;   ///< by cores, caches and bandwidth that are shared
    double bytes = 0.0;    ///< moved meanwhile

    [[nodiscard]] double seconds() const { return wait + fixed + compute + memory; }
    [[nodiscard]] double busy_share() const { return seconds() > 0.0 ? 1.0 - wait / seconds() : 1.0; }
};

/// @param width threads (>= 1); @param sockets that they lie on
[[nodiscard]] CostParts cost_parts(const Machine& machine, const GraphKey& key, int width, int sockets = 1);

/// Sockets that `width` threads need when they are placed on as few as possible.
[[nodiscard]] int sockets_for(const Machine& machine, int width);

/// Seconds of the op alone on the machine, threads placed in a class.
[[nodiscard]] double solo_seconds(const Machine& machine, const GraphKey& key, int width,
                                  model::Placement placement);

}  // namespace corun::tools::sim
