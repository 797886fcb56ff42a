// SPDX-License-Identifier: Apache-2.0
// What the threads' plain state says to the report.
#include "shim/driver.h"

namespace corun {

void figures_of_threads(DriverFigures& out) {
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
        const ThreadState* thread = globals.threads[i].load(std::memory_order_acquire);
        if (thread == nullptr) continue;
        out.dropped += thread->dropped.load(std::memory_order_relaxed);
        out.open_scopes += static_cast<int>(thread->depth.load(std::memory_order_relaxed));
        for (std::size_t s = 0; s < out.ops.size(); ++s)
            out.ops[s] += thread->ops[s].load(std::memory_order_relaxed);
        for (const Slot& slot : thread->slots)
            if (const OpRecord* record = slot.record.load(std::memory_order_acquire))
                if (const auto op = static_cast<std::size_t>(record - globals.records); op < out.calls.size())
                    out.calls[op] += slot.calls.load(std::memory_order_relaxed);
    }
    for (std::size_t s = 0; s < out.async_ops.size(); ++s)
        out.async_ops[s] = globals.async_ops[s].load(std::memory_order_relaxed);
}

void take_samples(std::vector<RawSample>& batch) {
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
        ThreadState* thread = globals.threads[i].load(std::memory_order_acquire);
        if (thread == nullptr) continue;
        const std::uint32_t head = thread->ring_head.load(std::memory_order_acquire);
        std::uint32_t tail = thread->ring_tail.load(std::memory_order_relaxed);
        for (; tail != head; ++tail) batch.push_back(thread->ring[tail % kRing]);
        thread->ring_tail.store(tail, std::memory_order_release);
    }
}

policy::Histogram work_of_threads(double tick) {
    policy::Histogram work{};
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
        const ThreadState* thread = globals.threads[i].load(std::memory_order_acquire);
        if (thread == nullptr) continue;
        for (std::size_t b = 0; b < work.size(); ++b)
            work[b] += static_cast<double>(thread->work[b].load(std::memory_order_relaxed)) * tick;
    }
    return work;
}

}  // namespace corun
