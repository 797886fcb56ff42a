// SPDX-License-Identifier: Apache-2.0
#include "policy/node_view.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace corun::policy {
namespace {

constexpr double kAskAgain = 0.15;  // seconds: the kernel counts CPU time in steps of 10 ms
constexpr double kForget = 60.0;    // seconds since it was last there
constexpr std::size_t kMostSeen = 512;

// A steady number of CPUs, for others learn anew when their share changes.
int cpus_in_use(double use) {
    return static_cast<int>(
        std::bit_ceil(static_cast<unsigned>(std::ceil(std::clamp(use - 0.25, 0.5, 65536.0)))));
}

// An op now and then: nothing is kept for it.
bool wants_little(const Claim& claim) {
    return claim.wanted > 0.0 && claim.wanted < kNodeLight;
}

}  // namespace

// False: it is not there. What it may use is lowered to what it is seen to use where that is not our ops.
bool NodeView::judge(double now, std::size_t index, const Neighbour& neighbour, Claim& claim, bool light,
                     const Ask& ask) {
    const auto [place, is_new] = seen_.try_emplace(neighbour.nonce);
    Seen& seen = place->second;
    seen.looked = now;
    claim.idle = light;
    if (is_new || seen.beat != neighbour.beat) {
        const double since = is_new ? now : seen.since;
        seen = {.beat = neighbour.beat, .moved = now, .looked = now, .since = since};
        return true;
    }
    const double still = now - seen.moved;
    if (still < kNodeDoubt) return true;
    if (seen.asked < 0.0 || now - seen.asked >= kAskAgain) {
        const Evidence evidence = ask(index);
        if (evidence.dead) return false;
        if (!evidence.known) {
            seen.idle = still >= std::clamp(neighbour.patience, kNodeIdle, kNodeIdleMost);
        } else {
            if (seen.asked >= 0.0) seen.use = (evidence.cpu_seconds - seen.cpu_seconds) / (now - seen.asked);
            seen.cpu_seconds = evidence.cpu_seconds;
            seen.asked = now;
            seen.idle = still >= kNodeIdle && seen.use >= 0.0 && seen.use < kNodeBusy;
        }
    }
    claim.idle = seen.idle || (light && seen.use < kNodeBusy);
    if (seen.use >= kNodeBusy) claim.most = std::min(claim.most, cpus_in_use(seen.use));
    return true;
}

bool NodeView::idle(std::uint64_t nonce) const {
    const auto place = seen_.find(nonce);
    return place != seen_.end() && place->second.idle;
}

double NodeView::still(std::uint64_t nonce, double now) const {
    const auto place = seen_.find(nonce);
    return place != seen_.end() ? now - place->second.moved : 0.0;
}

void NodeView::forget(double now) {
    // Who was there for long and has gone for good does not come back in a moment.
    for (auto& [nonce, seen] : seen_) {
        if (seen.looked >= now || seen.gone) continue;
        seen.gone = true;
        if (now - seen.since > kNodeCalm) hold_ = 0.0;
    }
    std::erase_if(seen_, [&](const auto& entry) {
        return now - entry.second.looked > kForget || seen_.size() > kMostSeen;
    });
}

// Less is taken at once, more only where it lasts.
Share NodeView::steady(double now, const Share& share) {
    const bool more = taken_.width > 0 && share.width > taken_.width;
    if (!more) {
        if (share.width < taken_.width && now - risen_ < kNodeFlap) {
            hold_ = std::clamp(2.0 * hold_, kNodeHoldFirst, kNodeHoldMost);
            lost_ = now;
        }
        if (offered_ >= 0.0) lost_ = now;  // did not last either
        offered_ = -1.0;
        return taken_ = share;
    }
    if (now - lost_ > kNodeCalm) hold_ = 0.0;
    if (offered_ < 0.0) offered_ = now;
    if (now - offered_ < hold_) {
        taken_.peers = std::max(1, share.peers);  // who pauses for a moment is there still
        taken_.crowded = share.crowded;
        return taken_;
    }
    offered_ = -1.0;
    risen_ = now;
    return taken_ = share;
}

Share NodeView::look(double now, const Claim& own, std::span<const Neighbour> neighbours, std::size_t before,
                     const Ask& ask) {
    dead_.clear();
    claims_.clear();
    std::size_t own_place = 0;
    bool shared = false;
    double wanted_little = 0.0;
    for (std::size_t i = 0; i <= neighbours.size(); ++i) {
        if (i == std::min(before, neighbours.size())) {
            own_place = claims_.size();
            claims_.push_back(own);
            claims_.back().idle = false;
            if (wants_little(own)) claims_.back().wanted = 0.0;  // its fair share, when it does work
        }
        if (i == neighbours.size()) break;
        Claim claim = neighbours[i].claim;
        const bool light = wants_little(claim) && (wanted_little += claim.wanted) <= kNodeAllLight;
        if (!judge(now, i, neighbours[i], claim, light, ask)) {
            dead_.push_back(i);
            seen_[neighbours[i].nonce].looked = -1.0;
            continue;
        }
        shared = shared || !claim.idle;
        claims_.push_back(claim);
    }
    if (!seen_.empty()) forget(now);
    if (!shared) {  // the usual case, without a computation
        const int all = std::max(1, std::min(own.most, own.cpus.count()));
        return steady(now, {static_cast<double>(all), all, 0, false});
    }
    return steady(now, share_out(claims_)[own_place]);
}

}  // namespace corun::policy
