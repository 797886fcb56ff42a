// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace corun::tools::sim {
namespace {

constexpr double kWidth = 1200.0;
constexpr double kLeft = 40.0;
constexpr double kTop = 60.0;
constexpr int kLegend = 12;  // kinds of op that are named

void write_text(const std::string& path, const std::string& text) {
    errno = 0;
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file) throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
}

std::string escaped(const std::string& text) {
    std::string safe;
    for (const char c : text) {
        if (c == '<')
            safe += "&lt;";
        else if (c == '&')
            safe += "&amp;";
        else
            safe += c;
    }
    return safe;
}

const std::string& type_of(const Graph& graph, const Executed& each) {
    return graph.keys[graph.ops[each.op]].type;
}

std::string name_of(const Graph& graph, const Executed& each) {
    return graph.names.empty() ? fmt::format("op {}", each.op) : graph.names[each.op];
}

// The kinds that take most core time get a colour of their own, all others are grey.
std::map<std::string, std::string> colours(const Graph& graph, const std::vector<Executed>& ops,
                                           std::vector<std::string>& order) {
    std::map<std::string, double> area;
    for (const Executed& each : ops)
        area[type_of(graph, each)] += (each.end - each.begin) * static_cast<double>(each.cores.size());
    for (const auto& [type, seconds] : area) order.push_back(type);
    std::sort(order.begin(), order.end(),
              [&](const std::string& a, const std::string& b) { return area[a] > area[b]; });
    order.resize(std::min<std::size_t>(order.size(), kLegend));
    std::map<std::string, std::string> result;
    for (std::size_t i = 0; i < order.size(); ++i)
        result[order[i]] = fmt::format("hsl({},65%,{}%)", i * 137 % 360, i % 2 == 0 ? 50 : 65);
    return result;
}

}  // namespace

void write_gantt(const std::string& path, const Graph& graph, const Machine& machine,
                 const std::vector<Executed>& ops, const std::string& title) {
    double length = 0.0;
    for (const Executed& each : ops) length = std::max(length, each.end);
    const double row = machine.cores > 16 ? 8.0 : 24.0;
    const double scale = (kWidth - kLeft - 10.0) / std::max(length, 1e-12);
    const double height = kTop + row * machine.cores + 40.0;
    std::vector<std::string> order;
    const auto colour = colours(graph, ops, order);
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
        "font-family=\"sans-serif\" "
        "font-size=\"11\">\n<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"white\"/>\n<text x=\"{2:g}\" "
        "y=\"16\" "
        "font-size=\"13\">{3}</text>\n",
        kWidth, height, kLeft, escaped(title));
    for (std::size_t i = 0; i < order.size(); ++i) {
        const double x = kLeft + 190.0 * static_cast<double>(i % 6);
        const double y = 24.0 + 14.0 * static_cast<double>(i / 6);
        text += fmt::format(
            "<rect x=\"{:g}\" y=\"{:g}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:g}\" "
            "y=\"{:g}\">{}</text>\n",
            x, y, colour.at(order[i]), x + 14.0, y + 9.0, escaped(order[i].substr(0, 26)));
    }
    for (const Executed& each : ops) {
        const auto found = colour.find(type_of(graph, each));
        const std::string& fill = found == colour.end() ? "#bbb" : found->second;
        for (std::size_t i = 0; i < each.cores.size();) {
            std::size_t last = i;  // a run of cores is one rectangle
            while (last + 1 < each.cores.size() && each.cores[last + 1] == each.cores[last] + 1) ++last;
            text += fmt::format(
                "<rect x=\"{:.2f}\" y=\"{:g}\" width=\"{:.2f}\" height=\"{:g}\" fill=\"{}\"{}><title>{} "
                "({}), {} "
                "threads, {:.1f} us</title></rect>\n",
                kLeft + each.begin * scale, kTop + row * each.cores[i] + (each.siblings ? row / 2.0 : 0.0),
                std::max(0.05, (each.end - each.begin) * scale),
                row * static_cast<double>(last - i + 1) * (each.siblings ? 0.5 : 1.0), fill,
                each.siblings ? " fill-opacity=\"0.8\" stroke=\"black\" stroke-width=\"0.2\"" : "",
                escaped(name_of(graph, each)), escaped(type_of(graph, each)), each.width,
                1e6 * (each.end - each.begin));
            i = last + 1;
        }
    }
    const double bottom = kTop + row * machine.cores + 14.0;
    for (int tick = 0; tick <= 10; ++tick)
        text += fmt::format("<text x=\"{:.1f}\" y=\"{:g}\" text-anchor=\"middle\">{:.3g} ms</text>\n",
                            kLeft + length * scale * tick / 10.0, bottom, 1e3 * length * tick / 10.0);
    write_text(path, text + "</svg>\n");
}

void write_trace(const std::string& path, const Graph& graph, const std::vector<Executed>& ops) {
    nlohmann::json events = nlohmann::json::array();
    std::map<double, int> busy;
    for (const Executed& each : ops) {
        events.push_back({{"ph", "X"},
                          {"pid", 1},
                          {"tid", each.slot},
                          {"ts", 1e6 * each.begin},
                          {"dur", 1e6 * (each.end - each.begin)},
                          {"name", type_of(graph, each)},
                          {"args",
                           {{"op", name_of(graph, each)},
                            {"shapes", graph.keys[graph.ops[each.op]].shapes},
                            {"width", each.width},
                            {"siblings", each.siblings},
                            {"cores", each.cores}}}});
        busy[each.begin] += static_cast<int>(each.cores.size());
        busy[each.end] -= static_cast<int>(each.cores.size());
    }
    int threads = 0;
    for (const auto& [time, change] : busy) {
        threads += change;
        events.push_back({{"ph", "C"},
                          {"pid", 1},
                          {"ts", 1e6 * time},
                          {"name", "busy threads"},
                          {"args", {{"threads", threads}}}});
    }
    write_text(path, nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump() + "\n");
}

}  // namespace corun::tools::sim
