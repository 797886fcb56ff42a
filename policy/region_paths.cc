// SPDX-License-Identifier: Apache-2.0
#include "policy/region_paths.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace corun::policy {

CallPath CallPath::first(std::uint32_t wanted) const {
    CallPath result;
    result.depth = std::min(wanted, depth);
    std::copy_n(at.begin(), result.depth, result.at.begin());
    return result;
}

void RegionPaths::timed(double seconds, double now, bool worth) {
    if (!(seconds > 0.0) || !std::isfinite(seconds)) return;
    if (stage_ == Stage::rests && now >= retry_at_) {
        stage_ = Stage::watches;
        watched_.clear();
    }
    if (stage_ != Stage::watches) return;
    if (watched_.size() < kWatched)
        watched_.push_back(seconds);
    else
        watched_[next_++ % kWatched] = seconds;
    if (watched_.size() < kWatched) return;
    judged_ = true;
    if (!worth || !varies()) return;
    stage_ = Stage::asks;
    calls_.clear();
}

// Half of the time is spent in calls above some length: is that far from the length of a short call? A few
// bursts of the machine have little of the time, however many there are of the short ones.
bool RegionPaths::varies() const {
    std::vector<double> sorted = watched_;
    std::sort(sorted.begin(), sorted.end());
    const double half = 0.5 * std::accumulate(sorted.begin(), sorted.end(), 0.0);
    double sum = 0.0;
    std::size_t middle = 0;
    while (middle + 1 < sorted.size() && sum + sorted[middle] < half) sum += sorted[middle++];
    return sorted[middle] >= kVaries * sorted[sorted.size() / 8];
}

void RegionPaths::timed(double seconds, double now, const CallPath& path) {
    if (stage_ != Stage::asks || !(seconds > 0.0) || !std::isfinite(seconds)) return;
    calls_.push_back({seconds, path});
    if (calls_.size() >= kAsked) decide(now);
}

void RegionPaths::unreadable(const char* why) {
    stage_ = Stage::never;
    judged_ = true;
    story_ = why;
}

// Of the spread of log(seconds), the share between the groups; as many groups of chance would have none. Of
// each group the slowest quarter does not count: their threads may have waited for a CPU.
RegionPaths::Told RegionPaths::told_by(std::uint32_t depth) const {
    std::map<CallPath, std::vector<double>> groups;
    for (const Call& call : calls_) groups[call.path.first(depth)].push_back(std::log(call.seconds));
    double sum = 0.0;
    double count = 0.0;
    for (auto& [path, logs] : groups) {
        std::sort(logs.begin(), logs.end());
        logs.resize(logs.size() - logs.size() / 4);
        sum += std::accumulate(logs.begin(), logs.end(), 0.0);
        count += static_cast<double>(logs.size());
    }
    const double mean = sum / count;
    double all = 0.0;
    double within = 0.0;
    double least = INFINITY;
    double most = -INFINITY;
    for (const auto& [path, logs] : groups) {
        const double own = std::accumulate(logs.begin(), logs.end(), 0.0) / static_cast<double>(logs.size());
        for (const double one : logs) all += (one - mean) * (one - mean), within += (one - own) * (one - own);
        if (logs.size() < kGroupCalls) continue;
        least = std::min(least, own);
        most = std::max(most, own);
    }
    const auto kinds = static_cast<double>(groups.size());
    if (all <= 0.0 || kinds < 2.0 || kinds >= count) return {};
    return {1.0 - within / (count - kinds) * (count - 1.0) / all,
            most > least ? std::exp(most - least) : 1.0};
}

void RegionPaths::decide(double now) {
    std::vector<Told> told;
    double most = 0.0;
    for (std::uint32_t depth = 1; depth <= kPathDepth; ++depth) {
        told.push_back(told_by(depth));
        most = std::max(most, told.back().share);
    }
    // The nearest callers that tell about as much as more of them would.
    const auto enough = std::find_if(told.begin(), told.end(), [&](const Told& one) {
        return one.share >= kTells && one.share >= most - 0.05 && one.apart >= kApart;
    });
    if (enough == told.end()) return rest(now, "its calls differ in length, and not by who calls");
    depth_ = static_cast<std::uint32_t>(enough - told.begin()) + 1;
    std::map<CallPath, std::pair<std::size_t, double>> groups;
    for (const Call& call : calls_) {
        auto& [count, seconds] = groups[call.path.first(depth_)];
        ++count;
        seconds += call.seconds;
    }
    std::vector<std::pair<double, CallPath>> by_time;
    for (const auto& [path, group] : groups)
        if (group.first >= kGroupCalls && path.depth == depth_) by_time.emplace_back(group.second, path);
    std::sort(by_time.begin(), by_time.end(), std::greater<>());
    if (by_time.size() > kGroups) by_time.resize(kGroups);
    for (const auto& [seconds, path] : by_time) groups_.push_back(path);
    stage_ = Stage::split;
    story_ = "its callers are told apart";
    calls_.clear();
}

void RegionPaths::rest(double now, std::string why) {
    stage_ = Stage::rests;
    story_ = std::move(why);
    retry_at_ = now + retry_after_;
    retry_after_ *= 2.0;
    calls_.clear();
}

}  // namespace corun::policy
