// SPDX-License-Identifier: Apache-2.0
// CORUN_OPENMP=safe: how many threads a thread of the program may have, and what becomes of a number that the
// program sets itself. Pure: the shim asks the runtime for the facts and applies the answer.
#pragma once

#include <climits>
#include <string_view>

namespace corun::policy {

/// What a thread's number can be explained by if nobody chose it in the program.
struct NumberSources {
    int processors = 0;       ///< CPUs by the runtime's own count, as it is now
    int affinity = 0;         ///< CPUs in the mask that the process was started with
    int environment = 0;      ///< OMP_NUM_THREADS that the process was started with; 0: none
    int environment_now = 0;  ///< the same as it is now
};

/// What is known of a thread when it asks for its number, or opens a region without having asked.
struct NumberFacts {
    int own = 1;  ///< the runtime's number of this thread
    NumberSources sources;
    int limit = INT_MAX;  ///< budget or start width; INT_MAX: nothing is to be capped
    bool held = false;    ///< in a forked child: the runtime would wait for threads that the parent has
};

enum class CapReason {
    within,       ///< not above the limit
    program,      ///< nothing but the program can have chosen it: its own word
    environment,  ///< OMP_NUM_THREADS is above the limit
    machine,      ///< the runtime took the CPUs that it sees
    held,
};

struct Cap {
    int threads;  ///< never above `own`
    CapReason reason;
    [[nodiscard]] bool changes() const { return reason != CapReason::within && reason != CapReason::program; }
};

/// The number that the thread is to have from now on.
[[nodiscard]] Cap cap_number(const NumberFacts& facts);

/// The program sets a thread's number.
struct SetFacts {
    int wanted = 1;
    NumberSources sources;
    int limit = INT_MAX;
    bool held = false;
    bool inside = false;  ///< a region, with which the number ends
};

enum class SetReason {
    held,    ///< one thread, see NumberFacts
    region,  ///< of the region only: nothing else changes
    own,     ///< the program's own word for good
    /// It repeats what the environment says. It may cut its work by this number, so the next region has it;
    /// if it asks first, it hears the cap and goes by that.
    repeats,
};

struct SetNumber {
    int threads;
    SetReason reason;
};

[[nodiscard]] SetNumber set_number(const SetFacts& facts);

/// A word for the report.
[[nodiscard]] const char* reason_name(CapReason reason);

// --- OMP_NUM_THREADS
// ---------------------------------------------------------------------------------------------

/// The outermost number of a plain list ("16", " 16 , 2"): digits, commas and blanks. 0 of all else, which
/// runtimes read in ways of their own.
[[nodiscard]] int outermost_number(std::string_view list);

/// Lowers the outermost number of a plain list to `limit` (at least 1) in place; the text never gets longer.
/// False, and nothing is changed, when it is no plain list or not above the limit.
bool lower_outermost(char* list, int limit);

/// Whether a word of a command line holds `number` or up to kMostRanks times it. A program that is told its
/// number in two places may compare them, and give up when they differ (GROMACS does): both stay then.
[[nodiscard]] bool word_names(std::string_view word, int number);
inline constexpr int kMostRanks = 16;

}  // namespace corun::policy
