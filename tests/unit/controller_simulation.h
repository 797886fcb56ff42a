// SPDX-License-Identifier: Apache-2.0
// A whole fake process around a controller: a program of ops with known costs at each width on a noisy
// machine, and the shim between them. FakeShim mirrors shim/core.cc and shim/driver.cc step by step, with a
// clock that only the program moves: a change there belongs here too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/controller.h"
#include "policy/ledger.h"
#include "tests/unit/policy_simulation.h"

namespace corun::policy::simulation {

/// Hooks and driver, without threads, atomics and a real clock.
class FakeShim {
  public:
    /// One timed or untimed op under way.
    struct Running {
        OpId op = 0;
        double begin = 0.0;
        int width = 0;  ///< 0: the program's own
        int counted = 0;
        Ledger::Ticket ticket{};
        bool timed = false, assigned = false;
        bool unseen = false;
    };
    /// A change of what the controller is doing.
    struct Event {
        double time = 0.0;
        std::optional<PhaseId> phase;
        State state = State::learn;
        ArmId arm = kPassThrough;  ///< that the phase has chosen
    };

    FakeShim(std::unique_ptr<Controller> controller, int budget, int threads)
        : controller_(std::move(controller)), budget_(budget), last_(static_cast<std::size_t>(threads), 0.0) {
        apply_tables();
        apply_directive(0.0);
    }

    Controller& controller() { return *controller_; }
    [[nodiscard]] const Controller& controller() const { return *controller_; }
    [[nodiscard]] const std::vector<Event>& events() const { return events_; }
    [[nodiscard]] const std::map<ArmId, long>& directives() const { return directives_; }  ///< windows by arm
    [[nodiscard]] int open_widths() const { return ledger_.widths(); }

    /// Driver::resolve.
    OpId resolve(OpInfo info) {
        const auto known = variants_.find(info.kind);
        const std::size_t variants = known == variants_.end() ? 0 : known->second.size();
        if (variants == 0 || known->second.count(info.shapes) == 0) {
            if (variants >= kVariants)
                info.shapes = "(varied)";
            else if (controller_->op_count() + kRecordsLeft > kRecords)
                info.kind = "(other)", info.shapes.clear();
            else
                variants_[info.kind].insert(info.shapes);
        }
        const std::size_t before = controller_->op_count();
        const OpId op = controller_->add_op(info);
        if (op < before) return op;
        Record& record = records_.emplace_back();
        record.bucket = 1 + std::hash<std::string>{}(info.key()) % (kHistogramBuckets - 1);
        record.wanted = true;
        apply_row(op);
        if (controller_->op(op).reference > 0.0) {
            frozen_.push_back(op);
            settle_frozen();
        }
        return op;
    }

    /// With `rests` ops are not seen while a directive's rest lasts, as those of a source that can do
    /// without.
    void rests(bool wanted) { rests_ = wanted; }
    [[nodiscard]] double rested() const { return all_rested_; }  ///< seconds

    Running begin(std::size_t thread, OpId op, double now) {
        if (now < rest_until_) return {.op = op, .begin = now, .unseen = true};
        if (rest_until_ > 0.0) end_rest(now);
        if (now - last_[thread] > kGap && open_ == 0) note_quiet(now);
        last_[thread] = now;
        if (records_[op].anchor || now >= due_) visit(now, op);
        const Record& record = records_[op];
        Running running{.op = op, .begin = now};
        running.width = decide(record, running.assigned);
        if (!record.cheap || directive_.record_all) {
            running.timed = true;
            running.counted = running.width != 0 ? running.width : budget_;
            running.ticket = ledger_.begin(static_cast<std::uint16_t>(running.counted));
        }
        ++open_;
        return running;
    }

    void end(std::size_t thread, const Running& running, double now) {
        if (running.unseen) return;
        --open_;
        Record& record = records_[running.op];
        if (record.reference > 0.0) work_[record.bucket] += record.reference;
        if (!running.timed) return;
        const bool solo = ledger_.end(running.ticket, static_cast<std::uint16_t>(running.counted));
        last_[thread] = now;
        if (record.reference == 0.0) work_[0] += now - running.begin;
        const bool wanted = record.wanted || running.assigned || directive_.record_all;
        if (!wanted && ++sampled_ % 16 != 0) return;
        ring_.push_back({running.op, running.begin, now - running.begin, running.width, solo,
                         running.assigned, running.width == 0});
    }

  private:
    static constexpr double kDrainSeconds = 0.010;
    static constexpr double kGap = 200e-6;
    static constexpr std::size_t kVariants = 64;
    static constexpr std::size_t kRecords = 16384, kRecordsLeft = 1024;

    struct Record {
        std::size_t bucket = 1;
        double reference = 0.0;
        bool cheap = false, anchor = false, wanted = false;
        int assigned = 0;  ///< 0: nothing is asked for
        std::vector<WidthRow> rows;
    };

    int decide(const Record& record, bool& assigned) const {
        if (directive_.explore && record.assigned > 0) {
            assigned = true;
            return record.assigned >= budget_ ? 0 : record.assigned;
        }
        const Arm& arm = controller_->arms()[static_cast<std::size_t>(directive_.arm)];
        const std::size_t bucket = arm.dynamic() ? idle_bucket(ledger_.idle(budget_)) : 0;
        return record.rows[static_cast<std::size_t>(directive_.arm)][bucket];
    }

    void note_quiet(double now) {
        double latest = quiet_until_;
        for (const double last : last_) latest = std::max(latest, last);
        if (now - latest < kGap) return;
        quiet_until_ = now;
        quiet_ += now - latest;
    }

    void apply_row(OpId op) {
        records_[op].rows.resize(controller_->arms().size());
        for (std::size_t arm = 0; arm < controller_->arms().size(); ++arm)
            records_[op].rows[arm] = controller_->row(op, static_cast<ArmId>(arm));
    }
    void apply_tables() {
        if (!controller_->take_tables_changed()) return;
        for (OpId op = 0; op < controller_->op_count(); ++op) apply_row(op);
    }
    void settle_frozen() {
        for (const OpId op : frozen_) {
            records_[op].reference = controller_->op(op).reference;
            records_[op].cheap = records_[op].reference < 3e-6;
            records_[op].wanted = false;
        }
        frozen_.clear();
    }
    void apply_assignments() {
        for (Record& record : records_) record.assigned = 0;
        for (const model::Assignment& wish : controller_->assignments())
            records_[wish.op].assigned = wish.width;
    }

    void drain(double now) {
        std::sort(ring_.begin(), ring_.end(),
                  [](const OpSample& a, const OpSample& b) { return a.begin < b.begin; });
        for (const OpSample& sample : ring_) controller_->sample(sample, frozen_);
        ring_.clear();
        settle_frozen();
        if (controller_->plan(now)) apply_assignments();
        next_drain_ = now + kDrainSeconds;
    }

    void start_settling(double now) {
        settling_ = true;
        settle_left_ = kSettlePeriods;
        begin_ = now;
        last_anchor_.reset();
    }
    void start_window(double now) {
        settling_ = false;
        begin_ = now;
        slowest_ = 0.0;
        periods_ = 0;
        quiet_before_ = quiet_;
        work_before_ = work_;
    }
    void close_window(double now) {
        drain(now);
        Window window;
        window.arm = directive_.arm;
        window.wall = now - begin_;
        window.open = std::max(0.0, window.wall - (quiet_ - quiet_before_));
        for (std::size_t b = 0; b < work_.size(); ++b) window.work[b] = work_[b] - work_before_[b];
        window.periods = periods_;
        window.slowest_period = slowest_;
        window.rested = std::exchange(rested_, 0.0);
        controller_->window_ended(window, now);
        note_event(now);
        apply_tables();
        if (controller_->plan(now)) apply_assignments();
        apply_directive(now);
        if (rests_ && directive_.rest > 0.0) rest_from_ = now, rest_until_ = now + directive_.rest;
    }
    void end_rest(double now) {
        rest_until_ = 0.0;
        rested_ += now - rest_from_;
        all_rested_ += now - rest_from_;
        quiet_until_ = now;
        start_settling(now);
        set_due(now);
    }
    void note_event(double now) {
        const Phase* phase = controller_->current();
        Event event{now, std::nullopt, controller_->state(), phase != nullptr ? phase->arm() : kPassThrough};
        for (std::size_t i = 0; i < controller_->phases().size(); ++i)
            if (controller_->phases()[i].get() == phase) event.phase = static_cast<PhaseId>(i);
        const bool same = !events_.empty() && events_.back().phase == event.phase &&
                          events_.back().state == event.state && events_.back().arm == event.arm;
        if (!same) events_.push_back(event);
    }
    void apply_directive(double now) {
        const Directive next = controller_->directive();
        if (next.anchor != directive_.anchor) {
            if (directive_.anchor) records_[*directive_.anchor].anchor = false;
            if (next.anchor) records_[*next.anchor].anchor = true;
        }
        const bool other = next.arm != directive_.arm || next.explore != directive_.explore;
        directive_ = next;
        ++directives_[next.arm];
        if (other)
            start_settling(now);
        else
            start_window(now);
        set_due(now);
    }
    void on_anchor(double now) {
        if (settling_) {
            if (last_anchor_ && --settle_left_ <= 0) start_window(now);
            last_anchor_ = now;
            return;
        }
        if (last_anchor_ && *last_anchor_ >= begin_) slowest_ = std::max(slowest_, now - *last_anchor_);
        ++periods_;
        last_anchor_ = now;
        if (now - begin_ >= directive_.length) close_window(now);
    }
    void set_due(double now) {
        double due = next_drain_;
        if (!directive_.record_all && !directive_.explore) due = now + 0.05;
        const double wait = directive_.anchor ? directive_.patience : directive_.length;
        due = std::min(due, begin_ + (settling_ ? std::min(0.05, wait) : wait));
        due_ = std::max(due, now + 0.0005);
    }
    void visit(double now, OpId op) {
        if (now >= next_drain_) drain(now);
        if (directive_.anchor && op == *directive_.anchor) on_anchor(now);
        const double age = now - begin_;
        if (settling_ && age >= (directive_.anchor ? directive_.patience : 0.05))
            start_window(now);
        else if (!settling_ && age >= (directive_.anchor ? directive_.patience : directive_.length))
            close_window(now);
        set_due(now);
    }

    bool rests_ = false;
    double rest_from_ = 0.0, rest_until_ = 0.0, rested_ = 0.0, all_rested_ = 0.0;
    std::unique_ptr<Controller> controller_;
    int budget_;
    std::vector<Record> records_;
    std::map<std::string, std::set<std::string>> variants_;
    std::vector<OpSample> ring_;
    std::vector<OpId> frozen_;
    Ledger ledger_;
    int open_ = 0;
    unsigned sampled_ = 0;
    std::vector<double> last_;  ///< begin or timed end, by thread
    double quiet_ = 0.0, quiet_until_ = 0.0, quiet_before_ = 0.0;
    Histogram work_{}, work_before_{};
    Directive directive_;
    bool settling_ = false;
    int settle_left_ = 0;
    double begin_ = 0.0, next_drain_ = 0.0, due_ = 0.0, slowest_ = 0.0;
    std::optional<double> last_anchor_;
    int periods_ = 0;
    std::vector<Event> events_;
    std::map<ArmId, long> directives_;
};

}  // namespace corun::policy::simulation
