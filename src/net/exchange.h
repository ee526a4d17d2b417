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

/* The address of a client, without its port. */
enum { TDG__PEER_MAX = 46 };

typedef struct tdg__exchange_ops {
    tdg__outlet_calls_t outlet; /* first: what its outlet is told */

    /* As tdg__conn_respond_rope(), _begin(), _end(), _close() and _peer() of conn.h. */
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

static inline void tdg__exchange_respond_rope(tdg__exchange_t *exchange, int status,
                                              const char *content_type,
                                              const char *fields,
                                              const tdg__rope_t *body) {
    tdg__exchange_ops(exchange)->respond(exchange, status, content_type, fields, body);
}

/* `body` NULL: there is none. */
static inline void tdg__exchange_respond(tdg__exchange_t *exchange, int status,
                                         const char *content_type, const char *fields,
                                         const void *body, size_t len) {
    tdg__rope_t rope = {
        .text = {.data = (char *)(uintptr_t)body, .len = body != NULL ? len : 0}};

    tdg__exchange_ops(exchange)->respond(exchange, status, content_type, fields, &rope);
}

static inline int tdg__exchange_begin(tdg__exchange_t *exchange, const char *fields,
                                      const void *first, size_t len) {
    return tdg__exchange_ops(exchange)->begin(exchange, fields, first, len);
}

static inline void tdg__exchange_end(tdg__exchange_t *exchange) {
    tdg__exchange_ops(exchange)->end(exchange);
}

static inline void tdg__exchange_close(tdg__exchange_t *exchange) {
    tdg__exchange_ops(exchange)->close(exchange);
}

/* The request is one that deserves to be served; to be said before its answer ends. */
static inline void tdg__exchange_prove(tdg__exchange_t *exchange) {
    tdg__exchange_ops(exchange)->prove(exchange);
}

static inline void tdg__exchange_peer(const tdg__exchange_t *exchange,
                                      char ret[TDG__PEER_MAX]) {
    tdg__exchange_ops(exchange)->peer(exchange, ret);
}

#endif
