// SPDX-License-Identifier: Apache-2.0
#include "model/chunk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "model/chunk_tree.h"

namespace corun::model {
namespace {

constexpr int kLargest = 1 << 30;
constexpr std::uint64_t kCalmCalls = 64;  // before the first restart; doubled with each
constexpr int kMostDoublings = 16;

int power_of_two(double value) {
    if (!(value > 1.0)) return 1;
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::min<double>(value, kLargest))));
}

}  // namespace

int most_chunk(double iterations, int threads) {
    const double share = iterations / std::max(threads, 1);
    const int below = power_of_two(share);
    return below < share && below < kLargest ? 2 * below : below;
}

int propose_chunk(const LoopFeatures& loop) {
    const double threads = std::max(loop.threads, 1);
    const double share = std::log2(loop.iterations / threads);
    const std::array<double, 4> features{share, std::log2(loop.mean_seconds / loop.dispatch_seconds),
                                         loop.spread, std::log2(threads)};
    if (!std::all_of(features.begin(), features.end(), [](double value) { return std::isfinite(value); }))
        return 1;
    const ChunkNode* node = kChunkTree.data();
    while (node->feature >= 0) {
        const double value = features[static_cast<std::size_t>(node->feature)];
        node = &kChunkTree[value <= static_cast<double>(node->value) ? node->below : node->above];
    }
    const double wanted = std::exp2(std::round(share - static_cast<double>(node->value)));
    return std::min(power_of_two(wanted), most_chunk(loop.iterations, loop.threads));
}

ChunkSearch::ChunkSearch(int own, int proposal, int most)
    : own_(std::max(own, 1)), most_(power_of_two(most)) {
    begin(std::min(power_of_two(proposal), most_), Stage::twos);
}

void ChunkSearch::begin(int chunk, Stage stage) {
    best_ = chunk;
    stage_ = stage;
    steps_ = calls_ = 0;
    calm_ = 0;
    candidates_.clear();
    ask_neighbours();
}

// The chunks that the next decision needs and that have no samples yet.
void ChunkSearch::ask_neighbours() {
    asked_.clear();
    const auto ask = [this](int chunk) {
        const Candidate* known = find(chunk);
        if (known == nullptr) candidates_.push_back({chunk, {}});
        if (known == nullptr || known->seconds.count() < static_cast<std::size_t>(samples))
            asked_.push_back(chunk);
    };
    ask(best_);
    if (own_ != best_) ask(own_);
    if (best_ > 1) ask(std::max(best_ / step(), 1));
    if (best_ < most_) ask(best_ > most_ / step() ? most_ : best_ * step());
    std::sort(asked_.begin(), asked_.end());
    asked_.erase(std::unique(asked_.begin(), asked_.end()), asked_.end());
}

ChunkSearch::Candidate* ChunkSearch::find(int chunk) {
    for (Candidate& one : candidates_)
        if (one.chunk == chunk) return &one;
    return nullptr;
}

double ChunkSearch::median(int chunk) const {
    for (const Candidate& one : candidates_)
        if (one.chunk == chunk) return one.seconds.median().value_or(std::numeric_limits<double>::infinity());
    return std::numeric_limits<double>::infinity();
}

int ChunkSearch::next() const {
    if (asked_.empty()) return best_;
    // In turn: the one with the fewest samples.
    int chosen = asked_.front();
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    for (const Candidate& one : candidates_) {
        if (std::find(asked_.begin(), asked_.end(), one.chunk) == asked_.end()) continue;
        if (one.seconds.count() < fewest) fewest = one.seconds.count(), chosen = one.chunk;
    }
    return chosen;
}

void ChunkSearch::add(int chunk, double seconds_per_iteration) {
    if (!(seconds_per_iteration > 0.0) || !std::isfinite(seconds_per_iteration)) return;
    if (settled()) {
        if (chunk == best_) watch(seconds_per_iteration);
        return;
    }
    Candidate* one = find(chunk);
    if (one == nullptr) return;
    one->seconds.add(seconds_per_iteration);
    ++calls_;
    if (one->seconds.count() >= static_cast<std::size_t>(samples)) std::erase(asked_, chunk);
    while (asked_.empty() && !settled()) decide();
}

// A step to the best of the neighbours if that gains enough, else on to smaller steps and to the end.
void ChunkSearch::decide() {
    int better = best_;
    for (const Candidate& one : candidates_) {
        const bool power = std::has_single_bit(static_cast<unsigned>(one.chunk)) && one.chunk <= most_;
        if (power && median(one.chunk) < median(better)) better = one.chunk;
    }
    if (better != best_ && median(better) < median(best_) * (1.0 - step_gain) && steps_ < most_steps) {
        best_ = better;
        ++steps_;
    } else if (stage_ == Stage::fours) {
        stage_ = Stage::twos;
    } else {
        return settle();
    }
    ask_neighbours();
}

void ChunkSearch::settle() {
    if (median(best_) > median(own_) * (1.0 - deadband)) best_ = own_;
    stage_ = Stage::settled;
    settled_seconds_ = median(best_);
    drift_.clear();
    calm_ = 0;
}

void ChunkSearch::watch(double seconds) {
    ++calm_;
    const bool moved = drift_.add(seconds, settled_seconds_);
    if (!moved || calm_ < kCalmCalls << std::min(restarts_, kMostDoublings)) return;
    ++restarts_;
    begin(std::min(power_of_two(best_), most_), Stage::fours);
}

}  // namespace corun::model
