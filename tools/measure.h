// SPDX-License-Identifier: Apache-2.0
// How a comparison comes to its values: one setting at a time.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "tools/child.h"
#include "tools/compare_output.h"
#include "tools/comparison.h"

namespace corun::tools {

inline constexpr int kInterrupted = 130;  ///< exit code

/// What one run, or one slot, of a setting gave.
struct Sample {
    double value = 0;  ///< the metric
    double wall_seconds = 0;
    double cpu_seconds = 0;
    double max_rss_bytes = 0;
};

/// Thrown: why the comparison ended before it was decided.
struct Stopped {
    std::string reason;
    int code = 1;
    std::string detail = {};  ///< what the user should see before the table
};

/// Throws Stopped for a program that did `what`, with the end of what it printed.
[[noreturn]] void stop_at(const Setting& setting, const ChildResult& result, const std::string& what);
void stop_if_interrupted();

/// Starts the program under one setting.
[[nodiscard]] std::unique_ptr<Child> start_child(const Comparison& comparison, const Setting& setting,
                                                 const std::filesystem::path& library);

class Measurer {
  public:
    virtual ~Measurer() = default;                         ///< ends what it has started
    virtual void prepare(const Progress& /*progress*/) {}  ///< before the first round
    [[nodiscard]] virtual Sample measure(
        std::size_t index) = 0;  ///< one value of that series; throws Stopped
};

/// Each value is one whole run of the program.
class WholeRuns : public Measurer {
  public:
    WholeRuns(const Comparison& comparison, std::filesystem::path library, double timeout)
        : comparison_(comparison), library_(std::move(library)), timeout_(timeout) {}
    [[nodiscard]] Sample measure(std::size_t index) override;

  private:
    [[nodiscard]] double metric_of(const Setting& setting, const ChildResult& result) const;

    const Comparison& comparison_;
    std::filesystem::path library_;
    double timeout_;
};

}  // namespace corun::tools
