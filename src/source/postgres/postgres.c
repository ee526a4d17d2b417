/* SPDX-License-Identifier: MIT
 *
 * Rows of PostgreSQL as resources.
 *
 * One connection per source serves reads and LISTEN alike, one statement after the other:
 * what is read after LISTEN is as new as any notification that follows, and that order
 * needs one connection. It is opened for a read or a watch, and closed when it was not
 * needed for a while.
 *
 *     down ── read, watch, retry ──▶ connecting ──▶ up ──▶ LISTEN ──▶ snapshot ──▶ armed
 *      ▲                                 │           │        └ where a template is
 * watched └──── wait, longer each time ◀────┴── lost ◀──┘
 *
 * Notifications are lost while no connection listens. So whatever is watched is looked at
 * again after an outage; and for a watched template the table is compared with the
 * digests of its rows from before (pg_seen.h), for which LISTEN comes first and the
 * comparison before any other read. */
#include "base/alloc.h"
#include "source/postgres/pg_params.h"
#include "source/postgres/pg_source.h"

enum { DAY_MS = 24 * 60 * 60 * 1000 };

static const char *const formats[] = {"json", "csv", NULL};
static const char *const shapes[] = {"auto", "row", "rows", NULL};

#define AT(name) offsetof(tdg__pg_source_t, name)

static const tdg__option_t options[] = {
    TDG__OPTION(STRING, conninfo, "postgres",
                .flags = TDG__OPTION_REQUIRED | TDG__OPTION_SECRET,
                .example = "postgresql://reader@db.example/shop",
                .help = "The connection string: a URI or keywords, as for libpq. Missing "
                        "values come from the environment (PGHOST, PGPASSWORD, ...) and "
                        "~/.pgpass."),
    TDG__OPTION(STRING, entry.table, "table", .example = "shop.orders",
                .help = "The table to serve; without a schema it is in public."),
    TDG__OPTION(STRINGS, entry.keys, "key", .example = "id",
                .help =
                    "With `table`: the column or columns that identify a row. They are "
                    "the variables of a template, and the order of the rows."),
    TDG__OPTION(STRING, entry.query, "query", .flags = TDG__OPTION_RAW,
                .help = "Instead of `table`: the query to serve, such as SELECT * FROM "
                        "orders WHERE customer = :customer. :name is the value of a "
                        "variable of the template, bound as a parameter."),
    TDG__OPTION(STRING, entry.channel, "channel", .example = "orders_changed",
                .help = "The channel on which changes are notified. Without it, a table "
                        "uses the channel of its trigger (see tidings postgres install), "
                        "and a query is polled."),
    TDG__OPTION(DURATION, every_ms, "every", .min = 100, .max = DAY_MS, .example = "30s",
                .help =
                    "Polls at this interval while somebody is subscribed. Default: "
                    "every 10s for a query without `channel`, else only when notified."),
    TDG__OPTION(CHOICE, format, "format", .fallback = "json", .choices = formats,
                .example = "csv",
                .help = "JSON, or CSV as in RFC 4180 with a header line."),
    TDG__OPTION(CHOICE, entry.shape, "result", .fallback = "auto", .choices = shapes,
                .example = "rows",
                .help = "In JSON, whether the content of a URI is one object or a list. "
                        "auto: an object if a template has all columns of `key`, else a "
                        "list."),
    TDG__OPTION(NUMBER, entry.max_rows, "max-rows", .fallback = "1000", .min = 1,
                .max = 1000000, .example = "100",
                .help = "Maximum number of rows; reads of more rows fail with an error."),
    TDG__OPTION(NUMBER, max_keys, "max-keys", .fallback = "100000", .min = 1,
                .max = 10000000, .example = "10000",
                .help = "How many rows are remembered by a digest while a template is "
                        "subscribed to, to find the changes of an outage."),
    TDG__OPTION(DURATION, idle_ms, "idle", .fallback = "1m", .min = 1, .max = DAY_MS,
                .example = "10s",
                .help =
                    "How long the connection stays open after the last read if nobody "
                    "is subscribed."),
    TDG__OPTION(DURATION, connect_ms, "connect-timeout", .fallback = "10s", .min = 1,
                .max = DAY_MS, .example = "5s", .help = "Time limit for connecting."),
    TDG__OPTION(DURATION, probe_ms, "probe", .fallback = "30s", .min = 100, .max = DAY_MS,
                .example = "10s",
                .help = "Interval of the probe while somebody is subscribed: whether the "
                        "server answers, and whether `table` has changed in a way that "
                        "fires no trigger. It is also the time limit for the answer."),
    {.name = NULL},
};

/* ---- Life --------------------------------------------------------------- */

static int check(tdg__source_t *source, const tdg__node_t *node,
                 tdg__problems_t *problems) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source;
    const tdg__node_t *place = tdg__node_get(node, "postgres");
    tdg__pg_params_t params;
    int rv = tdg__pg_params_init(&params, postgres->conninfo, source->entry.timeout_ms);

    if (rv == 0)
        tdg__pg_params_done(&params);
    if (rv == TDG_ENOMEM)
        return rv;
    if (rv < 0)
        tdg__problems_add(
            problems, place != NULL ? place->line : 0, place != NULL ? place->column : 0,
            "postgres: this is not a connection string; write a URI such as "
            "postgresql://user@host/database, or keyword=value pairs");
    /* One statement runs, and one is ready to follow; the others take turns (turns.h). */
    source->max_fetches = 2;

    postgres->entry.uri = source->entry.uri;
    int planned = tdg__pg_plan_init(&postgres->plan, &postgres->entry, node, problems);
    return rv < 0 ? rv : planned;
}

static void on_pg_closed(void *user) {
    tdg__source_let_go(user);
}

static int open_source(tdg__source_t *source) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source;
    tdg__pg_opts_t opts = {
        .loop = source->host.loop,
        .conninfo = postgres->conninfo,
        .connect_timeout_ms = postgres->connect_ms,
        .timeout_ms = source->entry.timeout_ms,
        .ops = {tdg__pg_source_up, tdg__pg_source_down, tdg__pg_source_notified,
                on_pg_closed},
        .user = postgres,
    };
    int rv = tdg__pg_seen_init(&postgres->ops, TDG__PG_MAX_OPS);

    if (rv == 0)
        rv = tdg__pg_create(&opts, &postgres->pg);
    if (rv < 0) {
        tdg__source_log(source, TDG_LOG_ERROR, "cannot start: %s", tdg_strerror(rv));
        return rv;
    }
    tdg__text_init(&postgres->uri, 3 * TDG__TEMPLATE_MAX_LEN);
    tdg__source_hold(source); /* the connection */
    for (int i = 0; i < TDG__PG_TIMERS; i++)
        tdg__source_open_timer(source, &postgres->timers[i]);
    return 0;
}

static void close_source(tdg__source_t *source) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source;

    if (postgres->pg == NULL)
        return; /* it was never open */
    for (int i = 0; i < TDG__PG_TIMERS; i++)
        tdg__source_close_handle((uv_handle_t *)&postgres->timers[i]);
    if (postgres->heir != NULL)
        return; /* which ends the connection, and that of the source before us */
    tdg__pg_relay_stop(postgres);
    tdg__pg_close(postgres->pg);
}

static void free_source(tdg__source_t *source) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source;

    tdg__pg_seen_done(&postgres->seen);
    tdg__pg_seen_done(&postgres->seen_now);
    tdg__pg_seen_done(&postgres->ops);
    tdg__text_done(&postgres->uri);
    tdg__pg_plan_done(&postgres->plan);
}

const tdg__source_kind_t tdg__source_postgres = {
    .name = "postgres",
    .help =
        "Rows of a PostgreSQL table, or the result of a query. Changes are notified by "
        "the database itself.",
    .options = options,
    .size = sizeof(tdg__pg_source_t),
    .check = check,
    .open = open_source,
    .close = close_source,
    .watch = tdg__pg_source_watch,
    .unwatch = tdg__pg_source_unwatch,
    .fetch = tdg__pg_source_fetch,
    .cancel = tdg__pg_source_cancel,
    .inherit = tdg__pg_source_inherit,
    .each = tdg__pg_source_each,
    .free = free_source,
};
