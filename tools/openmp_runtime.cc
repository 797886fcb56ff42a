// SPDX-License-Identifier: Apache-2.0
#include "tools/openmp_runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "shim/openmp_difference.h"
#include "tools/loaded_files.h"

namespace corun::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kOption[] = "CORUN_OPENMP_RUNTIME";
constexpr std::size_t kNamed = 3;  // of the names in a message

bool same_file(const fs::path& one, const fs::path& other) {
    std::error_code error;
    return one == other || fs::equivalent(one, other, error);
}

bool is_libomp(const ElfFile& elf) {
    return elf.definition("__kmpc_fork_call") != nullptr;
}
bool is_runtime(const ElfFile& elf) {
    return elf.definition("omp_get_level") != nullptr &&
           (elf.definition("GOMP_parallel") != nullptr || is_libomp(elf));
}

// Who gives it, when `library` and `left_out` are not there.
const LoadedFile* provider(const std::vector<LoadedFile>& files, const ElfSymbol& wanted,
                           const fs::path& library, const fs::path& left_out = {}) {
    for (const LoadedFile& file : files) {
        if (same_file(file.path, library) || (!left_out.empty() && same_file(file.path, left_out))) continue;
        for (const ElfSymbol& symbol : file.elf.symbols)
            if (satisfies(file.elf, symbol, wanted)) return &file;
    }
    return nullptr;
}

std::string first_of(const std::vector<std::string>& names) {
    const std::vector<std::string> named(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed)));
    const std::string more =
        names.size() > kNamed ? fmt::format(" and {} more", names.size() - kNamed) : std::string();
    return fmt::format("{}{}", fmt::join(named, ", "), more);
}

// What one object asks for and would be given by another runtime, or otherwise than by its own.
std::string refusal_of(const LoadedFile& object, const std::vector<LoadedFile>& files,
                       const fs::path& runtime, const fs::path& library) {
    std::vector<std::string> missing;
    std::string different;
    for (const ElfSymbol& wanted : object.elf.symbols) {
        if (wanted.defined) continue;
        const LoadedFile* const given = provider(files, wanted, library);
        if (given == nullptr || !is_runtime(given->elf)) continue;  // a tool in between stays there
        if (wanted.weak && provider(files, wanted, library, runtime) == nullptr)
            return fmt::format("{} only looks whether OpenMP is there, and it is not", object.path.string());
        if (!same_file(given->path, runtime))
            missing.push_back(wanted.name + (wanted.version.empty() ? "" : '@' + wanted.version));
        else if (const auto how = openmp_difference(wanted.name); !how.empty() && different.empty())
            different =
                fmt::format("{} calls {}, where LLVM's runtime {}", object.path.string(), wanted.name, how);
    }
    if (!missing.empty())
        return fmt::format("{} needs {}, which it lacks", object.path.string(), first_of(missing));
    return different;
}

// An object behind the runtime that has functions of its own by these names would come to the runtime's.
std::string refusal_of_own(const LoadedFile& object, const ElfFile& runtime) {
    for (const ElfSymbol& symbol : object.elf.symbols)
        if (symbol.defined && runtime.definition(symbol.name) != nullptr)
            return fmt::format("{} has {} of its own", object.path.string(), symbol.name);
    return "";
}

// What the loader would map, ours and the runtime included.
std::string read_files(const fs::path& program, Environment& environment, std::vector<LoadedFile>& files) {
    if (program.empty()) return "";  // cannot be executed, which is said when it is tried
    const auto elf = read_elf(program);
    if (!elf || elf->interpreter.empty()) return "";  // nothing is preloaded there
    std::vector<fs::path> paths;
    try {
        paths = loaded_files(program, elf->interpreter, environment);
    } catch (const std::exception& error) {  // no process can be made
        return error.what();
    }
    if (paths.empty())
        return fmt::format("{} does not tell what it would load for {}", elf->interpreter, program.string());
    for (const fs::path& path : paths) {
        auto one = read_elf(path);
        if (!one) return fmt::format("{} cannot be read", path.string());
        files.push_back({path, std::move(*one)});
    }
    return "";
}

// What schedule(runtime) means where nobody says is dynamic to gcc's runtime, static to LLVM's; and LLVM's
// speaks of what is deprecated. Both stay as they are: for a program of clang's, too, which has had LLVM's.
bool has_llvms(const std::vector<LoadedFile>& files) {
    for (const LoadedFile& file : files)
        for (const ElfSymbol& symbol : file.elf.symbols)
            if (!symbol.defined && symbol.name.compare(0, 7, "__kmpc_") == 0 && !is_runtime(file.elf))
                return true;
    return false;
}

std::string pinned_by(const Environment& environment) {
    for (const char* name : kPinningVariables)
        if (pins_threads(environment.get(name)))
            return fmt::format(
                "{} is set, and gcc's runtime, which is loaded too, would pin the first thread "
                "before it looks for CPUs",
                name);
    return "";
}

void set_default(Environment& environment, const char* name, const char* value) {
    if (environment.get(name).empty()) environment.set(name, value);
}

}  // namespace

std::string unusable_runtime(const fs::path& runtime) {
    std::error_code error;
    if (!fs::is_regular_file(runtime, error)) return "there is no such file";
    if (runtime.string().find_first_of(": ") != std::string::npos)
        return "LD_PRELOAD allows no space and no colon in a path";
    const auto elf = read_elf(runtime);
    if (!elf || !elf->shared_object || !elf->interpreter.empty())
        return "it is no shared library of this machine";
    if (!is_libomp(*elf) || elf->definition("GOMP_parallel") == nullptr)
        return "it is not LLVM's or Intel's OpenMP runtime with the names that gcc uses (libomp.so, "
               "libiomp5.so)";
    return "";
}

std::string refusal(const std::vector<LoadedFile>& files, const fs::path& runtime, const fs::path& library) {
    const auto place = std::find_if(files.begin(), files.end(),
                                    [&](const LoadedFile& file) { return same_file(file.path, runtime); });
    if (place == files.end()) return "the loader does not take it";
    for (const LoadedFile& file : files)
        if (is_libomp(file.elf) && !same_file(file.path, runtime) && !same_file(file.path, library))
            return fmt::format(
                "the program has {} already, and two of LLVM's runtimes in one process do not "
                "bear each other",
                file.path.string());
    for (const LoadedFile& file : files) {
        if (is_runtime(file.elf) || same_file(file.path, library)) continue;
        std::string reason = refusal_of(file, files, runtime, library);
        if (reason.empty() && &file > &*place) reason = refusal_of_own(file, place->elf);
        if (!reason.empty()) return reason;
    }
    return "";
}

std::string add_openmp_runtime(Environment& environment, const fs::path& library,
                               const std::string& program) {
    if (environment.get(kOption).empty()) return "";
    const fs::path runtime = fs::absolute(environment.get(kOption));
    std::string reason = unusable_runtime(runtime);
    if (reason.empty()) reason = pinned_by(environment);
    Environment changed = environment;
    std::vector<LoadedFile> files;
    if (reason.empty()) {
        changed.set(kOption, runtime.string());  // the program may change its folder
        append_preload(changed, runtime);
        reason = read_files(executed_file(resolve_program(program)), changed, files);
    }
    if (reason.empty() && !files.empty()) reason = refusal(files, runtime, library);
    if (reason.empty()) {
        if (!has_llvms(files)) {
            set_default(changed, "OMP_SCHEDULE", "dynamic");
            set_default(changed, "KMP_WARNINGS", "0");
        }
        environment = changed;
        return "";
    }
    environment.unset(kOption);
    return fmt::format("{} is not used for OpenMP: {}. The program runs with its own runtime",
                       runtime.string(), reason);
}

}  // namespace corun::tools
