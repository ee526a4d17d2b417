/* SPDX-License-Identifier: MIT
 *
 * The time of day, in milliseconds since 1970. It may step; for waiting use the loop's.
 */
#ifndef TDG_BASE_CLOCK_H
#define TDG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t tdg__wall_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
