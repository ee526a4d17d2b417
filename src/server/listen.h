/* SPDX-License-Identifier: MIT
 *
 * A modern subscriptions/listen, over HTTP or in a pipe: one stream of the engine with
 * the subscriptions that were honoured. It is acknowledged when all its watchers have
 * answered, and ends with the connection, by cancellation, or gracefully by the server.
 */
#ifndef TDG_SERVER_LISTEN_H
#define TDG_SERVER_LISTEN_H

#include <stdbool.h>

#include "mcp/request.h"
#include "net/conn.h"
#include "server/feed.h"
#include "server/occupant.h"

typedef struct tdg__listen tdg__listen_t;

/* Where a listen is: on a connection of its own, or among others in a pipe. */
typedef struct tdg__listen_opts {
    tdg__worker_t *worker;
    tdg__conn_t *conn;            /* NULL: a pipe */
    tdg__outlet_t *outlet;        /* of the pipe */
    tdg__listen_t **pipe;         /* list of the pipe's listens */
    const char *fields;           /* HTTP: further header lines */
    const tdg__address_t *caller; /* HTTP: whom it comes from; NULL: nobody knows */
} tdg__listen_opts_t;

/* Opens the stream and answers by the stream itself. Returns 0; or TDG_EINVAL with *error
 * filled in, where the request is refused as a whole and nothing has been written. */
int tdg__listen_open(const tdg__listen_opts_t *opts, const tdg__mcp_request_t *request,
                     tdg__rpc_error_t *error);

/* ---- In a pipe ---------------------------------------------------------- */

tdg__listen_t *tdg__listen_find(tdg__listen_t *first, const char *id);
size_t tdg__listen_count(const tdg__listen_t *first);
void tdg__listens_drained(tdg__listen_t *first);

/* Completes those that have nothing more to write. */
void tdg__listens_finish(tdg__listen_t *first);

/* The client has cancelled: silence from now on. */
void tdg__listen_cancel(tdg__listen_t *listen);

/* Ends it from our side, with the result that completes it. */
void tdg__listen_complete(tdg__listen_t *listen);

#endif
