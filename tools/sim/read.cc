// SPDX-License-Identifier: Apache-2.0
// Reads machine and graph files, and says what is wrong with one.
#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/sim/machine.h"

namespace corun::tools::sim {
namespace {

using nlohmann::json;

constexpr int kMostCores = 4096;
constexpr std::size_t kMostOps = 1'000'000;

struct Constant {
    const char* name;
    double Machine::*member;
    double least;
    double most;
};

constexpr std::array kConstants{
    Constant{"reference_core_gbs", &Machine::reference_core_gbs, 0.01, 1e5},
    Constant{"core_slowdown", &Machine::core_slowdown, 0.001, 1e4},
    Constant{"core_gbs", &Machine::core_gbs, 0.01, 1e5},
    Constant{"socket_gbs", &Machine::socket_gbs, 0.01, 1e6},
    Constant{"serial_share", &Machine::serial_share, 0.0, 1.0},
    Constant{"cache_share", &Machine::cache_share, 1.0, 100.0},
    Constant{"remote", &Machine::remote, 1.0, 100.0},
    Constant{"dispatch_us", &Machine::dispatch_us, 0.0, 1e6},
    Constant{"wake_us", &Machine::wake_us, 0.0, 1e6},
    Constant{"wake_per_thread_us", &Machine::wake_per_thread_us, 0.0, 1e6},
    Constant{"switch_us", &Machine::switch_us, 0.0, 1e6},
    Constant{"switch_per_thread_us", &Machine::switch_per_thread_us, 0.0, 1e6},
    Constant{"oversubscribed", &Machine::oversubscribed, 0.0, 100.0},
    Constant{"noise", &Machine::noise, 0.0, 2.0},
};

const Constant& constant(const std::string& name) {
    std::string known;
    for (const Constant& each : kConstants) {
        if (name == each.name) return each;
        known += known.empty() ? each.name : fmt::format(", {}", each.name);
    }
    throw std::runtime_error(fmt::format("there is no constant '{}'; there are: {}", name, known));
}

std::string read_text(const std::string& path) {
    errno = 0;
    gzFile file = gzopen(path.c_str(), "rb");  // passes through what is not compressed
    if (file == nullptr) throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
    std::string text;
    std::array<char, 1 << 16> buffer{};
    int got = 0;
    while ((got = gzread(file, buffer.data(), buffer.size())) > 0)
        text.append(buffer.data(), static_cast<std::size_t>(got));
    const bool damaged = got < 0;
    gzclose(file);
    if (damaged)
        throw std::runtime_error(fmt::format("{}: cannot be read, or its compression is damaged", path));
    return text;
}

json read_json(const std::string& path, const std::string& schema, const char* hint) {
    json content = json::parse(read_text(path), nullptr, false);
    if (content.is_discarded()) throw std::runtime_error(fmt::format("{}: is no JSON; {}", path, hint));
    if (!content.is_object() || !content.contains("schema") || content["schema"] != schema)
        throw std::runtime_error(fmt::format("{}: has no \"schema\": \"{}\"; {}", path, schema, hint));
    if (!content.contains("version") || content["version"] != 1)
        throw std::runtime_error(fmt::format("{}: is of another version than 1, the only one known", path));
    return content;
}

// Everything below reports what is wrong by these.
[[noreturn]] void wrong(const std::string& what) {
    throw std::runtime_error(what);
}

int whole(const json& object, const char* name, int fallback, int least, int most) {
    if (!object.contains(name) && fallback >= least) return fallback;
    const json value = object.contains(name) ? object[name] : json();
    if (!value.is_number_integer() || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
        wrong(fmt::format("\"{}\" must be a whole number from {} to {}", name, least, most));
    return value.get<int>();
}

std::string text(const json& object, const char* name) {
    if (!object.contains(name)) return "";
    if (!object[name].is_string()) wrong(fmt::format("\"{}\" must be a text", name));
    return object[name].get<std::string>();
}

double number(const json& object, const char* name) {
    if (!object.contains(name)) return 0.0;
    if (!object[name].is_number()) wrong(fmt::format("\"{}\" must be a number", name));
    const double value = object[name].get<double>();
    if (!std::isfinite(value) || value < 0.0) wrong(fmt::format("\"{}\" must be 0 or more", name));
    return value;
}

Machine machine_of(const json& content) {
    Machine machine;
    machine.name = text(content, "name");
    machine.about = text(content, "about");
    machine.cores = whole(content, "cores", 0, 1, kMostCores);
    machine.sockets = whole(content, "sockets", 1, 1, machine.cores);
    if (machine.cores % machine.sockets != 0) wrong("\"cores\" must be a multiple of \"sockets\"");
    machine.cores_per_cache = whole(content, "cores_per_cache", 1, 1, machine.cores / machine.sockets);
    if (content.contains("smt_yield")) {
        const json& yields = content["smt_yield"];
        if (!yields.is_array() || yields.empty() || yields.size() > 8 || yields[0] != 1.0)
            wrong("\"smt_yield\" must be a list that begins with 1, one number a hardware thread of a core");
        machine.smt_yield.clear();
        for (const json& yield : yields) {
            if (!yield.is_number() || !(yield.get<double>() > 0.0))
                wrong("\"smt_yield\" must hold numbers above 0");
            machine.smt_yield.push_back(yield.get<double>());
        }
    }
    if (content.contains("as_measured")) {
        if (!content["as_measured"].is_boolean()) wrong("\"as_measured\" must be true or false");
        machine.as_measured = content["as_measured"].get<bool>();
    }
    const json none = json::object();
    const json& constants = content.contains("constants") ? content["constants"] : none;
    if (!constants.is_object()) wrong("\"constants\" must be an object");
    for (const auto& [name, value] : constants.items()) {
        const json& held = value.is_object() && value.contains("value") ? value["value"] : value;
        if (!held.is_number()) wrong(fmt::format("constant \"{}\" must be a number", name));
        machine.set(name, held.get<double>());
        if (value.is_object() && value.value("source", "") == "assumed") machine.assumed.push_back(name);
    }
    return machine;
}

GraphKey key_of(const json& content) {
    if (!content.is_object()) wrong("each of \"keys\" must be an object");
    GraphKey key;
    key.type = text(content, "type");
    key.shapes = text(content, "shapes");
    key.bytes = number(content, "bytes");
    key.flops = number(content, "flops");
    key.parts = whole(content, "parts", 1, 1, 1 << 30);
    if (!content.contains("seconds") || !content["seconds"].is_object())
        wrong(fmt::format("key {} has no \"seconds\"; export the graph with its times", key.type));
    for (const auto& [width, seconds] : content["seconds"].items()) {
        const int n = std::atoi(width.c_str());
        if (n < 1 || n > kMostCores || std::to_string(n) != width)
            wrong(fmt::format("key {}: '{}' is no width", key.type, width));
        if (!seconds.is_number() || !(seconds.get<double>() > 0.0))
            wrong(fmt::format("key {}: the seconds at width {} must be above 0", key.type, width));
        if (key.seconds.size() < static_cast<std::size_t>(n)) key.seconds.resize(static_cast<std::size_t>(n));
        key.seconds[static_cast<std::size_t>(n) - 1] = seconds.get<double>();
    }
    if (key.seconds.empty() || !(key.seconds[0] > 0.0))
        wrong(fmt::format("key {} was not measured at width 1", key.type));
    return key;
}

Graph graph_of(const json& content) {
    Graph graph;
    graph.name = text(content, "name");
    for (const char* list : {"keys", "ops"}) {
        if (!content.contains(list) || !content[list].is_array() || content[list].empty())
            wrong(fmt::format("\"{}\" must be a list that is not empty", list));
    }
    for (const json& key : content["keys"]) graph.keys.push_back(key_of(key));
    if (content["ops"].size() > kMostOps) wrong("it has more than a million ops");
    for (const json& op : content["ops"]) {
        const std::size_t number = graph.ops.size();
        if (!op.is_array() || op.size() != 2 || !op[0].is_number_unsigned() || !op[1].is_array())
            wrong(fmt::format("op {} must be [key, [ops that it waits for]]", number));
        if (op[0].get<std::size_t>() >= graph.keys.size())
            wrong(fmt::format("op {} has key {}, and there are {}", number, op[0].dump(), graph.keys.size()));
        std::vector<policy::OpIndex> sources;
        for (const json& source : op[1]) {
            if (!source.is_number_unsigned() || source.get<std::size_t>() >= number)
                wrong(
                    fmt::format("op {} waits for {}, which does not come before it", number, source.dump()));
            sources.push_back(source.get<policy::OpIndex>());
        }
        graph.ops.push_back(op[0].get<policy::KeyIndex>());
        graph.sources.push_back(std::move(sources));
    }
    if (content.contains("names") && content["names"].is_array() &&
        content["names"].size() == graph.ops.size()) {
        for (const json& name : content["names"])
            graph.names.push_back(name.is_string() ? name.get<std::string>() : "");
    }
    return graph;
}

}  // namespace

void Machine::set(const std::string& name, double value) {
    const Constant& found = constant(name);
    if (!std::isfinite(value) || value < found.least || value > found.most)
        throw std::runtime_error(
            fmt::format("{} must be from {:g} to {:g}, not {:g}", name, found.least, found.most, value));
    this->*found.member = value;
}

double Machine::get(const std::string& name) const {
    return this->*constant(name).member;
}

Machine read_machine(const std::string& path) {
    const json content = read_json(path, "corun-machine", "tests/machines/ has examples of machine files");
    try {
        return machine_of(content);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("{}: {}", path, error.what()));
    }
}

Graph read_graph(const std::string& path) {
    const json content =
        read_json(path, "corun-graph", "tools/graph/export.py makes one from a training step");
    try {
        return graph_of(content);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(fmt::format("{}: {}", path, error.what()));
    }
}

}  // namespace corun::tools::sim
