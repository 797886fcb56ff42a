// SPDX-License-Identifier: Apache-2.0
// Preloaded in place of libcorun.so in tests of the command.
extern "C" const int corun_empty_library;
const int corun_empty_library = 1;
