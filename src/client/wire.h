/* SPDX-License-Identifier: MIT
 *
 * A wire carries JSON-RPC messages between the client and one server. There are three,
 * all behind one table of functions: Streamable HTTP (wire_http.c), the pair of endpoints
 * of 2024-11-05 (wire_sse.c) and a program's stdio (wire_stdio.c). A fourth stands in the
 * tests, with simulated time.
 *
 * A wire knows nothing of what the messages mean beyond `id`, `method` and where the
 * protocol puts things into HTTP headers. It starts no request on its own, except that an
 * HTTP wire brings the rest of a broken legacy POST stream by GET with Last-Event-ID.
 *
 * Calls (of both kinds) never come from inside of a function of the wire. */
#ifndef TDG_CLIENT_WIRE_H
#define TDG_CLIENT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <uv.h>

#include "client/web.h"
#include "mcp/rpc.h"
#include "mcp/version.h"

typedef struct tdg__wire tdg__wire_t;
typedef struct tdg__carry tdg__carry_t; /* one message on its way, with its answers */

/* How it ended. */
typedef enum tdg__carry_end {
    TDG__CARRY_DONE,       /* the response was delivered, or a notification was taken; a
                              stream: it was closed in order (what came before tells
                              whether it was complete) */
    TDG__CARRY_STATUS,     /* HTTP: another status than 2xx; see `status` and `error` */
    TDG__CARRY_NO_SESSION, /* HTTP: 404 to a request with a session id */
    TDG__CARRY_BROKEN,     /* ended, or was cut, before the response; `sent` says whether
                              the server may have got it */
    TDG__CARRY_TIMEOUT,
    TDG__CARRY_NONSENSE, /* an answer that is not MCP: type, JSON, JSON-RPC, too large */
    TDG__CARRY_AWAY,     /* no connection */
    TDG__CARRY_REFUSED,  /* by us: see tdg__web_end_t.code TDG_EREFUSED and TDG_EINVAL */
    TDG__CARRY_NO_MEMORY,
} tdg__carry_end_t;

/* Borrowed for the call. */
typedef struct tdg__carry_report {
    tdg__carry_end_t end;
    int code;                       /* NONSENSE: TDG_EJSON or TDG_ETOOLARGE; REFUSED:
                                       TDG_EREFUSED or TDG_EINVAL; 0: the first */
    int status;                     /* HTTP, where there was an answer; else 0 */
    const tdg__rpc_message_t *body; /* STATUS, NO_SESSION: the JSON-RPC error in the body,
                                       or NULL */
    const char *error;              /* one line for people; "" for DONE */
    const char *authenticate;       /* HTTP: WWW-Authenticate, or NULL */
    int64_t retry_after_ms;         /* HTTP: Retry-After; -1: not said */
    bool sent;
} tdg__carry_report_t;

typedef struct tdg__carry_calls {
    /* HTTP: the head of the answer has come: a stream is open. Others: it was written.
     * May be NULL. `elapsed_ms` is since the beginning. */
    void (*opened)(void *user, int status, uint32_t elapsed_ms);
    /* A message that came with the answer, the response among them. */
    void (*message)(void *user, tdg__rpc_message_t *message);
    void (*alive)(void *user); /* a sign of life on a stream: any byte; may be
                                  NULL */
    void (*retry)(void *user, uint32_t ms); /* the stream's `retry`; may be NULL */
    void (*ended)(void *user, const tdg__carry_report_t *report); /* last; it is gone */
} tdg__carry_calls_t;

typedef struct tdg__wire_calls {
    /* A message that belongs to no carry: on stdio and 2024-11-05 everything but the
     * responses to what was sent. */
    void (*message)(void *user, tdg__rpc_message_t *message);
    /* The channel that everything shares is lost (stdio: the program has ended;
     * 2024-11-05: its stream). All carries have ended as BROKEN before. Not for HTTP. */
    void (*lost)(void *user, const char *why);
    void (*alive)(void *user); /* 2024-11-05: a sign of life on its stream */
    void (*retry)(void *user, uint32_t ms);
    void (*said)(void *user, const char *line); /* stdio: standard error */
    void (*warn)(void *user, const char *line); /* something odd that was put up with */
} tdg__wire_calls_t;

/* A message to send. Everything is copied. */
typedef struct tdg__parcel_out {
    const char *id; /* JSON text, as in the message; NULL: a notification or response */
    const char *method; /* NULL: a response of ours */
    const char *name;   /* modern: what Mcp-Name mirrors (plain text), or NULL */
    const tdg__web_field_t *params; /* modern: Mcp-Param-... headers, encoded already */
    size_t param_count;
    const char *text; /* the message as JSON text, one line */
    size_t len;
    tdg__version_t version; /* spoken; UNKNOWN for initialize: no version header */
    bool stream;            /* modern listen: stays open; no total time-out, `alive` */
    uint32_t timeout_ms;    /* until the response (stream: until the head) */
} tdg__parcel_out_t;

typedef struct tdg__wire_ops {
    const char *name; /* "http", "sse", "stdio" */
    bool shared;      /* one channel for everything: its loss is everything's */

    /* Begins to be usable: stdio starts the program, sse opens its stream. HTTP: at once.
     * `opened` with 0 or a code follows, or `lost`. */
    int (*open)(tdg__wire_t *wire, void (*opened)(void *user, int code, const char *why));

    int (*send)(tdg__wire_t *wire, const tdg__parcel_out_t *out,
                const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret);

    /* Legacy HTTP: the GET stream of the session, with Last-Event-ID where `after` is
     * given. `event_id` is called with every id that arrives. 405 ends it as STATUS. NULL
     * where the wire has none because everything comes by itself. */
    int (*listen)(tdg__wire_t *wire, const char *after, tdg__version_t version,
                  void (*event_id)(void *user, const char *id),
                  const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret);

    /* Ends it; no call comes any more. Over HTTP the connection closes, which cancels a
     * modern request. On the others nothing is written: notifications/cancelled is the
     * caller's. */
    void (*cancel)(tdg__wire_t *wire, tdg__carry_t *carry);

    /* Legacy HTTP: the session of the last initialize is forgotten; where `say_so`, the
     * server is asked by DELETE to end it, and done(user, …) is called when it has
     * answered or not (2 s). Others: stdio and sse close their channel. */
    void (*end_session)(tdg__wire_t *wire, bool say_so, void (*done)(void *user));

    /* HTTP: connections that are open may be dead: what is sent from now on uses none of
     * them. NULL where there is one for everything. */
    void (*distrust)(tdg__wire_t *wire);

    /* HTTP: the token was refused; reads it anew. Whether trying again makes sense. */
    bool (*renew)(tdg__wire_t *wire);

    /* Frees everything and calls closed(arg), from the loop; stdio: when the program is
     * gone. */
    void (*close)(tdg__wire_t *wire, void (*closed)(void *arg), void *arg);
} tdg__wire_ops_t;

struct tdg__wire {
    const tdg__wire_ops_t *ops;
    const tdg__wire_calls_t *calls;
    void *user; /* of calls, and of opened, lost, done; event_id has the carry's */
    size_t max_message_bytes;
};

/* What all wires do with the bytes of a message: bounded, parsed, checked. On success the
 * message is to be released with tdg__rpc_message_done(). Batches (2025-03-26) come as
 * several: `next` is called for each. Returns 0, TDG_EJSON, TDG_ETOOLARGE or TDG_ENOMEM;
 * `why`, of `why_size` bytes, says what is wrong with it. */
int tdg__wire_read(const tdg__wire_t *wire, const char *text, size_t len,
                   void (*next)(void *arg, tdg__rpc_message_t *message), void *arg,
                   char *why, size_t why_size);

/* Each stores a new wire in *ret; `calls` is borrowed for ever. Return 0, TDG_EINVAL,
 * TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__wire_http_create(uv_loop_t *loop, const char *url, const tdg__web_opts_t *opts,
                          const tdg__wire_calls_t *calls, void *user,
                          size_t max_message_bytes, tdg__wire_t **ret);
int tdg__wire_sse_create(uv_loop_t *loop, const char *url, const tdg__web_opts_t *opts,
                         const tdg__wire_calls_t *calls, void *user,
                         size_t max_message_bytes, tdg__wire_t **ret);
int tdg__wire_stdio_create(uv_loop_t *loop, const char *const *argv,
                           const char *const *env, const char *cwd,
                           const tdg__wire_calls_t *calls, void *user,
                           size_t max_message_bytes, tdg__wire_t **ret);

#endif
