// SPDX-License-Identifier: Apache-2.0
#include "tools/launch.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "tools/commands.h"
#include "tools/elf_symbols.h"

namespace corun::tools {
namespace {

bool has_name(const std::string& entry, std::string_view name) {
    return entry.size() > name.size() && entry.compare(0, name.size(), name) == 0 &&
           entry[name.size()] == '=';
}

std::vector<std::string> preload_words(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    for (char c : std::string(text) + ':') {  // the loader takes both spaces and colons
        if (c != ':' && c != ' ') {
            word += c;
        } else if (!word.empty()) {
            words.push_back(std::move(word));
            word.clear();
        }
    }
    return words;
}

// libcorun.so with the hooks that CORUN_OPENMP=adaptive needs besides, beside it.
constexpr char kAdaptiveName[] = "libcorun-adaptive.so";

bool is_corun_library(const std::string& word) {
    const std::string name = std::filesystem::path(word).filename();
    return name == kLibraryName || name == kAdaptiveName;
}

// AddressSanitizer's runtime as gcc and clang name it.
bool is_address_sanitizer(const std::string& word) {
    const std::string name = std::filesystem::path(word).filename();
    return name.rfind("libasan.so", 0) == 0 || name.rfind("libclang_rt.asan", 0) == 0;
}

std::filesystem::path executable_folder() {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? std::filesystem::path(".") : self.parent_path();
}

enum class Linkage { unknown, foreign_class, dynamic, fixed };

// Whether an ELF file names a program interpreter: without one nothing is preloaded.
template <typename Header, typename Segment>
Linkage linkage_of(std::ifstream& file) {
    Header header{};
    file.seekg(0);
    if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return Linkage::unknown;
    if (header.e_phentsize != sizeof(Segment)) return Linkage::unknown;
    file.seekg(static_cast<std::streamoff>(header.e_phoff));
    for (int i = 0; i < header.e_phnum; ++i) {
        Segment segment{};
        if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return Linkage::unknown;
        if (segment.p_type == PT_INTERP) return Linkage::dynamic;
    }
    return Linkage::fixed;
}

Linkage linkage_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    unsigned char ident[EI_NIDENT]{};
    if (!file.read(reinterpret_cast<char*>(ident), sizeof ident)) return Linkage::unknown;
    if (std::memcmp(ident, ELFMAG, SELFMAG) != 0)
        return Linkage::unknown;  // a script: its interpreter decides
    constexpr int ours = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (ident[EI_CLASS] != ours) return Linkage::foreign_class;
    return ours == ELFCLASS64 ? linkage_of<Elf64_Ehdr, Elf64_Phdr>(file)
                              : linkage_of<Elf32_Ehdr, Elf32_Phdr>(file);
}

bool gains_rights(const std::filesystem::path& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) return false;
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid()) return true;
    if ((status.st_mode & S_ISGID) != 0 && status.st_gid != getegid()) return true;
    return geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

}  // namespace

Environment Environment::of_this_process() {
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        environment.entries_.emplace_back(*entry);
    return environment;
}

void Environment::set(std::string_view name, std::string_view value) {
    unset(name);
    entries_.push_back(fmt::format("{}={}", name, value));
}

void Environment::unset(std::string_view name) {
    std::erase_if(entries_, [&](const std::string& entry) { return has_name(entry, name); });
}

std::string Environment::get(std::string_view name) const {
    for (const std::string& entry : entries_)
        if (has_name(entry, name)) return entry.substr(name.size() + 1);
    return "";
}

void Environment::unset_prefix(std::string_view prefix) {
    std::erase_if(entries_,
                  [&](const std::string& entry) { return entry.compare(0, prefix.size(), prefix) == 0; });
}

std::vector<char*> Environment::pointers() {
    std::vector<char*> result;
    result.reserve(entries_.size() + 1);
    for (std::string& entry : entries_) result.push_back(entry.data());
    result.push_back(nullptr);
    return result;
}

std::filesystem::path find_library(const std::string& given) {
    namespace fs = std::filesystem;
    std::vector<fs::path> places;
    if (!given.empty()) {
        places = {fs::absolute(given)};
    } else {
        const fs::path folder = executable_folder();
        for (const char* place :
             {"../shim", "../lib", "../lib/x86_64-linux-gnu", "../lib/aarch64-linux-gnu", "../lib64"})
            places.push_back(folder / place / kLibraryName);
    }
    for (const fs::path& place : places) {
        std::error_code error;
        if (!fs::is_regular_file(place, error)) continue;
        fs::path found = fs::canonical(place, error);
        if (error) continue;
        if (found.string().find_first_of(": ") != std::string::npos)
            throw std::runtime_error(fmt::format(
                "{} cannot be preloaded: LD_PRELOAD allows no space and no colon in a path", found.string()));
        return found;
    }
    if (!given.empty()) throw std::runtime_error(fmt::format("--library {}: there is no such file", given));
    throw std::runtime_error(
        fmt::format("{} was not found beside {} (looked in ../shim, ../lib, ../lib64); "
                    "--library PATH names it",
                    kLibraryName, executable_folder().string()));
}

std::string merge_preload(std::string_view present, const std::string& library) {
    std::vector<std::string> words = preload_words(present);
    std::erase_if(words, [&](const std::string& word) { return is_corun_library(word) || word == library; });
    const auto behind = std::stable_partition(words.begin(), words.end(), is_address_sanitizer);
    words.insert(behind, library);
    return fmt::format("{}", fmt::join(words, ":"));
}

void add_preload(Environment& environment, const std::filesystem::path& library) {
    std::filesystem::path chosen = library;
    const auto adaptive = library.parent_path() / kAdaptiveName;
    std::error_code error;
    if (environment.get("CORUN_OPENMP") == "adaptive" && library.filename() == kLibraryName &&
        std::filesystem::is_regular_file(adaptive, error))
        chosen = adaptive;
    environment.set("LD_PRELOAD", merge_preload(environment.get("LD_PRELOAD"), chosen.string()));
}

void append_preload(Environment& environment, const std::filesystem::path& library) {
    auto words = preload_words(environment.get("LD_PRELOAD"));
    const auto is_there = [&](const std::string& word) {
        std::error_code error;
        return word == library || std::filesystem::equivalent(word, library, error);
    };
    if (std::any_of(words.begin(), words.end(), is_there)) return;
    words.push_back(library.string());
    environment.set("LD_PRELOAD", fmt::format("{}", fmt::join(words, ":")));
}

void remove_corun(Environment& environment) {
    const std::string runtime = environment.get("CORUN_OPENMP_RUNTIME");
    environment.unset_prefix("CORUN_");
    const std::string present = environment.get("LD_PRELOAD");
    auto words = preload_words(present);
    const auto is_ours = [&](const std::string& word) { return is_corun_library(word) || word == runtime; };
    if (std::erase_if(words, is_ours) == 0) return;
    environment.unset("LD_PRELOAD");
    if (!words.empty()) environment.set("LD_PRELOAD", fmt::format("{}", fmt::join(words, ":")));
}

std::filesystem::path resolve_program(const std::string& program) {
    if (program.find('/') != std::string::npos) return program;
    const char* path = std::getenv("PATH");
    std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
    while (true) {
        const auto cut = rest.find(':');
        const std::filesystem::path folder = rest.substr(0, cut).empty() ? "." : rest.substr(0, cut);
        auto file = folder / program;
        std::error_code error;
        if (std::filesystem::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0) return file;
        if (cut == std::string_view::npos) return {};
        rest.remove_prefix(cut + 1);
    }
}

Obstacle preload_obstacle(const std::filesystem::path& file) {
    if (file.empty()) return {};
    const auto obstacle = [&](const char* what, bool would_end_it = false) {
        return Obstacle{fmt::format("{} {}", file.string(), what), would_end_it};
    };
    if (gains_rights(file))
        return obstacle("gains rights when it starts (set-uid), so the loader ignores the preload");
    switch (linkage_of(file)) {
        case Linkage::fixed:
            return obstacle("is statically linked: nothing can be preloaded into it");
        case Linkage::foreign_class:
            return obstacle("is of another word size than corun's library: it runs without it");
        case Linkage::unknown:
            return {};
        case Linkage::dynamic:
            break;
    }
    const auto elf = read_elf(file);
    if (!elf) return {};
    const std::filesystem::path loader = std::filesystem::path(elf->interpreter).filename();
    if (loader.string().rfind("ld-musl", 0) == 0)
        return obstacle("is built for musl, corun's library for glibc: it runs without it", true);
    if (std::any_of(elf->needed.begin(), elf->needed.end(), is_address_sanitizer))
        return obstacle("is built with AddressSanitizer, which wants to be first: it runs without corun",
                        true);
    return {};
}

std::vector<char*> argument_pointers(const std::vector<std::string>& words) {
    std::vector<char*> result;
    result.reserve(words.size() + 1);
    for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
    result.push_back(nullptr);
    return result;
}

int execute(const std::vector<std::string>& words, Environment& environment) {
    const auto arguments = argument_pointers(words);
    const auto entries = environment.pointers();
    execvpe(arguments[0], arguments.data(), entries.data());
    const int error = errno;
    fmt::print(stderr, "corun: '{}': {}\n", words.front(), std::strerror(error));
    return error == ENOENT ? kNotFound : kCannotExecute;
}

}  // namespace corun::tools
