// SPDX-License-Identifier: Apache-2.0
#include "policy/openmp_cap.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace corun::policy {
namespace {

constexpr std::size_t kMostDigits = 9;  // more is no number of threads

bool blank(char c) {
    return c == ' ' || c == '\t';
}
bool digit(char c) {
    return c >= '0' && c <= '9';
}

bool from_environment(const NumberSources& sources, int number) {
    return number == sources.environment || number == sources.environment_now;
}
bool from_machine(const NumberSources& sources, int number) {
    return number == sources.processors || number == sources.affinity;
}

struct Digits {
    std::size_t begin = 0, end = 0;  // of the outermost number; equal: no plain list
};

Digits find_outermost(std::string_view list) {
    Digits first;
    std::size_t at = 0;
    while (true) {
        while (at < list.size() && blank(list[at])) ++at;
        const std::size_t begin = at;
        while (at < list.size() && digit(list[at])) ++at;
        if (at == begin || at - begin > kMostDigits) return {};
        if (first.end == 0) first = {begin, at};
        while (at < list.size() && blank(list[at])) ++at;
        if (at == list.size()) return first;
        if (list[at++] != ',') return {};
    }
}

int number_at(std::string_view list, const Digits& digits) {
    int number = 0;
    for (std::size_t i = digits.begin; i < digits.end; ++i) number = 10 * number + (list[i] - '0');
    return number;
}

}  // namespace

Cap cap_number(const NumberFacts& facts) {
    if (facts.held) return {std::min(facts.own, 1), facts.own > 1 ? CapReason::held : CapReason::within};
    if (facts.own <= facts.limit) return {facts.own, CapReason::within};
    if (from_environment(facts.sources, facts.own)) return {facts.limit, CapReason::environment};
    if (from_machine(facts.sources, facts.own)) return {facts.limit, CapReason::machine};
    return {facts.own, CapReason::program};
}

SetNumber set_number(const SetFacts& facts) {
    if (facts.held && facts.wanted > 1) return {1, SetReason::held};
    if (facts.inside) return {facts.wanted, SetReason::region};
    const bool repeats = facts.wanted > facts.limit && from_environment(facts.sources, facts.wanted);
    return {facts.wanted, repeats ? SetReason::repeats : SetReason::own};
}

const char* reason_name(CapReason reason) {
    switch (reason) {
        case CapReason::within:
            return "within the limit";
        case CapReason::program:
            return "the program's own";
        case CapReason::environment:
            return "OMP_NUM_THREADS";
        case CapReason::machine:
            return "CPUs of the machine";
        case CapReason::held:
            return "forked child";
    }
    return "?";
}

int outermost_number(std::string_view list) {
    return number_at(list, find_outermost(list));
}

bool lower_outermost(char* list, int limit) {
    const Digits digits = find_outermost(list);
    limit = std::max(limit, 1);
    if (digits.begin == digits.end || number_at(list, digits) <= limit) return false;
    char text[16];
    const auto length = static_cast<std::size_t>(std::snprintf(text, sizeof text, "%d", limit));
    // A smaller number has no more digits.
    std::memcpy(list + digits.begin, text, length);
    std::memmove(list + digits.begin + length, list + digits.end, std::strlen(list + digits.end) + 1);
    return true;
}

bool word_names(std::string_view word, int number) {
    for (std::size_t at = 0; at < word.size(); ++at) {
        if (!digit(word[at])) continue;
        const std::size_t begin = at;
        while (at < word.size() && digit(word[at])) ++at;
        if (at - begin > kMostDigits) continue;
        const int named = number_at(word, {begin, at});
        if (number > 0 && named >= number && named % number == 0 && named / number <= kMostRanks) return true;
    }
    return false;
}

}  // namespace corun::policy
