// SPDX-License-Identifier: Apache-2.0
// Our own slow path on this thread. A handler of the program that ran in the middle of it and called exit()
// or fork() would meet locks that this very thread holds: ours, the allocator's, the loader's. So signals
// wait the microseconds that it takes, a cancellation too, and errno is as before.
//
// A thread that may be cancelled at any moment (PTHREAD_CANCEL_ASYNCHRONOUS) is ended where that state is
// given back, by an unwinder that no noexcept function may stand in the way of: nothing that holds one of
// these, or calls who does, is noexcept.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>

namespace corun {

class Undisturbed {
  public:
    Undisturbed() noexcept : errno_(errno) {
        sigset_t held;
        sigfillset(&held);
        // What a fault of our own would raise has to arrive at once.
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
            sigdelset(&held, fault);
        pthread_sigmask(SIG_BLOCK, &held, &before_);
        // The type first: a cancellation that is on its way here looks at nothing else (glibc 2.36).
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type_);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_);
    }
    ~Undisturbed() noexcept(false) {
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        errno = errno_;
        pthread_setcancelstate(cancel_, nullptr);
        if (type_ == PTHREAD_CANCEL_DEFERRED) return;
        // Here, if one has come: pthread_setcancelstate() would not say that it was a cancellation
        // (glibc 2.36).
        pthread_setcanceltype(type_, nullptr);
    }
    Undisturbed(const Undisturbed&) = delete;
    Undisturbed& operator=(const Undisturbed&) = delete;

  private:
    sigset_t before_{};
    int errno_;
    int cancel_ = PTHREAD_CANCEL_ENABLE;
    int type_ = PTHREAD_CANCEL_DEFERRED;
};

/// action(argument) with one of these held. Not inlined: whoever has a catch or a destructor must not be on
/// the stack while a cancellation may be acted upon, for it may come between any two instructions, and the
/// unwinder ends a program whose frame says nothing of that place. Neither this nor what calls it has any.
void undisturbed(void (*action)(void*), void* argument);

/// action(argument); what it throws (for want of memory) is told and goes no further. For those who are built
/// without exceptions.
void guarded(void (*action)(void*), void* argument) noexcept;

}  // namespace corun
