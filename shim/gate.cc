// SPDX-License-Identifier: Apache-2.0
#include "shim/gate.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <utility>

#include "policy/gate.h"
#include "shim/clock.h"
#include "shim/cpu_wait.h"
#include "shim/message.h"
#include "shim/originals.h"
#include "shim/spin_lock.h"
#include "shim/undisturbed.h"

namespace corun {
namespace {

enum Word : std::uint32_t { kNothing, kWaiting, kAdmitted, kGranted };  // of ThreadState::gate
constexpr std::size_t kWokenAtOnce = 64;

constinit SpinLock lock;
constinit std::atomic<policy::Gate*> gate{nullptr};  // never destroyed
constinit std::atomic<bool> opened{false};           // by the watchdog: for good
#ifdef NDEBUG
constinit std::atomic<bool> checked{false};
#else
constinit std::atomic<bool> checked{true};
#endif
constinit std::atomic<int (*)()> holds_gil{nullptr};
constinit double suspect = 0.0;  // when the op that runs for too long began; with the lock, as the next
constinit double suspected_at = 0.0;
constexpr double kSecondLook = 0.2;  // seconds
constinit double tick = 0.0;         // seconds; once measured it stays, so that times can be told apart

struct Counters {
    std::atomic<std::uint64_t> entered, waited, expired, ticks, differences;
};
constinit Counters counters{};

double seconds(std::uint64_t at) {
    return static_cast<double>(at) * tick;
}

// That this thread has computed or could have, had it had a CPU: in nanoseconds; 0: not known.
std::uint64_t ready_time() {
    const double waited = thread_waited_now();
    timespec t{};
    if (waited < 0.0 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0) return 0;
    const auto ran =
        static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
    return ran + static_cast<std::uint64_t>(1e9 * waited) + 1;
}

void open_for_good(const char* why) noexcept {
    if (opened.exchange(true)) return;
    char sentence[200];
    std::snprintf(sentence, sizeof sentence,
                  "the gate is open from now on: %s; no op waits for its turn any more", why);
    message(Level::warning, sentence);
}

// Held for microseconds, or until its thread runs again. One that was ended or left by a jump while it had it
// must not stop the others.
bool take_lock() noexcept {
    constexpr int kSpins = 100;
    constexpr int kYields = 10'000;
    constexpr int kNaps = 40'000;
    constexpr long kNap = 50'000;  // nanoseconds
    for (int i = 0; !lock.try_lock(); ++i) {
        if (opened.load(std::memory_order_relaxed)) return false;
        if (i > kYields)
            nap(kNap);
        else if (i > kSpins)
            sched_yield();
        if (i == kYields + kNaps) return open_for_good("its lock was not given back"), false;
    }
    return true;
}

// Threads that were let in are woken when the lock is free again.
struct Woken {
    std::array<ThreadState*, kWokenAtOnce> threads;
    std::size_t count = 0;
};

void wake(ThreadState& thread) noexcept {
    syscall(SYS_futex, &thread.gate, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void wake(const Woken& woken) noexcept {
    for (std::size_t i = 0; i < woken.count; ++i) wake(*woken.threads[i]);
}

// --- with the lock
// -----------------------------------------------------------------------------------------------

void check(const policy::Gate& now) noexcept {
    if (!checked.load(std::memory_order_relaxed)) [[likely]]
        return;
    int sum = 0;
    bool same = true;
    now.each_running([&](policy::Gate::Ticket ticket, int width) {
        same = same && reinterpret_cast<ThreadState*>(ticket)->gate_entry->counted == width;
        sum += width;
    });
    // Scopes of arms without a gate may be open beside.
    const policy::Ledger::Held held = globals.ledger.held();
    const int others = held.open - static_cast<int>(now.running());
    if (others < 0 || held.widths < sum || (others == 0 && held.widths != sum)) same = false;
    if (same) return;
    if (counters.differences.fetch_add(1, std::memory_order_relaxed) == 0)
        message_fault("the ledger differs from the scopes that run");
}

void admit(ThreadState& thread, int width) {
    Entry& entry = *thread.gate_entry;
    entry.counted = static_cast<std::uint16_t>(width);
    if (width < globals.budget.load(std::memory_order_relaxed))
        entry.flags &= static_cast<std::uint16_t>(~kEntryPlain);
    entry.flags |= kEntryTimed | kEntryGated;
    entry.ticket = globals.ledger.begin(entry.counted);
}

void let_in(policy::Gate& now, std::uint64_t at, const ThreadState* self, Woken& woken) {
    while (const auto grant = now.next(seconds(at))) {
        auto* const thread = reinterpret_cast<ThreadState*>(grant->ticket);
        std::uint32_t waiting = kWaiting;
        if (!thread->gate.compare_exchange_strong(waiting, kAdmitted)) {  // it has given up
            now.end(grant->ticket, seconds(at));
            continue;
        }
        admit(*thread, grant->width);
        thread->gate.store(kGranted, std::memory_order_release);
        if (thread == self) continue;
        if (woken.count < kWokenAtOnce)
            woken.threads[woken.count++] = thread;
        else
            wake(*thread);
    }
    counters.expired.store(now.keys().all_expired(), std::memory_order_relaxed);
}

// What runs for far too long, if what waits has waited in vain: named by whoever finds out.
void watch(policy::Gate& now, std::uint64_t at) {
    const auto overdue = now.overdue(seconds(at));
    if (!overdue) return;
    // A process that was stopped for a while finds all that runs overdue: it is given the time to end.
    if (suspect != overdue->begins) {
        suspect = overdue->begins;
        suspected_at = seconds(at);
    }
    if (seconds(at) - suspected_at < kSecondLook) return;
    char why[120];
    std::snprintf(why, sizeof why, "op key %u has not ended for %.1f s", overdue->key, overdue->seconds);
    now.open();
    open_for_good(why);
}

// --- an op
// -----------------------------------------------------------------------------------------------------

// @return whether it has been let in at once
bool ask(ThreadState& thread, Entry& entry, std::uint16_t own, int most, bool waits, Woken& woken) {
    policy::Gate& now = *gate.load(std::memory_order_relaxed);
    const auto key = static_cast<policy::KeyIndex>(entry.record - globals.records);
    const auto ticket = reinterpret_cast<policy::Gate::Ticket>(&thread);
    const std::uint64_t at = ticks();
    thread.gate_entry = &entry;
    if (now.knows(key)) {
        thread.gate.store(kWaiting, std::memory_order_relaxed);
        now.arrive(ticket, key, most, waits);
    } else {
        const int width = std::clamp<int>(own, 1, most);
        now.begin(ticket, key, own == 0 ? most : width, seconds(at));
        admit(thread, own == 0 ? most : width);
        thread.gate.store(kGranted, std::memory_order_relaxed);
    }
    let_in(now, at, &thread, woken);
    thread.gate_proof = now.keys().wants_proof(key);
    check(now);
    return thread.gate.load(std::memory_order_relaxed) == kGranted;
}

void sleep_until(ThreadState& thread, double until) noexcept {
    const double left = std::clamp(until - seconds(ticks()), 1e-6, 1.0);
    const timespec most{static_cast<time_t>(left), static_cast<long>((left - std::floor(left)) * 1e9)};
    syscall(SYS_futex, &thread.gate, FUTEX_WAIT_PRIVATE, kWaiting, &most, nullptr, 0);
}

// action(woken) with the lock held, which must not fail for want of memory.
template <typename Action>
bool locked(Action action) noexcept {
    Woken woken;
    if (!take_lock()) return false;
    bool done = false;
    try {
        done = action(woken);
    } catch (...) {
        open_for_good("out of memory");
    }
    lock.unlock();
    wake(woken);
    return done;
}

// Each turn of the wait: this thread's time may be over. @return whether it has been let in, by whomever
bool ask_again(ThreadState& thread, double& until) {
    if (thread.gate.load(std::memory_order_acquire) == kGranted) return true;
    locked([&](Woken& woken) {
        policy::Gate& now = *gate.load(std::memory_order_relaxed);
        const std::uint64_t at = ticks();
        if (until > 0.0 && seconds(at) >= until) watch(now, at);
        let_in(now, at, &thread, woken);
        check(now);
        until = now.until(reinterpret_cast<policy::Gate::Ticket>(&thread)).value_or(0.0);
        return true;
    });
    return thread.gate.load(std::memory_order_acquire) == kGranted;
}

// No handler of the program runs meanwhile, and no cancellation: others hold on to this thread's scope.
[[gnu::noinline]] void wait_for_turn(ThreadState& thread, Entry& entry) {
    const Undisturbed quiet;
    const std::uint64_t from = ticks();
    double until = 0.0;
    bool in = ask_again(thread, until);
    while (!in && !opened.load(std::memory_order_relaxed)) {
        sleep_until(thread, until);
        in = ask_again(thread, until);
    }
    // The lock is lost. Whoever has it may be letting this op in still.
    std::uint32_t waiting = kWaiting;
    if (!in && !thread.gate.compare_exchange_strong(waiting, kNothing))
        while (thread.gate.load(std::memory_order_acquire) == kAdmitted) sched_yield();
    entry.begin = ticks();
    counters.waited.fetch_add(1, std::memory_order_relaxed);
    counters.ticks.fetch_add(entry.begin - from, std::memory_order_relaxed);
}

bool enter(ThreadState& thread, Entry& entry, std::uint16_t own, int most, bool waits) {
    thread.gate.store(kNothing, std::memory_order_relaxed);
    const bool in = locked([&](Woken& woken) { return ask(thread, entry, own, most, waits, woken); });
    if (!in && thread.gate.load(std::memory_order_acquire) != kNothing) wait_for_turn(thread, entry);
    return thread.gate.load(std::memory_order_relaxed) == kGranted;
}

// @return false: it is not there
bool leave(ThreadState& thread, Entry& entry, double ready, bool& alone) noexcept {
    bool ended = false;  // whatever fails after it
    locked([&](Woken& woken) {
        policy::Gate* const now = gate.load(std::memory_order_relaxed);
        const std::uint64_t at = ticks();
        if (now == nullptr || !now->end(reinterpret_cast<policy::Gate::Ticket>(&thread), seconds(at), ready))
            return false;
        alone = globals.ledger.end(entry.ticket, entry.counted);
        ended = true;
        if (now->waiting() > 0) let_in(*now, at, nullptr, woken);
        check(*now);
        return true;
    });
    return ended;
}

int program_width(const ThreadState& thread, const Entry& entry) {
    const auto index = static_cast<std::size_t>(entry.source);
    const SourceTable& source = globals.sources[index];
    if (const int* const place = thread.lever[index]) return *place;
    return source.lever_get != nullptr ? source.lever_get() : 0;
}

}  // namespace

void gate_adopt(std::vector<policy::KeyCosts> costs, const std::string& strategy, int cpus, bool anew) {
    if (opened.load(std::memory_order_relaxed)) return;
    if (tick == 0.0) tick = 1.0 / clock_ticks_per_second();
    holds_gil.store(reinterpret_cast<int (*)()>(global_function("PyGILState_Check")),
                    std::memory_order_relaxed);
    if (gate.load(std::memory_order_relaxed) == nullptr)
        gate.store(new policy::Gate, std::memory_order_release);
    if (!take_lock()) return;
    const Holder holder(lock);
    gate.load(std::memory_order_relaxed)->adopt(std::move(costs), strategy, cpus, anew);
}

bool gate_enter(ThreadState& thread, Entry& entry, std::uint16_t own, int limit, int ceiling, bool waits) {
    if (gate.load(std::memory_order_acquire) == nullptr || opened.load(std::memory_order_relaxed))
        return false;
    const int budget = globals.budget.load(std::memory_order_relaxed);
    const int program = program_width(thread, entry);
    int most = limit > 0 ? std::min(limit, budget) : budget;
    if (ceiling > 0) most = std::min(most, ceiling);
    if (program > 0) most = std::min(most, program);
    auto* const python = holds_gil.load(std::memory_order_relaxed);
    waits = waits && globals.sources[static_cast<std::size_t>(entry.source)].lever_set != nullptr &&
            (python == nullptr || python() == 0);
    int type = 0;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    thread.busy = true;
    const bool entered = enter(thread, entry, own, most, waits);
    thread.gate_ready = entered && thread.gate_proof ? ready_time() : 0;
    thread.busy = false;
    if (entered) counters.entered.fetch_add(1, std::memory_order_relaxed);
    pthread_setcanceltype(type, nullptr);
    return entered;
}

bool gate_leave(ThreadState& thread, Entry& entry) noexcept {
    const std::uint64_t until = thread.gate_ready != 0 ? ready_time() : 0;
    const double ready =
        until > thread.gate_ready ? 1e-9 * static_cast<double>(until - thread.gate_ready) : -1.0;
    int type = 0;
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
    const bool busy = std::exchange(thread.busy, true);
    bool alone = false;
    if (!leave(thread, entry, ready, alone)) alone = globals.ledger.end(entry.ticket, entry.counted);
    thread.busy = busy;
    pthread_setcanceltype(type, nullptr);
    return alone;
}

// The lock may be held by a thread that is not there, and what it guards be in the middle of a change.
void gate_after_fork() noexcept {
    if (gate.exchange(nullptr) != nullptr) lock.unlock();
}

GateFigures gate_figures() noexcept {
    const auto count = [](const std::atomic<std::uint64_t>& counter) {
        return counter.load(std::memory_order_relaxed);
    };
    return {count(counters.entered),
            count(counters.waited),
            count(counters.expired),
            seconds(count(counters.ticks)),
            opened.load(std::memory_order_relaxed) ? std::uint64_t{1} : 0,
            count(counters.differences)};
}

void gate_check(bool wanted) noexcept {
    checked.store(wanted, std::memory_order_relaxed);
}

}  // namespace corun
