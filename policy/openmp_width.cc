// SPDX-License-Identifier: Apache-2.0
#include "policy/openmp_width.h"

#include <algorithm>
#include <cstdio>

#include "model/fnv.h"
#include "policy/arms.h"
#include "policy/statistics.h"

namespace corun::policy {
namespace {

const RegionRecord* find(const RunRecord& run, const std::string& key) {
    for (const RegionRecord& region : run.regions)
        if (region.key == key) return &region;
    return nullptr;
}

double in_regions(const RunRecord& run) {
    double sum = 0.0;
    for (const RegionRecord& region : run.regions) sum += region.seconds;
    return sum;
}

// Seconds of one call at `width`, from what its threads did at another one.
double scaled(const RegionRecord& seen, int seen_width, int width) {
    const auto calls = static_cast<double>(seen.calls);
    if (width == 1) return seen.work_seconds / calls;  // a team of one costs next to nothing
    const double imbalance = std::max(1.0, seen.longest_seconds * seen_width / seen.work_seconds);
    const double fork_join = std::max(0.0, seen.seconds - seen.longest_seconds);
    return (seen.work_seconds * imbalance / width + fork_join * width / seen_width) / calls;
}

class Predictor {
  public:
    explicit Predictor(std::span<const RunRecord> runs) {
        std::vector<double> outside;
        for (const RunRecord& run : runs) {
            if (run.regions.empty()) {
                begun_.push_back(run.width);
                continue;
            }
            runs_.push_back(run);
            outside.push_back(std::max(0.0, run.seconds - in_regions(run)));
        }
        if (!outside.empty()) outside_ = median(std::move(outside));
    }

    [[nodiscard]] bool measured(int width) const {
        return std::any_of(runs_.begin(), runs_.end(),
                           [width](const RunRecord& run) { return run.width == width; });
    }
    // It was tried, and the run never came to its end: it may have been ended for taking too long.
    [[nodiscard]] bool failed(int width) const {
        return !measured(width) && std::find(begun_.begin(), begun_.end(), width) != begun_.end();
    }
    // Seconds of a run like the latest.
    [[nodiscard]] std::optional<double> total(int width) const {
        const RunRecord& latest = runs_.back();
        const double all = in_regions(latest);
        double sum = outside_;
        double unknown = 0.0;
        for (const RegionRecord& region : latest.regions) {
            if (region.calls == 0) continue;
            if (const auto seconds = call(region.key, width)) {
                sum += static_cast<double>(region.calls) * *seconds;
            } else {
                sum += region.seconds;
                unknown += region.seconds;
            }
        }
        if (unknown > kStartUnknown * all) return std::nullopt;
        return sum;
    }

  private:
    [[nodiscard]] std::optional<double> call(const std::string& key, int width) const {
        std::vector<double> measured;
        std::vector<double> guessed;
        for (const RunRecord& run : runs_) {
            const RegionRecord* seen = find(run, key);
            if (seen == nullptr || seen->calls == 0) continue;
            if (run.width == width)
                measured.push_back(seen->seconds / static_cast<double>(seen->calls));
            else if (seen->work_seconds > 0.0)
                guessed.push_back(scaled(*seen, run.width, width));
        }
        if (!measured.empty()) return median(std::move(measured));
        if (!guessed.empty()) return median(std::move(guessed));
        return std::nullopt;
    }

    std::vector<RunRecord> runs_;
    std::vector<int> begun_;
    double outside_ = 0.0;
};

std::string percent(double part) {
    char text[32];
    std::snprintf(text, sizeof text, "%.0f %%", 100.0 * part);
    return text;
}

// Half of the narrowest width that was seen, unless that one was slow already; once the choice is settled
// also one that is expected to cost little. 0: nothing to try.
int next_try(const Predictor& predictor, const std::vector<int>& widths, double best, bool settled) {
    bool slow = false;  // the next wider one
    for (std::size_t i = widths.size(); i-- > 0;) {
        const auto seconds = predictor.total(widths[i]);
        if (predictor.failed(widths[i])) return 0;
        if (!predictor.measured(widths[i])) {
            if (!seconds) return slow ? 0 : widths[i];
            if (settled && *seconds <= kStartStop * best) return widths[i];
        }
        slow = !seconds || *seconds > kStartStop * best;
    }
    return 0;
}

StartWidth keep(int width, std::string why) {
    StartWidth start;
    start.width = width;
    start.why = std::move(why);
    return start;
}

}  // namespace

StartWidth choose_start_width(std::span<const RunRecord> runs, int own, bool may_try) {
    own = std::max(own, 1);
    if (own == 1) return keep(1, "there is no other width");
    if (runs.empty()) return keep(own, "the first run");
    const Predictor predictor(runs);
    if (!predictor.measured(own)) return keep(own, "no run at the program's own width is known");
    const auto base = predictor.total(own);
    if (!base) return keep(own, "the latest run did what no run at the program's own width has done");
    const std::vector<int> widths = candidate_widths(own);
    StartWidth start = keep(own, "no other width is faster");
    start.own_seconds = start.seconds = base;
    double least = *base * (1.0 - kStartDeadband);
    for (const int width : widths) {
        const auto seconds = predictor.total(width);
        if (width == own || !seconds || *seconds >= least || predictor.failed(width)) continue;
        if (!may_try && !predictor.measured(width)) continue;
        least = *seconds;
        start.width = width;
        start.seconds = seconds;
        start.tries = !predictor.measured(width);
        start.why =
            percent(1.0 - *seconds / *base) + (start.tries ? " less time expected" : " less time measured");
    }
    if (start.tries || !may_try) return start;
    const auto repeats = std::count_if(runs.begin(), runs.end(), [&start](const RunRecord& run) {
        return run.width == start.width && !run.regions.empty();
    });
    const int width = next_try(predictor, widths, *start.seconds, repeats >= kStartSettled);
    if (width == 0) return start;
    start.width = width;
    start.seconds = predictor.total(width);
    start.tries = true;
    start.why = start.seconds ? "tried once: it should cost little" : "tried once: nothing is known of it";
    return start;
}

std::string hash_words(std::span<const std::string> words) {
    model::Fnv1a hash;
    bool first = true;
    for (const std::string& word : words) {
        const std::size_t begin = first ? word.rfind('/') + 1 : 0;  // none: npos + 1 is 0
        hash.add(std::string_view(word).substr(begin));
        hash.add(static_cast<unsigned char>(0));
        first = false;
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash.value()));
    return text;
}

void StartHistory::add(const ProcessKey& key, RunRecord run) {
    auto& processes = programs_[key.program];
    Process& process = processes[key.words];
    process.added = ++added_;
    process.runs.push_back(std::move(run));
    if (process.runs.size() > runs_kept) process.runs.erase(process.runs.begin());
    if (processes.size() <= processes_kept) return;
    processes.erase(std::min_element(processes.begin(), processes.end(), [](const auto& a, const auto& b) {
        return a.second.added < b.second.added;
    }));
}

std::span<const RunRecord> StartHistory::runs(const ProcessKey& key) const {
    const auto program = programs_.find(key.program);
    if (program == programs_.end()) return {};
    const auto process = program->second.find(key.words);
    if (process == program->second.end()) return {};
    return process->second.runs;
}

StartWidth StartHistory::choose(const ProcessKey& key, int own, bool may_try) const {
    return choose_start_width(runs(key), own, may_try);
}

}  // namespace corun::policy
