/* SPDX-License-Identifier: MIT
 *
 * One HTTP/1.1 connection: reads requests one after the other (pipelined ones wait, up to
 * a bound), writes responses, whole or as a stream of pieces. An idle connection or open
 * stream is small: the reader and its buffers belong to it only while a request comes in.
 *
 * A connection may close while a request is being answered; `closed` of net.h reports
 * it. */
#ifndef TDG_NET_CONN_H
#define TDG_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>

#include "net/exchange.h"
#include "net/net.h"
#include "net/outlet.h"

/* Its requests, one after the other, as those see them who answer. What its owner keeps of
 * the connection is kept there, from one request to the next. */
tdg__exchange_t *tdg__conn_exchange(tdg__conn_t *conn);

/* Whatever the owner keeps of the connection; NULL at first. */
void tdg__conn_set_user(tdg__conn_t *conn, void *user);
void *tdg__conn_user(const tdg__conn_t *conn);

void *tdg__conn_tag(const tdg__conn_t *conn); /* of its listener */

/* The address of the client, without its port; "" where nobody knows. */
void tdg__conn_peer(const tdg__conn_t *conn, char ret[TDG__PEER_MAX]);

/* For writing pieces of an open stream; never NULL. */
tdg__outlet_t *tdg__conn_outlet(tdg__conn_t *conn);

/* The request is one that deserves to be served, so its connection goes before those of
 * strangers (turn.c) from the answer on, until a request of it is refused (a status from
 * 400). */
void tdg__conn_prove(tdg__conn_t *conn);

/* Answers the request. `fields` are further header lines, each "Name: value\r\n", or
 * NULL. With `body` NULL there is none (202, 204: no Content-Length either where the
 * status forbids it). Date, Connection and Content-Length are added. For HEAD the body is
 * left out. The next request comes later, from the loop. Does nothing on a
 * connection that is closing. */
void tdg__conn_respond(tdg__conn_t *conn, int status, const char *content_type,
                       const char *fields, const void *body, size_t len);

/* The same with a body that may have shared buffers in it, which are not copied. */
void tdg__conn_respond_rope(tdg__conn_t *conn, int status, const char *content_type,
                            const char *fields, const tdg__rope_t *body);

/* Answers with a stream: writes the head with `Content-Type: text/event-stream`,
 * `Cache-Control: no-cache, no-transform`, `X-Accel-Buffering: no` and `fields`, together
 * with `first` (the first piece, may be NULL) in one write. Pieces follow through the
 * outlet. HTTP/1.0 clients get no chunks, and the end is the close; HEAD gets the head.
 * Returns as tdg__outlet_write(). */
int tdg__conn_begin(tdg__conn_t *conn, const char *fields, const void *first, size_t len);

/* Ends the stream; the connection goes on to its next request if it may. */
void tdg__conn_end(tdg__conn_t *conn);

/* Closes: at once what waits to be read, and after what is queued has been written (or
 * the write time-out). `closed` follows, not from inside this call. */
void tdg__conn_close(tdg__conn_t *conn);

#endif
