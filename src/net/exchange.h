/* SPDX-License-Identifier: MIT
 *
 * One request that is being answered, as the handlers see it: the response is written
 * whole, or as a stream of pieces through its outlet. A table of functions carries it: a
 * connection here (conn.h), or a forward to one on another worker. */
#ifndef TDG_NET_EXCHANGE_H
#define TDG_NET_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/outlet.h"

typedef struct tdg__exchange tdg__exchange_t;

enum { TDG__PEER_MAX = 46 };

typedef struct tdg__exchange_ops {
    tdg__outlet_calls_t outlet; /* first: what its outlet is told */

    /* As the functions below. */
    void (*respond)(tdg__exchange_t *exchange, int status, const char *content_type,
                    const char *fields, const tdg__rope_t *body);
    int (*begin)(tdg__exchange_t *exchange, const char *fields, const void *first,
                 size_t len);
    void (*end)(tdg__exchange_t *exchange);
    void (*close)(tdg__exchange_t *exchange);
    void (*peer)(const tdg__exchange_t *exchange, char ret[TDG__PEER_MAX]);
    void (*prove)(tdg__exchange_t *exchange);
} tdg__exchange_ops_t;

struct tdg__exchange {
    tdg__outlet_t
        outlet; /* for the pieces of an open stream; its `calls` are the table */
    void *user; /* whatever its owner keeps of it; NULL at first */
};

static inline const tdg__exchange_ops_t *
tdg__exchange_ops(const tdg__exchange_t *exchange) {
    return (const tdg__exchange_ops_t *)(const void *)exchange->outlet.calls;
}

/* Answers the request. `fields` are further header lines, each "Name: value\r\n", or
 * NULL. The body may have shared buffers in it, which are not copied. Date, Connection
 * and Content-Length are added. For HEAD the body is left out. The next request comes
 * later, from the loop. Does nothing on a connection that is closing. */
static inline void tdg__exchange_respond_rope(tdg__exchange_t *exchange, int status,
                                              const char *content_type,
                                              const char *fields,
                                              const tdg__rope_t *body) {
    tdg__exchange_ops(exchange)->respond(exchange, status, content_type, fields, body);
}

/* The same with a body in one piece; NULL: there is none (202, 204: no Content-Length
 * either where the status forbids it). */
static inline void tdg__exchange_respond(tdg__exchange_t *exchange, int status,
                                         const char *content_type, const char *fields,
                                         const void *body, size_t len) {
    tdg__rope_t rope = {
        .text = {.data = (char *)(uintptr_t)body, .len = body != NULL ? len : 0}};

    tdg__exchange_ops(exchange)->respond(exchange, status, content_type, fields, &rope);
}

/* Answers with a stream: writes the head with `Content-Type: text/event-stream`,
 * `Cache-Control: no-cache, no-transform`, `X-Accel-Buffering: no` and `fields`, together
 * with `first` (the first piece, may be NULL) in one write. Pieces follow through the
 * outlet. HTTP/1.0 clients get no chunks, and the end is the close; HEAD gets the head.
 * Returns as tdg__outlet_write(). */
static inline int tdg__exchange_begin(tdg__exchange_t *exchange, const char *fields,
                                      const void *first, size_t len) {
    return tdg__exchange_ops(exchange)->begin(exchange, fields, first, len);
}

/* Ends the stream; the connection goes on to its next request if it may. */
static inline void tdg__exchange_end(tdg__exchange_t *exchange) {
    tdg__exchange_ops(exchange)->end(exchange);
}

/* Closes: at once what waits to be read, and after what is queued has been written (or
 * the write time-out). `closed` of net.h follows, not from inside this call. */
static inline void tdg__exchange_close(tdg__exchange_t *exchange) {
    tdg__exchange_ops(exchange)->close(exchange);
}

/* The request is one that deserves to be served, so its connection goes before those of
 * strangers (turn.c) from the answer on, until a request of it is refused (a status from
 * 400). To be said before its answer ends. */
static inline void tdg__exchange_prove(tdg__exchange_t *exchange) {
    tdg__exchange_ops(exchange)->prove(exchange);
}

/* The address of the client, without its port; "" where nobody knows. */
static inline void tdg__exchange_peer(const tdg__exchange_t *exchange,
                                      char ret[TDG__PEER_MAX]) {
    tdg__exchange_ops(exchange)->peer(exchange, ret);
}

#endif
