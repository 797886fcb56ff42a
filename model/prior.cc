// SPDX-License-Identifier: Apache-2.0
#include "model/prior.h"

#include <cmath>

namespace corun::model {
namespace {

int bucket(double work) {
    if (!(work >= 1.0) || !std::isfinite(work)) return 0;
    return std::ilogb(work);
}

std::optional<double> look_up(const std::map<int, RobustSamples>& ratios, int width, int least) {
    const RobustSamples* below = nullptr;
    int below_width = 0;
    for (const auto& [known, samples] : ratios) {
        if (samples.count() < static_cast<std::size_t>(least)) continue;
        if (known == width) return samples.median();
        if (known > width) {
            if (below == nullptr) return std::nullopt;
            const double part = static_cast<double>(width - below_width) / (known - below_width);
            return *below->median() + part * (*samples.median() - *below->median());
        }
        below = &samples;
        below_width = known;
    }
    return std::nullopt;
}

}  // namespace

void Prior::learn(const std::string& kind, double work, int width, double ratio) {
    if (width < 1 || !(ratio > 0.0) || !std::isfinite(ratio)) return;
    by_kind_[{kind, bucket(work)}][width].add(ratio);
    by_work_[bucket(work)][width].add(ratio);
}

std::optional<double> Prior::ratio(const std::string& kind, double work, int width, int least) const {
    if (least < 1) least = 1;
    if (const auto found = by_kind_.find({kind, bucket(work)}); found != by_kind_.end()) {
        if (const auto answer = look_up(found->second, width, least)) return answer;
    }
    const auto found = by_work_.find(bucket(work));
    return found == by_work_.end() ? std::nullopt : look_up(found->second, width, least);
}

void Prior::clear() {
    by_kind_.clear();
    by_work_.clear();
}

}  // namespace corun::model
