// SPDX-License-Identifier: Apache-2.0
#include "tools/loaded_files.h"

#include <fstream>
#include <sstream>

#include "tools/child.h"

namespace corun::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kScripts = 5;              // as many as the kernel follows
constexpr std::size_t kFirstLine = 256;  // and as much as it reads
constexpr double kListSeconds = 30;

std::vector<std::string> words_of(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

// "#!/usr/bin/env python3": the program that env would find.
fs::path found_by_env(const std::vector<std::string>& words) {
    for (std::size_t i = 1; i < words.size(); ++i)
        if (words[i][0] != '-' && words[i].find('=') == std::string::npos) return resolve_program(words[i]);
    return words.front();
}

}  // namespace

fs::path executed_file(const fs::path& file) {
    fs::path current = file;
    for (int i = 0; i < kScripts && !current.empty(); ++i) {
        std::ifstream stream(current, std::ios::binary);
        std::string line(kFirstLine, '\0');
        stream.read(line.data(), static_cast<std::streamsize>(line.size()));
        line.resize(static_cast<std::size_t>(stream.gcount()));
        if (line.compare(0, 4,
                         "\x7f"
                         "ELF") == 0)
            return current;
        if (line.empty()) return {};
        if (line.compare(0, 2, "#!") != 0) return "/bin/sh";  // execvp's way
        line.resize(std::min(line.size(), line.find('\n')));
        const auto words = words_of(line.substr(2));
        if (words.empty()) return {};
        current = fs::path(words.front()).filename() == "env" ? found_by_env(words) : fs::path(words.front());
    }
    return {};
}

std::vector<fs::path> listed_paths(const std::string& text) {
    std::vector<fs::path> paths;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        line.resize(std::min(line.size(), line.rfind(" (0x")));
        const auto arrow = line.find(" => ");
        line.erase(0, arrow != std::string::npos ? arrow + 4 : line.find_first_not_of(" \t"));
        if (!line.empty() && line[0] == '/') paths.emplace_back(line);
    }
    return paths;
}

std::vector<fs::path> loaded_files(const fs::path& program, const std::string& interpreter,
                                   Environment& environment) {
    Child loader({interpreter, "--list", fs::absolute(program).string()}, environment);
    const ChildResult result = run_to_end(loader, kListSeconds);
    if (!result.good()) return {};
    std::vector<fs::path> files = listed_paths(result.output);
    if (files.empty()) return {};
    files.insert(files.begin(), program);
    return files;
}

}  // namespace corun::tools
