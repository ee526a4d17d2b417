/* SPDX-License-Identifier: MIT
 *
 * A feed joins a stream of the engine with the outlet that its notifications leave by: a
 * modern listen, or a legacy session. Notifications that are ready for one feed leave in
 * one write. When the outlet does not take more, the stream is blocked in the engine
 * until it has drained: what comes meanwhile merges there, so a slow reader costs little.
 */
#ifndef TDG_SERVER_FEED_H
#define TDG_SERVER_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"
#include "mcp/notice.h"
#include "net/outlet.h"
#include "server/context/context.h"
#include "server/feed/peer.h"

typedef enum tdg__frame {
    TDG__FRAME_SSE,
    TDG__FRAME_SSE_IDS, /* with event ids, for legacy GET streams */
    TDG__FRAME_LINE,
} tdg__frame_t;

typedef struct tdg__feed tdg__feed_t;

typedef struct tdg__feed_ops {
    /* The engine has ended the stream (max_pending): end it in the way of its protocol.
     * The feed may be freed in here. */
    void (*ended)(tdg__feed_t *feed, int reason);

    /* The result of a subscription that was SUBSCRIBING; see the engine's `settled`. */
    void (*settled)(tdg__feed_t *feed, const tdg__target_t *target, int status,
                    bool resumed);

    /* Memory ran out while a notification was written: cut the connection, so that the
     * client resumes from its cursor. The feed may be freed in here. */
    void (*failed)(tdg__feed_t *feed);
} tdg__feed_ops_t;

struct tdg__feed {
    const tdg__feed_ops_t *ops;
    tdg__worker_t *worker;
    tdg__stream_t stream;     /* in the engine; 0: none */
    tdg__outlet_t *outlet;    /* NULL: nowhere to write to at present */
    const char *subscription; /* JSON text of a listen's id, borrowed; NULL: legacy */
    uint32_t subscription_len;
    tdg__frame_t frame;
    tdg__form_t form;
    bool blocked;
    uint32_t stream_number; /* for event ids: which stream of the session ... */
    uint64_t event_number;  /* ... and the last event of the session */
    uint64_t id;            /* of the stream, another one for each in the whole server */
    tdg__peer_t peer;       /* all zero at first; the feed releases it */
};

/* Opens a stream in the engine. The other fields are the caller's to fill in. Returns 0
 * or the engine's error. */
int tdg__feed_open(tdg__feed_t *feed, tdg__worker_t *worker, const tdg__feed_ops_t *ops);

/* Closes the stream; nothing of it is written from now on. */
void tdg__feed_close(tdg__feed_t *feed);

/* As the functions of the engine, for this stream; `debug` logs them. A subscription is
 * logged by its owner, by tdg__trace_subscribed(), when it will not be withdrawn: that
 * refuses one which was not acknowledged yet. */
int tdg__feed_subscribe(tdg__feed_t *feed, const tdg__target_t *target,
                        const tdg__sub_opts_t *opts, tdg__subscribed_t *ret);
void tdg__feed_withdraw(tdg__feed_t *feed, const tdg__target_t *target, int code);
void tdg__feed_unsubscribe(tdg__feed_t *feed, const tdg__target_t *target);

/* Where to write from now on; NULL: nowhere, and everything waits. */
void tdg__feed_attach(tdg__feed_t *feed, tdg__outlet_t *outlet);

/* The outlet has drained. */
void tdg__feed_drained(tdg__feed_t *feed);

/* Whether a notification waits to be written, for the outlet to drain maybe. */
bool tdg__feed_has_more(const tdg__feed_t *feed);

/* The cursor now. */
tdg__cursor_t tdg__feed_cursor(const tdg__feed_t *feed);

/* Writes what is ready on this one now. It may be gone afterwards. */
void tdg__feed_flush(tdg__feed_t *feed);

/* Writes what is ready on some feeds of a worker, so that its other clients have their
 * turn in between; behind *at, where the last call ended (0: at the first). Returns
 * whether there is more. */
bool tdg__feeds_flush(tdg__worker_t *worker, tdg__stream_t *at);

#endif
