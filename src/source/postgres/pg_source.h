/* SPDX-License-Identifier: MIT
 *
 * The inside of a postgres source: what postgres.c (options, life cycle), pg_watch.c (the
 * connection, listening, watching) and pg_fetch.c (reading) share. No other file includes
 * this. */
#ifndef TDG_SOURCE_PG_SOURCE_H
#define TDG_SOURCE_PG_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/text.h"
#include "source/common/source.h"
#include "source/postgres/pg_conn.h"
#include "source/postgres/pg_plan.h"
#include "source/postgres/pg_seen.h"

/* Rows of which we remember what happened to them. */
enum { TDG__PG_MAX_OPS = 10000 };

enum { TDG__PG_STATE = 80 };

typedef struct tdg__pg_source tdg__pg_source_t;

/* Timers. */
enum {
    TDG__PG_RETRY, /* runs: the server is unreachable; no retry before this ends */
    TDG__PG_IDLE,
    TDG__PG_EVERY,
    TDG__PG_PROBE,
    TDG__PG_TIMERS
};

/* Queries that do not read a URI; each is under way once at most. */
enum {
    TDG__PG_LISTEN,
    TDG__PG_UNLISTEN,
    TDG__PG_PROBE_SERVER,
    TDG__PG_STATE_OF_TABLE,
    TDG__PG_SNAPSHOT,
    TDG__PG_FENCE, /* before its answer, all earlier notifications are read */
    TDG__PG_QUERIES
};

typedef enum tdg__pg_listening {
    TDG__PG_DEAF,
    TDG__PG_ASKED,
    TDG__PG_LISTENING
} tdg__pg_listening_t;

struct tdg__pg_source {
    tdg__source_t source; /* first */

    char *conninfo; /* options */
    tdg__pg_entry_t entry;
    int64_t every_ms, max_keys, idle_ms, connect_ms, probe_ms;
    int format;

    tdg__pg_plan_t plan;
    tdg__pg_t *pg; /* NULL: not open */
    uv_timer_t timers[TDG__PG_TIMERS];
    unsigned tries;

    tdg__pg_listening_t listening;
    tdg__pg_query_t queries[TDG__PG_QUERIES];

    tdg__pg_seen_t seen; /* what the table held; empty unless the template is watched */
    bool baseline;       /* `seen` was taken */
    tdg__pg_seen_t seen_now; /* being taken */
    bool compare_again;
    bool compare_owed; /* the table was refused when the watched template was to be
                          compared: each probe retries */
    bool logged_table; /* why the table cannot be looked at */
    char state[TDG__PG_STATE]; /* of the table, when last asked for; "": not yet */
    char state_now[TDG__PG_STATE];
    bool check_again, altered; /* DDL was notified: while STATE was under way, since */
    char logged_trigger; /* how it was enabled when that was last reported; 0: not yet */
    tdg__pg_source_t *before; /* whose connection listens for us; NULL: none does */
    tdg__pg_source_t *heir;   /* for whom ours listens, though we are closing */
    bool ending;              /* that comes to its end */
    int rounds;
    tdg__pg_seen_t ops; /* the last operation that was notified of a URI */
    tdg__text_t uri;    /* scratch */
};

/* What the connection calls, with the source as its user. (pg_watch.c) */
void tdg__pg_source_up(void *user);
void tdg__pg_source_down(void *user, const char *why);
void tdg__pg_source_notified(void *user, const char *payload);

/* The connection is needed: opens it, unless the server is unreachable and it is not time
 * to retry. It is not needed any more: it is closed after a while. */
void tdg__pg_source_need(tdg__pg_source_t *postgres);
void tdg__pg_source_rest(tdg__pg_source_t *postgres);
bool tdg__pg_source_waits(const tdg__pg_source_t *postgres); /* for the time to retry */

/* Submits one of `queries`, which is not under way, as given; the source is its user. */
void tdg__pg_source_submit(tdg__pg_source_t *postgres, int which, bool first,
                           const tdg__pg_query_t *query);

/* The source listens: those before it end once they have passed on their notifications;
 * the second ends them at once. (pg_past.c) */
void tdg__pg_relay_end(tdg__pg_source_t *postgres);
void tdg__pg_relay_stop(tdg__pg_source_t *postgres);

/* Of the table of functions of a kind. */
int tdg__pg_source_watch(tdg__source_t *source, const tdg_target_t *target);
void tdg__pg_source_unwatch(tdg__source_t *source, const tdg_target_t *target);
bool tdg__pg_source_inherit(tdg__source_t *source, tdg__source_t *from);
void tdg__pg_source_each(const tdg__source_t *source,
                         void (*visit)(void *arg, const char *uri), void *arg);
void tdg__pg_source_fetch(tdg__source_t *source, tdg__fetch_t *fetch); /* pg_fetch.c */
void tdg__pg_source_cancel(tdg__source_t *source, tdg__fetch_t *fetch);

#endif
