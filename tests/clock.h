/* SPDX-License-Identifier: MIT
 *
 * Time that a test lets pass. A program that calls clock_pass() has a monotonic clock of
 * its own, for libuv, for the library and for the test: it runs like the real one, and
 * jumps ahead where the test says so. Event loops of all threads notice within some
 * milliseconds. So intervals can be long enough for any machine, and nobody waits for
 * them. Programs that do so are listed in tests/meson.build.
 *
 * Not reached: sleep(), poll(), condition variables, other processes,
 * and the time of day. */
#ifndef TDG_TESTS_CLOCK_H
#define TDG_TESTS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

void clock_pass(uint32_t ms);

/* While it is on, a loop that has nothing to do until a timer makes that time pass at
 * once, for all. For waits in which nothing but timers is awaited. */
void clock_hurry(bool on);

#endif
