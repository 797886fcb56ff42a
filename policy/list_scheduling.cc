// SPDX-License-Identifier: Apache-2.0
// Moldable-task scheduling as the field knows it: widths planned for the whole step, ops in the order of the
// longest path behind them.
#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "policy/arms.h"
#include "policy/gate.h"
#include "policy/strategy.h"

namespace corun::policy {
namespace {

class List final : public Strategy {
  public:
    List(const TaskGraph& graph, const CostTable& costs, Plan plan, PlanRule rule)
        : graph_(graph), costs_(costs), plan_(std::move(plan)), rule_(rule) {}

    void begin_step() override { ready_.clear(); }
    void ready(OpIndex op) override { ready_.insert({-plan_.levels[op], op}); }
    void withdraw(OpIndex op) override {
        if (const auto at = ready_.find({-plan_.levels[op], op}); at != ready_.end()) ready_.erase(at);
    }
    std::optional<Start> next(const Situation& situation) override {
        if (situation.idle < 1)
            return plan_.siblings && situation.idle_siblings > 0 ? sibling(situation) : std::nullopt;
        double until = std::numeric_limits<double>::infinity();  // what overtakes a waiting op must end by
        int looked_at = 0;
        for (auto each = ready_.begin(); each != ready_.end() && looked_at < kLookAhead;
             ++each, ++looked_at) {
            const OpIndex op = each->second;
            const Choice choice = choose(op, situation);
            const double end = situation.now + costs_.seconds(graph_.key(op), std::max(choice.width, 1));
            if (choice.width > 0 && end <= until) {
                ready_.erase(each);
                return Start{op, choice.width, false};
            }
            if (choice.width == 0 && rule_ != PlanRule::fit) until = std::min(until, choice.begins);
        }
        return std::nullopt;
    }

  private:
    static constexpr int kLookAhead = 64;  // ops behind the first that may overtake it

    struct Choice {
        int width = 0;        // 0: it waits ...
        double begins = 0.0;  // ... until then
    };

    Choice choose(OpIndex op, const Situation& situation) {
        const KeyIndex key = graph_.key(op);
        const int planned = std::min(plan_.widths[op], situation.cpus);
        if (rule_ != PlanRule::earliest_end && planned <= situation.idle)
            return {kept(key, planned, situation), 0.0};
        if (rule_ == PlanRule::fit) return {0, 0.0};
        const int narrow = costs_.best_within(key, std::min(planned, situation.idle));
        const double end_now = situation.now + costs_.seconds(key, narrow);
        if (planned <= situation.idle) return {narrow, 0.0};
        // When more is idle: the running ops in the order of their predicted ends.
        ends_.clear();
        for (const Running& each : situation.running) {
            if (!each.siblings) ends_.emplace_back(std::max(each.ends, situation.now), each.width);
        }
        std::sort(ends_.begin(), ends_.end());
        int idle = situation.idle;
        double begins = situation.now;
        double end_later = std::numeric_limits<double>::infinity();
        for (const auto& [end, width] : ends_) {
            idle += width;
            if (rule_ == PlanRule::shrink && idle < planned) continue;
            const double then = end + costs_.seconds(key, std::min(planned, idle));
            if (then < end_later) end_later = then, begins = end;
            if (idle >= planned) break;
        }
        if (end_now <= end_later) return {narrow, 0.0};
        return {0, begins};
    }

    // The most urgent op that, slowed down by the thread beside it, still ends before the last one that runs.
    std::optional<Start> sibling(const Situation& situation) {
        constexpr double kSlowed = 2.0;  // at worst: the two share what one had
        double last = 0.0;
        for (const Running& each : situation.running) last = std::max(last, each.ends);
        int looked_at = 0;
        for (auto each = ready_.begin(); each != ready_.end() && looked_at < kLookAhead;
             ++each, ++looked_at) {
            const OpIndex op = each->second;
            const int most = std::min(plan_.widths[op], situation.idle_siblings);
            const int width = costs_.best_within(graph_.key(op), most);
            if (situation.now + kSlowed * costs_.seconds(graph_.key(op), width) > last) continue;
            ready_.erase(each);
            return Start{op, width, true};
        }
        return std::nullopt;
    }

    // `width`, or the thread's last width where the change costs more than it gains.
    [[nodiscard]] int kept(KeyIndex key, int width, const Situation& situation) const {
        const int last = situation.last_width;
        if (!plan_.keep_teams || width < 2 || last < 2 || last > situation.idle) return width;
        const double changed = costs_.seconds(key, width) + costs_.teams().seconds(last, width);
        return costs_.seconds(key, last) * (1.0 + plan_.price * last) <= changed * (1.0 + plan_.price * width)
                   ? last
                   : width;
    }

    const TaskGraph& graph_;
    const CostTable& costs_;
    Plan plan_;
    PlanRule rule_;
    std::multiset<std::pair<double, OpIndex>> ready_;  // most urgent first; an op may be there twice, live
    std::vector<std::pair<double, int>> ends_;         // scratch
};

std::vector<double> seconds_of(const TaskGraph& graph, const CostTable& costs,
                               const std::vector<int>& widths) {
    std::vector<double> seconds(graph.size());
    for (OpIndex op = 0; op < graph.size(); ++op) seconds[op] = costs.seconds(graph.key(op), widths[op]);
    return seconds;
}

Plan with_levels(const TaskGraph& graph, const CostTable& costs, std::vector<int> widths) {
    std::vector<double> levels = graph.levels(seconds_of(graph, costs, widths));
    return {std::move(widths), std::move(levels), 0.0, false, false};
}

}  // namespace

std::unique_ptr<Strategy> make_list(const TaskGraph& graph, const CostTable& costs, Plan plan,
                                    PlanRule rule) {
    return std::make_unique<List>(graph, costs, std::move(plan), rule);
}

Plan plan_cpa(const TaskGraph& graph, const CostTable& costs, int cpus, bool bound_levels) {
    const int most = std::min(cpus, costs.widest());
    std::vector<int> widths(graph.size(), 1);
    std::vector<double> seconds = seconds_of(graph, costs, widths);
    std::vector<std::uint32_t> depths;
    std::vector<int> used;  // CPUs by depth
    if (bound_levels) {
        depths = graph.depths();
        used.assign(graph.size() + 1, 0);
        for (const std::uint32_t depth : depths) ++used[depth];
    }
    double area = 0.0;
    for (const double each : seconds) area += each / cpus;
    // Of an op the next width at which it is faster, since a cost may have steps.
    const auto wider = [&](OpIndex op) {
        for (int width = widths[op] + 1; width <= most; ++width) {
            if (bound_levels && used[depths[op]] + width - widths[op] > cpus) return 0;
            if (costs.seconds(graph.key(op), width) < seconds[op]) return width;
        }
        return 0;
    };
    for (std::size_t round = 0; round < graph.size() * static_cast<std::size_t>(most); ++round) {
        const std::vector<double> levels = graph.levels(seconds);
        const auto first = std::max_element(levels.begin(), levels.end());
        if (levels.empty() || *first <= area) break;
        // Along the critical path the op that gains most by it, in time per CPU.
        OpIndex at = static_cast<OpIndex>(first - levels.begin());
        OpIndex chosen = 0;
        int width = 0;
        double largest = 0.0;
        for (bool more = true; more;) {
            if (const int next = wider(at)) {
                const double gain = seconds[at] / widths[at] - costs.seconds(graph.key(at), next) / next;
                if (gain > largest) largest = gain, chosen = at, width = next;
            }
            const double behind = levels[at] - seconds[at];
            more = false;
            for (const OpIndex next : graph.successors(at)) {
                if (levels[next] < behind * (1.0 - 1e-12)) continue;
                at = next;
                more = true;
                break;
            }
        }
        if (width == 0) break;
        const double faster = costs.seconds(graph.key(chosen), width);
        area += (faster * width - seconds[chosen] * widths[chosen]) / cpus;
        if (bound_levels) used[depths[chosen]] += width - widths[chosen];
        widths[chosen] = width;
        seconds[chosen] = faster;
    }
    return with_levels(graph, costs, std::move(widths));
}

Plan plan_heft(const TaskGraph& graph, const CostTable& costs) {
    std::vector<int> widths(graph.size());
    for (OpIndex op = 0; op < graph.size(); ++op) widths[op] = costs.optimum(graph.key(op));
    return with_levels(graph, costs, std::move(widths));
}

Plan plan_price(const TaskGraph& graph, const CostTable& costs, double price) {
    std::vector<int> by_key(costs.keys());
    for (KeyIndex key = 0; key < costs.keys(); ++key) by_key[key] = costs.at_price(key, price);
    std::vector<int> widths(graph.size());
    for (OpIndex op = 0; op < graph.size(); ++op) widths[op] = by_key[graph.key(op)];
    Plan plan = with_levels(graph, costs, std::move(widths));
    plan.price = price;
    plan.keep_teams = true;
    return plan;
}

double ideal_seconds(const TaskGraph& graph, const CostTable& costs, Strategy& strategy, int cpus) {
    std::vector<std::uint32_t> waits(graph.size());
    std::vector<Running> running;
    std::vector<int> thread_of;      // of each running op
    std::vector<int> last_width{0};  // by thread
    std::set<int> free_threads{0};   // there is always one more
    strategy.begin_step();
    for (OpIndex op = 0; op < graph.size(); ++op) {
        waits[op] = graph.sources(op);
        if (waits[op] == 0) strategy.ready(op);
    }
    Situation situation{0.0, cpus, cpus, 0, 0, running};
    std::size_t ended = 0;
    while (true) {
        while (true) {
            const int thread = *free_threads.begin();
            int& last = last_width[static_cast<std::size_t>(thread)];
            situation.running = running;
            situation.last_width = last;
            const auto start = strategy.next(situation);
            if (!start) break;
            const KeyIndex key = graph.key(start->op);
            const double seconds = costs.seconds(key, std::min(start->width, costs.widest())) +
                                   costs.teams().seconds(last, start->width);
            if (start->width > 1) last = start->width;
            running.push_back({start->op, key, start->width, situation.now + seconds, false});
            thread_of.push_back(thread);
            free_threads.erase(free_threads.begin());
            if (free_threads.empty()) {
                free_threads.insert(static_cast<int>(last_width.size()));
                last_width.push_back(0);
            }
            situation.idle = std::max(0, situation.idle - start->width);
        }
        if (running.empty()) break;
        const auto first =
            std::min_element(running.begin(), running.end(),
                             [](const Running& a, const Running& b) { return a.ends < b.ends; });
        const auto at = first - running.begin();
        situation.now = first->ends;
        situation.idle = std::min(cpus, situation.idle + first->width);
        const OpIndex op = first->op;
        free_threads.insert(thread_of[static_cast<std::size_t>(at)]);
        running.erase(first);
        thread_of.erase(thread_of.begin() + at);
        ++ended;
        for (const OpIndex next : graph.successors(op)) {
            if (--waits[next] == 0) strategy.ready(next);
        }
    }
    return ended == graph.size() ? situation.now : std::numeric_limits<double>::infinity();
}

double best_price(const TaskGraph& graph, const CostTable& costs, int cpus) {
    double best = 0.0;
    double lowest = std::numeric_limits<double>::infinity();
    for (const double price : {0.0, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 3.0}) {
        const auto list = make_list(graph, costs, plan_price(graph, costs, price), PlanRule::shrink);
        const double seconds = ideal_seconds(graph, costs, *list, cpus);
        if (seconds < lowest) best = price, lowest = seconds;
    }
    return best;
}

namespace {

std::optional<PaperStrategies> paper_by_name(const std::string& name) {
    if (name == "s1") return PaperStrategies{true, false, false, false};
    if (name == "s2") return PaperStrategies{true, true, false, false};
    if (name == "s3") return PaperStrategies{true, true, true, false};
    if (name == "s4") return PaperStrategies{true, true, true, true};
    if (name == "s2-alone") return PaperStrategies{false, true, false, false};
    if (name == "s3-alone") return PaperStrategies{false, false, true, false};
    if (name == "s4-alone") return PaperStrategies{false, false, false, true};
    if (name == "s1+s3") return PaperStrategies{true, false, true, false};
    return std::nullopt;
}

}  // namespace

std::unique_ptr<Strategy> strategy_by_name(const std::string& name, const TaskGraph& graph,
                                           const CostTable& costs, int cpus) {
    constexpr std::string_view kGate = "gate-";
    if (name.rfind(kGate, 0) == 0) {
        auto inner = strategy_by_name(name.substr(kGate.size()), graph, costs, cpus);
        return inner ? std::make_unique<Gated>(std::move(inner), graph, costs, GateRules{}) : nullptr;
    }
    if (const auto which = paper_by_name(name)) return make_paper(graph, costs, *which);
    if (name == "idle") return make_idle(graph, costs);
    if (name == "cpa" || name == "mcpa")
        return make_list(graph, costs, plan_cpa(graph, costs, cpus, name == "mcpa"), PlanRule::fit);
    if (name == "heft") return make_list(graph, costs, plan_heft(graph, costs), PlanRule::earliest_end);
    if (name == "price+s4") {
        Plan plan = plan_price(graph, costs, best_price(graph, costs, cpus));
        plan.siblings = true;
        return make_list(graph, costs, std::move(plan), PlanRule::shrink);
    }
    const auto price = name == "price" ? best_price(graph, costs, cpus) : number_after(name, "price-");
    if (price) return make_list(graph, costs, plan_price(graph, costs, *price), PlanRule::shrink);
    if (const auto width = number_after(name, "uniform-")) {
        const std::vector<int> widths(
            graph.size(), std::clamp(static_cast<int>(*width), 1, std::min(cpus, costs.widest())));
        return make_list(graph, costs, with_levels(graph, costs, widths), PlanRule::fit);
    }
    return nullptr;
}

}  // namespace corun::policy
