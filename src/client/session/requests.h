/* SPDX-License-Identifier: MIT
 *
 * What requests.c, request_end.c, incoming.c and input.c share: a request in flight. */
#ifndef TDG_CLIENT_REQUESTS_H
#define TDG_CLIENT_REQUESTS_H

#include "base/queue.h"
#include "client/session/core_internal.h"

enum tdg__client_request_state {
    TDG__CLIENT_REQUEST_WAITING, /* for the session */
    TDG__CLIENT_REQUEST_SENT,
    TDG__CLIENT_REQUEST_ROUND, /* answered with a question; sent again with the answers */
    TDG__CLIENT_REQUEST_FAILED, /* `done` is to be called from the next tick */
    TDG__CLIENT_REQUEST_OVER,   /* `done` was called; the transport has not let go yet */
};

struct tdg__client_request {
    tdg__queue_t in_requests;
    tdg__core_t *core;
    enum tdg__client_request_state state;
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
    tdg__transport_t *transport; /* that carries it */
    tdg__delivery_t *delivery;
    tdg__outcome_fn done;
    void *user;

    int fail_code; /* FAILED */
    char *fail_why;
};

struct tdg__client_requests {
    tdg__queue_t all;
    size_t count; /* that are not OVER */
    size_t loose; /* notifications and responses on their way */
    bool held;    /* the session is up, its stream is still being opened */
    uint64_t next_id;
};

/* Whether a request that is made now goes out now. */
bool tdg__client_requests_go(const tdg__core_t *core);

/* What a transport calls while it carries a request (request_end.c); the user is the
 * request. */
extern const tdg__delivery_calls_t tdg__client_request_delivery_calls;

/* Whether it speaks, or will speak, the modern protocol. */
bool tdg__client_request_modern(const tdg__client_request_t *request);

/* Calls `done`. The request is gone then; or it stays, unseen, until the transport
 * has let go of it. */
void tdg__client_request_finish(tdg__client_request_t *request,
                                const tdg__outcome_t *outcome);
void tdg__client_request_failed(tdg__client_request_t *request,
                                const tdg_failure_t *failure, tdg__delivery_end_t end,
                                int64_t retry_after_ms);

/* Sends it now, or has it fail from the next tick; has its time-out begin anew; removes
 * it without a call, where the transport let go. */
void tdg__client_request_send(tdg__client_request_t *request);
void tdg__client_request_start_time(tdg__client_request_t *request);
void tdg__client_request_remove(tdg__client_request_t *request);
void tdg__client_request_tell_cancelled(tdg__client_request_t *request,
                                        const char *reason);

/* The server wants to know something first (a result of type input_required): finds it
 * out, and makes request->answers. Returns 0, or a code with *failure written. */
int tdg__input_round(tdg__client_request_t *request, const json_t *result,
                     tdg_failure_t *failure);

/* A request of the server: answers it. */
void tdg__input_request(tdg__core_t *core, const tdg__rpc_message_t *message);

/* Sends a response of ours. Where there are too many on their way, it is dropped. */
void tdg__core_respond(tdg__core_t *core, const tdg__text_t *text);

#endif
