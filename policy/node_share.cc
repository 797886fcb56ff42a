// SPDX-License-Identifier: Apache-2.0
#include "policy/node_share.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace corun::policy {
namespace {

constexpr double kAlike = 1e-9;

// Processes that may run on the same CPUs or have one quota, directly or by way of others.
struct Field {
    CpuSet cpus;
    std::vector<std::size_t> members;  // ascending
};

std::vector<Field> fields_of(std::span<const Claim> claims) {
    std::vector<Field> fields;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        if (claims[i].idle) continue;
        Field joined{claims[i].cpus, {i}};
        std::erase_if(fields, [&](const Field& field) {
            const bool one_quota =
                claims[i].group != 0 &&
                std::any_of(field.members.begin(), field.members.end(),
                            [&](std::size_t k) { return claims[k].group == claims[i].group; });
            if (!one_quota && !field.cpus.meets(joined.cpus)) return false;
            joined.cpus.unite(field.cpus);
            joined.members.insert(joined.members.end(), field.members.begin(), field.members.end());
            return true;
        });
        fields.push_back(std::move(joined));
    }
    for (Field& field : fields) std::sort(field.members.begin(), field.members.end());
    return fields;
}

int whole(double quota) {
    return std::max(1, static_cast<int>(std::ceil(quota - 0.01)));
}

// More processes than CPUs: parts of CPUs by weight, nobody more than one.
void share_parts(std::span<const Claim> claims, const std::vector<std::size_t>& members, double capacity,
                 std::vector<Share>& shares) {
    std::vector<std::size_t> open = members;
    while (!open.empty()) {
        double weights = 0.0;
        for (const std::size_t i : open) weights += claims[i].weight;
        const auto full = std::find_if(open.begin(), open.end(), [&](std::size_t i) {
            return capacity * claims[i].weight / weights > 1.0;
        });
        if (full == open.end()) {
            for (const std::size_t i : open) shares[i].cpus = capacity * claims[i].weight / weights;
            return;
        }
        shares[*full].cpus = 1.0;
        capacity -= 1.0;
        open.erase(full);
    }
}

// CPUs that members take at least: each one, those of one quota no more than it.
int least_of(std::span<const Claim> claims, const std::vector<std::size_t>& members) {
    std::map<std::uint64_t, int> groups;
    int sum = 0;
    for (const std::size_t i : members)
        if (claims[i].group == 0 || ++groups[claims[i].group] <= whole(claims[i].group_quota)) ++sum;
    return sum;
}

// Members that are bound to fewer CPUs than the field has, with all whose CPUs lie within those.
struct Bound {
    CpuSet cpus;
    std::vector<std::size_t> members;
    int left = 0;  // CPUs that nobody has been given
};

std::vector<Bound> bounds_of(std::span<const Claim> claims, const Field& field) {
    std::vector<Bound> bounds;
    for (const std::size_t i : field.members) {
        const CpuSet& cpus = claims[i].cpus;
        if (cpus == field.cpus) continue;
        if (std::none_of(bounds.begin(), bounds.end(), [&](const Bound& b) { return b.cpus == cpus; }))
            bounds.push_back({cpus, {}, 0});
    }
    for (Bound& bound : bounds) {
        for (const std::size_t i : field.members)
            if (claims[i].cpus.within(bound.cpus)) bound.members.push_back(i);
        bound.left = bound.cpus.count() - least_of(claims, bound.members);
    }
    return bounds;
}

// share_parts() for members that have shares already: nobody gets more by it.
void share_parts_at_most(std::span<const Claim> claims, const std::vector<std::size_t>& members,
                         double capacity, std::vector<Share>& shares) {
    std::vector<Share> parts(shares.size());
    share_parts(claims, members, capacity, parts);
    for (const std::size_t i : members) shares[i].cpus = std::min(shares[i].cpus, parts[i].cpus);
}

class Filling {
  public:
    Filling(std::span<const Claim> claims, const Field& field, std::vector<Bound>& bounds,
            std::vector<Share>& shares)
        : claims_(claims),
          members_(field.members),
          shares_(shares),
          left_(field.cpus.count() - least_of(claims, field.members)),
          bounds_of_(claims.size()) {
        for (const std::size_t i : members_) {
            shares_[i].width = 1;
            shares_[i].cpus = 1.0;
            if (claims_[i].group != 0) ++groups_[claims_[i].group];
        }
        for (Bound& bound : bounds)
            for (const std::size_t i : bound.members) bounds_of_[i].push_back(&bound);
    }

    void fill() {
        struct Among {
            bool gaining;
            bool wanting;
        };
        for (const Among& among : {Among{true, true}, Among{true, false}, Among{false, false}})
            while (left_ > 0) {
                const std::size_t next = neediest(among.gaining, among.wanting);
                if (next == claims_.size()) break;
                shares_[next].cpus = ++shares_[next].width;
                if (claims_[next].group != 0) ++groups_[claims_[next].group];
                for (Bound* const bound : bounds_of_[next]) --bound->left;
                --left_;
            }
    }

  private:
    [[nodiscard]] double gain(std::size_t i) const {
        const int width = shares_[i].width;
        return throughput(claims_[i].gains, width + 1) - throughput(claims_[i].gains, width);
    }

    [[nodiscard]] bool can_take(std::size_t i) const {
        const Claim& claim = claims_[i];
        if (shares_[i].width >= std::min(claim.most, claim.cpus.count())) return false;
        if (std::any_of(bounds_of_[i].begin(), bounds_of_[i].end(),
                        [](const Bound* b) { return b->left <= 0; }))
            return false;
        return claim.group == 0 || groups_.at(claim.group) < whole(claim.group_quota);
    }

    [[nodiscard]] bool wants(std::size_t i) const {
        return claims_[i].wanted <= 0.0 || shares_[i].width < claims_[i].wanted;
    }

    [[nodiscard]] std::size_t neediest(bool gaining, bool wanting) const {
        std::size_t best = claims_.size();
        for (const std::size_t i : members_) {
            if (!can_take(i) || (gaining && gain(i) < kWorthOfCpu) || (wanting && !wants(i))) continue;
            if (best == claims_.size()) {
                best = i;
                continue;
            }
            const double level = shares_[i].width / claims_[i].weight;
            const double lowest = shares_[best].width / claims_[best].weight;
            if (level < lowest - kAlike || (level < lowest + kAlike && gain(i) > gain(best) + kAlike))
                best = i;
        }
        return best;
    }

    std::span<const Claim> claims_;
    const std::vector<std::size_t>& members_;
    std::vector<Share>& shares_;
    int left_;
    std::map<std::uint64_t, int> groups_;         // CPUs given to each
    std::vector<std::vector<Bound*>> bounds_of_;  // by claim: those that it lies within
};

// A quota that is below one CPU for each of its processes: parts of it.
void share_quotas(std::span<const Claim> claims, const Field& field, std::vector<Share>& shares) {
    std::map<std::uint64_t, std::vector<std::size_t>> groups;
    for (const std::size_t i : field.members)
        if (claims[i].group != 0) groups[claims[i].group].push_back(i);
    for (const auto& [group, members] : groups) {
        const double quota = claims[members.front()].group_quota;
        if (quota <= 0.0 || static_cast<double>(members.size()) <= quota) continue;
        share_parts_at_most(claims, members, quota, shares);
        for (const std::size_t i : members) shares[i].crowded = members.size() > 1;
    }
}

}  // namespace

double throughput(const Gains& gains, int cpus) {
    double below = 1.0;  // at `at`
    int at = 1;
    for (std::size_t point = 1; point < gains.size() && at < cpus; ++point) {
        const double known = gains[point];
        if (!(known > 0.0)) break;
        // What others write is not trusted: never falling, never more than the CPUs.
        const double here = std::clamp(known, below, 2.0 * below);
        if (2 * at >= cpus) return below + (here - below) * (cpus - at) / at;
        below = here;
        at *= 2;
    }
    return below * cpus / at;
}

std::vector<Share> share_out(std::span<const Claim> claims) {
    std::vector<Share> shares(claims.size());
    for (const Field& field : fields_of(claims)) {
        const int capacity = std::max(1, field.cpus.count());
        const auto processes = static_cast<int>(field.members.size());
        const bool crowded = least_of(claims, field.members) > capacity;
        std::vector<Bound> bounds;
        if (crowded) {
            share_parts(claims, field.members, capacity, shares);
        } else {
            bounds = bounds_of(claims, field);
            Filling(claims, field, bounds, shares).fill();
        }
        for (const std::size_t i : field.members) {
            shares[i].width = std::max(1, shares[i].width);
            shares[i].peers = processes - 1;
            shares[i].crowded = crowded;
        }
        for (const Bound& bound : bounds) {
            const int cpus = bound.cpus.count();
            if (least_of(claims, bound.members) <= cpus) continue;
            share_parts_at_most(claims, bound.members, cpus, shares);
            for (const std::size_t i : bound.members) shares[i].crowded = true;
        }
        share_quotas(claims, field, shares);
    }
    return shares;
}

}  // namespace corun::policy
