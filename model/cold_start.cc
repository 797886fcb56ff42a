// SPDX-License-Identifier: Apache-2.0
#include "model/cold_start.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace corun::model {
namespace {

constexpr int kLeastSeen = 3;  // ops, before what they did is a rule

}  // namespace

std::optional<ColdAnswer> most_likely(std::span<const int> widths, std::span<const Belief> beliefs) {
    const std::size_t size = std::min(widths.size(), beliefs.size());
    if (size < 2) return std::nullopt;
    std::size_t best = 0;
    for (std::size_t i = 1; i < size; ++i) {
        if (beliefs[i].seconds < beliefs[best].seconds) best = i;
    }
    const double cost = beliefs[best].seconds;
    if (!(cost > 0.0)) return std::nullopt;
    ColdAnswer answer{widths[best], 0.0, ColdModel::prior, false};
    for (std::size_t i = 0; i < size; ++i) {
        // Both are uncertain, the errors taken as independent.
        if (i == best) continue;
        const double both = std::hypot(beliefs[i].deviation, beliefs[best].deviation);
        answer.expected_loss =
            std::max(answer.expected_loss, expected_gain({beliefs[i].seconds, both}, cost) / cost);
    }
    return answer;
}

std::optional<ColdAnswer> cold_start(const Prior& prior, const std::string& kind, double work,
                                     const Curve& curve, std::span<const int> widths, double noise,
                                     double loss) {
    std::vector<int> known;
    std::vector<Belief> beliefs;
    for (const int width : widths) {
        const auto ratio = prior.ratio(kind, work, width, kLeastSeen);
        const auto all = prior.ratio("", work, width, kLeastSeen);  // of every kind of like work
        if (!ratio || !all) continue;
        known.push_back(width);
        beliefs.push_back({*ratio, std::fabs(*ratio - *all)});
    }
    auto answer = most_likely(known, beliefs);
    if (answer && answer->expected_loss <= loss) {
        answer->sure = true;
        return answer;
    }
    if (widths.empty()) return answer;
    const WidthBelief belief(curve, *std::max_element(widths.begin(), widths.end()), noise);
    if (!belief.known()) return answer;
    beliefs.clear();
    for (const int width : widths) beliefs.push_back(belief.at(width));
    auto own = most_likely(widths, beliefs);
    if (!own || (answer && answer->expected_loss <= own->expected_loss)) return answer;
    own->model = ColdModel::belief;
    own->sure = own->expected_loss <= loss;
    return own;
}

}  // namespace corun::model
