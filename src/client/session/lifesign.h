/* SPDX-License-Identifier: MIT
 *
 * Whether an open stream is alive. Every byte shows that it is. How long it may be
 * silent, and what follows, depends on the server:
 *
 *     announces keepAliveMs (ours)   three of them: the stream is dead
 *     any other                      wait_ms: nobody knows, so it is checked
 *
 *                 byte                      wait_ms of silence
 *               ┌──────┐         ┌───────────────────────────────────┐
 *               ▼      │         │                                   ▼
 *     RESTING ─▶ WATCHED ────────┘      wait_ms doubles, up to MOST_MS; the owner checks
 *        ▲         ▲ │                                               │
 *        │         └─┼──────── nothing was missed: it goes on ───────┤
 *        │           │         something was: wait_ms is quiet_ms    │
 *        │           │         (also when the stream brings a change)│
 *        └───────────┴──────── the stream is gone ◀──────────────────┘
 *
 * The owner checks its stream: modern_streams.c, legacy_get.c (with a second stream) and
 * connect.c (with a ping, if everything shares the stream).
 */
#ifndef TDG_CLIENT_LIFESIGN_H
#define TDG_CLIENT_LIFESIGN_H

#include "client/session/core_internal.h"

enum {
    TDG__LIFESIGN_TIMES = 3,       /* announced intervals until it is dead, ... */
    TDG__LIFESIGN_LEAST_MS = 1000, /* ... but never less: the machine may be busy */
    TDG__LIFESIGN_MOST_MS = 10 * 60 * 1000, /* between two checks */
    TDG__LIFESIGN_CHECK_MS = 10 * 1000,     /* for the answer to a check, at most */
    TDG__LIFESIGN_PAUSE_MS = 100,           /* shorter ones are no silence */
};

typedef struct tdg__lifesign tdg__lifesign_t;
struct tdg__lifesign {
    tdg__core_timer_t timer;
    /* There was too much silence: it is dead, for this reason; or (NULL) it is to be
     * checked. */
    void (*silent)(tdg__core_t *core, tdg__lifesign_t *life, const char *dead);
    bool watched;
    bool late;          /* the time was over when last looked at */
    int64_t heard_ms;   /* the last byte */
    uint32_t dead_ms;   /* 0: nothing was announced */
    uint32_t wait_ms;   /* until the next check */
    int64_t message_ms; /* the last message */
    bool candidate;     /* the last sign came after a pause: it may be a keep-alive */
};

/* Lives inside of its owner. Returns 0 or TDG_ENOMEM. */
int tdg__lifesign_init(tdg__core_t *core, tdg__lifesign_t *life,
                       void (*silent)(tdg__core_t *core, tdg__lifesign_t *life,
                                      const char *dead));
void tdg__lifesign_done(tdg__core_t *core, tdg__lifesign_t *life);

/* A stream is open. `keepalive_ms` is what the server announces; 0: nothing. Not `anew`:
 * it takes the place of one that was checked. */
void tdg__lifesign_watch(tdg__core_t *core, tdg__lifesign_t *life, uint32_t keepalive_ms,
                         bool anew);
void tdg__lifesign_rest(tdg__core_t *core, tdg__lifesign_t *life); /* none is */

void tdg__lifesign_heard(tdg__core_t *core, tdg__lifesign_t *life); /* bytes came */
void tdg__lifesign_message(tdg__core_t *core, tdg__lifesign_t *life);

/* How long to wait for the answer to a check. */
uint32_t tdg__lifesign_patience(const tdg__core_t *core);

/* The next check comes after quiet_ms again: the last one has found that something was
 * missed, or the stream has brought a change. */
void tdg__lifesign_restart(tdg__core_t *core, tdg__lifesign_t *life);

/* dev.tidings/keepAliveMs of a `_meta`; 0: it has none that makes sense. */
uint32_t tdg__lifesign_announced(const json_t *meta);

#endif
