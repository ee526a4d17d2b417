/* SPDX-License-Identifier: MIT
 *
 * A POST to /mcp that is being answered: the channel of its calls. It is answered as
 * JSON, or as a stream of events once something has to be said before the answer. Such a
 * stream of a legacy session is resumable: its messages are kept until they have been
 * delivered, within bounds, and a client whose connection broke comes back for the rest
 * by GET. */
#ifndef TDG_SERVER_POST_H
#define TDG_SERVER_POST_H

#include <stdbool.h>

#include "mcp/cursor.h"
#include "net/conn.h"
#include "server/call.h"
#include "server/occupant.h"
#include "server/session.h"

/* What the HTTP side knows of a request to /mcp. */
typedef struct tdg__post_opts {
    tdg__worker_t *worker;
    tdg__conn_t *conn;
    tdg__session_t *session; /* NULL: modern */
    tdg__version_t version;
    bool introduces; /* the answer tells the session id */
    bool accepts_sse;
    bool batch;
    bool erlmcp;
    uint64_t client;    /* who asks, as a number (tdg__request_client()) */
    unsigned expected;  /* answers that will come */
    const char *fields; /* further header lines of the response; copied; may be NULL */
} tdg__post_opts_t;

/* Occupies the connection. Returns 0 or TDG_ENOMEM. */
int tdg__post_create(const tdg__post_opts_t *opts, tdg__post_t **ret);
tdg__channel_t *tdg__post_channel(tdg__post_t *post);

/* It lives on although all its calls are answered, until it is let go: for as long as
 * requests are added to it. */
void tdg__post_hold(tdg__post_t *post);
void tdg__post_unhold(tdg__post_t *post);

/* What fails from now on is the fault of the request as such: 400 rather than 200. */
void tdg__post_set_malformed(tdg__post_t *post);

/* For legacy.c: the call that this channel answers next acknowledges a subscription; the
 * engine is told once the answer is with the kernel. False: memory is out. */
bool tdg__post_acknowledges(tdg__channel_t *channel, const tdg__target_t *target);

/* ---- Of a session ------------------------------------------------------- */

tdg__call_t *tdg__posts_find(tdg__session_t *session, const char *id);
bool tdg__posts_busy(const tdg__session_t *session);    /* one is being answered */
size_t tdg__posts_calls(const tdg__session_t *session); /* unanswered ones of all */

/* Drops those that were answered long ago: their clients have what they need. */
void tdg__posts_drop_old(tdg__session_t *session);

/* The session ends: calls are cancelled, and requests that wait for an answer get 404. */
void tdg__posts_orphan(tdg__session_t *session);

/* Goes on with the stream of a POST on another connection, after an event. Returns 0, or
 * TDG_ENOTFOUND where its messages are not kept any more; TDG_ENOMEM. */
int tdg__post_resume(tdg__session_t *session, const tdg__event_id_t *after,
                     tdg__conn_t *conn, const char *fields);

#endif
