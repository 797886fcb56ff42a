// SPDX-License-Identifier: Apache-2.0
#include "tools/comparison.h"

#include <fmt/format.h>
#include <wordexp.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <regex>
#include <span>
#include <sstream>

#include "tools/commands.h"
#include "tools/statistics.h"

namespace corun::tools {
namespace {

constexpr std::size_t kLongestLine = 16384;  // std::regex recurses once per character

std::vector<std::string> split_words(const std::string& text) {
    wordexp_t expansion{};
    const int error = wordexp(text.c_str(), &expansion, WRDE_NOCMD);
    if (error != 0) {
        if (error == WRDE_NOSPACE) wordfree(&expansion);
        throw UsageError(
            fmt::format("--also: '{}' cannot be split into words; quote | & ; < > ( ) {{ }} and $", text));
    }
    std::vector<std::string> words(expansion.we_wordv, expansion.we_wordv + expansion.we_wordc);
    wordfree(&expansion);
    return words;
}

bool is_assignment(const std::string& word) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || std::isdigit(static_cast<unsigned char>(word[0])) != 0)
        return false;
    for (char c : word.substr(0, equals))
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
    return true;
}

std::optional<double> number_in(const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end == text.c_str() || *end != '\0') return std::nullopt;
    return value;
}

}  // namespace

Setting parse_setting(const std::string& text) {
    const auto equals = text.find('=');
    Setting setting;
    setting.name = text.substr(0, equals);
    if (equals == std::string::npos || setting.name.empty())
        throw UsageError(fmt::format("--also '{}': it takes NAME=[@corun] [VAR=VALUE...] [-- ARG...]", text));
    bool in_arguments = false;
    for (const std::string& word : split_words(text.substr(equals + 1))) {
        if (in_arguments) {
            setting.arguments.push_back(word);
        } else if (word[0] == '-') {
            in_arguments = true;
            if (word != "--") setting.arguments.push_back(word);
        } else if (word == "@corun") {
            setting.under_corun = true;
        } else if (is_assignment(word)) {
            const auto cut = word.find('=');
            setting.variables.emplace_back(word.substr(0, cut), word.substr(cut + 1));
        } else {
            throw UsageError(
                fmt::format("--also {}: '{}' is neither @corun nor VAR=VALUE; arguments of the program "
                            "come behind --",
                            setting.name, word));
        }
    }
    return setting;
}

Environment environment_for(const Setting& setting, const std::filesystem::path& library) {
    Environment environment = Environment::of_this_process();
    if (!setting.under_corun) remove_corun(environment);
    for (const auto& [name, value] : setting.variables) environment.set(name, value);
    if (setting.under_corun) add_preload(environment, library);
    return environment;
}

std::vector<double> find_metrics(std::string line, const std::regex& pattern) {
    if (line.size() > kLongestLine) line.resize(kLongestLine);
    std::vector<double> values;
    for (std::sregex_iterator match(line.begin(), line.end(), pattern), end; match != end; ++match) {
        const auto value = number_in((*match)[1].str());
        if (value && std::isfinite(*value) && *value > 0) values.push_back(*value);
    }
    return values;
}

std::optional<double> find_metric(const std::string& output, const std::string& pattern) {
    const std::regex expression(pattern);
    std::istringstream lines(output);
    std::vector<double> values;
    for (std::string line; std::getline(lines, line);) {
        if (line.size() > kLongestLine) line.resize(kLongestLine);
        std::smatch match;
        if (!std::regex_search(line, match, expression) || match.size() < 2) continue;
        if (const auto value = number_in(match[1].str())) values.push_back(*value);
    }
    if (values.empty()) return std::nullopt;
    return median(std::span(values).subspan(values.size() / 2));
}

std::size_t Comparison::rounds() const {
    std::size_t least = series.empty() ? 0 : series.front().values.size();
    for (const Series& one : series) least = std::min(least, one.values.size());
    return least;
}

Interval Comparison::ratio_to_plain(const Series& one) const {
    return paired_ratio(series.at(0).values, one.values, 0.95);
}

Interval Comparison::ratio_to_corun(const Series& one) const {
    return paired_ratio(one.values, series.at(1).values, 0.95);
}

}  // namespace corun::tools
