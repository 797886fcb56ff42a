// SPDX-License-Identifier: Apache-2.0
// Puts model and policy together for one process: op keys, reference costs, phases, width tables. Pure: what
// it knows of time, ops and samples is passed in; the shim does what directive() says and asks for the tables
// when told to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/explorer.h"
#include "model/profile.h"
#include "policy/arms.h"
#include "policy/cost_table.h"
#include "policy/epoch.h"
#include "policy/node_share.h"
#include "policy/phase.h"
#include "policy/window.h"

namespace corun::policy {

using model::OpId;

struct ControllerSettings {
    int budget = 1;               ///< CPUs
    std::string policy = "race";  ///< "race" or the name of an arm
    bool observe = false;         ///< pass-through only, nothing is decided
    bool replay = false;          ///< widths come from the profile, nothing is explored
    GateMode gate = GateMode::off;
    bool coarse = false;  ///< the runtime pays for a change between widths that are neither 1 nor the budget
    double cheap_seconds = 3e-6;    ///< ops below are not explored
    double trivial_seconds = 1e-6;  ///< ops below would open no region, however many threads they had
    model::ExplorerSettings explorer{.samples = 5};  ///< each of another step, whose noise it shares
    std::uint64_t seed = 1;
};

struct OpInfo {
    std::string source;  ///< "tensorflow"
    std::string kind;    ///< "MatMul"
    std::string shapes;  ///< "(float[3,4];float[4,5])"
    std::string example;
    double elements = 0.0;
    bool container = false;

    [[nodiscard]] std::string key() const { return source + "/" + kind + shapes; }
};

/// One timed op.
struct OpSample {
    OpId op = 0;
    double begin = 0.0;  ///< seconds since the start
    double seconds = 0.0;
    int width = 0;  ///< 0: the program's own
    bool solo = false;
    bool assigned = false;  ///< at a width that assignments() asked for
    bool plain = false;     ///< no lever was pulled
    bool builds = false;  ///< the first call at this width: may hold what the runtime builds and keeps for it
    bool bounded = false;  ///< as `plain`, but for a ceiling: the share of the machine, threads side by side
};

/// Everything known of one op key.
struct OpState {
    OpInfo info;
    double reference = 0.0;  ///< seconds; 0: not known yet
    bool narrowed = false;   ///< it was not measured at the program's own width only
    double work = 0.0;       ///< reference seconds while every op was recorded: its share of the mix
    double solo_work = 0.0;  ///< of them, with nothing beside it
    PhaseId phase = -1;      ///< where it was last seen
    int profile_width = 0;
    double counted_at = -1e9;  ///< begin of the latest sample that counted
    double asked_at = -1e9;    ///< of those that were asked for
    std::vector<float> first;  ///< durations until the reference is frozen
};

class Controller {
  public:
    Controller(ControllerSettings settings, double now);
    ~Controller();

    /// Makes an op key known; ids are dense from 0. Idempotent by key().
    OpId add_op(const OpInfo& info);
    [[nodiscard]] const OpState& op(OpId id) const { return ops_.at(id); }
    /// Too short to gain at the width that the program would give it. Short at another says nothing of that
    /// one: two threads on a busy machine may wait for milliseconds.
    [[nodiscard]] bool cheap(OpId id) const { return cheap(ops_.at(id)); }
    /// So short that no runtime would bring a team for it, whatever the width.
    [[nodiscard]] bool trivial(OpId id) const { return trivial(ops_.at(id)); }
    [[nodiscard]] std::size_t op_count() const { return ops_.size(); }
    [[nodiscard]] int budget() const { return settings_.budget; }

    /// Samples in order of their begin. Ops whose reference was frozen by them are appended to `frozen`.
    void sample(const OpSample& sample, std::vector<OpId>& frozen);
    /// Once per batch of samples: plans exploration anew while it is going on.
    /// @return true when assignments() has changed
    bool plan(double now);
    [[nodiscard]] const std::vector<model::Assignment>& assignments() const { return assignments_; }

    void window_ended(const Window& window, double now);
    [[nodiscard]] const Directive& directive() const { return directive_; }

    /// True once after the width tables have changed.
    [[nodiscard]] bool take_tables_changed();
    [[nodiscard]] WidthRow row(OpId op, ArmId arm) const;
    [[nodiscard]] const std::vector<Arm>& arms() const { return arms_; }
    /// What ops take at each width, by the curves; without seconds where that is not known. For a gate.
    [[nodiscard]] std::vector<KeyCosts> costs() const;

    /// Knowledge of an earlier run; to be called before the first window ends. Ops come to it as they appear.
    void restore(model::Profile profile);
    [[nodiscard]] model::Profile export_profile(const model::Identity& identity) const;

    // --- for report and status ---
    [[nodiscard]] const std::vector<std::unique_ptr<Phase>>& phases() const { return phases_; }
    [[nodiscard]] const Phase* current() const;
    [[nodiscard]] const Phase* longest() const;  ///< the phase that had most time
    [[nodiscard]] State state() const;
    /// Throughput at 1, 2, 4, ... CPUs by the curves of the current phase's ops, one op at a time.
    [[nodiscard]] const Gains& gains() const { return gains_; }
    [[nodiscard]] const model::Explorer& explorer() const { return explorer_; }
    [[nodiscard]] std::string explain(const Phase& phase) const;  ///< one sentence
    [[nodiscard]] std::string explain_op(OpId op, const Phase& phase) const;
    [[nodiscard]] int width(OpId op, const Phase& phase) const;  ///< 0: the program's own

  private:
    [[nodiscard]] bool cheap(const OpState& state) const;
    [[nodiscard]] bool trivial(const OpState& state) const;
    [[nodiscard]] OpView view(OpId op) const;
    [[nodiscard]] double spacing() const;  ///< seconds between two samples of an op that count
    void freeze(OpId id, std::vector<OpId>& frozen);
    void strange_window(const Window& window, double elapsed, double now);
    void enter_phase(PhaseId phase, double now);
    void advance(Phase& phase, const Window& window, double elapsed);
    void end_learning(Phase& phase);
    [[nodiscard]] bool explored(const Phase& phase);
    void choose_arms(Phase& phase);
    /// Share of the current phase's work in ops for which `test` holds.
    [[nodiscard]] double share(const std::function<double(OpId)>& part) const;
    [[nodiscard]] bool hopeless(ArmId arm) const;             ///< surely slow, by the curves alone
    [[nodiscard]] double difference(ArmId a, ArmId b) const;  ///< share of the work
    void rebuild_tables();
    void find_gains();
    void next_directive(double now);
    [[nodiscard]] std::optional<ArmId> profile_arm(const Histogram& mix) const;

    ControllerSettings settings_;
    std::vector<Arm> arms_;
    std::optional<ArmId> fixed_;
    std::vector<OpState> ops_;
    std::unordered_map<std::string, OpId> by_key_;
    model::Explorer explorer_;
    std::vector<model::Assignment> assignments_;
    std::vector<std::vector<WidthRow>> rows_;  ///< [arm][op]
    std::unordered_map<std::string, int> type_optimum_;
    std::optional<model::Profile> profile_;
    std::unordered_map<std::string, const model::ProfileOp*> profile_ops_;
    EpochWatch watch_;
    std::vector<std::unique_ptr<Phase>> phases_;
    std::optional<PhaseId> current_;
    Directive directive_;
    bool learning_ = true;  ///< the mix is new: references are being taken
    AnchorFinder finder_;   ///< of a mix that has no phase yet, fed while all its work is referenced
    std::optional<double> finder_since_;
    bool steady_ = false;        ///< the last window was of the only phase that there is, or has long been
    double phase_since_ = 0.0;   ///< when the current one was entered
    int unknown_windows_ = 0;    ///< in a row that were of no phase
    int strange_windows_ = 0;    ///< in a row with too much unreferenced work
    int assigned_samples_ = 0;   ///< since the last window
    int fruitless_windows_ = 0;  ///< of exploration, in a row
    double unused_seconds_ =
        0.0;             ///< that exploration has cost for samples which came too close to each other
    double work_ = 0.0;  ///< reference seconds of all samples, in order of begin
    bool tables_changed_ = true;
    Gains gains_{};
    Random random_;
    double started_;
    double learn_since_;
    double last_end_;  ///< of a window
};

}  // namespace corun::policy
