/* SPDX-License-Identifier: MIT
 *
 * One connection to PostgreSQL on the loop, for queries one after the other and for
 * notifications. It connects on request, once; its owner decides whether to retry.
 * Nothing blocks: libuv looks up names, everything else is libpq's non-blocking
 * interface. Everything that waits for the server has a time limit: a silent server
 * counts as unreachable.
 *
 * Rows are passed on as they arrive and are not collected. If the callback wants no more
 * rows, the query is cancelled (by a cancel request, from libuv's threads, as libpq
 * blocks while it sends one). */
#ifndef TDG_SOURCE_PG_CONN_H
#define TDG_SOURCE_PG_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>
#include <uv.h>

#include "base/queue.h"
#include "base/template.h"

typedef struct tdg__pg tdg__pg_t;
typedef struct tdg__pg_query tdg__pg_query_t;

/* How a query ended. All is borrowed for the call. */
typedef struct tdg__pg_end {
    int status;             /* 0; TDG_EUNREACHABLE: no connection, or it was lost, or the
                               server says that it is busy or stops; TDG_EINVAL: the
                               server refuses the query; TDG_ETOOLARGE: row() wanted no
                               more */
    const char *error;      /* one line, where status is not 0 */
    const char *sqlstate;   /* five characters; "" where the server said nothing */
    const PGresult *result; /* where status is 0: the columns, and no rows */
} tdg__pg_end_t;

struct tdg__pg_query {
    const char *sql;           /* borrowed until the end */
    const char *const *values; /* of $1, …; text; borrowed likewise */
    int count;
    int64_t limit_ms; /* without a sign of the server for so long it is gone; 0: some
                         seconds more than a statement may take */

    /* A row; false: no more of them. May be NULL. Neither submits nor closes. */
    bool (*row)(tdg__pg_query_t *query, const PGresult *row);
    void (*done)(tdg__pg_query_t *query, const tdg__pg_end_t *end); /* may be NULL */
    void *user;

    tdg__pg_t *pg;     /* private from here on; NULL: it is not under way */
    tdg__queue_t link; /* while it waits */
    unsigned turn;
};

typedef struct tdg__pg_ops {
    void (*up)(void *user); /* connected: queries run */

    /* Could not connect, or lost. `why` is one line. Afterwards all queries of this
     * connection end with TDG_EUNREACHABLE. */
    void (*down)(void *user, const char *why);

    void (*notified)(void *user, const char *payload);
    void (*closed)(void *user); /* after tdg__pg_close(): the last call */
} tdg__pg_ops_t;

typedef struct tdg__pg_opts {
    uv_loop_t *loop;
    const char *conninfo;       /* copied */
    int64_t connect_timeout_ms; /* for all of connecting */
    int64_t timeout_ms;         /* of one statement, in the server */
    tdg__pg_ops_t ops;
    void *user;
} tdg__pg_opts_t;

/* Returns 0, TDG_EINVAL (no connection string) or TDG_ENOMEM. */
int tdg__pg_create(const tdg__pg_opts_t *opts, tdg__pg_t **ret);

/* Ends everything; ops.closed() follows, maybe later, and *pg is gone then. Queries end
 * with TDG_EUNREACHABLE. No other call of ops comes. */
void tdg__pg_close(tdg__pg_t *pg);

/* Begins to connect, where that is not done or under way: up() or down() follows. */
void tdg__pg_connect(tdg__pg_t *pg);

/* Lets the connection go without down(). Queries end with TDG_EUNREACHABLE. */
void tdg__pg_disconnect(tdg__pg_t *pg);

typedef enum tdg__pg_state {
    TDG__PG_DOWN,
    TDG__PG_CONNECTING,
    TDG__PG_UP
} tdg__pg_state_t;
tdg__pg_state_t tdg__pg_state(const tdg__pg_t *pg);
bool tdg__pg_is_idle(const tdg__pg_t *pg);      /* no query runs or waits */
uint64_t tdg__pg_heard_ms(const tdg__pg_t *pg); /* uv_now() of the last sign of life */

/* Runs a query when those before it are through and the connection is there; first of
 * those that wait where `first`. done() is called once, never from inside. */
void tdg__pg_submit(tdg__pg_t *pg, tdg__pg_query_t *query, bool first);

/* Submitted, and neither done nor abandoned. A query that is all zero is not. */
bool tdg__pg_is_under_way(const tdg__pg_query_t *query);

/* Forgets a query, where it is under way: done() is not called, its memory is free. What
 * already runs is thrown away. */
void tdg__pg_abandon(tdg__pg_query_t *query);

#endif
