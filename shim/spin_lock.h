// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <atomic>

namespace corun {

// A spin lock: held for microseconds, taken with try_lock on the path of an op; no allocation, safe after
// fork.
class SpinLock {
  public:
    bool try_lock() { return !flag_.test_and_set(std::memory_order_acquire); }
    void lock() {
        for (int i = 0; !try_lock(); ++i)
            if (i > 100) sched_yield();
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
