// SPDX-License-Identifier: Apache-2.0
// Which op is sampled next and at which width, under a bound on what that may cost.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/curve.h"
#include "model/prior.h"
#include "model/walk.h"

namespace corun::model {

using OpId = std::uint32_t;

struct ExplorerSettings {
    double share = 0.05;     ///< CORUN_EXPLORE: extra time that sampling may cost, as a share of the run time
    double coverage = 0.95;  ///< ops are explored in order until they cover this share of the time
    int samples = 3;         ///< solo samples a point
    int attempts = 40;       ///< calls at one width without enough solo samples before it is given up
    int max_width = 1;       ///< the budget
    int step = 0;            ///< 0: the fitted walk; x >= 1: the paper's walk with that interval (CORUN_STEP)
};

/// A wish: run op `op` at `width` and time it.
struct Assignment {
    OpId op = 0;
    int width = 0;
};

/// Pure: time and samples are passed in; nothing is asked of a clock. Not thread-safe: one caller at a time.
/// Op ids index a table: they should be small and dense (those from 2^20 on are ignored).
class Explorer {
  public:
    explicit Explorer(const ExplorerSettings& settings);
    ~Explorer();
    Explorer(Explorer&&) noexcept;
    Explorer& operator=(Explorer&&) noexcept;

    /// Makes an op known. `kind` is its name without shapes ("MatMul"), `work` any number that grows with the
    /// work of a call (input elements), for the prior. Idempotent.
    void add(OpId op, const std::string& kind, double work);

    /// One measured duration. `assigned` says whether it was taken at a width that plan() asked for. An op
    /// that was not add()ed becomes known without kind and work. No allocation but for a new op or width.
    void record(OpId op, const Sample& sample, bool assigned);

    /// A duration that says nothing new of the op's cost; it counts for the op's share of the time.
    void add_time(OpId op, double seconds);

    /// The assignments that should be in force from now on (at most one an op), ordered by share of time x
    /// expected loss; none when exploration has used up its share of `elapsed` (seconds since the start).
    [[nodiscard]] std::vector<Assignment> plan(double elapsed);

    /// True while an assignment of the last plan() still lacks samples. Cheap: a caller that asks before each
    /// assigned call pays for no more calls at a slow width than are needed.
    [[nodiscard]] bool wanted(const Assignment& assignment) const;

    /// True when the ops that are explored (or given up), and not in drift, cover `coverage` of the time;
    /// false before the first sample. plan() is what brings it up to date with unassigned samples.
    [[nodiscard]] bool done() const;
    [[nodiscard]] bool explored(OpId op) const;  ///< or given up; false when unknown or in drift

    [[nodiscard]] const Curve* curve(OpId op) const;  ///< nullptr when unknown; stays valid, owned by this

    /// Seconds at a width: the curve if it knows, else the prior over (kind, log work), else nothing.
    [[nodiscard]] std::optional<double> predict(OpId op, int width) const;

    /// Width that costs least of `widths` (5 % deadband, narrowest wins); nothing when unknown.
    [[nodiscard]] std::optional<int> optimum(OpId op, const std::vector<int>& widths) const;

    /// Extra seconds that exploration has cost so far (may be negative: a gain).
    [[nodiscard]] double spent() const;

    /// Puts a curve that an earlier run learned in place of an empty one (no effect once the op has samples);
    /// it is checked, not trusted: when the median of the first five solo samples of this run is off by more
    /// than 1.5x it is thrown away, and Drift notices less than that later.
    void restore(OpId op, const Curve& curve);

    void clear();  ///< a new epoch: curves, time shares, prior and spent() begin anew; the ops stay known

  private:
    struct Level;
    struct Levels;
    struct Entry;

    Entry* find(OpId op) const;
    Entry* ensure(OpId op);
    void learn(Entry& entry, const Sample& sample);
    void check_restored(Entry& entry, const Sample& sample);
    void count_attempt(Entry& entry, const Sample& sample);
    void advance(Entry& entry);
    void forget(Entry& entry);
    void teach_prior(const Entry& entry);
    [[nodiscard]] std::optional<double> predict(const Entry& entry, int width) const;
    [[nodiscard]] bool covers(double seconds) const;
    [[nodiscard]] double expected_loss(const Entry& entry) const;

    ExplorerSettings settings_;
    std::unique_ptr<Walk> walk_;
    std::vector<int> grid_;  // the widths that are compared and taught to the prior: 1, 2, 4, ... max_width
    Prior prior_;
    std::uint64_t prior_version_ = 1;
    std::vector<std::unique_ptr<Entry>> ops_;  // by op id
    double total_ = 0.0;                       // seconds, all ops
    double covered_ = 0.0;                     // seconds, the explored ones
    double spent_ = 0.0;
};

}  // namespace corun::model
