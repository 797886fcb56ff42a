// SPDX-License-Identifier: Apache-2.0
// A library that needs one runtime itself and is needed, beside another runtime, by the library that is
// opened: the loader gives it the other, as it gives scikit-learn torch's.
int between_team(int want, int* told);
int plugin_team(int want, int* told) {
    return between_team(want, told);
}
