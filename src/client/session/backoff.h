/* SPDX-License-Identifier: MIT
 *
 * The wait before the next attempt: it doubles from `first_ms` up to `max_ms`, with
 * jitter (between half of it and all of it), is never shorter than the server requires,
 * and at most `per_minute` attempts happen within any 60 s. Pure: time and random bits
 * are arguments. */
#ifndef TDG_CLIENT_BACKOFF_H
#define TDG_CLIENT_BACKOFF_H

#include <stdint.h>

enum { TDG__BACKOFF_MAX_PER_MINUTE = 120, TDG__BACKOFF_STEADY_MS = 10000 };

typedef struct tdg__backoff {
    uint32_t first_ms, max_ms, per_minute;
    uint32_t floor_ms;   /* what the server asked for last; 0: nothing */
    uint32_t failures;   /* in a row */
    int64_t up_since_ms; /* -1: not up */
    int64_t attempts[TDG__BACKOFF_MAX_PER_MINUTE]; /* when: the last ones, sorted */
    uint32_t attempt_count;
} tdg__backoff_t;

void tdg__backoff_init(tdg__backoff_t *backoff, uint32_t first_ms, uint32_t max_ms,
                       uint32_t per_minute);

/* What the server asks for; holds for the waits that follow, until it asks anew. Bounded
 * to ten minutes. */
void tdg__backoff_floor(tdg__backoff_t *backoff, int64_t ms);

/* When the server allows to try again what has failed now: `retry_after_ms` is what it
 * asked for this one (-1: nothing), bounded likewise. */
int64_t tdg__backoff_earliest(const tdg__backoff_t *backoff, int64_t now_ms,
                              int64_t retry_after_ms);

/* It worked. Only what has lasted TDG__BACKOFF_STEADY_MS by the time it fails makes the
 * waits short again: a server that accepts and closes at once is not met with a storm. */
void tdg__backoff_up(tdg__backoff_t *backoff, int64_t now_ms);

/* It failed, or was lost. When to try again; `random` is any number. The attempt counts
 * as made at that time. */
int64_t tdg__backoff_next(tdg__backoff_t *backoff, int64_t now_ms, uint64_t random);

#endif
