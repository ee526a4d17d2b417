/* SPDX-License-Identifier: MIT
 *
 * Returns memory to the system after a flood: otherwise the C library keeps what was
 * freed. One worker checks periodically how much memory the process has; if that is much
 * more than before and has stopped growing, a separate thread returns what is free. If
 * that helps little, the rest is in use: the next attempts come at growing intervals, or
 * when clients have disconnected. */
#ifndef TDG_SERVER_TRIM_H
#define TDG_SERVER_TRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

typedef struct tdg__trim {
    int64_t look_ms;   /* of the last look */
    int64_t try_ms;    /* not to try before */
    int64_t wait_ms;   /* ... which was so long after the last time */
    size_t low_bytes;  /* the least that the process had; 0: never looked */
    size_t last_bytes; /* what it had at the last look, ... */
    size_t then_bytes; /* ... and at the last try; 0: what came of it is known */
    uint64_t then_load;
    bool has_thread;
    uv_thread_t thread;
} tdg__trim_t; /* zeroed at first */

/* Looks, if it is time to. `load` is how much there is to keep memory for: subscriptions
 * and connections. */
void tdg__trim_tick(tdg__trim_t *trim, int64_t now_ms, uint64_t load);
void tdg__trim_done(tdg__trim_t *trim);

/* The decision: whether to try, where the process has so many bytes now. */
bool tdg__trim_is_due(tdg__trim_t *trim, int64_t now_ms, size_t bytes, uint64_t load);

#endif
