// SPDX-License-Identifier: Apache-2.0
#include "tools/help.h"

#include <fmt/format.h>

namespace corun::tools {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kIndent = 28;

// CLI11 shows what a flag stands for in braces behind its name.
std::string without_braces(std::string name) {
    for (auto open = name.find('{'); open != std::string::npos; open = name.find('{'))
        name.erase(open, name.find('}', open) - open + 1);
    for (auto comma = name.find(",-"); comma != std::string::npos; comma = name.find(",-", comma + 2))
        name.insert(comma + 1, " ");
    return name;
}

}  // namespace

std::string wrap(std::string_view text, std::size_t indent) {
    std::string result;
    const std::size_t room = kColumns - indent;
    while (text.size() > room) {
        std::size_t end = text.rfind(' ', room);
        if (end == std::string_view::npos || end == 0) end = room;
        result += fmt::format("{}\n{:{}}", text.substr(0, end), "", indent);
        text.remove_prefix(end);
        if (text.front() == ' ') text.remove_prefix(1);
    }
    return result + std::string(text) + '\n';
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
    std::string name = "  " + without_braces(make_option_name(option, is_positional));
    if (!option->get_option_text().empty()) {
        name += option->get_option_text();
    } else if (!is_positional && option->get_type_size() != 0 && !option->get_type_name().empty()) {
        const std::string type = option->get_type_name();
        name += ' ' + type.substr(0, type.find(':'));  // without the words of a check
    }
    const std::string gap = name.size() + 2 > kIndent ? fmt::format("\n{:{}}", "", kIndent)
                                                      : std::string(kIndent - name.size(), ' ');
    return name + gap + wrap(option->get_description(), kIndent);
}

}  // namespace corun::tools
