// SPDX-License-Identifier: Apache-2.0
#include "policy/region_chunk.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace corun::policy {
namespace {

std::string nanoseconds(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f ns", seconds * 1e9);
    return text;
}

}  // namespace

RegionChunk::RegionChunk(int own, double explore, double now)
    : own_(std::max(own, 1)), explore_(explore), began_(now), now_(now), chunk_(own_) {}

bool RegionChunk::may_spend() const {
    return spent_ <= kInitial + explore_ * (now_ - began_);
}

void RegionChunk::begin_anew(const ChunkCall& call) {
    stage_ = Stage::own;
    usual_ = call.iterations;
    unlike_ = 0;
    own_seconds_.clear();
    probe_seconds_.clear();
    search_.reset();
    story_.clear();
    chunk_ = own_;
}

void RegionChunk::timed(const ChunkCall& call) {
    now_ = std::max(now_, call.now);
    const double all = call.iterations * call.loops;
    if (!(call.iterations >= 1.0) || !(call.loops >= 1.0) || !(call.seconds > 0.0) || !std::isfinite(all))
        return;
    if (usual_ == 0.0) usual_ = call.iterations;
    const double ratio = call.iterations / usual_;
    if (ratio > kLikeLength || ratio * kLikeLength < 1.0) {
        if (++unlike_ >= kUnlikeCalls) begin_anew(call);
        return;
    }
    unlike_ = 0;
    take(call, call.seconds / all);
    choose();
}

void RegionChunk::take(const ChunkCall& call, double each) {
    if (call.chunk != own_ && !settled())
        if (const auto own = own_seconds_.median())
            spent_ += std::max(each - *own, 0.0) * call.iterations * call.loops;
    switch (stage_) {
        case Stage::own:
            if (call.chunk != own_) return;
            own_seconds_.add(each);
            if (own_seconds_.count() >= static_cast<std::size_t>(kOwnCalls)) end_own(call);
            return;
        case Stage::probe:
            if (call.chunk != probe_) return;
            probe_seconds_.add(each);
            if (probe_seconds_.count() >= static_cast<std::size_t>(kProbeCalls)) end_probe(call);
            return;
        default:
            if (!search_) return;
            search_->add(call.chunk, each);
            // A search that has begun again is one.
            if (search_->settled() && stage_ == Stage::search) settle("measured");
            if (!search_->settled()) stage_ = Stage::search;
    }
}

void RegionChunk::end_own(const ChunkCall& call) {
    const int most = model::most_chunk(call.iterations, call.threads);
    if (most <= own_) return settle("there are too few iterations for more");
    if (*own_seconds_.median() * call.threads > kLongIteration)
        return settle("an iteration takes long beside being handed out");
    probe_ = std::min(own_ * kProbe, std::max(most / 2, own_ + 1));
    stage_ = Stage::probe;
}

// Of one thread: an iteration and what it takes to get it, once at each chunk.
void RegionChunk::end_probe(const ChunkCall& call) {
    const double own = *own_seconds_.median() * call.threads;
    const double probe = *probe_seconds_.median() * call.threads;
    const double shares = 1.0 / own_ - 1.0 / probe_;
    const double dispatch = std::max((own - probe) / shares, kLeastDispatch);
    const double mean = std::max(own - dispatch / own_, 0.1 * std::min(own, probe));
    const model::LoopFeatures features{call.iterations, mean, 0.0, call.threads, dispatch};
    const int proposal = model::propose_chunk(features);
    search_.emplace(own_, proposal, model::most_chunk(call.iterations, call.threads));
    story_ = nanoseconds(mean) + " an iteration and " + nanoseconds(dispatch) + " to hand it out, " +
             std::to_string(proposal) + " proposed";
    stage_ = Stage::search;
}

void RegionChunk::settle(const char* why) {
    stage_ = Stage::settled;
    if (story_.empty()) story_ = why;
}

// What trials may cost has to be earned first: meanwhile the loop runs with its own chunk.
void RegionChunk::choose() {
    switch (stage_) {
        case Stage::own:
            chunk_ = own_;
            return;
        case Stage::probe:
            chunk_ = may_spend() ? probe_ : own_;
            return;
        case Stage::search:
            chunk_ = may_spend() ? search_->next() : own_;
            return;
        case Stage::settled:
            chunk_ = search_ ? search_->chunk() : own_;
    }
}

}  // namespace corun::policy
