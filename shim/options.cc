// SPDX-License-Identifier: Apache-2.0
#include "shim/options.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace corun {
namespace {

constexpr std::array<OptionRow, kOptionCount> kTable = [] {
    std::array<OptionRow, kOptionCount> table{};
#define X(id, type, fallback, range, stability, help)                                       \
    table[static_cast<std::size_t>(OptionId::id)] = {#id,   OptionType::type,     fallback, \
                                                     range, Stability::stability, help};
    CORUN_OPTIONS(X)
#undef X
    return table;
}();

// The environment name is derived from the id once, so that the two cannot differ.
constexpr std::size_t kNameSize = 40;
constexpr auto kNames = [] {
    std::array<std::array<char, kNameSize>, kOptionCount> names{};
    for (std::size_t i = 0; i < kOptionCount; ++i) {
        constexpr std::string_view prefix = "CORUN_";
        std::size_t n = 0;
        for (char c : prefix) names[i][n++] = c;
        for (char c : kTable[i].name) names[i][n++] = (c >= 'a' && c <= 'z') ? static_cast<char>(c - 32) : c;
    }
    return names;
}();

constexpr auto kNamed = [] {
    auto table = kTable;
    for (std::size_t i = 0; i < kOptionCount; ++i) table[i].name = std::string_view(kNames[i].data());
    return table;
}();

// Names that the launcher passes to the library; no options, and so no warning.
constexpr std::array<std::string_view, 1> kInternal{"CORUN_LAUNCHED"};

bool same(std::string_view a, std::string_view b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
               return std::tolower(static_cast<unsigned char>(x)) ==
                      std::tolower(static_cast<unsigned char>(y));
           });
}

bool parse_number(std::string_view text, double& value) {
    char buffer[64];
    if (text.empty() || text.size() >= sizeof buffer) return false;
    std::memcpy(buffer, text.data(), text.size());
    buffer[text.size()] = '\0';
    char* end = nullptr;
    value = std::strtod(buffer, &end);
    return end == buffer + text.size() && value == value;
}

// Calls visit(word) for each word of `text`; stops when it returns true.
template <typename Visit>
bool any_word(std::string_view text, char separator, Visit visit) {
    while (true) {
        const auto cut = text.find(separator);
        if (visit(text.substr(0, cut))) return true;
        if (cut == std::string_view::npos) return false;
        text.remove_prefix(cut + 1);
    }
}

bool matches_choice(std::string_view choice, std::string_view value) {
    const auto hole = choice.find("<n>");
    if (hole == std::string_view::npos) return same(choice, value);
    double number = 0;
    return value.size() > hole && same(value.substr(0, hole), choice.substr(0, hole)) &&
           parse_number(value.substr(hole), number) && number >= 0;
}

bool in_choices(std::string_view range, std::string_view value) {
    return any_word(range, '|', [&](std::string_view choice) { return matches_choice(choice, value); });
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::array<std::size_t, 64> row{};
    if (b.size() >= row.size()) return a.size() + b.size();
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const bool equal = std::toupper(static_cast<unsigned char>(a[i - 1])) ==
                               std::toupper(static_cast<unsigned char>(b[j - 1]));
            const std::size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (equal ? 0 : 1)});
            diagonal = row[j];
            row[j] = next;
        }
    }
    return row[b.size()];
}

bool boolean_value(std::string_view value, bool& result) {
    for (std::string_view yes : {"1", "yes", "true", "on"})
        if (same(yes, value)) return result = true, true;
    for (std::string_view no : {"0", "no", "false", "off"})
        if (same(no, value)) return result = false, true;
    return false;
}

bool in_bounds(std::string_view range, double value) {
    const auto dots = range.find("..");
    double low = 0;
    double high = 0;
    return parse_number(range.substr(0, dots), low) && parse_number(range.substr(dots + 2), high) &&
           value >= low && value <= high;
}

bool valid(const OptionRow& row, std::string_view value) {
    double number = 0;
    bool flag = false;
    switch (row.type) {
        case OptionType::choice:
            return in_choices(row.range, value);
        case OptionType::integer:
            return parse_number(value, number) && number == static_cast<double>(static_cast<long>(number)) &&
                   in_bounds(row.range, number);
        case OptionType::number:
            return parse_number(value, number) && in_bounds(row.range, number);
        case OptionType::boolean:
            return boolean_value(value, flag);
        case OptionType::list:
            return !any_word(value, ',', [&](std::string_view word) { return !in_choices(row.range, word); });
        case OptionType::path:
        case OptionType::text:
            return value.size() < Options::kText;
    }
    return false;
}

// Of the choices the nearest one, for the hint.
std::string_view nearest_choice(const OptionRow& row, std::string_view value) {
    std::string_view best;
    std::size_t distance = 3;
    if (row.type != OptionType::choice && row.type != OptionType::list) return best;
    any_word(row.range, '|', [&](std::string_view choice) {
        const std::size_t d = edit_distance(value, choice);
        if (d < distance) distance = d, best = choice;
        return false;
    });
    return best;
}

}  // namespace

const std::array<OptionRow, kOptionCount>& option_table() {
    return kNamed;
}

bool check_option(const OptionRow& row, std::string_view value, char* message, std::size_t size) {
    if (valid(row, value)) return true;
    const std::string_view hint = nearest_choice(row, value);
    const std::string_view range = row.type == OptionType::boolean ? "yes|no"
                                   : row.type == OptionType::path  ? "a path of under 512 characters"
                                   : row.type == OptionType::text  ? "under 512 characters"
                                                                   : row.range;
    std::snprintf(message, size, "%.*s=%.*s is not valid: it takes %.*s%s%.*s%s; the default (%.*s) is kept",
                  static_cast<int>(row.name.size()), row.name.data(),
                  static_cast<int>(std::min<std::size_t>(value.size(), 60)), value.data(),
                  static_cast<int>(range.size()), range.data(), hint.empty() ? "" : " (did you mean ",
                  static_cast<int>(hint.size()), hint.data(), hint.empty() ? "" : "?)",
                  static_cast<int>(row.fallback.size()), row.fallback.data());
    return false;
}

const OptionRow* nearest_option(std::string_view name) {
    const OptionRow* best = nullptr;
    std::size_t distance = 4;
    for (const OptionRow& row : kNamed) {
        const std::size_t d = edit_distance(name, row.name);
        if (d < distance) distance = d, best = &row;
    }
    return best;
}

std::string_view Options::operator[](OptionId id) const {
    return text[static_cast<std::size_t>(id)].data();
}

double Options::number(OptionId id) const {
    double value = 0;
    return parse_number((*this)[id], value) ? value : 0.0;
}

long Options::integer(OptionId id) const {
    return static_cast<long>(number(id));
}

bool Options::boolean(OptionId id) const {
    bool value = false;
    return boolean_value((*this)[id], value) && value;
}

bool Options::has_word(OptionId id, std::string_view word) const {
    return any_word((*this)[id], ',', [&](std::string_view w) { return same(w, word) || same(w, "all"); });
}

namespace {

void store(Options& options, std::size_t index, std::string_view value) {
    const std::size_t n = std::min(value.size(), Options::kText - 1);
    std::memcpy(options.text[index].data(), value.data(), n);
    options.text[index][n] = '\0';
}

void lower(Options& options, std::size_t index) {
    for (char& c : options.text[index]) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

void read_one(std::string_view name, std::string_view value, Options& options, void (*warn)(const char*)) {
    char message[512];
    for (std::size_t i = 0; i < kOptionCount; ++i) {
        if (kNamed[i].name != name) continue;
        if (value.empty()) return;  // set to nothing is as good as not set
        if (!check_option(kNamed[i], value, message, sizeof message)) return warn(message);
        store(options, i, value);
        options.set[i] = true;
        if (kNamed[i].type != OptionType::path && kNamed[i].type != OptionType::text) lower(options, i);
        return;
    }
    if (std::find(kInternal.begin(), kInternal.end(), name) != kInternal.end()) return;
    const OptionRow* near = nearest_option(name);
    std::snprintf(message, sizeof message,
                  "%.*s is not an option of corun%s%.*s%s; it is ignored (`corun options` lists all)",
                  static_cast<int>(std::min<std::size_t>(name.size(), 60)), name.data(),
                  near ? " (did you mean " : "", near ? static_cast<int>(near->name.size()) : 0,
                  near ? near->name.data() : "", near ? "?)" : "");
    warn(message);
}

}  // namespace

void read_options(const char* const* environment, Options& options, void (*warn)(const char* sentence)) {
    for (std::size_t i = 0; i < kOptionCount; ++i) store(options, i, kNamed[i].fallback);
    options.set = {};
    for (; environment && *environment; ++environment) {
        const std::string_view entry(*environment);
        if (entry.substr(0, 6) != "CORUN_") continue;
        const auto equals = entry.find('=');
        if (equals == std::string_view::npos) continue;
        read_one(entry.substr(0, equals), entry.substr(equals + 1), options, warn);
    }
}

}  // namespace corun
