/* SPDX-License-Identifier: MIT
 *
 * What connect.c and handshake.c share: an attempt to connect. */
#ifndef TDG_CLIENT_CONNECT_H
#define TDG_CLIENT_CONNECT_H

#include "client/session/core_internal.h"
#include "client/session/lifesign.h"

/* What an attempt waits for. */
enum tdg__phase {
    TDG__PHASE_NONE,
    TDG__PHASE_OPENING, /* the transport */
    TDG__PHASE_PROBING,
    TDG__PHASE_INITIALISING,
    TDG__PHASE_SAYING_SO, /* notifications/initialized is on its way */
};

struct tdg__connect {
    tdg__core_done_fn done; /* of the first connect; NULL: was called */
    void *user;
    void (*stopped)(void *user);
    void *stop_user;

    tdg__core_timer_t next;  /* attempt; or the work of stopping */
    tdg__core_timer_t limit; /* of the first connect, of a later attempt, of stopping */
    int64_t give_up_at;      /* the end of the first connect */
    size_t closing;          /* transports that are not gone yet */
    bool transport_open;
    tdg__lifesign_t life; /* of the one stream of 2024-11-05 */
    bool said_goodbye;
    bool ever_up;
    bool floor_asked; /* backoff.floor_ms is from a Retry-After */

    enum tdg__phase phase;
    tdg__client_request_t *request; /* PROBING, INITIALISING */
    tdg__delivery_t *notice;        /* SAYING_SO */
    tdg__client_request_t *doubt;   /* a probe or ping while we are up */

    int probes;            /* in this attempt */
    bool initialised;      /* tried in this attempt */
    bool silent;           /* a probe of this attempt was not answered */
    bool ends_when_probed; /* stdio: the program did so */
    tdg__version_t offer;  /* for initialize */
    tdg_failure_t failure; /* the last one; owns its data */
    tdg_event_t *closed;   /* reported at the end where there is no memory for another */
};

/* ---- handshake.c -------------------------------------------------------- */

/* The transport is open: finds out the era, or speaks the one that is known. */
void tdg__handshake_begin(tdg__core_t *core);

/* Nothing is under way any more. */
void tdg__handshake_drop(tdg__core_t *core);

/* What a server/discover says about the server's era while we are up: whether it is
 * another than the modern one. */
bool tdg__handshake_denies_modern(const tdg__outcome_t *outcome);

/* ---- doubt.c ------------------------------------------------------------ */

/* The stream of 2024-11-05 is silent, or dead; see lifesign.h. */
void tdg__doubt_silence(tdg__core_t *core, tdg__lifesign_t *life, const char *dead);

/* ---- connect.c ---------------------------------------------------------- */

void tdg__connect_up(tdg__core_t *core); /* the handshake is over */

/* It failed: waits and tries again, or reports it. `failure` is copied. */
void tdg__connect_failed(tdg__core_t *core, const tdg_failure_t *failure);
void tdg__connect_fail(tdg__core_t *core, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Over HTTP nobody is there: the two endpoints of 2024-11-05 are tried. */
void tdg__connect_use_sse(tdg__core_t *core);

#endif
