// SPDX-License-Identifier: Apache-2.0
// CORUN_OPENMP_RUNTIME inside the process: the runtime was preloaded (by `corun run`, which has looked at the
// program first) and the loader has bound everything to it, or nothing can be done any more. What is left is
// to see whether that is so, and to tell of objects that came later and stand between two runtimes.
#pragma once

namespace corun {

/// When the options are read. Says so, once in a tree of processes, when the option has no effect.
void openmp_runtime_start() noexcept;

/// A region that was not seen before, opened by the object that holds `body`, which the loader has therefore
/// bound. Looked at once for each object; no more than a load when the option is not in force.
void openmp_runtime_met(const void* body) noexcept;

/// Before the report: looks at every object that is loaded, for not all open regions.
void openmp_runtime_end() noexcept;

}  // namespace corun
