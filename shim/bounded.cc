// SPDX-License-Identifier: Apache-2.0
#include "shim/bounded.h"

#include <algorithm>

#include "shim/process.h"

namespace corun {

std::uint16_t bounded_enter(const ThreadState& thread, Entry& entry, std::uint16_t width, bool timed) {
    const auto index = static_cast<std::size_t>(entry.source);
    const SourceTable& source = globals.sources[index];
    const int budget = globals.budget.load(std::memory_order_relaxed);
    const int own = thread.lever[index] != nullptr ? *thread.lever[index] : source.lever_get();
    const int wanted = std::clamp(width != 0 ? static_cast<int>(width) : own, 1, std::clamp(own, 1, budget));
    int given = 0;
    if (timed) {
        entry.flags |= kEntryTimed;
        entry.ticket = globals.ledger.begin_within(wanted, budget, source.coarse, given);
        entry.counted = static_cast<std::uint16_t>(given);
    } else {
        given = policy::Ledger::fitting(wanted, globals.ledger.idle(budget), source.coarse);
    }
    if (given < wanted) entry.flags &= static_cast<std::uint16_t>(~kEntryAssigned);
    return given < own ? static_cast<std::uint16_t>(given) : width;
}

void bounded_look() {
    if (!process_shares_budget()) return;
    int threads = 0;
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count && threads < 2; ++i)
        if (std::atomic_ref<bool>(globals.threads[i].load()->in_use).load(std::memory_order_relaxed))
            ++threads;
    std::uint8_t sources = 0;
    for (std::size_t i = 0; i < globals.sources.size() && threads > 1; ++i) {
        const SourceTable& source = globals.sources[i];
        if (source.own_team && source.lever_get != nullptr)
            sources = static_cast<std::uint8_t>(sources | 1U << i);
    }
    if (globals.bounded.exchange(sources, std::memory_order_relaxed) == 0 && sources != 0)
        lever_in_force("budget of all threads", "ops of several threads at once share it", "CORUN_LEDGER");
}

}  // namespace corun
