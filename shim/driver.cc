// SPDX-License-Identifier: Apache-2.0
#include "shim/driver.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "policy/node_view.h"
#include "shim/budget_watch.h"
#include "shim/clock.h"
#include "shim/control.h"
#include "shim/core.h"
#include "shim/epochs.h"
#include "shim/gate.h"
#include "shim/message.h"
#include "shim/node.h"
#include "shim/op_table.h"
#include "shim/process.h"
#include "shim/rest.h"
#include "shim/side_by_side.h"
#include "shim/spin_lock.h"

namespace corun {
namespace {

using policy::Controller;
using policy::Directive;
using policy::Histogram;
using policy::Window;

constexpr double kDrainSeconds = 0.010;
constexpr double kGapSeconds = 200e-6;  // shorter pauses between ops are dispatch, not waiting for input
constexpr double kStatusSeconds = 0.5;
constexpr double kSlice = 0.25;  // of a rest: as often as the budget is looked at

// While an arm runs that needs no ledger, brief ops are timed in one of so many stretches only: two threads
// that write the ledger for each op of some microseconds cost more than all else that a settled op costs.
constexpr double kStretchSeconds = 0.05;
constexpr int kStretches = 8;
constexpr double kMixedSeconds = 1e-3;  // ops from before a dense stretch may run: nobody counted them

// A window so much longer than it should be, in which the process had hardly any CPU, was spent stopped.
constexpr double kStoppedLengths = 4.0;
constexpr double kStoppedCpu = 0.05;

template <typename T>
T* map_zeroed(std::size_t count) {
    void* memory = mmap(nullptr, sizeof(T) * count, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

void end_thread(void* state) {
    auto* thread = static_cast<ThreadState*>(state);
    core_drop_all(*thread);
    for (Slot& slot : thread->slots) {
        if (slot.identity == nullptr) continue;  // its page may never have been touched
        slot.settle();
        slot.identity = nullptr;
    }
    this_thread = nullptr;
    std::atomic_ref<bool>(thread->in_use).store(false, std::memory_order_release);
}

class Driver {
  public:
    Driver()
        : epochs_(0.0),
          controller_(&epochs_.current()),
          origin_(ticks()),
          tick_(1.0 / clock_ticks_per_second()),
          table_(*controller_, tick_),
          directive_(controller_->directive()) {
        batch_.reserve(4 * kRing);
        table_.apply_tables();
        apply_directive(origin_);
    }

    OpTable& table() { return table_; }
    void visit(std::uint64_t now, const OpRecord* anchor);
    void drain(std::uint64_t now);
    void figures(DriverFigures& out) const;
    void restart(std::uint64_t now) { rest_.end(now), start_settling(now); }
    void without_gate(std::uint64_t now) { gate_arm_ = 0, set_decision(now); }
    void renew(std::unique_ptr<Controller> fresh, std::uint64_t now) {
        drain(now);
        if (const auto before = epochs_.renew(std::move(fresh))) enter_epoch(now);
    }
    std::optional<model::Profile> take_profile() { return std::exchange(to_keep_, std::nullopt); }
    Controller& controller() { return epochs_.longest(); }
    double seconds(std::uint64_t now) const { return static_cast<double>(now - origin_) * tick_; }

  private:
    std::uint64_t in_ticks(double seconds) const { return static_cast<std::uint64_t>(seconds / tick_); }
    void enter_epoch(std::uint64_t now);
    void apply_directive(std::uint64_t now);
    void set_decision(std::uint64_t now);
    [[nodiscard]] bool was_solo(const RawSample& raw) const;
    void start_settling(std::uint64_t now);
    void start_window(std::uint64_t now);
    void close_window(std::uint64_t now);
    void on_anchor(std::uint64_t now);
    void set_due(std::uint64_t now);

    Epochs epochs_;
    Controller* controller_;  ///< the current one
    std::uint64_t epoch_from_ = 0;
    std::uint64_t origin_;
    double tick_;  ///< seconds
    OpTable table_;
    Directive directive_;
    policy::ArmId gate_arm_ = 0;  ///< whose costs the gate has; 0, which has none: nobody's
    std::size_t gate_ops_ = 0;
    std::vector<RawSample> batch_;
    std::uint64_t next_drain_ = 0;
    std::uint64_t next_status_ = 0;
    std::uint64_t next_node_ = 0;
    // Stretches: all ops that count are in the ledger from dense_from_ to dense_until_.
    int stretch_ = 0;
    std::uint64_t next_stretch_ = 0;
    std::uint64_t dense_from_ = 0;
    std::uint64_t dense_until_ = 0;
    SideBySide beside_;
    Rest rest_;
    std::optional<model::Profile> to_keep_;  ///< to be written when the lock is free
    // The window that runs.
    bool settling_ = false;
    int settle_left_ = 0;
    std::uint64_t begin_ = 0;
    std::uint64_t last_anchor_ = 0;
    std::uint64_t slowest_ = 0;
    int periods_ = 0;
    std::uint64_t quiet_before_ = 0;
    double cpu_before_ = 0.0;
    Histogram work_before_{};
};

constinit SpinLock lock;
constinit Driver* driver = nullptr;  // never destroyed: threads may run ops while the process exits
constinit pthread_key_t thread_key = 0;
constinit thread_local bool held_for_fork __attribute__((tls_model("initial-exec"))) = false;

// --- samples
// -------------------------------------------------------------------------------------------------

bool Driver::was_solo(const RawSample& raw) const {
    return (raw.flags & kEntrySolo) != 0 && raw.begin >= dense_from_ && raw.begin + raw.ticks <= dense_until_;
}

void Driver::drain(std::uint64_t now) {
    batch_.clear();
    take_samples(batch_);
    std::sort(batch_.begin(), batch_.end(),
              [](const RawSample& a, const RawSample& b) { return a.begin < b.begin; });
    for (const RawSample& raw : batch_) {
        if (raw.begin < epoch_from_) continue;
        controller_->sample({raw.op, seconds(raw.begin), static_cast<double>(raw.ticks) * tick_, raw.width,
                             was_solo(raw), (raw.flags & kEntryAssigned) != 0, (raw.flags & kEntryPlain) != 0,
                             (raw.flags & kEntryBuilds) != 0, (raw.flags & kEntryBounded) != 0},
                            table_.frozen());
    }
    table_.settle_frozen();
    if (controller_->plan(seconds(now))) table_.apply_assignments();
    next_drain_ = now + in_ticks(kDrainSeconds);
}

// --- windows
// -------------------------------------------------------------------------------------------------

void Driver::start_settling(std::uint64_t now) {
    settling_ = true;
    settle_left_ = policy::kSettlePeriods;
    begin_ = now;
    last_anchor_ = 0;
}

void Driver::start_window(std::uint64_t now) {
    settling_ = false;
    begin_ = now;
    slowest_ = 0;
    periods_ = 0;
    quiet_before_ = globals.quiet.load(std::memory_order_relaxed);
    cpu_before_ = cpu_seconds();
    work_before_ = work_of_threads(tick_);
}

void Driver::close_window(std::uint64_t now) {
    drain(now);
    Window window;
    window.arm = directive_.arm;
    window.wall = static_cast<double>(now - begin_) * tick_;
    const std::uint64_t quiet = globals.quiet.load(std::memory_order_relaxed) - quiet_before_;
    window.open = std::max(0.0, window.wall - static_cast<double>(quiet) * tick_);
    window.work = work_of_threads(tick_);
    for (std::size_t b = 0; b < window.work.size(); ++b) window.work[b] -= work_before_[b];
    window.periods = periods_;
    window.slowest_period = static_cast<double>(slowest_) * tick_;
    window.rested = static_cast<double>(rest_.take()) * tick_;
    const double expected = std::max(directive_.patience, directive_.length);
    window.stopped =
        window.wall > kStoppedLengths * expected && cpu_seconds() - cpu_before_ < kStoppedCpu * window.wall;
    controller_->window_ended(window, seconds(now));
    if (table_.apply_tables()) gate_arm_ = 0;
    if (controller_->plan(seconds(now))) table_.apply_assignments();
    apply_directive(now);
    if (now >= next_status_) {
        next_status_ = now + in_ticks(kStatusSeconds);
        control_write_status(*controller_, globals.ledger.open());
        to_keep_ = process_profile_to_keep(*controller_, seconds(now));
    }
    if (directive_.rest > 0.0) rest_.begin(now, in_ticks(directive_.rest), in_ticks(kSlice));
}

// What ran so far was of another budget, ops that still run among it.
void Driver::enter_epoch(std::uint64_t now) {
    if (directive_.anchor)
        globals.records[*directive_.anchor].flags.fetch_and(~static_cast<std::uint32_t>(kAnchor),
                                                            std::memory_order_relaxed);
    directive_ = {};
    controller_ = &epochs_.current();
    table_.rebind(*controller_);
    gate_arm_ = 0;
    epoch_from_ = now;
    apply_directive(now);
    start_settling(now);
}

void Driver::apply_directive(std::uint64_t now) {
    const Directive next = controller_->directive();
    if (next.anchor != directive_.anchor) {
        if (directive_.anchor)
            globals.records[*directive_.anchor].flags.fetch_and(~static_cast<std::uint32_t>(kAnchor),
                                                                std::memory_order_relaxed);
        if (next.anchor) globals.records[*next.anchor].flags.fetch_or(kAnchor, std::memory_order_relaxed);
    }
    const bool other = next.arm != directive_.arm || next.explore != directive_.explore;
    directive_ = next;
    set_decision(now);
    if (other)
        start_settling(now);
    else
        start_window(now);
    set_due(now);
}

void Driver::set_decision(std::uint64_t now) {
    const policy::Arm& arm = controller_->arms()[static_cast<std::size_t>(directive_.arm)];
    Decision decision;
    decision.arm = static_cast<std::uint8_t>(directive_.arm);
    decision.dynamic = arm.dynamic();
    decision.random = arm.kind == policy::ArmKind::random;
    decision.uniform = arm.kind == policy::ArmKind::uniform;
    decision.exploring = directive_.explore;
    decision.record_all = directive_.record_all;
    decision.ceiling = static_cast<std::uint16_t>(epochs_.ceiling());
    decision.gated = !arm.gate.empty() && !decision.exploring && !decision.record_all;
    const std::size_t ops = controller_->op_count();  // those that came later have to be known as well
    if (decision.gated && (gate_arm_ != directive_.arm || gate_ops_ != ops)) {
        gate_adopt(controller_->costs(), arm.gate, controller_->budget(), gate_arm_ == 0);
        gate_arm_ = directive_.arm, gate_ops_ = ops;
    }
    if (now >= next_stretch_) {
        next_stretch_ = now + in_ticks(kStretchSeconds);
        stretch_ = (stretch_ + 1) % kStretches;
    }
    decision.sparse =
        stretch_ != 0 && !decision.dynamic && !decision.gated && !decision.exploring && !decision.record_all;
    constexpr std::uint64_t kOpen = ~std::uint64_t{0};
    if (decision.sparse && dense_until_ == kOpen) dense_until_ = now;
    if (!decision.sparse && dense_until_ != kOpen) {
        dense_from_ = now + in_ticks(kMixedSeconds);
        dense_until_ = kOpen;
    }
    globals.decision.store(decision, std::memory_order_relaxed);
}

void Driver::on_anchor(std::uint64_t now) {
    if (settling_) {
        if (last_anchor_ != 0 && --settle_left_ <= 0) start_window(now);
        last_anchor_ = now;
        return;
    }
    if (last_anchor_ != 0 && last_anchor_ >= begin_) slowest_ = std::max(slowest_, now - last_anchor_);
    ++periods_;
    last_anchor_ = now;
    if (now - begin_ >= in_ticks(directive_.length)) close_window(now);
}

void Driver::set_due(std::uint64_t now) {
    if (rest_.on()) return globals.due.store(rest_.until(), std::memory_order_relaxed);
    std::uint64_t due = next_drain_;
    if (!directive_.record_all && !directive_.explore) due = now + in_ticks(0.05);  // control page, patience
    const double wait = directive_.anchor ? directive_.patience : directive_.length;
    due = std::min(due, begin_ + in_ticks(settling_ ? std::min(0.05, wait) : wait));
    globals.due.store(std::max(due, now + in_ticks(0.0005)), std::memory_order_relaxed);
}

void Driver::visit(std::uint64_t now, const OpRecord* anchor) {
    if (rest_.on()) {
        const bool asked = controller_->budget() != process_budget().cpus || control_off_asked();
        if (rest_.lasts(now, asked)) return set_due(now);
        beside_.restart(now);
        restart(now);
    }
    if (now >= next_node_ && node_wanted()) {
        next_node_ = now + in_ticks(policy::kNodeVisit);
        node_visit(epochs_, seconds(now));
    }
    if (control_off_asked()) {
        budget_share_set(0.0);  // nobody visits the node for it any more
        globals.active.store(false, std::memory_order_relaxed);
        control_obeyed();
        return;
    }
    if (now >= next_drain_) drain(now);
    if (epochs_.follow(seconds(now))) enter_epoch(now);
    beside_.look(now, tick_);
    if (now >= next_stretch_) set_decision(now);
    if (anchor != nullptr && directive_.anchor && anchor == &globals.records[*directive_.anchor])
        on_anchor(now);
    const std::uint64_t age = now - begin_;
    if (settling_ && age >= in_ticks(directive_.anchor ? directive_.patience : 0.05)) {
        start_window(now);
    } else if (!settling_ && age >= in_ticks(directive_.anchor ? directive_.patience : directive_.length)) {
        close_window(now);
    }
    set_due(now);
}

void Driver::figures(DriverFigures& out) const {
    out.seconds = seconds(ticks());
    out.epochs = epochs_.all();
    out.calls.assign(epochs_.longest().op_count(), 0);
    out.container.assign(out.calls.size(), false);
    for (std::size_t op = 0; op < out.calls.size(); ++op) {
        out.calls[op] = globals.records[op].calls.load(std::memory_order_relaxed);
        out.container[op] = (globals.records[op].flags.load(std::memory_order_relaxed) & kContainer) != 0;
    }
    figures_of_threads(out);
}

// Whatever goes wrong in here must not reach the program: the hooks forward from then on.
template <typename Body>
void guarded(Body body) noexcept {
    try {
        body();
    } catch (const std::exception& error) {
        globals.active.store(false, std::memory_order_relaxed);
        message_fault(error.what());
    } catch (...) {
        globals.active.store(false, std::memory_order_relaxed);
        message_fault("unknown error");
    }
}

}  // namespace

bool driver_start(bool anew) noexcept {
    bool started = false;
    guarded([&] {
        if (driver != nullptr) {
            started = true;
            if (!anew) return;
            // Not under the lock: it reads files.
            const auto budget = static_cast<int>(globals.budget.load(std::memory_order_relaxed));
            auto fresh = process_make_controller(budget, driver->seconds(ticks()));
            lock.lock();
            const Holder holder(lock);
            return driver->renew(std::move(fresh), ticks());
        }
        globals.records = map_zeroed<OpRecord>(kRecords);
        if (globals.records == nullptr || pthread_key_create(&thread_key, end_thread) != 0) return;
        globals.gap = static_cast<std::uint64_t>(kGapSeconds * clock_ticks_per_second());
        driver = new Driver;
        started = true;
    });
    return started;
}

ThreadState* driver_attach_thread() noexcept {
    if (driver == nullptr) return nullptr;
    lock.lock();
    const Holder holder(lock);
    const std::uint32_t count = globals.thread_count.load(std::memory_order_relaxed);
    ThreadState* thread = nullptr;
    for (std::uint32_t i = 0; i < count && thread == nullptr; ++i) {
        ThreadState* old = globals.threads[i].load(std::memory_order_relaxed);
        if (!std::atomic_ref<bool>(old->in_use).load(std::memory_order_acquire)) thread = old;
    }
    if (thread == nullptr) {
        if (count == kThreads || (thread = map_zeroed<ThreadState>(1)) == nullptr) return nullptr;
        thread->random = 0x9E3779B97F4A7C15ULL * (count + 1) ^ process_seed();
        globals.threads[count].store(thread, std::memory_order_release);
        globals.thread_count.store(count + 1, std::memory_order_release);
    }
    std::atomic_ref<bool>(thread->in_use).store(true, std::memory_order_release);
    thread->busy = false;
    thread->lever = {};  // of the thread that had this state before
    pthread_getcpuclockid(pthread_self(), &thread->clock);
    if (pthread_setspecific(thread_key, thread) != 0) return nullptr;
    return this_thread = thread;
}

OpRecord* driver_resolve(Source source, const void* identity, std::uint32_t, const void* call) noexcept {
    OpRecord* record = nullptr;
    guarded([&] {
        OpText text{};
        globals.sources[static_cast<std::size_t>(source)].describe(identity, call, text);
        if (text.kind[0] == '\0') return;
        lock.lock();
        const Holder holder(lock);
        record = driver->table().resolve(source, text);
    });
    return record;
}

void driver_visit(std::uint64_t now, const OpRecord* anchor) noexcept {
    // An anchor is worth a short wait: without it the period would look twice as long.
    for (int tries = anchor != nullptr ? 200 : 1; !lock.try_lock(); --tries)
        if (tries <= 1) return;
    std::optional<model::Profile> profile;
    {
        const Holder holder(lock);
        guarded([&] {
            driver->visit(now, anchor);
            profile = driver->take_profile();
        });
    }
    if (profile) guarded([&] { process_keep_profile(*profile); });
}

void driver_set_active(bool active) noexcept {
    if (driver == nullptr) return;
    lock.lock();
    const Holder holder(lock);
    guarded([&] {
        const std::uint64_t now = ticks();
        globals.quiet_until.store(now, std::memory_order_relaxed);
        driver->restart(now);
        globals.due.store(0, std::memory_order_relaxed);
    });
    globals.active.store(active, std::memory_order_release);
}

void driver_begin_fork() noexcept {
    if (driver == nullptr || (this_thread != nullptr && this_thread->busy)) return;
    held_for_fork = lock.lock_within_a_second();
}

void driver_end_fork() noexcept {
    if (held_for_fork) lock.unlock();
    held_for_fork = false;
}

void driver_after_fork() noexcept {
    driver_end_fork();
    const std::uint32_t count = globals.thread_count.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < count; ++i) {
        ThreadState* thread = globals.threads[i].load(std::memory_order_relaxed);
        if (thread == this_thread) continue;
        thread->depth.store(0, std::memory_order_relaxed);
        thread->in_use = false;
    }
    if (driver != nullptr) guarded([] { driver->without_gate(ticks()); });
    globals.ledger.clear();
    globals.width_beside.store(0, std::memory_order_relaxed);
    if (this_thread != nullptr) pthread_getcpuclockid(pthread_self(), &this_thread->clock);
    if (this_thread != nullptr) core_enter_again(*this_thread);  // fork() in the middle of an op
}

// A thread that goes on while the process exits may be visiting.
void driver_end() noexcept {
    if (driver == nullptr || (this_thread != nullptr && this_thread->busy) || !lock.lock_within_a_second())
        return;
    const Holder holder(lock);
    node_end();
}

bool driver_read(const std::function<void(Controller&, const DriverFigures&)>& reader) {
    if (driver == nullptr) return false;
    if (this_thread != nullptr && this_thread->busy) return true;
    if (!lock.lock_within_a_second()) return true;  // rather no report than a hang
    const Holder holder(lock);
    DriverFigures figures;
    driver->drain(ticks());
    driver->figures(figures);
    reader(driver->controller(), figures);
    return true;
}

}  // namespace corun
