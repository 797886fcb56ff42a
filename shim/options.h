// SPDX-License-Identifier: Apache-2.0
// The one option table. It feeds the parser, `corun options`, `corun run --help` and the README's table.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace corun {

enum class OptionType {
    choice,   ///< one of range, separated by '|'; "<n>" in a choice stands for a number
    integer,  ///< low..high
    number,   ///< low..high, a fraction allowed
    boolean,  ///< yes|no, 1|0, true|false, on|off
    list,     ///< comma-separated words of range
    path,     ///< a file or folder; %p is the process id
    text,     ///< anything
};

enum class Stability { stable, experimental, testing };

/// One row of the table. All strings are literals.
struct OptionRow {
    std::string_view name;  ///< environment variable
    OptionType type;
    std::string_view fallback;  ///< default
    std::string_view range;
    Stability stability;
    std::string_view help;
};

// id, type, default, range, stability, help
#define CORUN_OPTIONS(X)                                                                                     \
    X(mode, choice, "tune", "off|observe|tune|replay", stable,                                               \
      "off: forward every call; observe: count and time, change nothing; tune: learn, race the arms and "    \
      "keep "                                                                                                \
      "the best; replay: apply the profile and explore nothing")                                             \
    X(policy, choice, "race",                                                                                \
      "race|pass-through|uniform-<n>|s1|s2|idle|price-<n>|gate-s1|gate-s3|gate-idle|gate-price-<n>|random",  \
      stable,                                                                                                \
      "which arm decides: race finds out, any other name fixes it (gate- takes CORUN_GATE; random is for "   \
      "tests of correctness)")                                                                               \
    X(gate, choice, "off", "off|auto|on", experimental,                                                      \
      "whether ops may wait for their turn, briefly, when others have the CPUs: off: none ever waits; "      \
      "auto: "                                                                                               \
      "ways of deciding in which they do are raced beside the others; on: only such ways are, against the "  \
      "program as it is")                                                                                    \
    X(step, integer, "0", "0..64", stable,                                                                   \
      "how widths are sampled: 0 is the fitted law with a local check, x >= 1 the hill climb in steps of x") \
    X(explore, number, "5", "0..100", stable, "extra time that sampling other widths may cost, in percent")  \
    X(cpus, integer, "0", "0..4096", stable,                                                                 \
      "upper limit of CPUs to use; 0: affinity mask and cgroup quota")                                       \
    X(cpu_view, choice, "auto", "auto|yes|no", stable,                                                       \
      "what the program is told of the machine's CPUs (masks, counts, /proc/cpuinfo): auto: the budget "     \
      "where "                                                                                               \
      "a quota, a share or CORUN_CPUS makes the machine's number a lie; yes: also where an affinity mask "   \
      "does; "                                                                                               \
      "no: the truth")                                                                                       \
    X(hooks, list, "all", "all|none|tensorflow|torch|openmp|blas", stable, "sources to hook")                \
    X(openmp, choice, "safe", "off|safe|adaptive", stable,                                                   \
      "off: forward every call; safe: cap the number of threads that the environment or the machine sets "   \
      "at "                                                                                                  \
      "the budget (OMP_NUM_THREADS is lowered for programs that read it), or where CORUN_PROFILE has "       \
      "measured fewer to be faster at those; on shared CPUs let threads spin briefly instead of long; "      \
      "count "                                                                                               \
      "regions, resize none; adaptive (experimental): also run regions of which nothing speaks against it "  \
      "at the number "                                                                                       \
      "of "                                                                                                  \
      "threads that is fastest for them; without `corun run` it takes libcorun-adaptive.so in LD_PRELOAD")   \
    X(openmp_runtime, path, "", "", experimental,                                                            \
      "LLVM's or Intel's OpenMP runtime (libomp.so, libiomp5.so) to put under every object of the program; " \
      "refused when the program needs what it lacks. Takes `corun run`, or the same file in LD_PRELOAD")     \
    X(regions, text, "", "", experimental,                                                                   \
      "for CORUN_OPENMP=adaptive: regions that may be resized whatever they ask, as FUNCTION, "              \
      "OBJECT:FUNCTION or OBJECT+0xOFFSET, separated by commas; '*' stands for any text")                    \
    X(chunk, boolean, "yes", "", experimental,                                                               \
      "for CORUN_OPENMP=adaptive: where a loop's schedule is dynamic and nobody chose its chunk, learn how " \
      "many iterations a thread takes at a time")                                                            \
    X(pool_cap, boolean, "yes", "", stable,                                                                  \
      "cap TensorFlow's compute and Eigen pools, PyTorch's and OpenBLAS's threads at the budget")            \
    X(blas_limits, boolean, "yes", "", stable,                                                               \
      "run BLAS and LAPACK calls that are too small to gain from threads on fewer, and share the CPUs "      \
      "among threads that call side by side, whatever has been learned")                                     \
    X(ledger, boolean, "yes", "", stable,                                                                    \
      "when several threads run PyTorch's ops at once, each with a team of its own, an op gets its "         \
      "thread's "                                                                                            \
      "part of the budget, at least one CPU")                                                                \
    X(reproducible, boolean, "no", "", stable,                                                               \
      "freeze every width from the profile (or the program's own); explore nothing")                         \
    X(node, choice, "no", "auto|no", stable,                                                                 \
      "share the CPUs with this user's other programs under corun, fairly, instead of competing for them")   \
    X(weight, number, "1", "0.01..100", stable,                                                              \
      "for CORUN_NODE: twice the weight, twice the CPUs; niceness counts as well")                           \
    X(profile, path, "", "", stable,                                                                         \
      "file that keeps what was learned; read at start, merged when something was decided, then every ten "  \
      "minutes and at exit")                                                                                 \
    X(report, path, "", "", stable,                                                                          \
      "file for the report at exit, .txt or .json; %p in it stands for the process id")                      \
    X(log, choice, "warning", "quiet|error|warning|info|debug", stable, "what is said on stderr")            \
    X(follow, choice, "exec", "no|fork|exec", stable,                                                        \
      "which children are tuned too: no; exec: those that start a program; fork: forked ones as well")       \
    X(strict, boolean, "no", "", testing, "a fault of corun ends the program (for tests)")                   \
    X(cgroup_root, path, "/sys/fs/cgroup", "", testing, "where the cgroup hierarchies are mounted")          \
    X(node_folder, path, "", "", testing,                                                                    \
      "where the file lies in which programs meet for CORUN_NODE; empty: /dev/shm, or XDG_RUNTIME_DIR")      \
    X(emulated_cpus, integer, "0", "0..4096", testing,                                                       \
      "CPUs of a machine that is not there, in the place of the affinity mask; 0: the mask counts")          \
    X(seed, integer, "0", "0..2147483647", testing, "seed of the random order of windows; 0: from the time")

enum class OptionId : std::size_t {
#define X(id, ...) id,
    CORUN_OPTIONS(X)
#undef X
        count
};

inline constexpr std::size_t kOptionCount = static_cast<std::size_t>(OptionId::count);

/// The table, in the order of OptionId.
[[nodiscard]] const std::array<OptionRow, kOptionCount>& option_table();

/// The values in force. Plain and fixed in size: it may be read before constructors ran and never allocates.
struct Options {
    static constexpr std::size_t kText = 512;
    std::array<std::array<char, kText>, kOptionCount>
        text{};                            ///< as text, NUL-terminated, the default if unset
    std::array<bool, kOptionCount> set{};  ///< given by the user (and valid)

    [[nodiscard]] std::string_view operator[](OptionId id) const;
    [[nodiscard]] long integer(OptionId id) const;
    [[nodiscard]] double number(OptionId id) const;
    [[nodiscard]] bool boolean(OptionId id) const;
    [[nodiscard]] bool is(OptionId id, std::string_view value) const { return (*this)[id] == value; }
    [[nodiscard]] bool has_word(OptionId id, std::string_view word) const;  ///< list contains word or "all"
};

/// Checks one value. On an error writes one sentence (with the nearest valid name where there is one) into
/// `message` (at most `size` bytes) and returns false. Never allocates.
[[nodiscard]] bool check_option(const OptionRow& row, std::string_view value, char* message,
                                std::size_t size);

/// The row whose name is nearest to `name` by edit distance, or nullptr when none is near.
[[nodiscard]] const OptionRow* nearest_option(std::string_view name);

/// Reads all options from an environment (as in environ). For each unknown CORUN_ name or bad value calls
/// `warn` once with one sentence; the default is kept. Never allocates.
void read_options(const char* const* environment, Options& options, void (*warn)(const char* sentence));

}  // namespace corun
