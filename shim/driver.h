// SPDX-License-Identifier: Apache-2.0
// Between the hooks' plain state and the pure controller: op records, samples, windows, tables.
#pragma once

#include <functional>

#include "policy/controller.h"
#include "shim/state.h"

namespace corun {

/// Makes the record table and the controller. One caller at a time. @param anew where they are there: the
/// profile is another one now. False when that failed; nothing is hooked then.
bool driver_start(bool anew) noexcept;

ThreadState* driver_attach_thread() noexcept;  ///< nullptr: this thread is left alone
OpRecord* driver_resolve(Source source, const void* identity, std::uint32_t shape, const void* call) noexcept;

/// The core's visit at `now`: drains samples, ends windows, polls the control page. `anchor` is the record of
/// an op that is an anchor and begins now, or nullptr. Returns at once when another thread is at it.
void driver_visit(std::uint64_t now, const OpRecord* anchor) noexcept;

/// Stops (false) or resumes (true) the hooks' work in this process.
void driver_set_active(bool active) noexcept;

/// Around fork() in the parent: nobody is in the middle of a change when the child gets its copy.
void driver_begin_fork() noexcept;
void driver_end_fork() noexcept;
/// The latter's place in a child that is tuned: the other threads are gone.
void driver_after_fork() noexcept;

/// Figures that only the shim knows, for the report.
struct DriverFigures {
    double seconds = 0.0;              ///< since activation
    std::uint64_t dropped = 0;         ///< samples
    std::vector<std::uint64_t> calls;  ///< by op
    std::vector<bool> container;       ///< by op
    std::array<std::uint64_t, static_cast<std::size_t>(Source::count)> ops{};
    std::array<std::uint64_t, static_cast<std::size_t>(Source::count)> async_ops{};
    int open_scopes = 0;
    std::vector<const policy::Controller*> epochs;  ///< one for each budget
};

/// Adds what is counted by thread; `calls` and `container` have their size already.
void figures_of_threads(DriverFigures& out);
void take_samples(std::vector<RawSample>& batch);  ///< out of the threads' rings, under the driver's lock
policy::Histogram work_of_threads(double tick);    ///< seconds so far. @param tick of one

/// Calls `reader` under the driver's lock, samples drained, with the controller that had most of the time.
/// False when no source was ever active.
bool driver_read(const std::function<void(policy::Controller&, const DriverFigures&)>& reader);

/// At the end of the process: it leaves the node.
void driver_end() noexcept;

}  // namespace corun
