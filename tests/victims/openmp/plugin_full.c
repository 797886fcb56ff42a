// SPDX-License-Identifier: Apache-2.0
// plugin_bare.c whose variables end where a page ends.
#include "plugin_bare.c"

__attribute__((aligned(4096))) char plugin_full[4096];
