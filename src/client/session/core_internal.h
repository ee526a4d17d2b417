/* SPDX-License-Identifier: MIT
 *
 * What the files of the core share. The calls between them:
 *
 *     session/                                      subs/
 *     connect   ──▶ tdg__core_upper_t ──────────▶ subs: up, down
 *     incoming  ──▶ tdg__core_upper_t ──────────▶ updates: notifications
 *     requests  ◀── tdg__client_request_begin() ─── modern_streams, legacy_subs, reread
 *     connect   ◀── tdg__connect_lost() ─────────── legacy_get, legacy_subs */
#ifndef TDG_CLIENT_CORE_INTERNAL_H
#define TDG_CLIENT_CORE_INTERNAL_H

#include "base/heap.h"
#include "base/map.h"
#include "client/session/backoff.h"
#include "client/session/core.h"
#include "client/session/event.h"
#include "client/session/tool_headers.h"

/* ---- Time --------------------------------------------------------------- */

/* Lives inside its owner. Added with tdg__core_timer_init() (which may fail), removed
 * with _done() before the owner goes; one that is all zero was not added. */
typedef struct tdg__core_timer tdg__core_timer_t;
struct tdg__core_timer {
    tdg__timer_t timer;
    void (*due)(tdg__core_t *core, tdg__core_timer_t *timer); /* NULL: not added */
};

int tdg__core_timer_init(tdg__core_t *core, tdg__core_timer_t *timer,
                         void (*due)(tdg__core_t *core, tdg__core_timer_t *timer));
void tdg__core_timer_done(tdg__core_t *core, tdg__core_timer_t *timer);
void tdg__core_timer_at(tdg__core_t *core, tdg__core_timer_t *timer, int64_t at_ms);
void tdg__core_timer_stop(tdg__core_t *core, tdg__core_timer_t *timer);
int64_t tdg__core_now(const tdg__core_t *core);
uint64_t tdg__core_random(tdg__core_t *core);

/* ---- Requests (requests.c) ------------------------------------------------- */

enum {
    TDG__REQUESTS_MAX = 10000,    /* requests under way, those that wait included */
    TDG__REQUESTS_MAX_LOOSE = 64, /* notifications and responses of ours on their way */
};

/* What fails to begin, here and below, is to be ended all the same. */
int tdg__client_requests_init(tdg__core_t *core);
void tdg__client_requests_done(tdg__core_t *core); /* drops what is left, without calls */

typedef struct tdg__client_request tdg__client_request_t;

/* For a request whose answer stays open (listen). All may be called until `done`, with
 * the same `user`, and all have to be there. It is never sent again by itself. */
typedef struct tdg__stream_calls {
    /* Not the response; on shared transports found by the subscription id. */
    void (*message)(void *user, const tdg__rpc_message_t *message);
    void (*alive)(void *user);
    void (*retry)(void *user, uint32_t ms);
} tdg__stream_calls_t;

/* How a request ended, with all that is known. Borrowed. */
typedef struct tdg__outcome {
    int code;                     /* 0: `result` is there; else as client.h has them */
    json_t *result;               /* may be kept: take a reference */
    const tdg_failure_t *failure; /* where code is not 0 */
    tdg__delivery_end_t end;      /* of the transport */
    int64_t retry_after_ms;       /* -1: not said */
} tdg__outcome_t;
typedef void (*tdg__outcome_fn)(void *user, const tdg__outcome_t *outcome);

typedef struct tdg__client_request_begin {
    const char *method;
    json_t *params;      /* stolen, even on failure; NULL: none */
    uint32_t timeout_ms; /* 0: the client's; of a stream: until it is opened */
    const tdg__stream_calls_t *stream; /* NULL: an ordinary request */
    tdg__tool_headers_t *headers;      /* what it holds is stolen, likewise; or NULL */
    bool early; /* sent although the session is not up: probe, initialize, ping */
    tdg__version_t version; /* early: to be spoken; else ignored: that of the session */
} tdg__client_request_opts_t;

/* Sends it, or keeps it until the session is up. `done` once, never from inside. Where a
 * legacy session was lost before it could have been processed, or the token has to be
 * renewed, it is sent again by itself, once. Returns 0, TDG_ENOMEM or TDG_EAGAIN
 * (TDG__REQUESTS_MAX are under way); no call then. `ret` may be NULL. */
int tdg__client_request_begin(tdg__core_t *core, const tdg__client_request_opts_t *wanted,
                              tdg__outcome_fn done, void *user,
                              tdg__client_request_t **ret);

/* Cancels: no call comes any more; the server is notified as its transport wants it. */
void tdg__client_request_drop(tdg__client_request_t *request);

/* The JSON text of its id. */
const char *tdg__client_request_id(const tdg__client_request_t *request);

/* A notification to the server; lost where there is no connection. `params` is stolen. */
void tdg__core_notify(tdg__core_t *core, const char *method, json_t *params,
                      tdg__version_t version);

/* All that is under way, early ones apart, fails with this code (EENDED, EUNREACHABLE);
 * those that only wait for the session stay, unless `waiting_too`. */
void tdg__client_requests_fail(tdg__core_t *core, int code, const char *why,
                               bool waiting_too);

void tdg__client_requests_hold(tdg__core_t *core);    /* they wait, although we are up */
void tdg__client_requests_release(tdg__core_t *core); /* sends those that waited */
void tdg__client_requests_forget_wire(tdg__core_t *core,
                                      const tdg__transport_t *transport); /* it goes */

/* `done` with TDG_ENOMEM or TDG_EAGAIN, where not even a request could be made. */
void tdg__core_refuse(tdg__core_done_fn done, void *user, int code);

/* Every message that arrived: answers are matched, requests of the server are answered
 * (ping; input; -32601), notifications go to the stream that they belong to (by what they
 * came with, or by the subscription's id), else to the upper half. `on` is what it came
 * with; NULL: with nothing in particular. */
void tdg__incoming_message(tdg__core_t *core, tdg__client_request_t *on,
                           tdg__rpc_message_t *message);
void tdg__incoming_loose(void *core, tdg__rpc_message_t *message); /* with nothing */

/* ---- Failures (failure.c) ----------------------------------------------- */

/* Fills it in, and returns it. */
const tdg_failure_t *tdg__failure_set(tdg_failure_t *failure, int code,
                                      const char *format, ...)
    __attribute__((format(printf, 3, 4), nonnull(1, 3)));
/* Whether we are asked who we are, and the answer does not do: 401, 403. May be NULL. */
bool tdg__failure_barred(const tdg_failure_t *failure);
/* From a JSON-RPC error; `data` is borrowed from it. */
void tdg__failure_rpc(tdg_failure_t *failure, const char *method, const json_t *error);
/* Of a URI that an acknowledgement leaves out. `reason` as in dev.tidings/refused; NULL,
 * or one that we do not know: TDG_EREFUSED. Returns whether it may work later. */
bool tdg__failure_left_out(tdg_failure_t *failure, const char *reason);

/* ---- Messages (compose.c) ----------------------------------------------- */

/* Appends a request as the version wants it: modern ones get their `_meta` (what is there
 * already stays). Failure is sticky in `text`. */
void tdg__compose_request(const tdg__core_t *core, tdg__text_t *text, const char *id,
                          const char *method, json_t *params, tdg__version_t version);

/* An object with the same members, new; an empty one for NULL. NULL: no memory. */
json_t *tdg__compose_copy(json_t *object);

/* What Mcp-Name mirrors of a request, borrowed from its parameters; NULL: nothing. */
const char *tdg__compose_name(const char *method, const json_t *params);

/* The parameters of initialize. New; NULL: no memory. */
json_t *tdg__compose_initialize(const tdg__core_t *core, tdg__version_t version);

/* ---- Lists and tools (lists.c, tools.c) --------------------------------- */

/* tdg__core_list(), whose pages all have to be there at `deadline`. */
void tdg__list_until(tdg__core_t *core, tdg_list_kind_t list, int64_t deadline,
                     tdg__core_done_fn done, void *user);

/* Whether calls of tools may want headers: over HTTP, in the modern era. */
bool tdg__tools_want_headers(const tdg__core_t *core);

/* All tools were listed, over HTTP: leaves out those with invalid annotations, remembers
 * which ask for headers. Returns 0 or TDG_ENOMEM. */
int tdg__tools_listed(tdg__core_t *core, json_t *tools);

/* ---- Connection (connect.c) --------------------------------------------- */

int tdg__connect_init(tdg__core_t *core);
void tdg__connect_done(tdg__core_t *core);

typedef enum tdg__core_state {
    TDG__CORE_NEW,
    TDG__CORE_CONNECTING, /* opening the transport, probing, initialising */
    TDG__CORE_UP,         /* requests go through */
    TDG__CORE_WAITING,    /* to connect again */
    TDG__CORE_STOPPING,
    TDG__CORE_OVER, /* closed for good */
} tdg__core_state_t;

/* The legacy session, or the shared channel, is gone: connects again in due time, with
 * the era that is known. In the state UP only; else nothing happens. */
void tdg__connect_lost(tdg__core_t *core, int code, const char *why);

/* (doubt.c) A request of the session has failed: where that looks as if the server were
 * of the other era by now, that is looked into. */
void tdg__doubt_outcome(tdg__core_t *core, const tdg__outcome_t *outcome);

/* Never again: CLOSED is reported, everything fails with `code`. */
void tdg__connect_give_up(tdg__core_t *core, int code, const char *why);

/* ---- Subscriptions (client/subs) ---------------------------------------- */

/* The upper half of the core, as this half sees it. */
struct tdg__core_upper {
    int (*init)(tdg__core_t *core); /* makes core->subs; 0 or TDG_ENOMEM */
    void (*done)(tdg__core_t *core);

    /* The session is up: for the first time, or again. Sets up streams and subscriptions;
     * then, after a loss, reports what may have changed. Releases the requests: in a
     * legacy session over HTTP when its GET stream is open,
     * so that no call overtakes it. */
    void (*up)(tdg__core_t *core);

    /* The session is lost: streams are gone, nothing is acknowledged. Reports DOWN. */
    void (*down)(tdg__core_t *core, int code, const char *why);

    /* Everything under way about subscriptions fails with TDG_EENDED; modern streams are
     * dropped. Legacy: unsubscribes nothing; the end of the session does that. */
    void (*stop)(tdg__core_t *core);

    /* The gap that follows is reported only where reading finds a change. */
    void (*compare)(const tdg__core_t *core);

    /* The owner reads this URI, or has read this: what later reads are compared with. */
    void (*read_begun)(tdg__core_t *core, const char *uri);
    void (*read_noted)(tdg__core_t *core, const char *uri, const json_t *contents);

    /* A notification that belongs to no stream, of either era or dialect; also progress
     * and log messages. `on` as for tdg__incoming_message(). */
    void (*notification)(tdg__core_t *core, const tdg__client_request_t *on,
                         const tdg__rpc_message_t *message);
};

/* ---- The core ----------------------------------------------------------- */

/* What tdg__core_odd() distinguishes. */
typedef enum tdg__odd {
    TDG__ODD_MESSAGE, /* malformed, or not to be expected here */
    TDG__ODD_ANSWER,  /* to nothing that was asked */
    TDG__ODD_REQUEST, /* one of the server's that we cannot answer */
    TDG__ODD_UPDATE,  /* a notification that makes no sense */
    TDG__ODD_WIRE,    /* what a transport has put up with */
    TDG__ODD_PUT_OFF, /* a subscription that is refused for now */
    TDG__ODD_COUNT,
} tdg__odd_t;

/* What the upper half keeps. */
struct tdg__subs;

struct tdg__core {
    tdg__core_opts_t opts;
    const tdg_client_opts_t *client;
    tdg__heap_t timers;
    tdg__core_state_t state;

    tdg__transport_t *transport;
    tdg__transport_kind_t transport_kind;
    tdg_era_t era;          /* FIND until it is known */
    tdg__version_t version; /* that is spoken */
    tdg__backoff_t backoff; /* of everything that connects anew */

    json_t *server_info, *capabilities, *supported; /* NULL until known */
    char *instructions;
    int64_t progress_tokens; /* given out so far */
    json_t *tool_schemas;    /* tools.c: of tools that ask for headers; NULL: not known */
    bool ours;               /* the server has shown a cursor */
    uint32_t keepalive_ms;   /* legacy: that the server has announced; 0: none */

    tdg_client_counters_t counts;
    int64_t odd_at[TDG__ODD_COUNT]; /* when one was logged last */

    struct tdg__client_requests *requests; /* requests.c */
    struct tdg__connect *connect;          /* connect.c */
    struct tdg__subs *subs;                /* subs/subs.h */
};

/* Control characters, which may come from a server, are replaced; too long is cut. */
void tdg__core_program_line(tdg__core_t *core, const char *text);
void tdg__core_log(tdg__core_t *core, tdg_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A warning about what a server sends and should not: one line per second and kind. */
void tdg__core_odd(tdg__core_t *core, tdg__odd_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
