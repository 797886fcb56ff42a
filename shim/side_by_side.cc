// SPDX-License-Identifier: Apache-2.0
#include "shim/side_by_side.h"

#include <time.h>

#include <algorithm>

#include "shim/process.h"

namespace corun {
namespace {

// An op that lasts longer than a stretch may wait for something else (a message): so little of a CPU.
constexpr double kWaiting = 0.01;

bool waits(ThreadState& thread, double seconds) {
    timespec time{};
    if (clock_gettime(thread.clock, &time) != 0) return false;
    const double before = thread.cpu_seen;
    thread.cpu_seen = static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    return thread.cpu_seen - before < kWaiting * seconds;
}

}  // namespace

// Ticks since the last look in which it was inside ops.
std::uint64_t SideBySide::inside(ThreadState& thread, std::uint64_t now, double tick) const {
    const std::uint64_t stretch = now - since_;
    const std::uint64_t all = thread.inside.load(std::memory_order_relaxed);
    std::uint64_t inside = all - thread.inside_seen;
    thread.inside_seen = all;
    const std::uint64_t last = thread.last.load(std::memory_order_relaxed);
    if (all != 0 && thread.depth.load(std::memory_order_relaxed) > 0 && last < now) {
        if (last < since_) return waits(thread, static_cast<double>(stretch) * tick) ? 0 : stretch;
        inside += now - last;
    }
    return std::min(inside, stretch);
}

void SideBySide::restart(std::uint64_t now) {
    since_ = now;
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i)
        if (ThreadState* const thread = globals.threads[i].load(std::memory_order_acquire))
            thread->inside_seen = thread->inside.load(std::memory_order_relaxed);
}

void SideBySide::look(std::uint64_t now, double tick) {
    const std::uint64_t stretch = now - since_;
    if (static_cast<double>(stretch) * tick < policy::ThreadShare::kStretchSeconds) return;
    std::uint64_t sum = 0;
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
        ThreadState* const thread = globals.threads[i].load(std::memory_order_acquire);
        if (thread != nullptr && std::atomic_ref<bool>(thread->in_use).load(std::memory_order_acquire))
            sum += inside(*thread, now, tick);
    }
    since_ = now;
    share_.note(static_cast<double>(sum) / static_cast<double>(stretch), static_cast<double>(stretch) * tick);
    const int budget = globals.budget.load(std::memory_order_relaxed);
    const bool wanted = process_limits_widths() && process_options().boolean(OptionId::ledger);
    const int width = wanted ? share_.width(budget) : budget;
    globals.beside_until.store(now + static_cast<std::uint64_t>(policy::ThreadShare::kValidSeconds / tick),
                               std::memory_order_relaxed);
    globals.width_beside.store(static_cast<std::uint16_t>(width < budget ? width : 0),
                               std::memory_order_relaxed);
    if (width < budget && !told_) {
        told_ = true;
        lever_in_force("threads side by side", "their ops share the budget", "CORUN_LEDGER");
    }
}

}  // namespace corun
