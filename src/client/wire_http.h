/* SPDX-License-Identifier: MIT
 *
 * What the two files of the HTTP wire owe each other: wire_http.c is the wire with its
 * session, wire_http_post.c one message with its answer. */
#ifndef TDG_CLIENT_WIRE_HTTP_H
#define TDG_CLIENT_WIRE_HTTP_H

#include "client/conduit.h"
#include "client/sse.h"

typedef struct tdg__http {
    tdg__conduit_t conduit; /* first */
    tdg__web_t *web;
    char *url, *session;    /* session: NULL where there is none */
    tdg__version_t version; /* spoken last, for DELETE */
    tdg__exchange_t *goodbye;
    void (*opening)(void *user, int code, const char *why); /* to be called soon */
    void (*ending)(void *user); /* likewise, or after DELETE */
} tdg__http_t;

/* What the body of the answer is. */
typedef enum tdg__post_body {
    TDG__POST_NO_HEAD,
    TDG__POST_JSON,
    TDG__POST_EVENTS,
    TDG__POST_OF_ERROR,
    TDG__POST_OF_NO_INTEREST,
} tdg__post_body_t;

typedef struct tdg__post {
    tdg__carry_t base; /* first */
    tdg__exchange_t *exchange;
    tdg__version_t version;
    bool initialize, stream, listen;
    bool with_session; /* the last request of it carried one */
    char *new_session; /* from the answer to initialize, until that has succeeded */

    tdg__post_body_t body;
    tdg__text_t text; /* JSON, or the body of an error */
    tdg__sse_t sse;
    int status;
    char *authenticate;
    int64_t retry_after_ms;

    char *last_id; /* of the stream; NULL: none */
    void (*event_id)(void *user, const char *id);
    uint32_t retry_ms;
    unsigned resumes;
    bool resuming; /* the exchange is a GET for the rest of a stream */
    bool odd;      /* something came that is no message */
    bool even;     /* and something that is */
    int failed;    /* while messages were read: TDG_ENOMEM */
    bool reading;  /* events are being read: its memory must stay */
    bool gone;     /* and goes after that */
} tdg__post_t;

/* The carry is in the list, and all zero beyond that. `out` is borrowed for the call. */
void tdg__post_init(tdg__post_t *post, const tdg__parcel_out_t *out);

/* Begin to send. Return 0, TDG_ENOMEM or TDG_EINVAL. */
int tdg__post_begin(tdg__post_t *post, const tdg__parcel_out_t *out);
int tdg__post_begin_get(tdg__post_t *post, const char *after, uint32_t head_timeout_ms,
                        uint32_t total_timeout_ms);

/* For the table of the conduit. */
void tdg__post_turn(tdg__carry_t *carry);
void tdg__post_stop(tdg__carry_t *carry);
void tdg__post_release(tdg__carry_t *carry);

#endif
