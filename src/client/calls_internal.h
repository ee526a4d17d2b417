/* SPDX-License-Identifier: MIT
 *
 * What calls.c, carried.c, messages.c and input.c share: a request while it is under way.
 */
#ifndef TDG_CLIENT_CALLS_INTERNAL_H
#define TDG_CLIENT_CALLS_INTERNAL_H

#include "client/internal.h"
#include "client/tool_headers.h"

enum tdg__asked_state {
    TDG__ASKED_WAITING, /* for the session */
    TDG__ASKED_SENT,
    TDG__ASKED_ROUND,  /* answered with a question; to be sent again with the answers */
    TDG__ASKED_FAILED, /* `done` is to be called from the next tick */
    TDG__ASKED_OVER,   /* `done` was called; the wire has not let go yet */
};

struct tdg__asked {
    tdg__asked_t *next, *prev;
    tdg__core_t *core;
    enum tdg__asked_state state;
    char id[24]; /* JSON text; that of the last sending */
    char *method;
    json_t *params;  /* as given, or NULL */
    json_t *answers; /* to what the server wanted to know: more params, or NULL */
    tdg__tool_headers_t headers;
    const tdg__stream_calls_t *stream;
    uint32_t timeout_ms;
    int64_t deadline;
    tdg__version_t version; /* early */
    bool early;
    bool opened;   /* a stream */
    bool repeated; /* sent again after a loss: once is enough */
    bool renewed;  /* the same for the token */
    int rounds;

    tdg__core_timer_t timer;
    tdg__wire_t *wire; /* that carries it */
    tdg__carry_t *carry;
    tdg__asked_fn done;
    void *user;

    int fail_code; /* FAILED */
    char *fail_why;
};

struct tdg__calls {
    tdg__asked_t *first, *last;
    size_t count; /* that are not OVER */
    size_t loose; /* notifications and responses on their way */
    bool held;    /* the session is up, its stream is still being opened */
    uint64_t next_id;
};

/* Whether a request that is made now goes out now. */
bool tdg__calls_go(const tdg__core_t *core);

/* What a wire calls while it carries a request (carried.c); the user is the request. */
extern const tdg__carry_calls_t tdg__carried_calls;

/* Whether it speaks, or will speak, the modern protocol. */
bool tdg__asked_modern(const tdg__asked_t *asked);

/* Tells whoever asked. The request is gone then; or it stays, unseen, until the wire has
 * let go of it. */
void tdg__asked_finish(tdg__asked_t *asked, const tdg__outcome_t *outcome);
void tdg__asked_failed(tdg__asked_t *asked, const tdg_failure_t *failure,
                       tdg__carry_end_t end, int64_t retry_after_ms);

void tdg__asked_send(tdg__asked_t *asked);       /* now; or fails from the next tick */
void tdg__asked_start_time(tdg__asked_t *asked); /* its time-out begins anew */
void tdg__asked_remove(tdg__asked_t *asked);     /* without a call; the wire let go */
void tdg__asked_tell_cancelled(tdg__asked_t *asked, const char *reason);

/* The server wants to know something first (a result of type input_required): finds it
 * out, and makes asked->answers. Returns 0, or a code with *failure written. */
int tdg__input_round(tdg__asked_t *asked, const json_t *result, tdg_failure_t *failure);

/* A request of the server: answers it. */
void tdg__input_request(tdg__core_t *core, const tdg__rpc_message_t *message);

/* Sends a response of ours. Where there are too many on their way, it is dropped. */
void tdg__calls_respond(tdg__core_t *core, const tdg__text_t *text);

#endif
