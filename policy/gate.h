// SPDX-License-Identifier: Apache-2.0
// The gate: a strategy under the rules that a running program needs. Where a simulated op waits for as long
// as the strategy likes, a live one waits briefly or not at all, and what may never end is not waited for.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "policy/strategy.h"

namespace corun::policy {

struct GateRules {
    double most_wait = 0.5;      ///< of what the op takes itself
    double least_wait = 50e-6;   ///< seconds: who may not wait that long does not: sleeping costs as much
    double longest_wait = 0.1;   ///< seconds: whatever it takes
    int leaf_calls = 20;         ///< ends that a proof rests on
    double leaf_share = 0.8;     ///< of its time that a leaf's thread computes
    int leaf_tries = 5;          ///< proofs that may fail, on a machine that is busy otherwise
    int most_expired = 2;        ///< waits that ran out one after the other before a key waits no more
    double overdue_times = 10;   ///< what an op takes ...
    double overdue_seconds = 1;  ///< ... and at least: nothing is waited for that runs longer
};

/// What is known of op keys besides their costs: whether they may wait, and whether one may wait for them.
class GateKeys {
  public:
    explicit GateKeys(const GateRules& rules) : rules_(rules) {}

    /// Whether the next op of `key` is to be measured for ended().
    [[nodiscard]] bool wants_proof(KeyIndex key) const;
    /// An op of `key` took `wall` seconds, in which its thread computed, or waited for nothing but a CPU, for
    /// `ready`.
    void ended(KeyIndex key, double wall, double ready);
    /// A wait of `key` has run out, or was over before.
    void expired(KeyIndex key) { ++at(key).expired, ++all_expired_; }
    void in_time(KeyIndex key) {
        at(key).expired = at(key).expired < rules_.most_expired ? 0 : at(key).expired;
    }
    void forgive();  ///< whose waits ran out may wait again
    [[nodiscard]] std::uint64_t all_expired() const { return all_expired_; }
    /// Computes all the time: it is no op that waits for another one.
    [[nodiscard]] bool leaf(KeyIndex key) const { return key < keys_.size() && keys_[key].proven; }
    [[nodiscard]] bool barred(KeyIndex key) const {
        return key < keys_.size() && keys_[key].expired >= rules_.most_expired;
    }

  private:
    struct Key {
        double wall = 0.0;
        double ready = 0.0;
        int calls = 0;
        int tries = 0;
        int expired = 0;
        bool proven = false;
    };
    Key& at(KeyIndex key);

    GateRules rules_;
    std::vector<Key> keys_;
    std::uint64_t all_expired_ = 0;
};

/// A strategy under the rules: an op prefers narrow to waiting, waits a bounded time, and only while all that
/// runs is proven. Without `keys`, as in the simulator, all is.
class Gated final : public Strategy {
  public:
    using Ticket = std::uint64_t;  ///< tells ops of one key apart; the caller's choice

    /// `graph` and `costs` must outlive it, and `keys`.
    Gated(std::unique_ptr<Strategy> inner, const TaskGraph& graph, const CostTable& costs,
          const GateRules& rules, GateKeys* keys = nullptr);

    void begin_step() override;
    void open() { open_ = true; }  ///< nobody waits any more
    void ready(OpIndex op) override { arrive(op, 0, true); }
    /// @param patient false: it begins with the next next()
    void arrive(OpIndex op, Ticket ticket, bool patient);
    std::optional<Start> next(const Situation& situation) override;
    /// The ticket of what next() has just begun.
    [[nodiscard]] Ticket begun() const { return begun_; }
    void withdraw(OpIndex op) override;
    void learn(KeyIndex op, KeyIndex beside, double slowdown) override {
        inner_->learn(op, beside, slowdown);
    }
    [[nodiscard]] double wakes() const override;
    [[nodiscard]] std::optional<double> until(Ticket ticket) const;  ///< seconds; nothing: it does not wait

  private:
    struct Waiting {
        OpIndex op = 0;
        Ticket ticket = 0;
        bool patient = false;
        bool asked = false;
        double since = 0.0;
        double until = 0.0;
    };
    Start let_in(std::size_t at, int width, double now);
    void take(std::size_t at, double now);
    [[nodiscard]] double wait_of(const Waiting& waiting) const;  ///< seconds that it may wait
    [[nodiscard]] int crowding_width(KeyIndex key) const;
    [[nodiscard]] int fitting_width(KeyIndex key, const Situation& situation) const;  ///< 0: nothing is idle
    [[nodiscard]] int width_now(KeyIndex key, const Situation& situation) const;

    std::unique_ptr<Strategy> inner_;
    const TaskGraph& graph_;
    const CostTable& costs_;
    GateRules rules_;
    GateKeys* keys_;
    std::vector<Waiting> waiting_;  // in the order in which they came
    Ticket begun_ = 0;
    bool open_ = false;
};

/// The ops of one process that run or wait. Pure; one caller at a time.
class Gate {
  public:
    using Ticket = Gated::Ticket;
    struct Grant {
        Ticket ticket = 0;
        int width = 1;
    };
    struct Overdue {
        KeyIndex key = 0;
        double seconds = 0.0;  ///< since its begin
        double begins = 0.0;
    };

    explicit Gate(const GateRules& rules = {});
    ~Gate();

    /// Decides by these costs from now on; keys without seconds are not known. What waits goes on waiting.
    /// @param strategy a name for strategy_by_name() that needs no graph
    /// @param anew costs have changed: whose waits ran out may wait again
    void adopt(std::vector<KeyCosts> costs, const std::string& strategy, int cpus, bool anew = false);
    [[nodiscard]] bool knows(KeyIndex key) const { return key < known_.size() && known_[key]; }
    void open();  ///< nobody waits any more: next() lets all in

    /// An op asks; next() says when it begins. @param most its width at most
    void arrive(Ticket ticket, KeyIndex key, int most, bool patient);
    /// An op begins without asking.
    void begin(Ticket ticket, KeyIndex key, int width, double now);
    /// What begins now, one after the other; to be called until it says nothing.
    [[nodiscard]] std::optional<Grant> next(double now);
    /// @return false: nothing of that ticket runs. @param ready as GateKeys wants it, < 0: not measured
    bool end(Ticket ticket, double now, double ready = -1.0);

    /// When next() has to be called for what waits under `ticket`, though nothing has changed.
    [[nodiscard]] std::optional<double> until(Ticket ticket) const;
    [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
    [[nodiscard]] std::size_t running() const { return running_.size(); }
    [[nodiscard]] int widths() const;  ///< of what runs
    /// Calls visit(ticket, width) for each.
    template <typename Visit>
    void each_running(Visit visit) const {
        for (std::size_t i = 0; i < running_.size(); ++i) visit(tickets_[i], running_[i].width);
    }
    /// What runs for far longer than it should: a scope that was left, or an op that waits for others.
    [[nodiscard]] std::optional<Overdue> overdue(double now) const;
    [[nodiscard]] const GateKeys& keys() const { return keys_; }

  private:
    struct Waiting {
        Ticket ticket = 0;
        KeyIndex key = 0;
        int most = 0;
        bool patient = false;
    };
    struct Decider;  // strategy, graph and costs
    Grant let_in(std::size_t at, int width, double now);

    GateRules rules_;
    GateKeys keys_;
    int cpus_ = 1;
    bool open_ = false;
    std::vector<bool> known_;
    std::unique_ptr<Decider> decider_;
    std::vector<Waiting> waiting_;
    std::vector<Running> running_;
    std::vector<Ticket> tickets_;  // of what runs
};

}  // namespace corun::policy
