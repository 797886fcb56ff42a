// SPDX-License-Identifier: Apache-2.0
#include "policy/region_width.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace corun::policy {
namespace {

// Guesses, on the dear side of what was measured on Debian 12: a region of one thread never touches libgomp's
// pool (0.3 us); every other change there ends or makes threads (two pthread_create for 2 <-> 4: some 20 us
// each with the thread's start); libomp changes its hot team in 4 to 9 us.
constexpr double kGompToOne = 1e-6;
constexpr double kGompThread = 30e-6;
constexpr double kOmpChange = 10e-6;

constexpr std::size_t kLeastSamples = 3;
constexpr int kMostSweeps = 20;  // a descent ends by itself after a few; this bounds it

double guess(RuntimeKind kind, int from, int to) {
    if (kind == RuntimeKind::libomp) return kOmpChange;
    if (from == 1 || to == 1) return kGompToOne;
    return kGompThread * std::abs(to - from);
}

std::optional<double> seconds_at(const RegionLoad& region, int width) {
    for (const model::Point& point : region.curve)
        if (point.width == width) return point.seconds;
    return std::nullopt;
}

// The choice as a sum of costs of single regions and of neighbours.
class Problem {
  public:
    Problem(std::span<const RegionLoad> regions, std::span<const Transition> transitions,
            const SwitchCosts& costs)
        : regions_(regions), costs_(costs), neighbours_(regions.size()) {
        for (const Transition& one : transitions) {
            if (one.before >= regions.size() || one.after >= regions.size()) continue;
            if (one.before == one.after) continue;  // the same width on both sides
            neighbours_[one.before].push_back({one.after, static_cast<double>(one.count), true});
            neighbours_[one.after].push_back({one.before, static_cast<double>(one.count), false});
        }
    }

    // Widths of a region that may be chosen and are known; its own where nothing is.
    [[nodiscard]] std::vector<int> choices(std::size_t region) const {
        const RegionLoad& load = regions_[region];
        std::vector<int> widths;
        if (!seconds_at(load, load.own)) return {load.own};  // nothing to compare with
        for (const int width : load.allowed)
            if (seconds_at(load, width)) widths.push_back(width);
        return widths.empty() ? std::vector<int>{load.own} : widths;
    }
    [[nodiscard]] double calls_cost(std::size_t region, int width) const {
        const RegionLoad& load = regions_[region];
        return static_cast<double>(load.calls) * seconds_at(load, width).value_or(0.0);
    }
    // All switches into and out of a region at `width`.
    [[nodiscard]] double around(std::size_t region, int width, const std::vector<int>& widths) const {
        double sum = 0.0;
        for (const Neighbour& next : neighbours_[region]) {
            const int other = widths[next.region];
            if (other != width)
                sum +=
                    next.count * (next.after ? costs_.seconds(width, other) : costs_.seconds(other, width));
        }
        return sum;
    }
    // Switches into a region only: summed over all regions each is counted once.
    [[nodiscard]] double into(std::size_t region, const std::vector<int>& widths) const {
        double sum = 0.0;
        for (const Neighbour& next : neighbours_[region]) {
            const int other = widths[next.region];
            if (!next.after && other != widths[region])
                sum += next.count * costs_.seconds(other, widths[region]);
        }
        return sum;
    }
    [[nodiscard]] double total(const std::vector<int>& widths) const {
        double sum = 0.0;
        for (std::size_t i = 0; i < regions_.size(); ++i) sum += calls_cost(i, widths[i]) + into(i, widths);
        return sum;
    }
    [[nodiscard]] std::size_t size() const { return regions_.size(); }
    [[nodiscard]] int own(std::size_t region) const { return regions_[region].own; }

    // One region at a time to its cheapest width until nothing changes; each step lowers the total.
    void descend(std::vector<int>& widths) const {
        for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
            bool changed = false;
            for (std::size_t i = 0; i < size(); ++i) {
                const int best = cheapest(i, widths);
                changed = changed || best != widths[i];
                widths[i] = best;
            }
            if (!changed) return;
        }
    }
    // Regions whose move is not worth the deadband go back to their own width, dearest mistake first.
    void apply_deadband(std::vector<int>& widths, double deadband) const {
        for (std::size_t round = 0; round < size(); ++round) {
            std::size_t worst = size();
            double worst_margin = 0.0;
            for (std::size_t i = 0; i < size(); ++i) {
                if (widths[i] == own(i)) continue;
                const double there = calls_cost(i, own(i)) + around(i, own(i), widths);
                const double here = calls_cost(i, widths[i]) + around(i, widths[i], widths);
                const double margin = there * (1.0 - deadband) - here;
                if (margin <= worst_margin) {
                    worst_margin = margin;
                    worst = i;
                }
            }
            if (worst == size()) return;
            widths[worst] = own(worst);
        }
    }

  private:
    struct Neighbour {
        std::uint32_t region;
        double count;
        bool after;  // it comes next, else it came before
    };

    [[nodiscard]] int cheapest(std::size_t region, const std::vector<int>& widths) const {
        int best = widths[region];
        double least = calls_cost(region, best) + around(region, best, widths);
        for (const int width : choices(region)) {
            const double cost = calls_cost(region, width) + around(region, width, widths);
            if (cost < least) least = cost, best = width;
        }
        return best;
    }

    std::span<const RegionLoad> regions_;
    const SwitchCosts& costs_;
    std::vector<std::vector<Neighbour>> neighbours_;
};

int nearest(const std::vector<int>& widths, int wanted) {
    return *std::min_element(widths.begin(), widths.end(),
                             [wanted](int a, int b) { return std::abs(a - wanted) < std::abs(b - wanted); });
}

// Where the descents start.
std::vector<std::vector<int>> starts(const Problem& problem, std::span<const RegionLoad> regions) {
    std::vector<int> own, optima, all;
    for (std::size_t i = 0; i < regions.size(); ++i) {
        own.push_back(regions[i].own);
        const std::vector<int> choices = problem.choices(i);
        optima.push_back(*std::min_element(choices.begin(), choices.end(), [&](int a, int b) {
            return problem.calls_cost(i, a) < problem.calls_cost(i, b);
        }));
        all.insert(all.end(), choices.begin(), choices.end());
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    std::vector<std::vector<int>> result{own, optima};
    for (const int width : all) {
        std::vector<int> uniform;
        for (std::size_t i = 0; i < regions.size(); ++i)
            uniform.push_back(nearest(problem.choices(i), width));
        result.push_back(std::move(uniform));
    }
    return result;
}

// Does the plan gain enough on what it moves?
bool worth_it(const Problem& problem, const std::vector<int>& own, const std::vector<int>& widths,
              double deadband) {
    double moved = 0.0;
    for (std::size_t i = 0; i < own.size(); ++i)
        if (widths[i] != own[i]) moved += problem.calls_cost(i, own[i]) + problem.into(i, own);
    return problem.total(own) - problem.total(widths) > deadband * moved;
}

}  // namespace

void SwitchCosts::add(int from, int to, double seconds) {
    if (from == to || !std::isfinite(seconds)) return;
    samples_[{from, to}].add(std::max(seconds, 1e-9));  // samples hold positive values only
}

bool SwitchCosts::measured(int from, int to) const {
    const auto found = samples_.find({from, to});
    return found != samples_.end() && found->second.count() >= kLeastSamples;
}

double SwitchCosts::seconds(int from, int to) const {
    if (from == to) return 0.0;
    return measured(from, to) ? *samples_.at({from, to}).median() : guess(kind_, from, to);
}

WidthPlan plan_widths(std::span<const RegionLoad> regions, std::span<const Transition> transitions,
                      const SwitchCosts& costs, double deadband) {
    const Problem problem(regions, transitions, costs);
    const std::vector<std::vector<int>> from = starts(problem, regions);
    const std::vector<int>& own = from.front();
    WidthPlan plan;
    plan.widths = own;
    plan.own_seconds = plan.seconds = problem.total(own);
    for (std::vector<int> widths : from) {
        problem.descend(widths);
        problem.apply_deadband(widths, deadband);
        const double seconds = problem.total(widths);
        if (seconds < plan.seconds && worth_it(problem, own, widths, deadband)) {
            plan.seconds = seconds;
            plan.widths = std::move(widths);
        }
    }
    for (std::size_t i = 0; i < regions.size(); ++i) {
        plan.charged.push_back(problem.into(i, plan.widths));
        plan.switch_seconds += plan.charged.back();
    }
    return plan;
}

}  // namespace corun::policy
