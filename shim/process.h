// SPDX-License-Identifier: Apache-2.0
// Start, fork and end of the library in one process, and what of the environment reaches the pure parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policy/controller.h"
#include "shim/budget.h"
#include "shim/options.h"
#include "shim/scope.h"

namespace corun {

/// Reads options, registers fork handling. Idempotent, callable from a hook before any constructor ran.
void process_start() noexcept;

const Options& process_options() noexcept;
Budget process_budget();  ///< as it is now
/// The same by the mask that the process was started with: a program may pin its first thread before it asks,
/// and its teams are to be as wide as before. OpenMP runtimes count in that way too.
Budget process_start_budget();
/// For what is set once and stays: without the share of the node, which comes and goes.
Budget process_lasting_budget();
std::uint64_t process_seed() noexcept;
std::string process_cpu_model();  ///< reads a file
bool process_frozen() noexcept;   ///< widths are fixed: nothing is tried, and no profile is written
bool process_off() noexcept;  ///< nothing is to be hooked here: CORUN_MODE=off, or a child not to be followed
void process_passive_op();    ///< an op while the hooks are inactive: looks for `corun ctl PID on`

/// A controller with settings from options, for `budget` CPUs; with what the profile holds if wanted.
/// @param now seconds
std::unique_ptr<policy::Controller> process_make_controller(int budget, double now, bool profile = true);
/// What to write into CORUN_PROFILE now, for process_keep_profile(): once something has been decided, and
/// every ten minutes, as many jobs are ended by a signal. Under the driver's lock. @param now seconds
std::optional<model::Profile> process_profile_to_keep(const policy::Controller& controller, double now);
/// Takes some milliseconds. Without the driver's lock.
void process_keep_profile(const model::Profile& profile);
bool process_follows_budget() noexcept;  ///< widths change with it
bool process_limits_widths() noexcept;   ///< also by what is known without measuring

/// What became of each source and what irreversible levers are in force, for the report.
struct SourceStory {
    Source source;
    std::string name, state, version, reason;
    std::vector<std::string> levers;  ///< reversible ones that were seen to be reached
};
struct LeverStory {
    std::string lever, effect, option;
};
/// A lever that acts for good. Said once for each effect.
void lever_in_force(const char* lever, const char* effect, const char* option) noexcept;
std::vector<SourceStory> process_sources();
std::vector<LeverStory> process_levers();
}  // namespace corun
