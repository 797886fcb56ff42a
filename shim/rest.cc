// SPDX-License-Identifier: Apache-2.0
#include "shim/rest.h"

#include <algorithm>
#include <utility>

#include "shim/clock.h"
#include "shim/node.h"
#include "shim/scope.h"
#include "shim/state.h"

namespace corun {
namespace {

std::uint64_t ops_that_cannot_rest() {
    std::uint64_t sum = 0;
    const std::uint32_t count = globals.thread_count.load(std::memory_order_acquire);
    for (std::size_t source = 0; source < globals.sources.size(); ++source) {
        if (globals.sources[source].rests) continue;
        sum += globals.async_ops[source].load(std::memory_order_relaxed);
        for (std::uint32_t i = 0; i < count; ++i)
            if (const ThreadState* thread = globals.threads[i].load(std::memory_order_acquire))
                sum += thread->ops[source].load(std::memory_order_relaxed);
    }
    return sum;
}

}  // namespace

void Rest::begin(std::uint64_t now, std::uint64_t length, std::uint64_t slice) noexcept {
    const std::uint64_t others = ops_that_cannot_rest();
    if (std::exchange(others_, others) != others || widths_bounded() || node_wanted()) return;
    from_ = now;
    end_ = now + length;
    slice_ = slice;
    next_slice(now);
}

void Rest::next_slice(std::uint64_t now) noexcept {
    until_ = std::min(now + slice_, end_);
    globals.rest_from.store(now, std::memory_order_relaxed);
    globals.rest_until.store(until_, std::memory_order_release);
}

// By differences: the time stamp counter of a machine that was suspended may have gone back.
bool Rest::lasts(std::uint64_t now, bool asked) noexcept {
    if (asked || now - from_ >= end_ - from_) return false;
    if (globals.rest_until.load(std::memory_order_relaxed) == 0) next_slice(now);
    return true;
}

void Rest::end(std::uint64_t now) noexcept {
    if (end_ == 0) return;
    globals.rest_until.store(0, std::memory_order_relaxed);
    rested_ += now - from_;
    end_ = 0;
}

std::uint64_t Rest::take() noexcept {
    return std::exchange(rested_, 0);
}

// On the way of every op. Where they come fast, not each looks at the time.
bool source_rests(RestLook& look) noexcept {
    constexpr std::uint32_t kSkipped = 7;
    constexpr std::uint64_t kFast = 4;  // gaps, of all of those together
    const std::uint64_t until = globals.rest_until.load(std::memory_order_acquire);
    if (until == 0) [[likely]]
        return false;
    if (look.skipped > 0) {
        --look.skipped;
        return true;
    }
    const std::uint64_t now = ticks();
    look.skipped = now - look.at < kFast * globals.gap ? kSkipped : 0;
    look.at = now;
    const std::uint64_t from = globals.rest_from.load(std::memory_order_relaxed);
    if (now - from < until - from) return true;
    globals.rest_until.store(0, std::memory_order_relaxed);
    return false;
}

}  // namespace corun
