// SPDX-License-Identifier: Apache-2.0
#pragma once

struct EarlyLife {
    int ops, pool, limit, inside;
};

/// What the library's constructor saw.
EarlyLife early_life();
