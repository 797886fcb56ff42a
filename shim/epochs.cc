// SPDX-License-Identifier: Apache-2.0
#include "shim/epochs.h"

#include <algorithm>

#include "shim/process.h"
#include "shim/state.h"

namespace corun {
namespace {

constexpr std::size_t kMost = 8;  // budgets that are remembered

int budget_cpus() {
    return std::min(process_budget().cpus, 65535);
}

void put_in_force(int budget) {
    globals.budget.store(static_cast<std::uint16_t>(budget), std::memory_order_relaxed);
    globals.widest.store(static_cast<std::uint16_t>(std::max(budget, 8)), std::memory_order_relaxed);
}

double seconds(const policy::Controller& controller) {
    double sum = 0.0;
    for (const auto& phase : controller.phases()) sum += phase->seconds();
    return sum;
}

}  // namespace

Epochs::Epochs(double now) : first_budget_(budget_cpus()) {
    epochs_.push_back(process_make_controller(first_budget_, now));
    first_ = epochs_.back().get();
    put_in_force(first_budget_);
}

bool Epochs::follow(double now) {
    const int budget = budget_cpus();
    if (budget == current().budget() || !process_follows_budget()) return false;
    const auto known = std::find_if(epochs_.begin(), epochs_.end(),
                                    [budget](const auto& epoch) { return epoch->budget() == budget; });
    if (known != epochs_.end()) {
        std::rotate(known, known + 1, epochs_.end());
    } else {
        if (epochs_.size() == kMost)
            epochs_.erase(epochs_.begin() + (epochs_.front().get() == first_ ? 1 : 0));
        epochs_.push_back(process_make_controller(budget, now, false));
    }
    put_in_force(budget);
    return true;
}

std::unique_ptr<policy::Controller> Epochs::renew(std::unique_ptr<policy::Controller> fresh) {
    if (fresh->budget() != current().budget()) return nullptr;
    fresh->restore(current().export_profile({}));
    first_ = fresh.get();
    std::swap(epochs_.back(), fresh);
    return fresh;
}

policy::Controller& Epochs::longest() const {
    const auto most = std::max_element(epochs_.begin(), epochs_.end(), [](const auto& a, const auto& b) {
        return seconds(*a) < seconds(*b);
    });
    return seconds(**most) > 0.0 ? **most : current();
}

std::vector<const policy::Controller*> Epochs::all() const {
    std::vector<const policy::Controller*> controllers;
    for (const auto& epoch : epochs_) controllers.push_back(epoch.get());
    return controllers;
}

int Epochs::ceiling() const {
    return current().budget() < first_budget_ ? current().budget() : 0;
}

}  // namespace corun
