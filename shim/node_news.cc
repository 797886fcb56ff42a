// SPDX-License-Identifier: Apache-2.0
// What this process has to say of itself at a visit.
#include <cmath>

#include "shim/clock.h"
#include "shim/epochs.h"
#include "shim/node.h"
#include "shim/state.h"

namespace corun {

void node_visit(const Epochs& epochs, double now) noexcept {
    NodeNews news;
    news.now = now;
    news.quiet =
        static_cast<double>(globals.quiet.load(std::memory_order_relaxed)) / clock_ticks_per_second();
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i)
        if (const ThreadState* thread = globals.threads[i].load(std::memory_order_acquire))
            for (const auto& ops : thread->ops)
                news.ops += static_cast<double>(ops.load(std::memory_order_relaxed));
    const policy::Controller& controller = epochs.current();
    news.state = policy::state_name(controller.state());
    if (const policy::Phase* phase = controller.current()) {
        news.arm = controller.arms()[static_cast<std::size_t>(phase->arm())].name.c_str();
        if (const auto gain = phase->gain()) news.gain = std::exp(gain->estimate);
    }
    // At a share of one CPU nothing is learned of two.
    int widest = 0;
    epochs.each([&](const policy::Controller& epoch) {
        if (epoch.gains()[0] > 0.0F && epoch.budget() > widest)
            widest = epoch.budget(), news.gains = epoch.gains();
    });
    node_visit(news);
}

}  // namespace corun
