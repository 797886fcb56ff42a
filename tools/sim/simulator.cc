// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/simulator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace corun::tools::sim {

using policy::OpIndex;
using policy::Situation;
using policy::Start;
using policy::Strategy;

Simulator::Simulator(const Machine& machine, const Graph& graph, const policy::TaskGraph& tasks,
                     const policy::CostTable& table, std::vector<std::vector<bool>> spread,
                     std::uint64_t seed)
    : machine_(machine),
      graph_(graph),
      tasks_(tasks),
      table_(table),
      spread_(std::move(spread)),
      parts_(graph.keys.size()),
      random_(seed) {
    for (std::size_t key = 0; key < graph.keys.size(); ++key) {
        for (int width = 1; width <= machine.hardware_threads(); ++width)
            parts_[key].push_back(cost_parts(machine, graph.keys[key], width, sockets_for(machine, width)));
    }
    demand_.resize(static_cast<std::size_t>(machine.sockets));
}

// Of the work that a core alone does in a second, what one of `load` threads on it does.
double Simulator::core_speed(double load) const {
    const auto threads = static_cast<double>(machine_.smt_yield.size());
    if (load <= 1.0) return 1.0;
    if (load >= threads) {
        const double over = load / threads - 1.0;
        return machine_.smt_yield.back() / load / (1.0 + machine_.oversubscribed * over);
    }
    const auto below = static_cast<std::size_t>(load);
    const double part = load - static_cast<double>(below);
    const double yield =
        machine_.smt_yield[below - 1] + part * (machine_.smt_yield[below] - machine_.smt_yield[below - 1]);
    return yield / load;
}

// Of the team that the thread has which dispatches the next op.
int Simulator::next_last_width() const {
    return free_slots_.empty() ? 0 : last_width_[static_cast<std::size_t>(free_slots_.front())];
}

double Simulator::switch_cost(int slot, int width) {
    if (width < 2) return 0.0;  // a team of one touches no pool
    int& last = last_width_[static_cast<std::size_t>(slot)];
    const double seconds = table_.teams().seconds(last, width);
    last = width;
    return seconds;
}

// The fullest socket that has room, so that wide ops find whole ones; else the emptiest.
int Simulator::best_socket(int wanted) const {
    int best = 0;
    for (int socket = 1; socket < machine_.sockets; ++socket) {
        const int room = fitting_[static_cast<std::size_t>(socket)];
        const int best_room = fitting_[static_cast<std::size_t>(best)];
        if (best_room >= wanted ? room >= wanted && room < best_room : room > best_room) best = socket;
    }
    return best;
}

// Up to `wanted` idle cores of a socket: spread takes one of each idle cache first, compact whole caches.
void Simulator::take_idle(Active& active, int socket, int wanted, bool spread) {
    const int each = machine_.cores / machine_.sockets;
    const int group = machine_.cores_per_cache;
    const int begin = socket * each;
    const auto taken = [&] { return static_cast<int>(active.cores.size()); };
    const auto take = [&](int core) {
        if (taken() < wanted && load_[static_cast<std::size_t>(core)] == 0 &&
            std::find(active.cores.begin(), active.cores.end(), core) == active.cores.end())
            active.cores.push_back(core);
    };
    const auto idle_cache = [&](int core) {
        return cache_busy_[static_cast<std::size_t>(core / group)] == 0;
    };
    if (group > 1 && (spread || wanted >= group)) {
        for (int core = begin; core < begin + each && taken() < wanted; core += spread ? group : 1) {
            if (idle_cache(core)) take(core);
        }
    }
    for (int core = begin; core < begin + each && taken() < wanted; ++core) {
        if (load_[static_cast<std::size_t>(core)] == 0) take(core);
    }
}

// Cores for an op: idle ones where there are enough, on as few sockets as possible; else the least loaded.
void Simulator::place(Active& active, int threads, bool siblings, bool spread) {
    const int cores = machine_.cores;
    const int each = cores / machine_.sockets;
    const int wanted = std::min(threads, cores);
    active.crowd = std::ceil(static_cast<double>(threads) / cores);
    active.cores.reserve(static_cast<std::size_t>(wanted));
    if (!siblings && cores - busy_cores_ >= wanted) {
        fitting_.assign(static_cast<std::size_t>(machine_.sockets), 0);
        for (int core = 0; core < cores; ++core)
            fitting_[static_cast<std::size_t>(core / each)] +=
                load_[static_cast<std::size_t>(core)] == 0 ? 1 : 0;
        while (static_cast<int>(active.cores.size()) < wanted) {
            const int left = wanted - static_cast<int>(active.cores.size());
            const int socket = best_socket(left);
            take_idle(active, socket,
                      static_cast<int>(active.cores.size()) +
                          std::min(left, fitting_[static_cast<std::size_t>(socket)]),
                      spread);
            fitting_[static_cast<std::size_t>(socket)] = 0;
        }
    } else {
        // Siblings want cores with one thread, what does not fit the least loaded ones.
        const int least = siblings ? 1 : 0;
        for (int load = least; static_cast<int>(active.cores.size()) < wanted; ++load) {
            for (int core = 0; core < cores && static_cast<int>(active.cores.size()) < wanted; ++core)
                if (load_[static_cast<std::size_t>(core)] == load) active.cores.push_back(core);
        }
    }
    std::sort(active.cores.begin(), active.cores.end());
    active.traffic.assign(static_cast<std::size_t>(machine_.sockets), 0.0);
    for (const int core : active.cores) active.traffic[static_cast<std::size_t>(core / each)] += 1.0 / wanted;
}

void Simulator::add_load(const Active& active, int sign) {
    for (const int core : active.cores) {
        int& load = load_[static_cast<std::size_t>(core)];
        const int before = load;
        pressure_[static_cast<std::size_t>(core)] += sign * active.crowd * active.parts.busy_share();
        load += sign * static_cast<int>(active.crowd);
        const int busy = (load > 0 ? 1 : 0) - (before > 0 ? 1 : 0);
        busy_cores_ += busy;
        cache_busy_[static_cast<std::size_t>(core / machine_.cores_per_cache)] += busy;
        single_loaded_ += (load == 1 ? 1 : 0) - (before == 1 ? 1 : 0);
        crowded_ += (load > 1 ? 1 : 0) - (before > 1 ? 1 : 0);
    }
}

void Simulator::start(const Start& start) {
    const policy::KeyIndex key = tasks_.key(start.op);
    Active active;
    active.op = start.op;
    active.width = start.width;
    active.begin = now_;
    // An op that cannot be cut occupies one core, however many threads it is allowed.
    const int threads = graph_.keys[key].parts > 1 ? start.width : 1;
    const auto at = static_cast<std::size_t>(std::min(threads, machine_.cores) - 1);
    place(active, threads, start.siblings, spread_.empty() || spread_[key][at]);
    const int known = std::min(threads, machine_.hardware_threads());
    active.parts = parts_[key][static_cast<std::size_t>(known) - 1];
    const auto sockets =
        std::count_if(active.traffic.begin(), active.traffic.end(), [](double share) { return share > 0.0; });
    if (sockets != sockets_for(machine_, threads))
        active.parts = cost_parts(machine_, graph_.keys[key], known, static_cast<int>(sockets));
    // More threads than the machine has: the same work in smaller pieces, so that each has less of it to do.
    active.over = static_cast<double>(threads) / known;
    active.parts.fixed += 1e-6 * machine_.wake_per_thread_us * (threads - known);
    if (free_slots_.empty()) {
        free_slots_.push_back(slots_++);
        last_width_.resize(static_cast<std::size_t>(slots_), 0);
    }
    std::pop_heap(free_slots_.begin(), free_slots_.end(), std::greater<>());
    active.slot = free_slots_.back();
    free_slots_.pop_back();
    active.parts.fixed += switch_cost(active.slot, threads);
    if (machine_.noise > 0.0) {
        const double sigma = machine_.noise;
        active.noise = std::exp(sigma * normal_(random_) - 0.5 * sigma * sigma);
    }
    add_load(active, 1);
    const double predicted = table_.seconds(key, std::min(start.width, table_.widest()));
    running_.push_back({start.op, key, start.width, now_ + predicted, start.siblings, now_});
    active_.push_back(std::move(active));
    policy::note_begun(running_);
}

void Simulator::update_rates() {
    const int group = machine_.cores_per_cache;
    std::fill(demand_.begin(), demand_.end(), 0.0);
    for (Active& active : active_) {
        active.share = 1.0;
        if (crowded_ > 0) {
            double most = 0.0;
            for (const int core : active.cores)
                most = std::max(most, pressure_[static_cast<std::size_t>(core)]);
            const double speed = core_speed(most + active.crowd * (1.0 - active.parts.busy_share()));
            active.share = std::min(1.0, active.over * speed);
        }
        active.caching = 1.0;
        if (group > 1 && machine_.cache_share > 1.0) {
            int mates = 0;
            for (const int core : active.cores)
                mates += cache_busy_[static_cast<std::size_t>(core / group)] - 1;
            const double share =
                static_cast<double>(mates) / (group - 1) / static_cast<double>(active.cores.size());
            active.caching = 1.0 + (machine_.cache_share - 1.0) * share;
        }
        const CostParts& parts = active.parts;
        const double alone =
            parts.wait + (parts.fixed + parts.compute + parts.memory * active.caching) / active.share;
        if (!(alone > 0.0)) continue;
        for (std::size_t socket = 0; socket < demand_.size(); ++socket)
            demand_[socket] += parts.bytes * 1e-9 / alone * active.traffic[socket];
    }
    for (Active& active : active_) {
        double over = 1.0;
        for (std::size_t socket = 0; socket < demand_.size(); ++socket) {
            if (active.traffic[socket] > 0.0) over = std::max(over, demand_[socket] / machine_.socket_gbs);
        }
        const CostParts& parts = active.parts;
        const double seconds =
            parts.wait + (parts.fixed + parts.compute + parts.memory * active.caching * over) / active.share;
        active.duration = std::max(seconds * active.noise, 1e-12);
    }
}

void Simulator::finish(std::size_t at, Strategy& strategy, std::vector<Executed>* trace) {
    Active active = std::move(active_[at]);
    const policy::Running running = running_[at];
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(at));
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(at));
    add_load(active, -1);
    free_slots_.push_back(active.slot);
    std::push_heap(free_slots_.begin(), free_slots_.end(), std::greater<>());
    policy::note_ended(running_);
    const double predicted = running.ends - active.begin;
    if (running.paired && predicted > 0.0)
        strategy.learn(running.key, running.beside, (now_ - active.begin) / predicted);
    if (trace != nullptr)
        trace->push_back(
            {active.op, active.begin, now_, active.width, active.slot, active.cores, running.siblings});
    for (const OpIndex next : tasks_.successors(active.op)) {
        if (--waits_[next] == 0) strategy.ready(next);
    }
}

StepResult Simulator::run(Strategy& strategy, std::vector<Executed>* trace) {
    now_ = busy_seconds_ = 0.0;
    load_.assign(static_cast<std::size_t>(machine_.cores), 0);
    pressure_.assign(load_.size(), 0.0);
    cache_busy_.assign(static_cast<std::size_t>(machine_.topology().caches()), 0);
    busy_cores_ = single_loaded_ = crowded_ = 0;
    waits_.resize(tasks_.size());
    strategy.begin_step();
    for (OpIndex op = 0; op < tasks_.size(); ++op) {
        waits_[op] = tasks_.sources(op);
        if (waits_[op] == 0) strategy.ready(op);
    }
    StepResult result;
    while (true) {
        while (true) {
            const bool smt = machine_.smt_yield.size() > 1;
            const Situation situation{now_,
                                      machine_.cores,
                                      machine_.cores - busy_cores_,
                                      smt ? single_loaded_ : 0,
                                      next_last_width(),
                                      running_};
            const auto chosen = strategy.next(situation);
            if (!chosen) break;
            start(*chosen);
        }
        if (active_.empty()) break;
        result.most_at_once = std::max(result.most_at_once, static_cast<int>(active_.size()));
        update_rates();
        std::size_t first = 0;
        double soonest = std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; i < active_.size(); ++i) {
            const double left = active_[i].left * active_[i].duration;
            if (left < soonest) soonest = left, first = i;
        }
        const double wakes = strategy.wakes();
        const bool early = wakes < now_ + soonest;
        if (early) soonest = std::max(0.0, wakes - now_);
        now_ = early ? std::max(now_, wakes) : now_ + soonest;
        busy_seconds_ += soonest * busy_cores_;
        for (Active& active : active_) active.left = std::max(0.0, active.left - soonest / active.duration);
        if (early) continue;
        finish(first, strategy, trace);
        ++result.ops;
    }
    if (result.ops != tasks_.size()) throw std::runtime_error("the strategy left ops that it never began");
    result.seconds = now_;
    result.busy = busy_seconds_;
    return result;
}

}  // namespace corun::tools::sim
