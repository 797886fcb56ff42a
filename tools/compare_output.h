// SPDX-License-Identifier: Apache-2.0
// How `corun compare` shows itself: a progress line, the table, the JSON file.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/comparison.h"

namespace corun::tools {

/// One line that is rewritten on a terminal, else one line a run.
class Progress {
  public:
    Progress(std::size_t settings, int warmup, int least_rounds, int most_rounds);
    void begin_run(const std::string& setting, int round);  ///< rounds from 1; 0 and below: warm-up
    void end_run(const std::string& setting, int round, double value, double seconds);
    void say(const std::string& what) const;  ///< in place of a run
    void clear() const;

  private:
    [[nodiscard]] std::string time_left() const;
    std::size_t settings_;
    int warmup_;
    int least_;
    int most_;
    bool terminal_;
    std::size_t runs_ = 0;
    double seconds_ = 0;
};

[[nodiscard]] std::string duration_text(double seconds);  ///< as 80 s, 12 min, 1.5 h
[[nodiscard]] std::string table_of(const Comparison& comparison);
[[nodiscard]] nlohmann::ordered_json json_of(const Comparison& comparison);

/// Writes the JSON whole or not at all. Throws std::runtime_error.
void write_json(const Comparison& comparison, const std::string& path);

}  // namespace corun::tools
