/* SPDX-License-Identifier: MIT
 *
 * Subscriptions of the legacy era: requests about each (legacy_subs.c), and the GET
 * stream on which updates come over HTTP (legacy_get.c). */
#ifndef TDG_CLIENT_LEGACY_H
#define TDG_CLIENT_LEGACY_H

#include "client/session/lifesign.h"
#include "client/subs/sub.h"

/* One GET request. */
typedef struct tdg__legacy_get_request {
    tdg__core_t *core;
    tdg__delivery_t *delivery; /* NULL: there is none */
} tdg__legacy_get_request_t;

/* The GET stream of a session. Changed by enter() in legacy_get.c alone, which has the
 * table.
 *
 *                           ┌────────the server shows it───────┐
 *                           │                                  ▼
 *     CLOSED ──needed──▶ OPENING ──no head so far──▶ ASSUMED ◀──▶ OPEN
 *       │ ▲
 *       │ └── over, or not needed any more: from any state
 *       ├──lost, or refused for now──▶ WAITING ──the retry timer──▶ CLOSED
 *       └──refused for good──────────▶ MISSING, as long as the session lasts
 *
 * From OPEN to ASSUMED: the one beside takes its place, and has no head so far.
 */
typedef enum tdg__legacy_get_state {
    TDG__LEGACY_GET_CLOSED,
    TDG__LEGACY_GET_WAITING, /* for the retry timer */
    TDG__LEGACY_GET_MISSING, /* the server has none */
    TDG__LEGACY_GET_OPENING, /* from here on there is a request */
    TDG__LEGACY_GET_ASSUMED, /* counts as open, but has not shown it */
    TDG__LEGACY_GET_OPEN,
} tdg__legacy_get_state_t;

/* What the second GET stream is there for; see legacy_get.c. */
typedef enum tdg__legacy_get_check {
    TDG__LEGACY_GET_UNCHECKED, /* there is none */
    TDG__LEGACY_GET_BESIDE,    /* it is being opened, to take the place of `now` */
    TDG__LEGACY_GET_COMPARING, /* it is the one before, until everything was compared */
} tdg__legacy_get_check_t;

/* The GET stream of a legacy session. */
struct tdg__legacy_get {
    tdg__transport_t *transport; /* that has the requests */
    tdg__legacy_get_request_t streams[2];
    tdg__legacy_get_request_t *now; /* one of them */
    tdg__legacy_get_state_t state;  /* of `now` */
    tdg__legacy_get_check_t check;  /* what the other is */
    int64_t retry_ms;               /* WAITING: not before */
    bool gap;                       /* nobody listened for a while */
    bool renewed;                   /* the token, since it was open last */
    bool lazy_head;                 /* the server sends the head with the first event */
    bool refused;            /* a check was: the next stream goes on with its wait */
    unsigned conflicts;      /* 409 since it was open last */
    char *event_id;          /* the last one; NULL: none */
    tdg__core_timer_t timer; /* until it counts as open; until a check is over */
    tdg__lifesign_t life;
};

void tdg__legacy_subs_work(tdg__core_t *core);
void tdg__legacy_subs_down(tdg__core_t *core);
void tdg__legacy_subs_queue(tdg__core_t *core, tdg__sub_t *sub);
bool tdg__legacy_subs_well(const tdg__core_t *core);

int tdg__legacy_get_init(tdg__core_t *core);
void tdg__legacy_get_done(tdg__core_t *core);
void tdg__legacy_get_work(tdg__core_t *core); /* opens it where there is to be one */
void tdg__legacy_get_drop(tdg__core_t *core);
void tdg__legacy_get_retry(tdg__core_t *core);       /* where it has waited long enough */
bool tdg__legacy_get_ready(const tdg__core_t *core); /* it is open, or none is needed */

#endif
