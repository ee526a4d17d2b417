/* SPDX-License-Identifier: MIT
 *
 * A POST to /mcp that is being answered: the channel of its calls. The response is JSON,
 * or an event stream once a message precedes it. Such a stream of a legacy session is
 * resumable: its messages are kept until they have been delivered, within limits, and a
 * client whose connection broke fetches the rest by GET. */
#ifndef TDG_SERVER_POST_CHANNEL_H
#define TDG_SERVER_POST_CHANNEL_H

#include <stdbool.h>

#include "mcp/cursor.h"
#include "net/exchange.h"
#include "server/mcp/call.h"
#include "server/mcp/session.h"

/* All parts of a batch have been served: takes back the one answer that was expected
 * beyond theirs, so that the post lived until now. */
void tdg__post_channel_all_served(tdg__channel_t *channel);

/* What fails from now on is the fault of the request as such: 400 rather than 200. */
void tdg__post_channel_set_malformed(tdg__channel_t *channel);

/* ---- Of a session ------------------------------------------------------- */

tdg__call_t *tdg__posts_find(tdg__session_t *session, const char *id);
bool tdg__posts_busy(const tdg__session_t *session);    /* one is being answered */
bool tdg__posts_owe(const tdg__session_t *session);     /* what was acknowledged to the
                                                           client, to the engine */
size_t tdg__posts_calls(const tdg__session_t *session); /* unanswered ones of all */
void tdg__posts_forget_acks(tdg__session_t *session, const tdg__target_t *target);

/* Drops those that were answered long ago: their clients have what they need. */
void tdg__posts_drop_old(tdg__session_t *session);

/* The session ends: calls are cancelled, and requests that wait for an answer get 404. */
void tdg__posts_orphan(tdg__session_t *session);

/* Goes on with the stream of a POST on another connection, after an event. Returns 0, or
 * TDG_ENOTFOUND where its messages are not kept any more; TDG_ENOMEM. */
int tdg__post_channel_resume(tdg__session_t *session, const tdg__event_id_t *after,
                             tdg__exchange_t *exchange, const char *fields);

#endif
