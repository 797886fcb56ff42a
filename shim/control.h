// SPDX-License-Identifier: Apache-2.0
// The process's side of the control page (shim/control_page.h).
#pragma once

#include "policy/controller.h"

namespace corun {

void control_start() noexcept;       ///< makes the page; without /dev/shm there is none, and no message
void control_end() noexcept;         ///< removes it
void control_after_fork() noexcept;  ///< the page is the parent's

bool control_off_asked() noexcept;  ///< `off` was asked and has not been obeyed yet
bool control_on_asked() noexcept;
void control_obeyed() noexcept;

void control_write_status(const policy::Controller& controller, int open_scopes);

}  // namespace corun
