// SPDX-License-Identifier: Apache-2.0
// What is needed to start a program under corun: the library, the environment, and whether a preload can
// work.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace corun::tools {

/// An environment that keeps order, duplicates and odd entries of the one it was made from.
class Environment {
  public:
    static Environment of_this_process();
    void set(std::string_view name, std::string_view value);
    void unset(std::string_view name);
    [[nodiscard]] std::string get(std::string_view name) const;  ///< empty if unset
    void unset_prefix(std::string_view prefix);                  ///< every name that begins with it
    [[nodiscard]] std::vector<char*> pointers();  ///< as in environ; valid until the next change

  private:
    std::vector<std::string> entries_;
};

inline constexpr char kLibraryName[] = "libcorun.so";

/// The library: `given` if not empty, else relative to this executable (build tree, then installed places).
/// Throws std::runtime_error with one sentence when it is not there.
[[nodiscard]] std::filesystem::path find_library(const std::string& given);

/// LD_PRELOAD with the library first and everything else of `present` behind, without another libcorun.so.
/// Only AddressSanitizer's runtime stays in front: it ends programs in which it is not the first.
[[nodiscard]] std::string merge_preload(std::string_view present, const std::string& library);

/// LD_PRELOAD of the environment set to the library in front of what is there, or to the one beside it that
/// has the further hooks which the environment's CORUN_OPENMP=adaptive needs.
void add_preload(Environment& environment, const std::filesystem::path& library);

/// LD_PRELOAD with this library behind all others, unless it is there already.
void append_preload(Environment& environment, const std::filesystem::path& library);

/// The environment as it would be without corun: no libcorun.so and no CORUN_OPENMP_RUNTIME preloaded, no
/// CORUN_ option.
void remove_corun(Environment& environment);

/// The file that execvp would run, or an empty path.
[[nodiscard]] std::filesystem::path resolve_program(const std::string& program);

struct Obstacle {
    std::string sentence;       ///< empty: there is none
    bool would_end_it = false;  ///< the program would not even start with the library preloaded
};
/// Why a preload cannot take effect in this file (static, set-uid, of another libc, AddressSanitizer).
[[nodiscard]] Obstacle preload_obstacle(const std::filesystem::path& file);

/// The words as execvp takes them; valid as long as `words`.
[[nodiscard]] std::vector<char*> argument_pointers(const std::vector<std::string>& words);

/// Replaces this process by the program. Returns only on an error: says it on stderr as env(1) does and
/// returns 127 (not found) or 126. `words` must not be empty.
int execute(const std::vector<std::string>& words, Environment& environment);

}  // namespace corun::tools
