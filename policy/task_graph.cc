// SPDX-License-Identifier: Apache-2.0
#include "policy/task_graph.h"

#include <algorithm>
#include <limits>

namespace corun::policy {

TaskGraph::TaskGraph(std::vector<KeyIndex> keys, const std::vector<std::vector<OpIndex>>& sources)
    : keys_(std::move(keys)), source_count_(keys_.size()), first_(keys_.size() + 1) {
    std::size_t edges = 0;
    for (OpIndex op = 0; op < keys_.size(); ++op) {
        source_count_[op] = static_cast<std::uint32_t>(sources[op].size());
        edges += sources[op].size();
        for (const OpIndex source : sources[op]) ++first_[source + 1];
    }
    for (std::size_t op = 0; op < keys_.size(); ++op) first_[op + 1] += first_[op];
    successors_.resize(edges);
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (OpIndex op = 0; op < keys_.size(); ++op) {
        for (const OpIndex source : sources[op]) successors_[next[source]++] = op;
    }
}

std::vector<double> TaskGraph::levels(std::span<const double> seconds) const {
    std::vector<double> level(size(), 0.0);
    for (OpIndex op = static_cast<OpIndex>(size()); op-- > 0;) {
        double after = 0.0;
        for (const OpIndex next : successors(op)) after = std::max(after, level[next]);
        level[op] = seconds[op] + after;
    }
    return level;
}

std::vector<std::uint32_t> TaskGraph::depths() const {
    std::vector<std::uint32_t> depth(size(), 0);
    for (OpIndex op = 0; op < size(); ++op) {
        for (const OpIndex next : successors(op)) depth[next] = std::max(depth[next], depth[op] + 1);
    }
    return depth;
}

Bounds lower_bounds(const TaskGraph& graph, const CostTable& costs, double cpus) {
    Bounds bounds;
    std::vector<double> fastest(graph.size());
    for (OpIndex op = 0; op < graph.size(); ++op) {
        double least = std::numeric_limits<double>::infinity();
        fastest[op] = least;
        for (int width = 1; width <= costs.widest(); ++width) {
            const double seconds = costs.seconds(graph.key(op), width);
            fastest[op] = std::min(fastest[op], seconds);
            least = std::min(least, seconds * width);
        }
        bounds.area += least / cpus;
    }
    for (const double level : graph.levels(fastest))
        bounds.critical_path = std::max(bounds.critical_path, level);
    return bounds;
}

}  // namespace corun::policy
