// SPDX-License-Identifier: Apache-2.0
// A library that is opened for what it needs: plugin_bare.c, and behind that a runtime which comes before the
// one that plugin_bare.c needs itself.
int plugin_bare(void);

int root_bare(void) {
    return plugin_bare();
}
