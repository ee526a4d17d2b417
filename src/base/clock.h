/* SPDX-License-Identifier: MIT
 *
 * The time of day, in milliseconds since 1970. It may step; to wait, use the loop's time
 * or a deadline. */
#ifndef TDG_BASE_CLOCK_H
#define TDG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t tdg__wall_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The end of a wait that begins now, for pthread_cond_timedwait() by CLOCK_MONOTONIC. */
static inline struct timespec tdg__deadline_in(int ms) {
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000L;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}

#endif
