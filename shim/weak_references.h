// SPDX-License-Identifier: Apache-2.0
// `if (omp_set_num_threads) ...`: a program that does without OpenMP where there is none asks the loader by
// a weak reference, which finds our hook and no runtime. It would use names that are not hooked next, and
// those are empty.
#pragma once

namespace corun {

/// Of the objects that the program was started with: words that hold a hook of ours, and would have stayed
/// empty without us, are emptied. To be called before the program runs. A runtime that is loaded later
/// changes nothing of it, as it would not without us.
void empty_weak_references();

}  // namespace corun
