// SPDX-License-Identifier: Apache-2.0
// How --help looks: CLI11's own, with descriptions wrapped at 100 columns.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

namespace corun::tools {

/// `text` in lines of at most 100 columns, each but the first after `indent` spaces; ends in a newline.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t indent);

class HelpFormatter : public CLI::Formatter {
  public:
    std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace corun::tools
