/* SPDX-License-Identifier: MIT
 *
 * A modern subscriptions/listen: one stream of the engine with the subscriptions that
 * were accepted. It is acknowledged when all its watchers have answered, and ends with
 * the connection, by cancellation, or gracefully by the server.
 *
 *     OPENING ──▶ WAITING ──▶ ACKNOWLEDGED ──▶ gone     OPENING: nothing is written yet
 *         \________________/                            WAITING: for watchers
 */
#ifndef TDG_SERVER_LISTEN_H
#define TDG_SERVER_LISTEN_H

#include <stdbool.h>

#include "base/queue.h"
#include "mcp/request.h"
#include "server/feed/feed.h"

typedef struct tdg__listen_stream tdg__listen_stream_t;

/* How a listen reaches its client; `owner` is that of the options. */
typedef struct tdg__listen_ops {
    /* It is accepted: it belongs to `owner` until `over`, or until that cancels it. May
     * be NULL. */
    void (*begun)(void *owner, tdg__listen_stream_t *listen);

    /* Writes the first bytes of the stream; returns as tdg__outlet_write(). NULL: they
     * are written to the outlet like all others. */
    int (*write_first)(void *owner, const void *data, size_t len);

    /* It has ended and is gone, after its last message; `broken`: in the middle, for want
     * of memory, so its client has to notice. May be called before tdg__listen_open()
     * returns. */
    void (*over)(void *owner, bool broken);

    const char *transport; /* its name in lists of subscriptions */
    tdg__frame_t frame;
    bool has_keepalive;

    /* One of several in the same outlet, which stays open: the client learns of the end
     * by a cancellation as well. */
    bool shares_outlet;
} tdg__listen_ops_t;

typedef struct tdg__listen_opts {
    const tdg__listen_ops_t *ops;
    void *owner;
    tdg__worker_t *worker;
    tdg__outlet_t *outlet;
    tdg__queue_t *list; /* where it shares its outlet: the owner's list, else NULL */
    const tdg__address_t *caller; /* whom it comes from; NULL: nobody knows */
} tdg__listen_opts_t;

/* Opens the stream and answers by the stream itself. Returns 0; or TDG_EINVAL with *error
 * filled in, where the request is refused as a whole and nothing has been written. */
int tdg__listen_open(const tdg__listen_opts_t *opts, const tdg__mcp_request_t *request,
                     tdg__rpc_error_t *error);

/* Fills in what is said where there is no memory for one more. */
void tdg__listen_refuse(tdg__rpc_error_t *error);

void tdg__listen_drained(tdg__listen_stream_t *listen);
bool tdg__listen_has_more(const tdg__listen_stream_t *listen);

/* The client has cancelled, or disconnected: nothing more is written, and `over` is not
 * called. */
void tdg__listen_cancel(tdg__listen_stream_t *listen);

/* Ends it from the server's side, with the result that completes it. */
void tdg__listen_complete(tdg__listen_stream_t *listen);

/* ---- The listens of one owner ------------------------------------------- */

tdg__listen_stream_t *tdg__listen_find(const tdg__queue_t *listens, const char *id);
size_t tdg__listen_count(const tdg__queue_t *listens);
void tdg__listens_drained(const tdg__queue_t *listens);
void tdg__listens_cancel(const tdg__queue_t *listens);

/* Completes those that have nothing more to write. */
void tdg__listens_finish(const tdg__queue_t *listens);

#endif
