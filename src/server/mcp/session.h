/* SPDX-License-Identifier: MIT
 *
 * Legacy sessions: from initialize to DELETE, to the end of the pipe or old SSE stream,
 * or to a time-out. A session belongs to one worker permanently: its id names the worker,
 * and requests of the session that arrive at another one are forwarded there. So a
 * session is processed on one thread. */
#ifndef TDG_SERVER_SESSION_H
#define TDG_SERVER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/network.h"
#include "base/queue.h"
#include "mcp/rpc.h"
#include "mcp/version.h"
#include "server/feed/feed.h"
#include "server/mcp/call.h"
#include "server/mcp/census.h"

typedef struct tdg__session tdg__session_t;
typedef struct tdg__sessions tdg__sessions_t; /* those of one worker */
typedef struct tdg__waiting tdg__waiting_t;   /* legacy.c */

enum { TDG__SESSION_ID = 34 }; /* characters: two for the worker, 128 random bits */

/* What a session needs from the front that its client uses. Each kind of session is one
 * of these tables. Any function but `fail` may be NULL. */
typedef struct tdg__session_ops {
    const char *transport; /* "http", "sse" or "stdio" */
    tdg__frame_t frame;    /* of its notifications */

    /* The standing of a session until its client has sent notifications/initialized, and
     * from then on until its first request. */
    tdg__standing_t before, after;

    bool pings;     /* keep-alives are sent while the stream is idle */
    bool permanent; /* it cannot end without the program, so what ends is logged to it */

    /* Where answers do not go to `home`: the unanswered call of this id, or NULL; and how
     * many there are. */
    tdg__call_t *(*find_call)(tdg__session_t *session, const char *id);
    size_t (*count_calls)(const tdg__session_t *session);

    /* A subscription begins: removes acknowledgements of the same target that wait for
     * their answers to be written, as they belong to a subscription that has ended. */
    void (*forget_acks)(tdg__session_t *session, const tdg__target_t *target);

    /* Whether its client has something open. NULL: always. */
    bool (*in_use)(const tdg__session_t *session);

    /* Called at intervals: drops what was kept for the client for too long. */
    void (*tidy)(tdg__session_t *session);

    /* Too much waits, or memory has run out: ends the session. */
    void (*fail)(tdg__session_t *session);

    /* The session ends: closes its streams and cancels its calls. */
    void (*close)(tdg__session_t *session);
} tdg__session_ops_t;

struct tdg__session {
    const tdg__session_ops_t *ops;
    tdg__feed_t feed;
    bool owes; /* the stream was rewound, and the client has not confirmed an event that
                  was written after that (by Last-Event-ID) */
    tdg__cursor_t owed;     /* owes: the earliest cursor of these rewinds */
    uint64_t owed_event;    /* owes: the last event before the latest rewind */
    tdg__version_t version; /* UNKNOWN until initialize */
    bool erlmcp;
    json_t *client;   /* clientInfo of initialize; NULL: it was too long */
    bool initialised; /* the client has sent notifications/initialized */
    bool came_back;   /* after initialize, the client has made a request or opened a
                         stream */
    bool is_fresh;    /* in the list of those that are not initialised */
    tdg__standing_t standing; /* as the census knows it, but for LEAVING */
    uint32_t resident;        /* its id there */
    bool has_caller;
    tdg__address_t caller; /* whom it counts for */
    bool ending;
    int log_level;
    uint32_t number; /* in the pool of its worker */
    char id[TDG__SESSION_ID + 1];

    tdg__waiting_t *waiting; /* subscribes whose watchers are not armed yet */
    tdg__channel_t *home;    /* where answers go that belong to no POST; NULL for HTTP */

    struct {
        tdg__queue_t posts; /* being answered, or kept for a client that resumes; newest
                               first */
        uint32_t last_post;
        tdg__queue_t streams; /* newest first; the feed writes to that one */
        unsigned stream_count;
        uint32_t last_stream;
        tdg__cursor_t began;  /* the cursor when the newest stream began */
        uint64_t began_event; /* the last event before that */
    } http;                   /* of the HTTP front alone */

    tdg__link_t by_age;
    tdg__link_t in_fresh; /* of those that are not initialised */
    int64_t looked_at_ms; /* as one of these: whether it is in use */
    int64_t used_ms;
};

int tdg__sessions_create(tdg__worker_t *worker, unsigned index, tdg__sessions_t **ret);
void tdg__sessions_destroy(tdg__sessions_t *sessions); /* ends all; NULL is accepted */
size_t tdg__sessions_count(const tdg__sessions_t *sessions);

/* Which worker a session id names; -1: it is none of ours. */
int tdg__session_worker(const char *id);

/* A new session of `caller` (NULL: unknown), which counts for the caller's network. When
 * a limit is reached, it replaces the oldest session that is not initialised, or else the
 * oldest whose client has made no request since. Returns 0, TDG_EAGAIN (there is no such
 * session; it has been logged), TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__session_create(tdg__sessions_t *sessions, const tdg__session_ops_t *ops,
                        bool erlmcp, const tdg__address_t *caller, tdg__session_t **ret);

/* Ends the session: its streams are closed, its calls cancelled. */
void tdg__session_destroy(tdg__session_t *session);

tdg__session_t *tdg__session_find(tdg__sessions_t *sessions, const char *id);

/* The client has made a request other than initialize, or opened a stream. */
void tdg__session_came_back(tdg__session_t *session);

/* The client has sent notifications/initialized. */
void tdg__session_initialised(tdg__session_t *session);

/* It is in use: its idle time begins anew. */
void tdg__session_touch(tdg__session_t *session);

/* Ends sessions that have been idle for too long, and those whose client has not finished
 * the handshake in time. */
void tdg__sessions_expire(tdg__sessions_t *sessions, int64_t now_ms);

/* Rewinds to an older cursor: what was written after it is notified again. Returns 0 or
 * an error (TDG_EENDED: not all of it can be named), and the session has to go then. */
int tdg__session_rewind(tdg__session_t *session, tdg__cursor_t cursor);

/* ---- legacy.c ----------------------------------------------------------- */

/* Serves one message of the session; answers go to `channel`. */
void tdg__legacy_serve(tdg__session_t *session, tdg__channel_t *channel,
                       const tdg__rpc_message_t *message);

/* The unanswered call of this id, anywhere in the session. */
tdg__call_t *tdg__session_call(tdg__session_t *session, const char *id);

/* The client has cancelled this call. */
void tdg__legacy_cancel(tdg__session_t *session, tdg__call_t *call);

/* Frees what waits; the session goes. */
void tdg__session_drop_waiting(tdg__session_t *session);

extern const tdg__feed_ops_t tdg__session_feed_ops;

#endif
