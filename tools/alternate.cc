// SPDX-License-Identifier: Apache-2.0
#include "tools/alternate.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "tools/control.h"
#include "tools/process_group.h"

namespace corun::tools {
namespace {

constexpr double kLookSeconds =
    0.02;                             // between two looks at the pipes: rare, for the CPUs are being measured
constexpr double kFirstSeconds = 60;  // how a program begins is told of its first minute
constexpr double kMoreWarmUp = 60;    // for a program that has hardly printed yet
constexpr double kGraceSeconds = 5;   // between SIGTERM and SIGKILL
constexpr double kStopSeconds = 5;    // a process that waits for a disk does not stop at once
constexpr std::size_t kNotItsOwn =
    2;  // matches after SIGCONT: the step that was stopped, and one for the caches
constexpr std::size_t kFewest = 3;  // matches that make a mean
constexpr std::size_t kTailBytes = 65536;

void sleep_for(double seconds) {
    poll(nullptr, 0, std::max(1, static_cast<int>(1000 * seconds)));  // returns early at a signal
}

}  // namespace

void Alternator::take(std::string& text, Stream& stream) {
    if (text.empty()) return;
    stream.tail += text;
    if (stream.tail.size() > 2 * kTailBytes) stream.tail.erase(0, stream.tail.size() - kTailBytes);
    stream.unfinished += text;
    text.clear();
    std::size_t begin = 0;
    for (auto end = stream.unfinished.find('\n'); end != std::string::npos;
         end = stream.unfinished.find('\n', begin)) {
        const auto found = find_metrics(stream.unfinished.substr(begin, end - begin), *metric_);
        values_.insert(values_.end(), found.begin(), found.end());
        begin = end + 1;
    }
    stream.unfinished.erase(0, begin);
    if (stream.unfinished.size() > kTailBytes) stream.unfinished.resize(kTailBytes);
}

void Alternator::listen() {
    child_->read();
    take(child_->result().output, output_);
    take(child_->result().errors, errors_);
}

void Alternator::keep_status() {
    if (!series_->setting.under_corun) return;
    for (const auto& page : find_pages()) {
        if (page->state() != Page::State::live || getpgid(page->pid()) != child_->group()) continue;
        if (const std::string status = page->status(); !status.empty()) series_->status = status;
        return;
    }
}

void Alternator::stop_comparison(const std::string& what) {
    listen();
    child_->result().output = output_.tail;
    child_->result().errors = errors_.tail;
    stop_at(series_->setting, child_->result(), what);
}

Alternation::~Alternation() {
    try {
        end_all();
    } catch (...) {  // no memory: the children's destructors end them without grace
    }
}

// The settings wait for each other, and so does the user: what comes is known to the second.
std::string Alternation::plan(std::size_t index, double seconds) const {
    double left = 0;
    for (std::size_t i = index; i < comparison_.series.size(); ++i)
        left += comparison_.series[i].setting.under_corun ? comparison_.alternate->warm
                                                          : comparison_.alternate->warm_plain;
    return fmt::format("warm-up {} of {}: {} alone for {}, {} to the first round", index + 1,
                       comparison_.series.size(), comparison_.series[index].setting.name,
                       duration_text(seconds), duration_text(left));
}

void Alternation::prepare(const Progress& progress) {
    programs_.reserve(comparison_.series.size());
    for (std::size_t i = 0; i < comparison_.series.size(); ++i) {
        Series& series = comparison_.series[i];
        const double seconds =
            series.setting.under_corun ? comparison_.alternate->warm : comparison_.alternate->warm_plain;
        progress.say(plan(i, seconds));
        warm_up(series, seconds);
    }
}

void Alternation::warm_up(Series& series, double seconds) {
    programs_.emplace_back(series, start_child(comparison_, series.setting, library_), metric_);
    Alternator& one = programs_.back();
    const auto so_far = [&one] { return seconds_since(one.child().start()); };
    if (seconds >= kFirstSeconds) {
        watch(kFirstSeconds - so_far());
        if (!one.values().empty()) {
            series.first_seconds = kFirstSeconds;
            series.first_mean = mean(one.values());
        }
    }
    watch(seconds - so_far());
    const auto has_begun = [&one] { return one.values().size() >= kFewest; };
    if (!has_begun()) watch(kMoreWarmUp, has_begun);
    if (!has_begun())
        one.stop_comparison(fmt::format(
            "printed {} positive number{} that --metric '{}' finds in its first {}", one.values().size(),
            one.values().size() == 1 ? "" : "s", comparison_.metric, duration_text(so_far())));
    one.keep_status();
    stop(one);
}

Sample Alternation::measure(std::size_t index) {
    Alternator& one = programs_[index];
    const GroupState before = look_at_group(one.child().group());
    one.forget_values();
    const auto start = Clock::now();
    one.child().signal(SIGCONT);
    watch(comparison_.alternate->slot);
    one.keep_status();
    stop(one);
    const double seconds = seconds_since(start);
    const GroupState after = look_at_group(one.child().group());
    const std::size_t printed = one.values().size();
    if (printed < kNotItsOwn + kFewest)
        one.stop_comparison(
            fmt::format("printed {} value{} in a slot of {:g} s, of which the first {} do not count, and it "
                        "takes {} that do: let it print more often or take longer slots (--slot)",
                        printed, printed == 1 ? "" : "s", comparison_.alternate->slot, kNotItsOwn, kFewest));
    const std::vector<double> counted(one.values().begin() + kNotItsOwn, one.values().end());
    return {mean(counted), seconds, after.cpu_seconds - before.cpu_seconds, after.max_rss_bytes};
}

// Lets things run for so long, or until `done`.
void Alternation::watch(double seconds, const std::function<bool()>& done) {
    const auto start = Clock::now();
    while (true) {
        look_at_all();
        if (done && done()) return;
        const double left = seconds - seconds_since(start);
        if (left <= 0) return;
        sleep_for(std::min(left, kLookSeconds));
    }
}

void Alternation::look_at_all() {
    for (Alternator& one : programs_) {
        one.listen();
        if (!one.ended()) continue;
        const ChildResult& result = one.child().result();
        if (result.end == ChildResult::End::not_started) one.stop_comparison(result.sentence());
        one.stop_comparison(result.good() ? "ended before the comparison did: give it more steps"
                                          : result.sentence() + " before the comparison did");
    }
    stop_if_interrupted();
}

void Alternation::stop(Alternator& one) {
    one.child().signal(SIGSTOP);
    const auto start = Clock::now();
    while (!look_at_group(one.child().group()).stopped) {
        if (seconds_since(start) > kStopSeconds) one.stop_comparison("does not stop (SIGSTOP)");
        sleep_for(0.001);
    }
    look_at_all();  // what it had printed until then
}

void Alternation::end_all() {
    const auto start = Clock::now();
    for (const Alternator& one : programs_) {
        one.child().signal(SIGTERM);
        one.child().signal(SIGCONT);
    }
    const auto left = [this] {
        bool some = false;
        for (Alternator& one : programs_) {
            one.child().read();  // so that what it says at its end does not hold it up
            one.child().result().output.clear();
            one.child().result().errors.clear();
            some = !one.ended() || some;
        }
        return some;
    };
    while (left() && seconds_since(start) < kGraceSeconds) sleep_for(kLookSeconds);
    programs_.clear();  // SIGKILL to what is left
}

}  // namespace corun::tools
