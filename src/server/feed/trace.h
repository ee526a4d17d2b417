/* SPDX-License-Identifier: MIT
 *
 * Each step of the server, at debug level: clients that connect and disconnect,
 * subscriptions that are accepted and refused, changes, watchers. tdg_server_opts_t.debug
 * selects the parts. Where a part is off, a call costs one branch and formats nothing. */
#ifndef TDG_SERVER_TRACE_H
#define TDG_SERVER_TRACE_H

#include "core/change.h"
#include "mcp/rpc.h"
#include "server/feed/feed.h"

/* TDG_DEBUG_CLIENTS. The second before the stream is closed in the engine: it counts the
 * subscriptions that go with it. */
void tdg__trace_connected(const tdg__feed_t *feed);
void tdg__trace_gone(const tdg__feed_t *feed);

/* TDG_DEBUG_SUBSCRIPTIONS. tdg__trace_settled() is what became of a subscription whose
 * watcher took its time; success is not worth a line. */
void tdg__trace_subscribed(const tdg__feed_t *feed, const tdg__target_t *target);
void tdg__trace_unsubscribed(const tdg__feed_t *feed, const tdg__target_t *target);
void tdg__trace_refused(const tdg__feed_t *feed, const tdg__target_t *target, int code);
void tdg__trace_refused_why(const tdg__feed_t *feed, const tdg__target_t *target,
                            const char *why);
void tdg__trace_refused_uris(const tdg__feed_t *feed, const json_t *uris,
                             const char *why); /* an array of strings, or NULL */
void tdg__trace_settled(const tdg__feed_t *feed, const tdg__target_t *target, int status);

/* TDG_DEBUG_SUBSCRIPTIONS: a request whose params are wrong. Only of subscribe,
 * unsubscribe and listen something is logged. `feed` is NULL where there is none. */
void tdg__trace_rejected(tdg_server_t *server, const tdg__feed_t *feed,
                         const tdg__rpc_message_t *message,
                         const tdg__rpc_error_t *error);

/* TDG_DEBUG_NOTIFICATIONS: a change that a worker has applied. Every worker may have
 * subscribers; the first also logs a change that is for none of its own. */
void tdg__trace_change(tdg__worker_t *worker, const tdg__change_t *change);

/* TDG_DEBUG_WATCHERS; not with a lock of the hub. `what` a watcher does, and `why`, or
 * NULL. `code` is what start() returned, or the answer that came later: 0 is armed; of
 * TDG_EAGAIN, which the answer follows, nothing is logged. */
void tdg__trace_watch(tdg_server_t *server, const tdg__target_t *target, const char *what,
                      const char *why);
void tdg__trace_watch_answered(tdg_server_t *server, const tdg__target_t *target,
                               int code);

#endif
