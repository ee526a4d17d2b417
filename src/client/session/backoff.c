/* SPDX-License-Identifier: MIT */
#include "client/session/backoff.h"

#include <string.h>

enum { MINUTE_MS = 60000, MAX_FLOOR_MS = 600000, STEP_MS = 100 };

void tdg__backoff_init(tdg__backoff_t *backoff, uint32_t first_ms, uint32_t max_ms,
                       uint32_t per_minute) {
    memset(backoff, 0, sizeof(*backoff));
    backoff->first_ms = first_ms > 0 ? first_ms : 1;
    backoff->max_ms = max_ms > backoff->first_ms ? max_ms : backoff->first_ms;
    backoff->per_minute = per_minute == 0 ? 1
                          : per_minute > TDG__BACKOFF_MAX_PER_MINUTE
                              ? TDG__BACKOFF_MAX_PER_MINUTE
                              : per_minute;
    backoff->up_since_ms = -1;
}

void tdg__backoff_floor(tdg__backoff_t *backoff, int64_t ms) {
    backoff->floor_ms = ms < MAX_FLOOR_MS ? (uint32_t)ms : MAX_FLOOR_MS;
}

/* In steps, so that what is refused one by one is tried again together. */
int64_t tdg__backoff_earliest(const tdg__backoff_t *backoff, int64_t now_ms,
                              int64_t retry_after_ms) {
    int64_t wait =
        retry_after_ms > backoff->floor_ms ? retry_after_ms : backoff->floor_ms;

    if (wait <= 0)
        return now_ms;
    if (wait > MAX_FLOOR_MS)
        wait = MAX_FLOOR_MS;
    return (now_ms + wait + STEP_MS - 1) / STEP_MS * STEP_MS;
}

void tdg__backoff_up(tdg__backoff_t *backoff, int64_t now_ms) {
    if (backoff->up_since_ms < 0)
        backoff->up_since_ms = now_ms;
}

/* Between half of the wait and all of it. */
static uint32_t jittered(const tdg__backoff_t *backoff, uint64_t random) {
    uint64_t wait = backoff->first_ms;

    for (uint32_t i = 0; i < backoff->failures && wait < backoff->max_ms; i++)
        wait *= 2;
    if (wait > backoff->max_ms)
        wait = backoff->max_ms;
    return (uint32_t)(wait / 2 + random % (wait - wait / 2 + 1));
}

/* The oldest of the last `per_minute` has to be a minute ago. Where another one is
 * planned for later than this one, that holds as well: it is as far from the oldest. */
static int64_t allowed(const tdg__backoff_t *backoff, int64_t at_ms) {
    int64_t from;

    if (backoff->attempt_count < backoff->per_minute)
        return at_ms;
    from = backoff->attempts[0] + MINUTE_MS;
    return at_ms > from ? at_ms : from;
}

/* Sorted: what is planned now may come before what was planned earlier. */
static void remember(tdg__backoff_t *backoff, int64_t at_ms) {
    int64_t *attempts = backoff->attempts;
    uint32_t i;

    if (backoff->attempt_count == backoff->per_minute) {
        backoff->attempt_count--;
        memmove(attempts, attempts + 1, backoff->attempt_count * sizeof(attempts[0]));
    }
    for (i = backoff->attempt_count; i > 0 && attempts[i - 1] > at_ms; i--)
        attempts[i] = attempts[i - 1];
    attempts[i] = at_ms;
    backoff->attempt_count++;
}

int64_t tdg__backoff_next(tdg__backoff_t *backoff, int64_t now_ms, uint64_t random) {
    uint32_t wait;
    int64_t at;

    if (backoff->up_since_ms >= 0 &&
        now_ms - backoff->up_since_ms >= TDG__BACKOFF_STEADY_MS)
        backoff->failures = 0;
    backoff->up_since_ms = -1;

    wait = jittered(backoff, random);
    if (backoff->failures < UINT32_MAX)
        backoff->failures++;
    if (wait < backoff->floor_ms)
        wait = backoff->floor_ms;
    at = allowed(backoff, now_ms + wait);
    remember(backoff, at);
    return at;
}
