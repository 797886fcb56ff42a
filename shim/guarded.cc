// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "shim/message.h"
#include "shim/undisturbed.h"

namespace corun {

void guarded(void (*action)(void*), void* argument) noexcept {
    try {
        action(argument);
    } catch (const std::exception& error) {
        message_fault(error.what());
    }
}

}  // namespace corun
