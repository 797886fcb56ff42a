// SPDX-License-Identifier: Apache-2.0
#include "shim/budget_watch.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shim/clock.h"
#include "shim/cpu_wait.h"
#include "shim/task_list.h"

namespace corun {
namespace {

constexpr std::uint64_t kLookNanoseconds = 250'000'000;
constexpr std::uint64_t kScanNanoseconds = 5'000'000'000;
constexpr std::uint64_t kNarrowNanoseconds = 1'000'000'000;  // while the first thread has fewer than it had

// CPUs that threads of the process may run on. As large as the largest machine.
struct Mask {
    unsigned long words[65536 / (8 * sizeof(unsigned long))];
    std::size_t used;  ///< words
};

constinit std::atomic<bool> looking{false};  // guards all up to the next line of dashes
constinit CgroupReader cgroups("/sys/fs/cgroup", "/proc/self/cgroup");
constinit bool frozen = false;
constinit int cpus_option = 0;
constinit int cpus_emulated = 0;
constinit Mask first_thread{};  // by the latest scan
constinit Mask all_threads{};
constinit Mask scratch{};
constinit int most_of_first = 0;  // CPUs that the first thread has had
constinit std::uint64_t last_scan = 0;
constinit BudgetChange changes[kBudgetChanges] = {};
// --------------------------------------------------------------------------------------------------------

constinit std::atomic<std::uint64_t> next_look{0};
constinit std::atomic<double> share{0.0};
constinit std::atomic<int> slot{-1};
constinit std::atomic<std::size_t> change_count{0};

// The latest look, each by itself: whoever reads two of them may see them of two looks.
constinit std::atomic<int> now_affinity{1};
constinit std::atomic<double> now_quota{0.0};
constinit std::atomic<std::uint64_t> now_group{0};
constinit std::atomic<double> now_share{0.0};

constinit Throttling throttled_before{};
constinit std::uint64_t stolen_before = 0;
constinit std::uint64_t spent_before = 0;

class Looking {
  public:
    Looking() : got_(!looking.exchange(true, std::memory_order_acquire)) {}
    ~Looking() {
        if (got_) looking.store(false, std::memory_order_release);
    }
    Looking(const Looking&) = delete;
    Looking& operator=(const Looking&) = delete;
    explicit operator bool() const { return got_; }

  private:
    bool got_;
};

bool read_mask(long thread, Mask& mask) {
    const long bytes = syscall(SYS_sched_getaffinity, thread, sizeof mask.words, mask.words);
    mask.used = bytes > 0 ? static_cast<std::size_t>(bytes) / sizeof mask.words[0] : 0;
    return bytes > 0;
}

bool same(const Mask& a, const Mask& b) {
    return a.used == b.used && std::memcmp(a.words, b.words, a.used * sizeof a.words[0]) == 0;
}

int count(const Mask& mask) {
    int cpus = 0;
    for (std::size_t i = 0; i < mask.used; ++i) cpus += __builtin_popcountl(mask.words[i]);
    return std::max(1, cpus);
}

void add(Mask& mask, const Mask& other) {
    for (std::size_t i = mask.used; i < other.used; ++i) mask.words[i] = 0;
    mask.used = std::max(mask.used, other.used);
    for (std::size_t i = 0; i < other.used; ++i) mask.words[i] |= other.words[i];
}

void scan_threads() {
    all_threads = first_thread;
    for_each_task([](int, const char* name) {
        const long thread = std::strtol(name, nullptr, 10);
        if (thread > 0 && read_mask(thread, scratch)) add(all_threads, scratch);
    });
}

// A program that pins each thread to a CPU of its own uses them all, whichever thread is asked: so it is the
// masks of all that count. Who changes them from outside changes the first thread's too; as long as that is
// what it was, the others are looked at rarely. A runtime that binds threads to places binds the first one
// when it is loaded, and has the others later.
void look_at_affinity(std::uint64_t now) {
    if (!read_mask(getpid(), scratch)) return;
    const bool changed = !same(scratch, first_thread);
    most_of_first = std::max(most_of_first, count(scratch));
    const bool narrow = count(scratch) < most_of_first;
    if (!changed && !narrow && same(scratch, all_threads)) return;
    if (!changed && now - last_scan < (narrow ? kNarrowNanoseconds : kScanNanoseconds)) return;
    first_thread = scratch;
    last_scan = now;
    scan_threads();
    now_affinity.store(count(all_threads), std::memory_order_relaxed);
}

void note_change() {
    const Budget budget = budget_now();
    const std::size_t known = change_count.load(std::memory_order_relaxed);
    if (known == kBudgetChanges || (known > 0 && changes[known - 1].cpus == budget.cpus)) return;
    changes[known] = {clock_seconds(), budget.cpus, budget.limit};
    change_count.store(known + 1, std::memory_order_release);
}

void look(std::uint64_t now) {
    const int saved = errno;
    look_at_affinity(now);
    if (const double quota = cgroups.quota(); quota >= 0.0) {  // otherwise what was known before holds
        now_quota.store(quota, std::memory_order_relaxed);
        now_group.store(cgroups.group(), std::memory_order_relaxed);
    }
    now_share.store(share.load(std::memory_order_relaxed), std::memory_order_relaxed);
    note_change();
    errno = saved;
}

}  // namespace

void budget_start(const char* cgroup_root, int option, bool stays, int emulated) noexcept {
    const Looking mine;
    if (!mine) return;
    cgroups.set_root(cgroup_root);
    cpus_option = option;
    cpus_emulated = emulated;
    frozen = stays;
    const std::uint64_t now = monotonic_nanoseconds();
    look(now);
    next_look.store(stays ? ~std::uint64_t{0} : now + kLookNanoseconds, std::memory_order_relaxed);
}

std::uint64_t budget_refresh() noexcept {
    const std::uint64_t now = monotonic_nanoseconds();
    if (now < next_look.load(std::memory_order_relaxed)) return now;
    const Looking mine;
    if (!mine || frozen) return now;
    look(now);
    next_look.store(now + kLookNanoseconds, std::memory_order_relaxed);
    return now;
}

Budget budget_now() noexcept {
    return make_budget(cpus_emulated > 0 ? cpus_emulated : now_affinity.load(std::memory_order_relaxed),
                       now_quota.load(std::memory_order_relaxed), now_share.load(std::memory_order_relaxed),
                       cpus_option);
}

bool budget_cpu_set(policy::CpuSet& cpus) noexcept {
    const Looking mine;
    if (!mine) return false;
    if (all_threads.used > cpus.words.size() || all_threads.used == 0) {  // a larger machine: anywhere
        cpus.words.fill(~std::uint64_t{0});
        return true;
    }
    static_assert(sizeof cpus.words[0] == sizeof all_threads.words[0]);
    cpus = {};
    std::copy_n(all_threads.words, all_threads.used, cpus.words.begin());
    return true;
}

void budget_share_set(double cpus, int which) noexcept {
    const double before = share.exchange(cpus > 0 ? cpus : 0.0, std::memory_order_relaxed);
    const bool same_slot = slot.exchange(which, std::memory_order_relaxed) == which;
    if (before == std::max(cpus, 0.0) && same_slot) return;
    if (!frozen) next_look.store(0, std::memory_order_relaxed);
}

std::uint64_t budget_group() noexcept {
    return now_group.load(std::memory_order_relaxed);
}

int budget_slot() noexcept {
    return slot.load(std::memory_order_relaxed);
}

void pressure_start() noexcept {
    const Looking mine;
    if (!mine || spent_before != 0) return;
    throttled_before = cgroups.throttling();
    const CpuTimes now = cpu_times_now();
    stolen_before = now.stolen;
    spent_before = now.all;
}

Pressure pressure_now() noexcept {
    Pressure pressure;
    const Looking mine;
    if (!mine || spent_before == 0) return pressure;
    const Throttling now = cgroups.throttling();
    pressure.throttling.periods = now.periods - std::min(now.periods, throttled_before.periods);
    pressure.throttling.throttled = now.throttled - std::min(now.throttled, throttled_before.throttled);
    pressure.throttling.seconds = std::max(0.0, now.seconds - throttled_before.seconds);
    const CpuTimes times = cpu_times_now();
    if (times.all > spent_before && times.stolen > stolen_before)
        pressure.steal_share =
            static_cast<double>(times.stolen - stolen_before) / static_cast<double>(times.all - spent_before);
    return pressure;
}

std::size_t budget_changes(BudgetChange (&out)[kBudgetChanges]) noexcept {
    const std::size_t known = change_count.load(std::memory_order_acquire);
    std::copy(changes, changes + known, out);
    return known;
}

void budget_after_fork() noexcept {
    looking.store(false, std::memory_order_relaxed);
    budget_share_set(0.0);  // that was the parent's
    now_share.store(0.0, std::memory_order_relaxed);
}

}  // namespace corun
