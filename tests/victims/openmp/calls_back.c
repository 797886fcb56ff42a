// SPDX-License-Identifier: Apache-2.0
// A library that calls back what it is given, or (WAITS) keeps whoever opens it waiting for that.
#ifdef WAITS
extern void wait_for_rounds(void) __attribute__((weak));  // of the program
__attribute__((constructor)) static void start(void) {
    wait_for_rounds();
}
#endif

__attribute__((noinline)) void calls_back(void (*what)(long), long items) {
#ifdef OTHER
    __asm__ volatile("nop; nop; nop");
#endif
    what(items);
    __asm__ volatile("");  // no tail call
}
