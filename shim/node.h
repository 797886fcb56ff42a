// SPDX-License-Identifier: Apache-2.0
// This process among the others on the machine (CORUN_NODE): tells what it can use, sees what the others do
// and takes its share as its budget. Visits happen with the driver's, never on the path of a settled op.
#pragma once

#include "policy/node_share.h"

namespace corun {

class Epochs;

/// What the driver knows of the process.
struct NodeNews {
    double now = 0.0;    ///< seconds
    double ops = 0.0;    ///< finished so far
    double quiet = 0.0;  ///< seconds so far in which no op was open
    double gain = 0.0;   ///< work rate with / without; 0: not known
    const char* state = "";
    const char* arm = "";
    policy::Gains gains{};
};

[[nodiscard]] bool node_wanted() noexcept;

/// Under the driver's lock. At most every policy::kNodeVisit seconds: whoever calls it sees to that.
void node_visit(const Epochs& epochs, double now) noexcept;
void node_visit(const NodeNews& news) noexcept;  ///< the same, with what it says
void node_end() noexcept;                        ///< leaves; at the end of the process
void node_after_fork() noexcept;                 ///< in the child: the slot is the parent's

/// CPUs in use by the others that may run on this process's, as they say; 0 without CORUN_NODE. For one look
/// before this process takes part; reads files.
[[nodiscard]] double node_neighbours_use() noexcept;

/// For the report.
struct NodeStory {
    bool refused = false;         ///< the file is not fit to be used
    int most_peers = 0;           ///< others that were not idle, at one time
    double shared_seconds = 0.0;  ///< in which the share was less than all
    double lent_seconds = 0.0;    ///< in which this process was idle, so that others could have its CPUs
};
[[nodiscard]] NodeStory node_story() noexcept;

}  // namespace corun
