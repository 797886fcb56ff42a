// SPDX-License-Identifier: Apache-2.0
// What the processes of one group are doing, from /proc.
#pragma once

#include <sys/types.h>

namespace corun::tools {

struct GroupState {
    bool stopped = true;       ///< every process of it is stopped or has ended
    double cpu_seconds = 0;    ///< user and system, children that they waited for included
    double max_rss_bytes = 0;  ///< the most that one of them has had
};

[[nodiscard]] GroupState look_at_group(pid_t group);

}  // namespace corun::tools
