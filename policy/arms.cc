// SPDX-License-Identifier: Apache-2.0
#include "policy/arms.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace corun::policy {
namespace {

constexpr std::array<double, 4> kPrices{0.01, 0.05, 0.2, 1.0};  // 0 is S1

std::string number_name(const char* prefix, double value) {
    char text[48];
    std::snprintf(text, sizeof text, "%s-%g", prefix, value);
    return text;
}

// What comes behind `prefix`; nothing where `name` does not begin with it.
std::string text_after(const std::string& name, const std::string& prefix) {
    return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : std::string();
}

WidthRow everywhere(int width) {
    WidthRow row{};
    row.fill(static_cast<std::uint16_t>(width));
    return row;
}

// The width of lowest T(n) (1 + lambda n) among those that are known; 0 when fewer than two are.
int cheapest(const OpView& op, const std::vector<int>& widths, double lambda) {
    int best = 0;
    int known = 0;
    double lowest = 0.0;
    for (int width : widths) {
        const auto seconds = op.seconds(width);
        if (!seconds) continue;
        const double price = *seconds * (1.0 + lambda * width);
        if (known++ == 0 || price < lowest) lowest = price, best = width;
    }
    return known >= 2 ? best : 0;
}

// For every bucket the best of the widths that fit into the idle CPUs. With one CPU idle (or none: the op has
// to run, and running narrow disturbs least) that is 1.
WidthRow idle_row(const OpView& op, const std::vector<int>& widths) {
    WidthRow row{};
    if (cheapest(op, widths, 0.0) == 0) return row;
    for (std::size_t bucket = 0; bucket < kIdleBuckets; ++bucket) {
        std::vector<int> fitting;
        for (int width : widths)
            if (width <= (1 << bucket) || (bucket + 1 == kIdleBuckets)) fitting.push_back(width);
        // A budget that is no power of two: its widest choice belongs to the bucket below it.
        if (fitting.size() + 1 == widths.size() && (2 << bucket) > widths.back()) fitting = widths;
        // Fewer than two of them may have been measured: then what lies between measured ones is good enough.
        const int guess = std::max(cheapest(op, fitting, 0.0), fitting.front());
        row[bucket] = static_cast<std::uint16_t>(op.optimum(fitting).value_or(guess));
    }
    return row;
}

}  // namespace

std::optional<double> number_after(const std::string& name, const std::string& prefix) {
    const std::string text = text_after(name, prefix);
    if (text.empty()) return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (*end != '\0' || !(value >= 0.0)) return std::nullopt;
    return value;
}

std::vector<int> candidate_widths(int budget) {
    std::vector<int> widths;
    for (int width = 1; width < budget; width *= 2) widths.push_back(width);
    widths.push_back(std::max(budget, 1));
    return widths;
}

std::vector<int> mixed_widths(int budget, bool coarse) {
    std::vector<int> widths = candidate_widths(budget);
    if (coarse && widths.size() > 2) widths.erase(widths.begin() + 1, widths.end() - 1);
    return widths;
}

std::vector<Arm> race_arms(int budget, GateMode gate) {
    std::vector<Arm> arms{Arm{}};
    if (gate == GateMode::alone && budget > 1) {
        for (const char* name : {"gate-s1", "gate-s3", "gate-idle", "gate-price-0.05"})
            arms.push_back(*arm_by_name(name, budget));
        return arms;
    }
    const std::vector<int> widths = candidate_widths(budget);
    for (std::size_t i = 0; i + 1 < widths.size() && i < 6; ++i)
        arms.push_back({ArmKind::uniform, static_cast<double>(widths[i]), number_name("uniform", widths[i])});
    if (budget < 2) return arms;
    arms.push_back({ArmKind::optimum, 0.0, "s1"});
    arms.push_back({ArmKind::by_type, 0.0, "s2"});
    arms.push_back({ArmKind::idle, 0.0, "idle"});
    for (double lambda : kPrices) arms.push_back({ArmKind::price, lambda, number_name("price", lambda)});
    for (const char* name : {"gate-s1", "gate-idle"})
        if (gate == GateMode::beside) arms.push_back(*arm_by_name(name, budget));
    arms.resize(std::min(arms.size(), kArmSlots));
    return arms;
}

std::optional<Arm> arm_by_name(const std::string& name, int budget) {
    if (const std::string gated = text_after(name, "gate-"); !gated.empty()) {
        const bool of_types = gated == "s3";  // its widths are S2's
        auto arm = arm_by_name(of_types ? "s2" : gated, budget);
        if (!arm || !arm->needs_curves() || !arm->gate.empty()) return std::nullopt;
        arm->gate = of_types ? gated : arm->name;
        arm->name = "gate-" + arm->gate;
        return arm;
    }
    if (name == "pass-through") return Arm{};
    if (name == "s1") return Arm{ArmKind::optimum, 0.0, name};
    if (name == "s2") return Arm{ArmKind::by_type, 0.0, name};
    if (name == "idle") return Arm{ArmKind::idle, 0.0, name};
    if (name == "random") return Arm{ArmKind::random, 0.0, name};
    if (name == "replay") return Arm{ArmKind::replay, 0.0, name};
    if (auto lambda = number_after(name, "price-"))
        return Arm{ArmKind::price, *lambda, number_name("price", *lambda)};
    if (auto width = number_after(name, "uniform-")) {
        const double k = std::clamp(std::floor(*width), 1.0, static_cast<double>(std::max(budget, 1)));
        return Arm{ArmKind::uniform, k, number_name("uniform", k)};
    }
    return std::nullopt;
}

WidthRow width_row(const Arm& arm, const OpView& op, int budget, bool coarse) {
    const std::vector<int> widths = mixed_widths(budget, coarse);
    WidthRow row{};
    switch (arm.kind) {
        case ArmKind::pass_through:
        case ArmKind::random:
            break;
        case ArmKind::uniform:
            row = everywhere(static_cast<int>(arm.value));
            break;
        case ArmKind::optimum:
            row = everywhere(op.optimum(widths).value_or(0));
            break;
        case ArmKind::by_type:
            row = everywhere(op.type_optimum.value_or(0));
            break;
        case ArmKind::price:
            row = everywhere(cheapest(op, widths, arm.value));
            break;
        case ArmKind::idle:
            row = idle_row(op, widths);
            break;
        case ArmKind::replay:
            row = everywhere(op.profile_width);
            break;
    }
    for (auto& width : row)
        if (width >= budget) width = 0;
    return row;
}

}  // namespace corun::policy
