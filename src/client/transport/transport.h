/* SPDX-License-Identifier: MIT
 *
 * A transport carries JSON-RPC messages between the client and one server. There are
 * three, all behind one table of functions: Streamable HTTP (transport_http.c), the pair
 * of endpoints of 2024-11-05 (transport_sse.c) and a program's stdio (transport_stdio.c).
 * A fourth stands in the tests, with simulated time.
 *
 * A transport knows only `id`, `method` and the parts of a message that the protocol puts
 * into HTTP headers. It starts no request on its own, except that an HTTP transport
 * fetches the rest of a broken legacy POST stream by GET with Last-Event-ID.
 *
 * Calls (of both kinds) never come from inside of a function of the transport. */
#ifndef TDG_CLIENT_TRANSPORT_H
#define TDG_CLIENT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <uv.h>

#include "mcp/rpc.h"
#include "mcp/version.h"
#include "web/web.h"

typedef struct tdg__transport tdg__transport_t;

typedef enum tdg__transport_kind {
    TDG__TRANSPORT_HTTP,
    TDG__TRANSPORT_SSE,
    TDG__TRANSPORT_STDIO,
} tdg__transport_kind_t;

/* What a transport is made from. Texts are borrowed until it is closed. */
typedef struct tdg__transport_opts {
    const char *url; /* HTTP, SSE: the server's */
    tdg__web_opts_t web;
    const char *const *argv, *const *env; /* STDIO: the program; env NULL: ours */
    const char *cwd;                      /* NULL: ours */
    size_t max_message_bytes;
} tdg__transport_opts_t;

typedef struct tdg__delivery
    tdg__delivery_t; /* one message on its way, with its answers */

/* How it ended. */
typedef enum tdg__delivery_end_kind {
    TDG__DELIVERY_DONE,   /* the response was delivered, or a notification was taken; a
                              stream: it was closed in order (what came before shows
                              whether it was complete) */
    TDG__DELIVERY_STATUS, /* HTTP: another status than 2xx; see `status` and `error` */
    TDG__DELIVERY_NO_SESSION, /* HTTP: 404 to a request with a session id */
    TDG__DELIVERY_BROKEN, /* ended, or was cut, before the response; `sent` says whether
                              the server may have got it */
    TDG__DELIVERY_TIMEOUT,
    TDG__DELIVERY_NONSENSE, /* the answer is not valid MCP: type, JSON, JSON-RPC, size */
    TDG__DELIVERY_AWAY,     /* no connection */
    TDG__DELIVERY_REFUSED,  /* by us: tdg__web_end_t.code is TDG_EREFUSED or TDG_EINVAL */
    TDG__DELIVERY_NO_MEMORY,
} tdg__delivery_end_t;

/* Borrowed for the call. */
typedef struct tdg__delivery_report {
    tdg__delivery_end_t end;
    int code;                       /* NONSENSE: TDG_EJSON or TDG_ETOOLARGE; REFUSED:
                                       TDG_EREFUSED or TDG_EINVAL; 0: the first */
    int status;                     /* HTTP, where there was an answer; else 0 */
    const tdg__rpc_message_t *body; /* STATUS, NO_SESSION: the JSON-RPC error in the body,
                                       or NULL */
    const char *error;              /* one line for people; "" for DONE */
    int64_t retry_after_ms;         /* HTTP: Retry-After; -1: not said */
    bool sent;
} tdg__delivery_report_t;

typedef struct tdg__delivery_calls {
    /* HTTP: the head of the answer has come: a stream is open. Others: it was written.
     * May be NULL. */
    void (*opened)(void *user, int status);
    /* A message that came with the answer, the response among them. */
    void (*message)(void *user, tdg__rpc_message_t *message);
    void (*alive)(void *user); /* a sign of life on a stream: any byte; may be
                                  NULL */
    void (*retry)(void *user, uint32_t ms); /* the stream's `retry`; may be NULL */
    void (*ended)(void *user,
                  const tdg__delivery_report_t *report); /* last; it is gone */
} tdg__delivery_calls_t;

typedef struct tdg__transport_calls {
    /* A message that belongs to no delivery: on stdio and 2024-11-05 everything but the
     * responses to what was sent. */
    void (*message)(void *user, tdg__rpc_message_t *message);
    /* The channel that everything shares is lost (stdio: the program has ended;
     * 2024-11-05: its stream). All deliveries have ended as BROKEN before. Not for HTTP.
     */
    void (*lost)(void *user, const char *why);
    void (*alive)(void *user); /* 2024-11-05: a sign of life on its stream */
    void (*retry)(void *user, uint32_t ms);
    void (*said)(void *user, const char *line); /* stdio: standard error */
    void (*warn)(void *user, const char *line); /* something odd that was put up with */
} tdg__transport_calls_t;

/* A message to send. Everything is copied. */
typedef struct tdg__outgoing {
    const char *id; /* JSON text, as in the message; NULL: a notification or response */
    const char *method; /* NULL: a response of ours */
    const char *name;   /* modern: what Mcp-Name mirrors (plain text), or NULL */
    const tdg__web_field_t *params; /* modern: Mcp-Param-... headers, encoded already */
    size_t param_count;
    const char *text; /* the message as JSON text, one line */
    size_t len;
    tdg__version_t version; /* spoken; UNKNOWN for initialize: no version header */
    bool stream;            /* modern listen: stays open, `alive` */
    uint32_t timeout_ms;    /* HTTP: until it is over; 0: the sender cancels in time */
} tdg__outgoing_t;

typedef struct tdg__transport_ops {
    const char *name; /* "http", "sse", "stdio" */
    bool shared;      /* one channel for everything: its loss is everything's */

    /* Begins to be usable: stdio starts the program, sse opens its stream. HTTP: at once.
     * `opened` with 0 or a code follows, or `lost`. */
    int (*open)(tdg__transport_t *transport,
                void (*opened)(void *user, int code, const char *why));

    int (*send)(tdg__transport_t *transport, const tdg__outgoing_t *out,
                const tdg__delivery_calls_t *calls, void *user, tdg__delivery_t **ret);

    /* Legacy HTTP: the GET stream of the session, with Last-Event-ID where `after` is
     * given. `event_id` is called with every id that arrives. 405 ends it as STATUS. NULL
     * where the transport has none because everything comes by itself. */
    int (*listen)(tdg__transport_t *transport, const char *after, tdg__version_t version,
                  void (*event_id)(void *user, const char *id),
                  const tdg__delivery_calls_t *calls, void *user, tdg__delivery_t **ret);

    /* Ends it; no call comes any more. Over HTTP the connection closes, which cancels a
     * modern request. On the others nothing is written: notifications/cancelled is the
     * caller's. */
    void (*cancel)(tdg__transport_t *transport, tdg__delivery_t *delivery);

    /* Legacy HTTP: the session of the last initialize is forgotten; where `say_so`, the
     * server is asked by DELETE to end it, and done(user, …) is called when it has
     * answered or not (2 s). Others: stdio and sse close their channel. */
    void (*end_session)(tdg__transport_t *transport, bool say_so,
                        void (*done)(void *user));

    /* HTTP: connections that are open may be dead: what is sent from now on uses none of
     * them. NULL where there is one for everything. */
    void (*distrust)(tdg__transport_t *transport);

    /* HTTP: the token was refused; reads it anew. Whether trying again makes sense. NULL:
     * never. */
    bool (*renew)(tdg__transport_t *transport);

    /* Frees everything and calls closed(arg), from the loop; stdio: when the program is
     * gone. */
    void (*close)(tdg__transport_t *transport, void (*closed)(void *arg), void *arg);
} tdg__transport_ops_t;

struct tdg__transport {
    const tdg__transport_ops_t *ops;
    const tdg__transport_calls_t *calls;
    void *user; /* of calls, and of opened, lost, done; event_id has the delivery's */
};

/* What all transports do with the bytes of a message: bounded, parsed, checked. On
 * success the message is to be released with tdg__rpc_message_done(). Batches
 * (2025-03-26) come as several: `next` is called for each. Returns 0, TDG_EJSON,
 * TDG_ETOOLARGE or TDG_ENOMEM; `why`, of `why_size` bytes, says what is wrong with it. */
int tdg__transport_parse(size_t max_bytes, const char *text, size_t len,
                         void (*next)(void *arg, tdg__rpc_message_t *message), void *arg,
                         char *why, size_t why_size);

/* Stores a new transport in *ret; `calls` is borrowed for ever. Returns 0, TDG_EINVAL (no
 * URL, no program), TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__transport_create(tdg__transport_kind_t kind, uv_loop_t *loop,
                          const tdg__transport_opts_t *opts,
                          const tdg__transport_calls_t *calls, void *user,
                          tdg__transport_t **ret);

/* Reads the token anew, where there is one. */
static inline bool tdg__transport_renew(tdg__transport_t *transport) {
    return transport->ops->renew != NULL && transport->ops->renew(transport);
}

#endif
