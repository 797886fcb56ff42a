// SPDX-License-Identifier: Apache-2.0
#include "policy/cost_table.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace corun::policy {
namespace {

constexpr double kDeadband = 0.05;

}  // namespace

CostTable::CostTable(const std::vector<KeyCosts>& keys, const TeamCosts& teams) : teams_(teams) {
    if (keys.empty()) return;
    widest_ = static_cast<int>(keys.front().seconds.size());
    std::map<std::string, KeyIndex> most_expensive;
    for (KeyIndex key = 0; key < keys.size(); ++key) {
        const std::vector<double>& seconds = keys[key].seconds;
        seconds_.insert(seconds_.end(), seconds.begin(), seconds.end());
        std::vector<int> widths(seconds.size());
        std::iota(widths.begin(), widths.end(), 1);
        const std::size_t most = std::min(kCandidates, widths.size());
        std::partial_sort(widths.begin(), widths.begin() + static_cast<std::ptrdiff_t>(most), widths.end(),
                          [&](int a, int b) {
                              const double one = seconds[static_cast<std::size_t>(a - 1)];
                              const double other = seconds[static_cast<std::size_t>(b - 1)];
                              return one != other ? one < other : a < b;
                          });
        std::array<int, kCandidates> best{};
        std::copy_n(widths.begin(), most, best.begin());
        candidates_.push_back(best);
        optimum_.push_back(best[0]);
        const auto [at, first] = most_expensive.try_emplace(keys[key].type, key);
        if (!first && seconds.front() > keys[at->second].seconds.front()) at->second = key;
        // The fastest up to a width changes at few widths only; the narrowest near it is looked up each time.
        double fastest = seconds.front();
        for (std::size_t i = 0; i < seconds.size(); ++i) {
            fastest = std::min(fastest, seconds[i]);
            std::size_t narrowest = 0;
            while (seconds[narrowest] > fastest * (1.0 + kDeadband)) ++narrowest;
            within_.push_back(static_cast<std::uint16_t>(narrowest + 1));
        }
    }
    for (const KeyCosts& key : keys) type_width_.push_back(optimum_[most_expensive[key.type]]);
}

int CostTable::best_within(KeyIndex key, int most) const {
    const int width = std::clamp(most, 1, widest_);
    return within_[static_cast<std::size_t>(key) * static_cast<std::size_t>(widest_) +
                   static_cast<std::size_t>(width - 1)];
}

int CostTable::at_price(KeyIndex key, double price) const {
    int best = 1;
    double lowest = seconds(key, 1) * (1.0 + price);
    for (int width = 2; width <= widest_; ++width) {
        const double cost = seconds(key, width) * (1.0 + price * width);
        if (cost < lowest) best = width, lowest = cost;
    }
    return best;
}

}  // namespace corun::policy
