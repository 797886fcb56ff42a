// SPDX-License-Identifier: Apache-2.0
// corun sim: a step graph on a described machine under a strategy.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/sim/learn.h"
#include "tools/sim/output.h"
#include "tools/sim/simulator.h"

namespace corun::tools {
namespace {

using nlohmann::json;
using sim::Graph;
using sim::Machine;

constexpr char kPolicies[] =
    "grid (with --inter and --intra), recommended (one op at a time on all cores), default (as many ops and "
    "threads as hardware threads), s1, s2, s3, s4 (each with those before), s2-alone, s3-alone, s4-alone, "
    "s1+s3, "
    "idle, price, price+s4, price-<lambda>, cpa, mcpa, heft, uniform-<n>";

struct SimArguments {
    std::string machine;
    std::string graph;
    std::string policy;
    int inter = 0;
    int intra = 0;
    int steps = 20;
    std::string model = "fitted";
    std::uint64_t seed = 1;
    std::vector<std::string> set;
    std::string svg;
    std::string trace;
    std::string json;
    std::string costs;
};

void apply_settings(Machine& machine, const std::vector<std::string>& settings) {
    for (const std::string& setting : settings) {
        const auto equals = setting.find('=');
        const std::string name = setting.substr(0, equals);
        const bool factor =
            equals != std::string::npos && setting.size() > equals + 1 && setting[equals + 1] == 'x';
        char* end = nullptr;
        const char* digits = equals == std::string::npos ? "" : setting.c_str() + equals + (factor ? 2 : 1);
        const double value = std::strtod(digits, &end);
        if (end == digits || *end != '\0')
            throw UsageError(fmt::format("--set {}: NAME=NUMBER or NAME=xFACTOR was expected", setting));
        machine.set(name, factor ? machine.get(name) * value : value);
    }
}

std::unique_ptr<policy::Strategy> strategy_of(const SimArguments& arguments, const Machine& machine,
                                              const policy::TaskGraph& tasks,
                                              const policy::CostTable& costs) {
    if (arguments.policy == "recommended") return policy::make_grid(1, machine.cores);
    if (arguments.policy == "default")
        return policy::make_grid(machine.hardware_threads(), machine.hardware_threads());
    if (arguments.policy == "grid") {
        if (arguments.inter < 1 || arguments.intra < 1)
            throw UsageError("--policy grid needs --inter N and --intra M of 1 or more");
        return policy::make_grid(arguments.inter, arguments.intra);
    }
    auto strategy = policy::strategy_by_name(arguments.policy, tasks, costs, machine.cores);
    if (!strategy)
        throw UsageError(fmt::format("there is no policy '{}'; there are: {}", arguments.policy, kPolicies));
    return strategy;
}

struct Summary {
    double mean = 0.0;
    double deviation = 0.0;
    double busy = 0.0;
    int most_at_once = 0;
};

Summary simulate(sim::Simulator& simulator, policy::Strategy& strategy, int steps,
                 std::vector<sim::Executed>* last) {
    Summary summary;
    double squares = 0.0;
    for (int step = 0; step < steps; ++step) {
        if (last != nullptr) last->clear();
        const sim::StepResult result = simulator.run(strategy, step + 1 == steps ? last : nullptr);
        const double before = summary.mean;
        summary.mean += (result.seconds - before) / (step + 1);
        squares += (result.seconds - before) * (result.seconds - summary.mean);
        summary.busy += result.busy / result.seconds;
        summary.most_at_once = std::max(summary.most_at_once, result.most_at_once);
    }
    summary.deviation = steps > 1 ? std::sqrt(squares / (steps - 1)) : 0.0;
    summary.busy /= steps;
    return summary;
}

// True solo costs, of which bounds and other tools are made.
json costs_json(const Machine& machine, const Graph& graph) {
    json keys = json::array();
    for (const sim::GraphKey& key : graph.keys) {
        json seconds = json::array();
        for (int width = 1; width <= machine.cores; ++width) {
            const bool fits = width <= machine.topology().caches();
            seconds.push_back(solo_seconds(machine, key, width,
                                           fits ? model::Placement::spread : model::Placement::compact));
        }
        keys.push_back({{"type", key.type}, {"shapes", key.shapes}, {"seconds", seconds}});
    }
    return {{"schema", "corun-costs"},
            {"version", 1},
            {"cores", machine.cores},
            {"capacity", machine.capacity()},
            {"keys", keys},
            {"ops", [&] {
                 json ops = json::array();
                 for (std::size_t op = 0; op < graph.ops.size(); ++op)
                     ops.push_back({graph.ops[op], graph.sources[op]});
                 return ops;
             }()}};
}

void write_json(const std::string& path, const json& content) {
    if (path == "-") {
        std::cout << content.dump() << '\n';
        return;
    }
    errno = 0;
    std::ofstream file(path);
    file << content.dump() << '\n';
    file.close();
    if (!file) throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
}

int run_sim(const SimArguments& arguments) {
    Machine machine = sim::read_machine(arguments.machine);
    apply_settings(machine, arguments.set);
    const Graph graph = sim::read_graph(arguments.graph);
    const policy::TaskGraph tasks(graph.ops, graph.sources);
    sim::Learned learned = sim::learn(machine, graph, arguments.model, arguments.seed);
    const sim::Learned exact = sim::learn(machine, graph, "exact", 0);
    const policy::Bounds bounds = policy::lower_bounds(tasks, exact.table, machine.capacity());
    double bandwidth = 0.0;  // seconds that the memory needs to deliver it all
    for (const policy::KeyIndex key : graph.ops)
        bandwidth +=
            cost_parts(machine, graph.keys[key], 1).bytes * 1e-9 / (machine.socket_gbs * machine.sockets);
    const auto strategy = strategy_of(arguments, machine, tasks, learned.table);
    sim::Simulator simulator(machine, graph, tasks, learned.table, std::move(learned.spread), arguments.seed);
    std::vector<sim::Executed> ops;
    const bool pictures = !arguments.svg.empty() || !arguments.trace.empty();
    const Summary summary = simulate(simulator, *strategy, arguments.steps, pictures ? &ops : nullptr);
    const double utilisation = summary.busy / machine.cores;
    const std::string policy = arguments.policy == "grid"
                                   ? fmt::format("({}, {})", arguments.inter, arguments.intra)
                                   : arguments.policy;
    const std::string title = fmt::format("simulated: {} on {}, {}: {:.3f} ms a step", graph.name,
                                          machine.name, policy, 1e3 * summary.mean);
    if (!arguments.svg.empty()) sim::write_gantt(arguments.svg, graph, machine, ops, title);
    if (!arguments.trace.empty()) sim::write_trace(arguments.trace, graph, ops);
    if (!arguments.costs.empty()) write_json(arguments.costs, costs_json(machine, graph));
    if (!arguments.json.empty()) {
        write_json(arguments.json, {{"schema", "corun-simulation"},
                                    {"version", 1},
                                    {"simulated", true},
                                    {"machine", machine.name},
                                    {"graph", graph.name},
                                    {"policy", arguments.policy},
                                    {"inter", arguments.inter},
                                    {"intra", arguments.intra},
                                    {"model", arguments.model},
                                    {"samples", learned.samples},
                                    {"steps", arguments.steps},
                                    {"seconds", summary.mean},
                                    {"deviation", summary.deviation},
                                    {"utilisation", utilisation},
                                    {"most_at_once", summary.most_at_once},
                                    {"critical_path", bounds.critical_path},
                                    {"area", bounds.area},
                                    {"memory", bandwidth},
                                    {"assumed", machine.assumed}});
        if (arguments.json == "-") return 0;
    }
    fmt::print("simulated         {} ({} ops a step) on {}, policy {}\n", graph.name, graph.ops.size(),
               machine.name, policy);
    fmt::print("step              {:.3f} ms, standard deviation {:.3f} over {} steps\n", 1e3 * summary.mean,
               1e3 * summary.deviation, arguments.steps);
    fmt::print("cores busy        {:.1f} % of {}, at most {} ops at once\n", 100.0 * utilisation,
               machine.cores, summary.most_at_once);
    fmt::print("no schedule beats {:.3f} ms (critical path {:.3f}, area {:.3f}, memory {:.3f})\n",
               1e3 * std::max({bounds.critical_path, bounds.area, bandwidth}), 1e3 * bounds.critical_path,
               1e3 * bounds.area, 1e3 * bandwidth);
    fmt::print("costs known from  {} ({} samples of {} kinds of ops)\n", arguments.model, learned.samples,
               graph.keys.size());
    return 0;
}

}  // namespace

Subcommand add_sim(CLI::App& parent) {
    CLI::App* app = parent.add_subcommand("sim", "simulate a step graph on a machine that is not here");
    auto arguments = std::make_shared<SimArguments>();
    app->add_option("--machine", arguments->machine, "machine file, see tests/machines/")->required();
    app->add_option("--graph", arguments->graph, "graph file of tools/graph/export.py")->required();
    app->add_option("--policy", arguments->policy, kPolicies)->required();
    app->add_option("--inter", arguments->inter, "ops at once, for --policy grid");
    app->add_option("--intra", arguments->intra, "threads of each, for --policy grid");
    app->add_option("--steps", arguments->steps, "steps [20]")->check(CLI::Range(1, 10'000'000));
    app->add_option("--model", arguments->model,
                    "how the policy knows the costs: exact, fitted, active, step-<x> [fitted]");
    app->add_option("--seed", arguments->seed, "of the noise [1]");
    app->add_option("--set", arguments->set, "change a constant of the machine: NAME=NUMBER or NAME=xFACTOR");
    app->add_option("--svg", arguments->svg, "write a Gantt chart of the last step");
    app->add_option("--trace", arguments->trace, "write the last step for Perfetto (ui.perfetto.dev)");
    app->add_option("--json", arguments->json, "write the result as JSON; - is stdout");
    app->add_option("--costs", arguments->costs, "write what each op costs at each width as JSON");
    return {app, false, [arguments](const Words&) { return run_sim(*arguments); }};
}

}  // namespace corun::tools
