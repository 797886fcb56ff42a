// SPDX-License-Identifier: Apache-2.0
#include "shim/undisturbed.h"

namespace corun {

void undisturbed(void (*action)(void*), void* argument) {
    const Undisturbed quiet;
    action(argument);
}

}  // namespace corun
