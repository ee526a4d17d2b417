/* SPDX-License-Identifier: MIT
 *
 * Streams of legacy sessions: GET on /mcp, and the old /sse of 2024-11-05. Each message
 * goes to the newest stream of its session only. */
#ifndef TDG_SERVER_SESSION_STREAM_H
#define TDG_SERVER_SESSION_STREAM_H

#include <stdbool.h>

#include "net/conn.h"
#include "server/mcp/session.h"

/* Sessions of Streamable HTTP: requests by POST, notifications by GET; and of 2024-11-05:
 * all that is answered leaves by one stream. */
extern const tdg__session_ops_t tdg__http_session_ops, tdg__sse_session_ops;

/* Opens a stream of a session on a connection that has asked for it. `last_event_id` is
 * the header's value or NULL. Returns 0; TDG_ESTREAMS (the session has too many);
 * TDG_ENOTFOUND (what it wants to resume is not kept); TDG_ENOMEM; TDG_EENDED: what it
 * has missed cannot be named any more, so the session has ended. On
 * failure nothing has been answered. */
int tdg__session_stream_open(tdg__session_t *session, tdg__exchange_t *exchange,
                             const char *last_event_id, const char *fields);

/* Begins a session of 2024-11-05 on the stream that its client has asked for, and says
 * where to post. Returns 0, or an error of tdg__session_create(). */
int tdg__old_sse_open(tdg__worker_t *worker, tdg__exchange_t *exchange, bool erlmcp,
                      const tdg__address_t *caller, const char *fields);

/* For the posts of such a session: where answers go. */
tdg__channel_t *tdg__old_sse_channel(tdg__session_t *session);

#endif
