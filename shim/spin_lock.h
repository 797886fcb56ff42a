// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <atomic>

#include "shim/clock.h"

namespace corun {

// A spin lock: held for microseconds, taken with try_lock on the path of an op; no allocation, safe after
// fork.
class SpinLock {
  public:
    bool try_lock() noexcept { return !flag_.test_and_set(std::memory_order_acquire); }
    void lock() {
        for (int i = 0; !try_lock(); ++i)
            if (i > 100) sched_yield();
    }
    /// A signal handler may come by while this very thread holds it, and who holds it may need this CPU,
    /// whatever the priorities are: asleep after a while, and not for ever. About a second.
    bool lock_within_a_second() noexcept {
        constexpr int kYields = 1000;
        constexpr int kNaps = 10'000;
        constexpr long kNap = 50'000;  // nanoseconds, and as much for waking up
        for (int i = 0; !try_lock(); ++i) {
            if (i < kYields)
                sched_yield();
            else
                nap(kNap);
            if (i == kYields + kNaps) return false;
        }
        return true;
    }
    void unlock() { flag_.clear(std::memory_order_release); }

  private:
    std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

class Holder {
  public:
    explicit Holder(SpinLock& lock) : lock_(lock) {}
    ~Holder() { lock_.unlock(); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

  private:
    SpinLock& lock_;
};

}  // namespace corun
