// SPDX-License-Identifier: Apache-2.0
#include "policy/gate.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace corun::policy {

// --- what is known of keys
// -----------------------------------------------------------------------------------

GateKeys::Key& GateKeys::at(KeyIndex key) {
    if (key >= keys_.size()) keys_.resize(key + 1);
    return keys_[key];
}

bool GateKeys::wants_proof(KeyIndex key) const {
    if (key >= keys_.size()) return true;
    return !keys_[key].proven && keys_[key].tries < rules_.leaf_tries;
}

void GateKeys::ended(KeyIndex key, double wall, double ready) {
    Key& known = at(key);
    if (known.proven) return;
    known.wall += wall;
    known.ready += ready;
    if (++known.calls < rules_.leaf_calls) return;
    known.proven = known.ready >= rules_.leaf_share * known.wall;
    ++known.tries;
    known.wall = known.ready = 0.0;
    known.calls = 0;
}

void GateKeys::forgive() {
    for (Key& key : keys_) key.expired = 0;
}

// --- the rules
// -----------------------------------------------------------------------------------------------

Gated::Gated(std::unique_ptr<Strategy> inner, const TaskGraph& graph, const CostTable& costs,
             const GateRules& rules, GateKeys* keys)
    : inner_(std::move(inner)), graph_(graph), costs_(costs), rules_(rules), keys_(keys) {}

void Gated::begin_step() {
    waiting_.clear();
    inner_->begin_step();
}

void Gated::arrive(OpIndex op, Ticket ticket, bool patient) {
    waiting_.push_back({op, ticket, patient, false, 0.0, 0.0});
    inner_->ready(op);
}

void Gated::withdraw(OpIndex op) {
    const auto at = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& w) { return w.op == op; });
    if (at == waiting_.end()) return;
    waiting_.erase(at);
    inner_->withdraw(op);
}

// What the op takes where it does not wait for more, on CPUs that are all taken: those of n threads more
// leave everybody a share, so that a thread has a price.
int Gated::crowding_width(KeyIndex key) const {
    return costs_.at_price(key, 1.0 / costs_.widest());
}

double Gated::wait_of(const Waiting& waiting) const {
    const KeyIndex key = graph_.key(waiting.op);
    if (!waiting.patient || (keys_ != nullptr && keys_->barred(key))) return 0.0;
    const double own = costs_.seconds(key, crowding_width(key));
    const double wait = std::min(rules_.most_wait * own, rules_.longest_wait);
    return wait < rules_.least_wait ? 0.0 : wait;
}

// Narrow into what is idle, if anything is.
int Gated::fitting_width(KeyIndex key, const Situation& situation) const {
    return situation.idle > 0 ? costs_.best_within(key, situation.idle) : 0;
}

int Gated::width_now(KeyIndex key, const Situation& situation) const {
    const int fitting = fitting_width(key, situation);
    const int crowding = crowding_width(key);
    if (fitting >= crowding) return fitting;
    const double load = static_cast<double>(situation.cpus - situation.idle + crowding) / situation.cpus;
    if (fitting > 0 && costs_.seconds(key, fitting) <= load * costs_.seconds(key, crowding)) return fitting;
    return crowding;
}

// Of those that wait.
void Gated::take(std::size_t at, double now) {
    const Waiting& waiting = waiting_[at];
    begun_ = waiting.ticket;
    if (keys_ != nullptr && waiting.since < now && now < waiting.until)
        keys_->in_time(graph_.key(waiting.op));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
}

Start Gated::let_in(std::size_t at, int width, double now) {
    const OpIndex op = waiting_[at].op;
    take(at, now);
    inner_->withdraw(op);
    return {op, width, false};
}

std::optional<Start> Gated::next(const Situation& situation) {
    for (Waiting& each : waiting_) {
        if (each.asked) continue;
        each.asked = true;
        each.since = situation.now;
        each.until = situation.now + wait_of(each);
    }
    if (const auto start = inner_->next(situation)) {
        const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                                     [&](const auto& waiting) { return waiting.op == start->op; });
        take(static_cast<std::size_t>(at - waiting_.begin()), situation.now);
        return start;
    }
    const bool proven =
        keys_ == nullptr || std::all_of(situation.running.begin(), situation.running.end(),
                                        [&](const Running& each) { return keys_->leaf(each.key); });
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
        const KeyIndex key = graph_.key(waiting_[i].op);
        const double wait = wait_of(waiting_[i]);
        const bool over = open_ || !proven || waiting_[i].until <= situation.now;
        if (over && proven && !open_ && wait > 0.0 && keys_ != nullptr) keys_->expired(key);
        if (over) return let_in(i, width_now(key, situation), situation.now);
        const int narrow = fitting_width(key, situation);
        if (narrow > 0 && costs_.seconds(key, narrow) <= wait + costs_.seconds(key, crowding_width(key)))
            return let_in(i, narrow, situation.now);
    }
    return std::nullopt;
}

double Gated::wakes() const {
    double first = std::numeric_limits<double>::infinity();
    for (const Waiting& each : waiting_) first = std::min(first, each.until);
    return first;
}

std::optional<double> Gated::until(Ticket ticket) const {
    for (const Waiting& each : waiting_)
        if (each.ticket == ticket) return each.until;
    return std::nullopt;
}

// --- what runs and what waits
// --------------------------------------------------------------------------------

struct Gate::Decider {
    Decider(const std::vector<KeyCosts>& keys, const std::string& name, int cpus, const GateRules& rules,
            GateKeys& facts)
        : costs(keys),
          graph(numbered(keys.size()), std::vector<std::vector<OpIndex>>(keys.size())),
          strategy(strategy_by_name(name, graph, costs, cpus), graph, costs, rules, &facts) {}

    static std::vector<KeyIndex> numbered(std::size_t count) {
        std::vector<KeyIndex> keys(count);
        std::iota(keys.begin(), keys.end(), 0);
        return keys;
    }

    CostTable costs;
    TaskGraph graph;  // of each key one op: several that wait are told apart by their tickets
    Gated strategy;
};

Gate::Gate(const GateRules& rules) : rules_(rules), keys_(rules) {}
Gate::~Gate() = default;

void Gate::adopt(std::vector<KeyCosts> costs, const std::string& strategy, int cpus, bool anew) {
    if (anew) keys_.forgive();
    cpus_ = cpus;
    known_.assign(costs.size(), false);
    for (std::size_t key = 0; key < costs.size(); ++key) {
        known_[key] = !costs[key].seconds.empty();
        costs[key].seconds.resize(static_cast<std::size_t>(cpus), 1.0);  // of the others nobody asks
    }
    decider_ = costs.empty() ? nullptr : std::make_unique<Decider>(costs, strategy, cpus, rules_, keys_);
    if (decider_ && open_) decider_->strategy.open();
    for (const Waiting& each : waiting_) {
        if (!knows(each.key)) continue;
        decider_->strategy.arrive(each.key, each.ticket, each.patient);
    }
}

void Gate::open() {
    open_ = true;
    if (decider_) decider_->strategy.open();
}

void Gate::arrive(Ticket ticket, KeyIndex key, int most, bool patient) {
    waiting_.push_back({ticket, key, most, patient});
    decider_->strategy.arrive(key, ticket, patient);
}

void Gate::begin(Ticket ticket, KeyIndex key, int width, double now) {
    const double seconds = knows(key) ? decider_->costs.seconds(key, std::clamp(width, 1, cpus_)) : 0.0;
    Running fresh{key, key, width, now + seconds, false};
    fresh.begins = now;
    running_.push_back(fresh);
    tickets_.push_back(ticket);
    note_begun(running_);
}

Gate::Grant Gate::let_in(std::size_t at, int width, double now) {
    const Waiting waiting = waiting_[at];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(at));
    // Widths that cost the same stand for the narrowest of them: a runtime may not be given the others.
    if (knows(waiting.key))
        while (width > 1 &&
               decider_->costs.seconds(waiting.key, width - 1) == decider_->costs.seconds(waiting.key, width))
            --width;
    const Grant given{waiting.ticket, std::clamp(width, 1, std::max(waiting.most, 1))};
    begin(waiting.ticket, waiting.key, given.width, now);
    return given;
}

std::optional<Gate::Grant> Gate::next(double now) {
    if (waiting_.empty()) return std::nullopt;
    // Of other costs than it came with.
    for (std::size_t i = 0; i < waiting_.size(); ++i)
        if (!knows(waiting_[i].key)) return let_in(i, 1, now);
    const Situation situation{now, cpus_, std::max(0, cpus_ - widths()), 0, 0, running_};
    const auto start = decider_->strategy.next(situation);
    if (!start) return std::nullopt;
    const Ticket ticket = decider_->strategy.begun();
    const auto at = std::find_if(waiting_.begin(), waiting_.end(),
                                 [&](const Waiting& waiting) { return waiting.ticket == ticket; });
    return let_in(static_cast<std::size_t>(at - waiting_.begin()), start->width, now);
}

bool Gate::end(Ticket ticket, double now, double ready) {
    const auto at = std::find(tickets_.begin(), tickets_.end(), ticket);
    if (at == tickets_.end()) return false;
    const auto index = at - tickets_.begin();
    const Running ended = running_[static_cast<std::size_t>(index)];
    running_.erase(running_.begin() + index);
    tickets_.erase(at);
    note_ended(running_);
    if (ready >= 0.0) keys_.ended(ended.key, now - ended.begins, ready);
    const double predicted = ended.ends - ended.begins;
    if (ended.paired && predicted > 0.0 && decider_)
        decider_->strategy.learn(ended.key, ended.beside, (now - ended.begins) / predicted);
    return true;
}

std::optional<double> Gate::until(Ticket ticket) const {
    return decider_ ? decider_->strategy.until(ticket) : std::nullopt;
}

int Gate::widths() const {
    return std::accumulate(running_.begin(), running_.end(), 0,
                           [](int sum, const Running& each) { return sum + each.width; });
}

std::optional<Gate::Overdue> Gate::overdue(double now) const {
    for (const Running& each : running_) {
        const double since = now - each.begins;
        if (since > std::max(rules_.overdue_seconds, rules_.overdue_times * (each.ends - each.begins)))
            return Overdue{each.key, since, each.begins};
    }
    return std::nullopt;
}

}  // namespace corun::policy
