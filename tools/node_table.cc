// SPDX-License-Identifier: Apache-2.0
#include "tools/node_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>

namespace corun::tools {
namespace {

// No escape sequences from elsewhere.
std::string printable(const char* text) {
    std::string clean(text);
    for (char& c : clean)
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
    return clean;
}

std::string count_text(double value) {
    if (value >= 999950.0) return fmt::format("{:.1f}M", value / 1e6);
    if (value >= 9999.5) return fmt::format("{:.1f}k", value / 1e3);
    return fmt::format("{:.0f}", value);
}

}  // namespace

NodeTable NodeObserver::look(double now, const std::vector<NodeSlot>& slots, int cpus, double busy) {
    NodeTable table;
    table.cpus = cpus;
    double used = 0.0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const NodeSlot& slot = slots[i];
        NodeRow row;
        row.visible = slot.pid_space == space_ && space_ != 0;
        ProcessTimes times;
        if (row.visible && process_state(slot.pid, slot.start_time, times) != ProcessState::there) continue;
        Seen& seen = seen_[slot.nonce];
        const double cpu_before = seen.cpu_seconds;
        const double looked_before = seen.looked;
        if (seen.looked == 0.0 || seen.beat != slot.beat) seen.beat = slot.beat, seen.moved = now;
        seen.looked = now;
        row.use = slot.use;
        if (row.visible) {
            if (cpu_before >= 0.0 && now > looked_before)
                row.use = std::max(0.0, times.cpu_seconds - cpu_before) / (now - looked_before);
            seen.cpu_seconds = times.cpu_seconds;
        }
        const bool still = now - seen.moved >= policy::kNodeIdle;
        // Another namespace's that has stood still for long has most likely ended.
        if (!row.visible && now - seen.moved > 2.0 * policy::kNodeIdleMost) continue;
        if (still && !row.visible) row.use = 0.0;
        const bool idle = still && row.use < policy::kNodeBusy;
        used += row.use;
        row.pid = slot.pid;
        row.program = printable(slot.program);
        row.weight = slot.weight;
        row.share = idle ? 0.0 : slot.share;
        row.ops = still ? 0.0 : slot.ops;
        if (slot.gain > 0.0F) row.gain = slot.gain;
        row.state = idle ? "idle" : printable(slot.state);
        row.arm = printable(slot.arm);
        row.slot = static_cast<int>(i);
        table.rows.push_back(std::move(row));
    }
    std::erase_if(seen_, [&](const auto& entry) { return entry.second.looked < now; });
    if (looked_ >= 0.0 && now > looked_)
        table.others = std::max(0.0, (busy - busy_) / (now - looked_) - used);
    looked_ = now;
    busy_ = busy;
    std::stable_sort(table.rows.begin(), table.rows.end(),
                     [](const NodeRow& a, const NodeRow& b) { return a.use > b.use + 0.05; });
    return table;
}

std::vector<NodeSlot> read_node(const std::string& folder, bool must_be_there) {
    const NodeFile file(folder.c_str(), false);
    if (file.state() == NodeState::refused)
        throw std::runtime_error(std::string(file.problem()) + "; remove it");
    if (file.state() == NodeState::none) {
        if (!must_be_there) return {};
        throw std::runtime_error(
            fmt::format("no program of yours shares this machine ({} is not there); start programs with "
                        "`corun run --node=auto`",
                        file.path()));
    }
    const auto slots = std::make_unique<std::array<NodeSlot, kNodeSlots>>();
    const std::size_t count = file.read(*slots);
    std::vector<NodeSlot> held;
    for (std::size_t i = 0; i < count; ++i)
        if (node_slot_holds((*slots)[i])) held.push_back((*slots)[i]);
    return held;
}

std::string render_node(const NodeTable& table, const std::string& time, int columns) {
    std::string text =
        fmt::format("corun top - {}, {} CPUs, {} program{} of yours; all others use {:.1f} CPUs\n\n", time,
                    table.cpus, table.rows.size(), table.rows.size() == 1 ? "" : "s", table.others);
    text += fmt::format("{:>8} {:>6} {:>6} {:>6} {:>8} {:>6}  {:<10} {:<14} {}\n", "PID", "WEIGHT", "SHARE",
                        "USE", "OPS/S", "GAIN", "STATE", "ARM", "PROGRAM");
    for (const NodeRow& row : table.rows)
        text += fmt::format("{:>8} {:>6.3g} {:>6.2f} {:>6.2f} {:>8} {:>6}  {:<10} {:<14} {}\n",
                            (row.visible ? "" : "~") + std::to_string(row.pid), row.weight, row.share,
                            row.use, count_text(row.ops), row.gain ? fmt::format("{:.2f}", *row.gain) : "-",
                            row.state, row.arm.empty() ? "-" : row.arm, row.program);
    if (columns <= 0) return text;
    std::string cut;
    std::size_t length = 0;
    for (const char c : text) {
        length = c == '\n' ? 0 : length + 1;
        if (c == '\n' || length <= static_cast<std::size_t>(columns)) cut += c;
    }
    return cut;
}

nlohmann::ordered_json node_json(const NodeTable& table) {
    nlohmann::ordered_json all;
    all["schema"] = "corun-top";
    all["version"] = 1;
    all["cpus"] = table.cpus;
    all["others_use"] = table.others;
    all["programs"] = nlohmann::ordered_json::array();
    for (const NodeRow& row : table.rows)
        all["programs"].push_back({{"pid", row.pid},
                                   {"visible", row.visible},
                                   {"program", row.program},
                                   {"weight", row.weight},
                                   {"share", row.share},
                                   {"use", row.use},
                                   {"ops_per_second", row.ops},
                                   {"gain", row.gain ? nlohmann::ordered_json(*row.gain) : nullptr},
                                   {"state", row.state},
                                   {"arm", row.arm}});
    return all;
}

}  // namespace corun::tools
