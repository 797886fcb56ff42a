// SPDX-License-Identifier: Apache-2.0
#include "shim/report.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "shim/budget_watch.h"
#include "shim/clock.h"
#include "shim/gate.h"
#include "shim/message.h"
#include "shim/node.h"
#include "shim/openmp_report.h"
#include "shim/process.h"
#include "shim/report_text.h"

namespace corun {
namespace {

using nlohmann::json;
using policy::Controller;
using policy::Phase;
using policy::Verdict;

json or_null(const std::optional<double>& value) {
    return value ? json(*value) : json();
}

const char* verdict_name(Verdict verdict) {
    switch (verdict) {
        case Verdict::undecided:
            return "undecided";
        case Verdict::gain:
            return "gain";
        case Verdict::neutral:
            return "neutral";
        case Verdict::no_gain:
            return "no gain";
        case Verdict::harm:
            return "harm";
    }
    return "?";
}

json command_line() {
    json words = json::array();
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    for (std::string word; std::getline(file, word, '\0') && words.size() < 64;)
        words.push_back(word.substr(0, 200));
    return words;
}

std::string utc(std::time_t now) {
    std::tm parts{};
    gmtime_r(&now, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

json budget_report() {
    const Budget budget = process_budget();
    json out = {{"cpus", budget.cpus},
                {"affinity", budget.affinity},
                {"quota", budget.quota > 0 ? json(budget.quota) : json()},
                {"share", budget.share > 0 ? json(budget.share) : json()},
                {"option", budget.option > 0 ? json(budget.option) : json()},
                {"limit", limit_name(budget.limit)}};
    BudgetChange changes[kBudgetChanges];
    out["changes"] = json::array();
    for (std::size_t i = 0, count = budget_changes(changes); i < count; ++i)
        out["changes"].push_back({{"seconds", changes[i].seconds},
                                  {"cpus", changes[i].cpus},
                                  {"limit", limit_name(changes[i].limit)}});
    const Pressure pressure = pressure_now();
    out["throttled"] = nullptr;
    if (pressure.throttling.periods > 0)
        out["throttled"] = {{"periods", pressure.throttling.periods},
                            {"throttled", pressure.throttling.throttled},
                            {"seconds", pressure.throttling.seconds}};
    out["steal_share"] = pressure.steal_share;
    return out;
}

void add_process(json& report, const DriverFigures& figures) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    report["program"] = command_line();
    report["pid"] = getpid();
    const double wall = clock_seconds();
    report["started"] = utc(std::time(nullptr) - static_cast<std::time_t>(wall));
    report["wall_seconds"] = wall;
    report["tuned_seconds"] = figures.seconds;
    report["cpu_seconds"] = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    report["max_rss_bytes"] = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
    report["budget"] = budget_report();
    report["irreversible"] = json::array();
    for (const LeverStory& lever : process_levers())
        report["irreversible"].push_back(
            {{"lever", lever.lever}, {"effect", lever.effect}, {"option", lever.option}});
    const NodeStory node = node_story();
    report["node"] = nullptr;
    if (node.most_peers > 0)
        report["node"] = {{"most_peers", node.most_peers},
                          {"shared_seconds", node.shared_seconds},
                          {"lent_seconds", node.lent_seconds}};
    report["sources"] = json::array();
    for (const SourceStory& source : process_sources()) {
        const auto index = static_cast<std::size_t>(source.source);
        report["sources"].push_back({{"name", source.name},
                                     {"state", source.state},
                                     {"version", source.version},
                                     {"reason", source.reason},
                                     {"levers", source.levers},
                                     {"ops", figures.ops[index]},
                                     {"async_ops", figures.async_ops[index]}});
    }
}

json phase_arms(const Controller& controller, const Phase& phase) {
    json arms = json::array();
    for (const auto& [arm, use] : phase.use()) {
        arms.push_back({{"name", controller.arms()[static_cast<std::size_t>(arm)].name},
                        {"seconds", use.seconds},
                        {"share", phase.seconds() > 0 ? use.seconds / phase.seconds() : 0.0},
                        {"race", use.race ? json(std::exp(*use.race)) : json()},
                        {"state", use.state}});
    }
    return arms;
}

json phase_report(const Controller& controller, const Phase& phase, double all_seconds) {
    json out;
    out["share"] = all_seconds > 0 ? phase.seconds() / all_seconds : 0.0;
    out["budget"] = controller.budget();
    out["state"] = policy::state_name(phase.state());
    out["arm"] = controller.arms()[static_cast<std::size_t>(phase.arm())].name;
    out["seconds_to_decision"] = or_null(phase.decided_after());
    out["anchor"] = phase.anchor() ? json(controller.op(*phase.anchor()).info.key()) : json();
    out["period_seconds"] = phase.period() > 0 ? json(phase.period()) : json();
    out["gain"] = nullptr;
    if (const auto gain = phase.gain()) {
        out["gain"] = {{"ratio", std::exp(gain->estimate)},
                       {"low", std::exp(gain->low)},
                       {"high", std::exp(gain->high)},
                       {"blocks", phase.guard() != nullptr ? phase.guard()->blocks() : 0},
                       {"verdict", verdict_name(phase.verdict())}};
    }
    out["explanation"] = controller.explain(phase);
    out["arms"] = phase_arms(controller, phase);
    out["windows"] = {{"used", phase.used()}, {"discarded", phase.discarded()}};
    return out;
}

json op_widths(const Controller& controller, model::OpId op) {
    json widths = json::array();
    const model::Curve* curve = controller.explorer().curve(op);
    if (curve == nullptr) return widths;
    const auto microseconds = [](const std::optional<double>& s) { return s ? json(*s * 1e6) : json(); };
    for (int width : policy::candidate_widths(controller.budget())) {
        if (curve->solo_count(width) + curve->beside_count(width) == 0) continue;
        widths.push_back({{"width", width},
                          {"solo_us", microseconds(curve->solo(width))},
                          {"beside_us", microseconds(curve->beside(width))},
                          {"samples", curve->solo_count(width)}});
    }
    return widths;
}

void add_phases(json& report, const Controller& controller, const DriverFigures& figures) {
    std::vector<std::pair<const Controller*, const Phase*>> phases;
    double all_seconds = 0.0;
    const std::vector<const Controller*> alone{&controller};
    for (const Controller* epoch : figures.epochs.empty() ? alone : figures.epochs) {
        for (const auto& phase : epoch->phases()) {
            phases.emplace_back(epoch, phase.get());
            all_seconds += phase->seconds();
        }
    }
    std::sort(phases.begin(), phases.end(),
              [](const auto& a, const auto& b) { return a.second->seconds() > b.second->seconds(); });
    report["phases"] = json::array();
    for (const auto& [epoch, phase] : phases)
        report["phases"].push_back(phase_report(*epoch, *phase, all_seconds));
}

void add_ops(json& report, const Controller& controller, const DriverFigures& figures) {
    std::vector<double> seconds(controller.op_count());
    for (model::OpId op = 0; op < seconds.size(); ++op)
        seconds[op] = figures.container[op]
                          ? 0.0
                          : controller.op(op).reference * static_cast<double>(figures.calls[op]);
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    std::vector<model::OpId> order(seconds.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](model::OpId a, model::OpId b) { return seconds[a] > seconds[b]; });
    if (order.size() > kReportOps) order.resize(kReportOps);
    const Phase* phase = controller.longest();
    report["ops"] = json::array();
    for (const model::OpId op : order) {
        if (seconds[op] <= 0.0) break;
        const policy::OpState& state = controller.op(op);
        report["ops"].push_back({{"name", state.info.kind},
                                 {"source", state.info.source},
                                 {"shapes", state.info.shapes},
                                 {"example", state.info.example},
                                 {"calls", figures.calls[op]},
                                 {"seconds", seconds[op]},
                                 {"share", all > 0 ? seconds[op] / all : 0.0},
                                 {"reference_us", state.reference * 1e6},
                                 {"widths", op_widths(controller, op)},
                                 {"chosen", phase != nullptr ? controller.width(op, *phase) : 0},
                                 {"why", phase != nullptr ? controller.explain_op(op, *phase) : ""}});
    }
    report["op_keys"] = controller.op_count();
    report["ops_listed"] = report["ops"].size();
    report["samples_dropped"] = figures.dropped;
    report["open_scopes"] = figures.open_scopes;
}

// The setting a user could make by hand that comes nearest to what was decided: the width that most of the
// work runs at, for all ops.
std::string setting_of(const std::string& source, int width, int budget) {
    if (source == "torch") return "torch.set_num_threads(" + std::to_string(width) + ") comes nearest";
    return "tf.config.threading.set_intra_op_parallelism_threads(" + std::to_string(width) +
           ") and set_inter_op_parallelism_threads(" + std::to_string(budget) + ") come nearest";
}

json static_setting(const Controller& controller) {
    const Phase* phase = controller.longest();
    if (phase == nullptr || !phase->decided_after()) return nullptr;
    const int budget = controller.budget();
    std::map<std::pair<std::string, int>, double> work;
    for (model::OpId op = 0; op < controller.op_count(); ++op) {
        const policy::OpState& state = controller.op(op);
        if (!state.info.container) work[{state.info.source, controller.width(op, *phase)}] += state.work;
    }
    const auto most = std::max_element(work.begin(), work.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == work.end()) return nullptr;
    const auto& [source, width] = most->first;
    const int intra = width == 0 ? budget : width;
    const std::string defaults = source == "torch" ? "PyTorch's default" : "TensorFlow's defaults";
    return {{"intra_op", intra},
            {"inter_op", budget},
            {"text",
             (phase->arm() == policy::kPassThrough ? defaults + " on the CPUs of the budget, i.e. " : "") +
                 setting_of(source, intra, budget) + "; if that is as fast, corun is not needed"}};
}

void add_gate(json& report) {
    if (process_options().is(OptionId::gate, "off")) return;
    const GateFigures gate = gate_figures();
    report["gate"] = {{"ops", gate.entered},     {"waited", gate.waited}, {"ran_out", gate.expired},
                      {"seconds", gate.seconds}, {"opened", gate.opened}, {"differences", gate.differences}};
}

std::string with_pid(std::string path) {
    const auto at = path.find("%p");
    if (at != std::string::npos) path.replace(at, 2, std::to_string(getpid()));
    return path;
}

}  // namespace

json report_make(const Controller& controller, const DriverFigures& figures) {
    json report;
    report["schema"] = "corun-report";
    report["version"] = kReportVersion;
    report["corun"] = CORUN_VERSION;
    report["mode"] = std::string(process_options()[OptionId::mode]);
    report["policy"] = std::string(process_options()[OptionId::policy]);
    add_process(report, figures);
    add_phases(report, controller, figures);
    add_ops(report, controller, figures);
    openmp_report(report);
    add_gate(report);
    report["static_setting"] = static_setting(controller);
    report["messages"] = messages_said();
    return report;
}

void report_write(const std::string& path, const Controller& controller, const DriverFigures& figures) {
    if (path.empty()) return;
    const std::string name = with_pid(path);
    const json report = report_make(controller, figures);
    const bool as_json = name.size() > 5 && name.compare(name.size() - 5, 5, ".json") == 0;
    const std::string text =
        as_json ? report.dump(1, ' ', false, json::error_handler_t::replace) + "\n" : render_report(report);
    const std::string temporary = name + ".tmp-" + std::to_string(getpid());
    {
        std::ofstream file(temporary, std::ios::binary);
        file << text;
        file.flush();
        if (!file) {
            std::remove(temporary.c_str());
            return message(Level::warning, ("the report could not be written to " + name +
                                            "; is the folder there and writable?")
                                               .c_str());
        }
    }
    if (std::rename(temporary.c_str(), name.c_str()) != 0) {
        std::remove(temporary.c_str());
        message(Level::warning, ("the report could not be written to " + name).c_str());
    }
}

}  // namespace corun
