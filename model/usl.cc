// SPDX-License-Identifier: Apache-2.0
#include "model/usl.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "model/least_squares.h"

namespace corun::model {

double ScalabilityLaw::at(int width) const {
    const double n = width;
    return seconds * (1.0 + serial * (n - 1.0) + coherency * n * (n - 1.0)) / n;
}

double ScalabilityLaw::peak(double max_width) const {
    const double most = std::max(1.0, max_width);
    if (serial >= 1.0) return 1.0;
    if (coherency <= 0.0) return most;
    return std::clamp(std::sqrt((1.0 - serial) / coherency), 1.0, most);
}

std::optional<ScalabilityLaw> fit_scalability(std::span<const Point> points) {
    NonNegativeFit fit;
    std::set<int> widths;
    const auto usable = [](const Point& p) {
        return p.width >= 1 && std::isfinite(p.seconds) && p.seconds > 0.0;
    };
    for (const Point& point : points) {
        if (!usable(point)) continue;
        const double n = point.width;
        fit.add({1.0 / n / point.seconds, (n - 1.0) / n / point.seconds, (n - 1.0) / point.seconds});
        widths.insert(point.width);
    }
    if (widths.size() < 3) return std::nullopt;
    const auto terms = fit.solve();
    if (!terms || !((*terms)[0] > 0.0)) return std::nullopt;
    ScalabilityLaw law{(*terms)[0], (*terms)[1] / (*terms)[0], (*terms)[2] / (*terms)[0]};
    for (const Point& point : points) {
        if (usable(point))
            law.residual = std::max(law.residual, std::fabs(law.at(point.width) / point.seconds - 1.0));
    }
    return law;
}

}  // namespace corun::model
