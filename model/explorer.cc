// SPDX-License-Identifier: Apache-2.0
#include "model/explorer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/drift.h"

namespace corun::model {
namespace {

constexpr double kDeadband = 0.05;       // widths this close are the same; the narrowest wins
constexpr double kUnknownLoss = 0.5;     // optimistic: an op that nothing is known of could be twice as fast
constexpr double kLeastLoss = 0.01;      // keeps the order by time among ops that should gain nothing
constexpr int kPriorLeast = 3;           // observations before a width is chosen by the prior alone
constexpr int kBaseLeast = 3;            // samples before a cost counts as the base
constexpr double kLeastSeconds = 1e-12;  // what lies outside is a fault of the clock
constexpr double kMostSeconds = 1e7;
constexpr std::size_t kMostOps = 1U << 20;

// A level follows the curve's median for the first 15 samples and their clipped mean up to 64, then it is
// frozen: drift is measured against what was learned, not against a median that drifts along. It is watched
// from 16 samples on: the error of a median of three is as large as the drift that is looked for.
constexpr std::uint32_t kLevelMedian = RobustSamples::capacity;
constexpr std::uint32_t kLevelFrozen = 64;
constexpr double kLevelClip = 1.35;  // two deviations of 15 % noise

// After each drift an op must show so many solo samples, doubled each time, before it may drift again: one
// whose cost has two modes would be learned for ever.
constexpr std::uint64_t kCalmSamples = 64;
constexpr int kMostDoublings = 16;

constexpr std::size_t kCheckSamples = 5;  // of a restored curve
constexpr double kCheckFactor = 1.5;

}  // namespace

// What an op costs at one width, solo or beside others, as far as it was learned.
struct Explorer::Level {
    float seconds = 0.0F;
    std::uint32_t count = 0;
};

struct Explorer::Levels {
    int width = 0;
    Level solo;
    Level beside;
};

struct Explorer::Entry {
    explicit Entry(int measured_from) : curve(measured_from) {}

    std::string kind;
    double work = 0.0;
    Curve curve;
    std::vector<Levels> levels;  // a handful, unordered
    double seconds = 0.0;        // recorded in this epoch
    int base_width = 0;          // the program's own width; 0: not seen yet
    bool base_assumed = false;   // it is max_width, for want of samples that nobody asked for
    bool explored = false;
    int want = 0;      // width that the walk asks for; 0: not asked yet, or nothing
    int attempts = 0;  // assigned calls since it asked
    std::vector<int> given_up;
    Drift drift;
    int drifts = 0;
    std::uint64_t solo_samples = 0;  // since the last drift
    bool restored = false;           // and not yet checked
    std::vector<Sample> checks;
    double loss = kUnknownLoss;  // see expected_loss(), computed under ...
    std::uint64_t loss_version =
        0;  // ... this version of the prior (0: to be computed; most: all later ones too)

    Levels& levels_at(int width) {
        for (Levels& each : levels) {
            if (each.width == width) return each;
        }
        return levels.emplace_back(Levels{width, {}, {}});
    }

    // The widest that the op runs at unasked: an arm may narrow it, the program's own word is the widest.
    void note_base(int width, bool assigned, int max_width) {
        const bool better =
            assigned ? base_width == 0 && width == max_width : base_assumed || width > base_width;
        if (!better) return;
        base_width = width;
        base_assumed = assigned;
        loss_version = 0;
    }

    // Seconds at the program's own width; of samples of the same sort where there are any.
    [[nodiscard]] std::optional<double> base(bool solo) const {
        for (const Levels& each : levels) {
            if (each.width != base_width) continue;
            const Level& same = solo ? each.solo : each.beside;
            const Level& other = solo ? each.beside : each.solo;
            if (same.count >= kBaseLeast) return same.seconds;
            if (other.count >= kBaseLeast) return other.seconds;
        }
        return std::nullopt;
    }
};

Explorer::Explorer(const ExplorerSettings& settings) : settings_(settings) {
    settings_.samples = std::clamp(settings_.samples, 1, static_cast<int>(RobustSamples::capacity));
    settings_.attempts = std::max(settings_.attempts, settings_.samples);
    settings_.max_width = std::max(settings_.max_width, 1);
    settings_.coverage = std::clamp(settings_.coverage, 0.0, 1.0);
    walk_ = settings_.step > 0 ? make_step_walk(settings_.step, settings_.samples, settings_.samples > 1)
                               : make_fitted_walk(settings_.samples);
    for (int width = 1; width < settings_.max_width; width *= 2) grid_.push_back(width);
    grid_.push_back(settings_.max_width);
}

Explorer::~Explorer() = default;
Explorer::Explorer(Explorer&&) noexcept = default;
Explorer& Explorer::operator=(Explorer&&) noexcept = default;

Explorer::Entry* Explorer::find(OpId op) const {
    return op < ops_.size() ? ops_[op].get() : nullptr;
}

Explorer::Entry* Explorer::ensure(OpId op) {
    if (Entry* found = find(op)) return found;
    if (op >= kMostOps) return nullptr;
    if (op >= ops_.size()) ops_.resize(op + std::size_t{1});  // the vector's growth is geometric
    ops_[op] = std::make_unique<Entry>(std::min(settings_.samples, Curve::default_measured_from));
    return ops_[op].get();
}

void Explorer::add(OpId op, const std::string& kind, double work) {
    Entry* entry = ensure(op);
    if (entry == nullptr || !entry->kind.empty()) return;
    entry->kind = kind;
    entry->work = work;
    entry->loss_version = 0;
}

void Explorer::record(OpId op, const Sample& sample, bool assigned) {
    if (sample.width < 1 || !(sample.seconds > kLeastSeconds && sample.seconds < kMostSeconds)) return;
    Entry* entry = ensure(op);
    if (entry == nullptr) return;
    add_time(op, sample.seconds);
    entry->note_base(sample.width, assigned, settings_.max_width);
    if (assigned && sample.width != entry->base_width) {
        if (const auto base = entry->base(sample.solo)) spent_ += sample.seconds - *base;
    }
    if (entry->restored && sample.solo) {
        check_restored(*entry, sample);
    } else {
        learn(*entry, sample);
    }
    if (assigned && !entry->explored) count_attempt(*entry, sample);
}

void Explorer::add_time(OpId op, double seconds) {
    Entry* entry = find(op);
    if (entry == nullptr) return;
    entry->seconds += seconds;
    total_ += seconds;
    if (entry->explored) covered_ += seconds;
}

void Explorer::learn(Entry& entry, const Sample& sample) {
    if (sample.solo) {
        const Level& solo = entry.levels_at(sample.width).solo;
        const bool calm = entry.drifts == 0 ||
                          entry.solo_samples >= kCalmSamples << std::min(entry.drifts - 1, kMostDoublings);
        ++entry.solo_samples;
        if (calm && solo.count > kLevelMedian && entry.drift.add(sample.seconds, solo.seconds)) {
            forget(entry);
            ++entry.drifts;
        }
    }
    entry.curve.add(sample);
    Levels& levels = entry.levels_at(sample.width);
    Level& level = sample.solo ? levels.solo : levels.beside;
    if (level.count >= kLevelFrozen) return;
    ++level.count;
    if (level.count <= kLevelMedian) {
        const auto median = sample.solo ? entry.curve.solo(sample.width) : entry.curve.beside(sample.width);
        level.seconds = static_cast<float>(*median);
        if (level.count == kBaseLeast) entry.loss_version = 0;  // the base may be known from now on
    } else {
        const double ratio = std::clamp(sample.seconds / level.seconds, 1.0 / kLevelClip, kLevelClip);
        level.seconds *= static_cast<float>(1.0 + (ratio - 1.0) / level.count);
    }
}

// Until the verdict the samples stay out of the curve, so that they are judged by what was restored alone.
void Explorer::check_restored(Entry& entry, const Sample& sample) {
    if (!entry.curve.predict(sample.width)) return learn(entry, sample);
    entry.checks.push_back(sample);
    if (entry.checks.size() < kCheckSamples) return;
    RobustSamples ratios;
    for (const Sample& check : entry.checks) ratios.add(check.seconds / *entry.curve.predict(check.width));
    const double off = *ratios.median();
    const std::vector<Sample> checks = std::move(entry.checks);
    entry.checks.clear();
    entry.restored = false;
    if (off > kCheckFactor || off < 1.0 / kCheckFactor) {
        forget(entry);
    } else if (entry.explored) {
        teach_prior(entry);
    }
    for (const Sample& check : checks) learn(entry, check);
}

void Explorer::count_attempt(Entry& entry, const Sample& sample) {
    if (entry.want == 0) return;
    ++entry.attempts;  // at another width too: the program's own ceiling may forbid the one that is wanted
    if (sample.solo && sample.width == entry.want &&
        entry.curve.solo_count(entry.want) >= static_cast<std::size_t>(settings_.samples)) {
        advance(entry);
    } else if (entry.attempts >= settings_.attempts) {
        entry.given_up.push_back(entry.want);
        advance(entry);
    }
}

// Asks the walk what comes next, and notes when that is nothing.
void Explorer::advance(Entry& entry) {
    entry.attempts = 0;
    entry.loss_version = 0;
    entry.want = walk_->next(entry.curve, settings_.max_width, entry.given_up).value_or(0);
    if (entry.want != 0 || entry.explored) return;
    entry.explored = true;
    covered_ += entry.seconds;
    if (!entry.restored) teach_prior(entry);
}

// Everything learned of the op, but not its share of time.
void Explorer::forget(Entry& entry) {
    if (entry.explored) covered_ -= entry.seconds;
    entry.explored = false;
    entry.want = 0;
    entry.attempts = 0;
    entry.given_up.clear();
    entry.curve.clear();
    entry.levels.clear();
    entry.drift.clear();
    entry.solo_samples = 0;
    entry.restored = false;
    entry.checks.clear();
    entry.loss_version = 0;
}

void Explorer::teach_prior(const Entry& entry) {
    if (entry.kind.empty()) return;
    const auto one = entry.curve.predict(1);
    if (!one) return;
    for (const int width : grid_) {
        if (const auto seconds = entry.curve.predict(width)) {
            prior_.learn(entry.kind, entry.work, width, *seconds / *one);
        }
    }
    ++prior_version_;
}

// How much of the op's time would go away at its best predicted width, 0 to 1.
double Explorer::expected_loss(const Entry& entry) const {
    const auto now = entry.base(true);
    if (!now) return kUnknownLoss;
    std::optional<double> best;
    if (entry.curve.solo_points().size() >= 2) {
        const std::vector<Point> points = entry.curve.best(grid_);
        if (!points.empty()) best = points.front().seconds;
    } else {
        for (const int width : grid_) {
            const auto seconds = width == entry.base_width ? std::nullopt : predict(entry, width);
            if (seconds && (!best || *seconds < *best)) best = seconds;
        }
    }
    return best ? std::max(kLeastLoss, 1.0 - *best / *now) : kUnknownLoss;
}

std::vector<Assignment> Explorer::plan(double elapsed) {
    struct Candidate {
        double rank;
        OpId op;
        const Entry* entry;
    };
    std::vector<Candidate> candidates;
    for (OpId op = 0; op < ops_.size(); ++op) {
        Entry* entry = ops_[op].get();
        if (entry == nullptr || entry->explored || !(entry->seconds > 0.0)) continue;
        // Samples that nobody asked for may have answered what the walk wants.
        if (entry->want == 0 ||
            entry->curve.solo_count(entry->want) >= static_cast<std::size_t>(settings_.samples)) {
            advance(*entry);
            if (entry->explored) continue;
        }
        if (entry->loss_version < prior_version_) {
            entry->loss = expected_loss(*entry);
            const bool by_prior = entry->curve.solo_points().size() < 2;
            entry->loss_version = by_prior ? prior_version_ : std::numeric_limits<std::uint64_t>::max();
        }
        candidates.push_back({entry->seconds * entry->loss, op, entry});
    }
    std::vector<Assignment> assignments;
    if (spent_ > 0.0 && !(spent_ <= settings_.share * elapsed)) return assignments;
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return a.rank != b.rank ? a.rank > b.rank : a.op < b.op;
    });
    double covered = covered_;
    for (const Candidate& candidate : candidates) {
        if (covers(covered)) break;
        assignments.push_back({candidate.op, candidate.entry->want});
        covered += candidate.entry->seconds;
    }
    return assignments;
}

bool Explorer::wanted(const Assignment& assignment) const {
    const Entry* entry = find(assignment.op);
    return entry != nullptr && assignment.width >= 1 && entry->want == assignment.width &&
           entry->curve.solo_count(entry->want) < static_cast<std::size_t>(settings_.samples);
}

bool Explorer::covers(double seconds) const {
    return seconds >= settings_.coverage * total_ * (1.0 - 1e-9);  // two sums of the same numbers may differ
}

bool Explorer::done() const {
    return total_ > 0.0 && covers(covered_);
}

bool Explorer::explored(OpId op) const {
    const Entry* entry = find(op);
    return entry != nullptr && entry->explored;
}

const Curve* Explorer::curve(OpId op) const {
    const Entry* entry = find(op);
    return entry != nullptr ? &entry->curve : nullptr;
}

std::optional<double> Explorer::predict(OpId op, int width) const {
    const Entry* entry = find(op);
    return entry != nullptr ? predict(*entry, width) : std::nullopt;
}

std::optional<double> Explorer::predict(const Entry& entry, int width) const {
    if (const auto seconds = entry.curve.predict(width)) return seconds;
    const std::vector<Point> points =
        entry.curve.solo_points();  // one at most, else the law would have answered
    if (points.empty()) return std::nullopt;
    const auto there = prior_.ratio(entry.kind, entry.work, width);
    const auto here = prior_.ratio(entry.kind, entry.work, points.front().width);
    if (!there || !here) return std::nullopt;
    return points.front().seconds * *there / *here;
}

std::optional<int> Explorer::optimum(OpId op, const std::vector<int>& widths) const {
    const Entry* entry = find(op);
    if (entry == nullptr) return std::nullopt;
    if (const auto learned = entry->curve.optimum(widths, kDeadband)) return learned;
    std::vector<Point> guesses;  // relative to width 1
    for (const int width : widths) {
        if (const auto ratio = prior_.ratio(entry->kind, entry->work, width, kPriorLeast)) {
            guesses.push_back({width, *ratio});
        }
    }
    if (guesses.size() < 2) return std::nullopt;
    return narrowest_within(guesses, kDeadband);
}

double Explorer::spent() const {
    return spent_;
}

void Explorer::restore(OpId op, const Curve& curve) {
    Entry* entry = ensure(op);
    if (entry == nullptr || !entry->levels.empty() || !entry->checks.empty() || entry->restored) return;
    const std::vector<Point> points = curve.solo_points();
    if (points.empty()) return;
    entry->curve = curve;
    for (const Point& point : points) {
        const auto count = static_cast<std::uint32_t>(curve.solo_count(point.width));
        // A full median is taken as it is, so that Drift sees this run's samples against it.
        entry->levels_at(point.width).solo = {static_cast<float>(point.seconds),
                                              count < kLevelMedian ? count : kLevelFrozen};
    }
    entry->restored = true;
    entry->checks.reserve(kCheckSamples);
    advance(*entry);
}

void Explorer::clear() {
    for (const auto& entry : ops_) {
        if (!entry) continue;
        forget(*entry);
        entry->seconds = 0.0;
        entry->base_width = 0;
        entry->base_assumed = false;
        entry->drifts = 0;
    }
    prior_.clear();
    ++prior_version_;
    total_ = covered_ = spent_ = 0.0;
}

}  // namespace corun::model
