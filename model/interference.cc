// SPDX-License-Identifier: Apache-2.0
#include "model/interference.h"

#include <algorithm>
#include <cmath>

namespace corun::model {

void PairMemory::add(KeyId op, KeyId beside, double slowdown) {
    if (!(slowdown > 0.0) || !std::isfinite(slowdown)) return;
    seen_[{op, beside}].add(slowdown);
}

double PairMemory::slowdown(KeyId op, KeyId beside) const {
    const auto found = seen_.find({op, beside});
    return found == seen_.end() ? 1.0 : found->second.median().value_or(1.0);
}

bool PairMemory::bad(KeyId one, KeyId other) const {
    for (const auto& pair : {std::pair{one, other}, std::pair{other, one}}) {
        const auto found = seen_.find(pair);
        if (found == seen_.end() || found->second.count() < least_samples) return false;
    }
    return std::max(slowdown(one, other), slowdown(other, one)) > bad_slowdown;
}

namespace {

struct Neighbour {
    double ends = 0.0;    // seconds
    double excess = 0.0;  // slow-down - 1
};

// When an op of `solo` seconds ends beside neighbours that all start with it.
double end_beside(double solo, std::vector<Neighbour>& neighbours) {
    std::sort(neighbours.begin(), neighbours.end(),
              [](const Neighbour& a, const Neighbour& b) { return a.ends < b.ends; });
    double excess = 0.0;
    for (const Neighbour& each : neighbours) excess += each.excess;
    double now = 0.0;
    double left = solo;
    for (const Neighbour& each : neighbours) {
        const double possible = (each.ends - now) / (1.0 + excess);
        if (possible >= left) break;
        left -= possible;
        now = each.ends;
        excess = std::max(0.0, excess - each.excess);
    }
    return now + left * (1.0 + excess);
}

}  // namespace

std::vector<double> co_run_seconds(
    std::span<const CoRunner> set,
    const std::function<double(PairMemory::KeyId, PairMemory::KeyId)>& slowdown) {
    constexpr int kRounds = 200;
    constexpr double kDamping = 0.5;  // two ops that stretch each other would swing about the answer
    constexpr double kClose = 1e-9;
    std::vector<double> seconds;
    for (const CoRunner& op : set) seconds.push_back(op.solo_seconds);
    for (int round = 0; round < kRounds; ++round) {
        double change = 0.0;
        for (std::size_t i = 0; i < set.size(); ++i) {
            std::vector<Neighbour> neighbours;
            for (std::size_t j = 0; j < set.size(); ++j) {
                if (i == j) continue;
                const double factor = std::max(1.0, slowdown(set[i].key, set[j].key));
                neighbours.push_back({seconds[j], factor - 1.0});
            }
            const double wanted = end_beside(set[i].solo_seconds, neighbours);
            const double next = seconds[i] + kDamping * (wanted - seconds[i]);
            if (seconds[i] > 0.0) change = std::max(change, std::fabs(next / seconds[i] - 1.0));
            seconds[i] = next;
        }
        if (change < kClose) break;
    }
    return seconds;
}

}  // namespace corun::model
