// SPDX-License-Identifier: Apache-2.0
// A file of ours that grows over the program's RLIMIT_FSIZE must not end the program: the signal that says so
// is held back and taken away again, the call fails with EFBIG.
#pragma once

#include <pthread.h>

#include <csignal>
#include <ctime>

namespace corun {

class NoFileSizeSignal {
  public:
    NoFileSizeSignal() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGXFSZ);
        sigset_t pending;
        already_ = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
        pthread_sigmask(SIG_BLOCK, &set_, &before_);
    }
    ~NoFileSizeSignal() {
        const timespec at_once{};
        if (!already_)
            sigtimedwait(&set_, nullptr, &at_once);  // raised by a call of this thread, so pending here
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    NoFileSizeSignal(const NoFileSizeSignal&) = delete;
    NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

  private:
    sigset_t set_{};
    sigset_t before_{};
    bool already_;
};

}  // namespace corun
