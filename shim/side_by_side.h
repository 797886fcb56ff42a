// SPDX-License-Identifier: Apache-2.0
// How many threads of the process are inside ops at once, and what that leaves each of their teams.
#pragma once

#include "policy/thread_share.h"
#include "shim/state.h"

namespace corun {

/// Widest that an op of `source` may be: `ceiling`, and less beside those of other threads; 0: no limit.
inline std::uint16_t ceiling_beside(Source source, std::uint16_t ceiling, std::uint64_t now) noexcept {
    const std::uint16_t width = globals.width_beside.load(std::memory_order_relaxed);
    if (width == 0 || globals.sources[static_cast<std::size_t>(source)].beside != Beside::bounded) [[likely]]
        return ceiling;
    if (now >= globals.beside_until.load(std::memory_order_relaxed)) return ceiling;
    return ceiling == 0 || width < ceiling ? width : ceiling;
}

/// Not thread-safe: whoever calls holds the driver's lock.
class SideBySide {
  public:
    /// Looks at all threads if it is time to. @param tick seconds
    void look(std::uint64_t now, double tick);
    void restart(std::uint64_t now);  ///< nobody was looked at until now

  private:
    [[nodiscard]] std::uint64_t inside(ThreadState& thread, std::uint64_t now, double tick) const;

    policy::ThreadShare share_;
    std::uint64_t since_ = 0;  ///< ticks
    bool told_ = false;
};

}  // namespace corun
