// SPDX-License-Identifier: Apache-2.0
// The second way of comparing: each setting's program is started once and stopped while the others run.
#pragma once

#include <functional>
#include <regex>
#include <vector>

#include "tools/measure.h"

namespace corun::tools {

/// The program of one setting: what it has printed since `begin`.
class Alternator {
  public:
    Alternator(Series& series, std::unique_ptr<Child> child, const std::regex& metric)
        : series_(&series), child_(std::move(child)), metric_(&metric) {}

    [[nodiscard]] Series& series() const { return *series_; }
    [[nodiscard]] Child& child() const { return *child_; }
    [[nodiscard]] const std::vector<double>& values() const { return values_; }
    void forget_values() { values_.clear(); }

    void listen();       ///< takes what it has printed
    void keep_status();  ///< from the control page of the first process of its group that has one
    [[nodiscard]] bool ended() { return child_->ended(); }
    [[noreturn]] void stop_comparison(const std::string& what);  ///< throws Stopped

  private:
    /// What it printed on one of its pipes.
    struct Stream {
        std::string unfinished;  ///< the beginning of a line
        std::string tail;        ///< the last lines, for a message
    };
    void take(std::string& text, Stream& stream);

    Series* series_;
    std::unique_ptr<Child> child_;
    const std::regex* metric_;
    Stream output_;
    Stream errors_;
    std::vector<double> values_;
};

/// Each value is the mean of what a program printed in one slot.
class Alternation : public Measurer {
  public:
    Alternation(Comparison& comparison, std::filesystem::path library)
        : comparison_(comparison), library_(std::move(library)), metric_(comparison.metric) {}
    ~Alternation() override;
    void prepare(const Progress& progress) override;
    [[nodiscard]] Sample measure(std::size_t index) override;

  private:
    [[nodiscard]] std::string plan(std::size_t index, double seconds) const;
    void warm_up(Series& series, double seconds);
    void watch(double seconds, const std::function<bool()>& done = {});
    void look_at_all();
    void stop(Alternator& one);
    void end_all();

    Comparison& comparison_;
    std::filesystem::path library_;
    std::regex metric_;
    std::vector<Alternator> programs_;
};

}  // namespace corun::tools
