// SPDX-License-Identifier: Apache-2.0
#include "policy/wait_policy.h"

#include <algorithm>
#include <cstdio>

namespace corun::policy {
namespace {

WaitChoice choice(WaitKind kind, const char* why) {
    return {kind, why};
}

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

}  // namespace

WaitChoice choose_wait(const WaitFacts& facts) {
    if (facts.chosen) return choice(WaitKind::leave, "the user has chosen it");
    if (facts.threads <= 1) return choice(WaitKind::leave, "there is nobody to wait for");
    if (facts.quota > 0.0 && facts.quota < facts.affinity - 0.01)
        return {WaitKind::bounded, "a quota of " + number(facts.quota) + " CPUs is used up by spinning too"};
    const WaitChoice otherwise =
        facts.wanted > facts.affinity
            ? choice(WaitKind::limited, "more threads than CPUs were asked for, and would have spun briefly")
            : choice(WaitKind::leave, "there are CPUs enough");
    // One moment may be odd and the last minute over: both must say so, and what was used since the start. Of
    // tasks that may run anywhere the program's CPUs get their part.
    const int machine = std::max(facts.machine, facts.affinity);
    const double others = std::min(facts.runnable, facts.load) * facts.affinity / machine;
    const double there = std::min(others, facts.used * facts.affinity / machine);
    if (facts.threads + there <= facts.affinity + kWaitDeadband) return otherwise;
    if (facts.waited < std::max(kWaitedSeconds, kWaitedShare * facts.ran)) return otherwise;
    const std::string why = "about " + number(others) + " other tasks want the same CPUs";
    // With another task for each CPU whoever is waited for is as likely as not to be waiting for a CPU
    // itself.
    return {others >= facts.affinity ? WaitKind::passive : WaitKind::brief, why};
}

}  // namespace corun::policy
