/* SPDX-License-Identifier: MIT
 *
 * The connection of a source: connecting, listening, and comparing; postgres.c has the
 * overview. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "source/postgres/pg_source.h"

/* `every`, where there is nothing else to go by. */
enum { POLL_MS = 10 * 1000 };

/* ---- Small things ------------------------------------------------------- */

static bool is_watched(const tdg__pg_source_t *postgres) {
    return tdg__source_is_watched(&postgres->source);
}

static bool template_is_watched(const tdg__pg_source_t *postgres) {
    return tdg__source_template_is_watched(&postgres->source);
}

static void start_timer(tdg__pg_source_t *postgres, int which, uv_timer_cb callback,
                        int64_t wait_ms, bool repeat) {
    uv_timer_start(&postgres->timers[which], callback, (uint64_t)wait_ms,
                   repeat ? (uint64_t)wait_ms : 0);
}

void tdg__pg_source_submit(tdg__pg_source_t *postgres, int which, bool first,
                           const tdg__pg_query_t *query) {
    assert(!tdg__pg_is_under_way(&postgres->queries[which]));
    postgres->queries[which] = *query;
    postgres->queries[which].user = postgres;
    tdg__pg_submit(postgres->pg, &postgres->queries[which], first);
}

static bool is_under_way(const tdg__pg_source_t *postgres, int which) {
    return tdg__pg_is_under_way(&postgres->queries[which]);
}

static bool runs(const tdg__pg_source_t *postgres, int which) {
    return uv_is_active((const uv_handle_t *)&postgres->timers[which]) != 0;
}

static void on_idle(uv_timer_t *timer) {
    tdg__pg_source_t *postgres = timer->data;

    if (is_watched(postgres) && postgres->plan.listens)
        return;
    if (!tdg__pg_is_idle(postgres->pg)) { /* not every use says when it ends */
        tdg__pg_source_rest(postgres);
        return;
    }
    tdg__pg_disconnect(postgres->pg);
    postgres->listening = TDG__PG_DEAF;
}

/* After every use: from now on the connection is idle, unless it listens. */
void tdg__pg_source_rest(tdg__pg_source_t *postgres) {
    if (postgres->pg != NULL && !postgres->source.closing)
        start_timer(postgres, TDG__PG_IDLE, on_idle, postgres->idle_ms, false);
}

/* While it is waiting for the next try, that comes first. */
void tdg__pg_source_need(tdg__pg_source_t *postgres) {
    uv_timer_stop(&postgres->timers[TDG__PG_IDLE]);
    if (!runs(postgres, TDG__PG_RETRY))
        tdg__pg_connect(postgres->pg);
}

bool tdg__pg_source_waits(const tdg__pg_source_t *postgres) {
    return runs(postgres, TDG__PG_RETRY) && tdg__pg_state(postgres->pg) == TDG__PG_DOWN;
}

static void on_retry(uv_timer_t *timer) {
    tdg__pg_source_t *postgres = timer->data;

    if (is_watched(postgres))
        tdg__pg_connect(postgres->pg);
}

static void is_down(tdg__pg_source_t *postgres, const char *why);

/* The connection works, but not for what we need. */
static void give_up_connection(tdg__pg_source_t *postgres, const char *what,
                               const tdg__pg_end_t *end) {
    char why[600];

    if (tdg__pg_state(postgres->pg) != TDG__PG_UP)
        return; /* lost; that is known */
    snprintf(why, sizeof(why), "%s: %s", what, end->error);
    is_down(postgres, why);
    tdg__pg_disconnect(postgres->pg);
}

/* ---- Watching is complete ----------------------------------------------- */

static void rest_unless_watched(tdg__pg_source_t *postgres);

static void refuse_template(tdg__pg_source_t *postgres) {
    if (!tdg__source_awaits_template(&postgres->source))
        return;
    tdg__source_watched(&postgres->source,
                        &(tdg_target_t){TDG_TARGET_TEMPLATE, postgres->source.entry.uri},
                        TDG_EREFUSED);
    rest_unless_watched(postgres);
}

static void armed(tdg__pg_source_t *postgres) {
    postgres->tries =
        0; /* not before: a server that refuses to go on is not asked each second */
    tdg__source_armed(&postgres->source);
    tdg__source_is_back(&postgres->source);
}

/* Once, until it can be looked at again. */
static void log_table_failed(tdg__pg_source_t *postgres, const char *why) {
    if (!postgres->logged_table)
        tdg__source_log(&postgres->source, TDG_LOG_ERROR, "cannot inspect %s: %s",
                        postgres->plan.table_name, why);
    postgres->logged_table = true;
}

/* ---- What the table holds ----------------------------------------------- */

static void touch(void *arg, const char *uri) {
    tdg__pg_source_t *postgres = arg;

    tdg__source_touch(&postgres->source, uri);
}

static bool on_snapshot_row(tdg__pg_query_t *query, const PGresult *row) {
    tdg__pg_source_t *postgres = query->user;
    const char *values[TDG__TEMPLATE_MAX_NAMES];
    int count = (int)postgres->plan.variable_count;
    int rv;

    for (int i = 0; i < count; i++)
        values[i] = PQgetisnull(row, 0, i) ? NULL : PQgetvalue(row, 0, i);
    tdg__text_clear(&postgres->uri);
    rv = tdg__pg_plan_uri(&postgres->plan, values, &postgres->uri);
    if (rv == TDG_ENOTFOUND)
        return true; /* no URI can name this row */
    if (rv == 0)
        rv = tdg__pg_seen_add(&postgres->seen_now, postgres->uri.data,
                              tdg__pg_digest(PQgetvalue(row, 0, count)));
    if (rv < 0)
        postgres->seen_now.complete = false;
    return rv == 0;
}

/* Touches what differs from before; without a baseline, everything. */
static void compare(tdg__pg_source_t *postgres) {
    tdg__pg_seen_t before = postgres->seen;
    bool first =
        tdg__source_awaits_template(&postgres->source) && !postgres->source.compares;

    postgres->seen = postgres->seen_now;
    postgres->seen_now = (tdg__pg_seen_t){.max = 0};
    if (!postgres->seen.complete)
        tdg__source_log(&postgres->source, TDG_LOG_WARNING,
                        "%s has more than max-keys (%" PRId64 ") rows: after an outage, "
                        "only changes of remembered rows are notified",
                        postgres->plan.table_name, postgres->max_keys);
    if (!postgres->baseline && !first) {
        tdg__pg_seen_each(&postgres->seen, touch, postgres);
    } else if (postgres->baseline && before.complete && postgres->seen.complete) {
        tdg__pg_seen_compare(&before, &postgres->seen, touch, postgres);
    } else if (postgres->baseline) {
        tdg__source_log(&postgres->source, TDG_LOG_WARNING,
                        "%s: changes of rows beyond max-keys may have been missed",
                        postgres->plan.table_name);
        tdg__pg_seen_each(&before, touch, postgres);
        tdg__pg_seen_each(&postgres->seen, touch, postgres);
    }
    postgres->baseline = true;
    tdg__pg_seen_done(&before);
}

static void take_snapshot(tdg__pg_source_t *postgres, bool first);

static void on_snapshot(tdg__pg_query_t *query, const tdg__pg_end_t *end) {
    tdg__pg_source_t *postgres = query->user;
    bool taken = end->status == 0 || end->status == TDG_ETOOLARGE;

    if (!template_is_watched(postgres) || !taken)
        tdg__pg_seen_done(&postgres->seen_now);
    if (end->status == TDG_EUNREACHABLE) {
        give_up_connection(postgres, "cannot compare the whole table", end);
        return;
    }
    if (!taken) {
        log_table_failed(postgres, end->error);
        refuse_template(postgres);
        postgres->compare_owed = template_is_watched(postgres);
    } else if (template_is_watched(postgres)) {
        compare(postgres);
        if (postgres->compare_again)
            take_snapshot(postgres, false);
    }
    armed(postgres);
}

static void take_snapshot(tdg__pg_source_t *postgres, bool first) {
    if (is_under_way(postgres, TDG__PG_SNAPSHOT)) {
        postgres->compare_again = true;
        return;
    }
    postgres->compare_again = postgres->compare_owed = false;
    if (tdg__pg_seen_init(&postgres->seen_now, (size_t)postgres->max_keys) < 0) {
        give_up_connection(postgres, "cannot compare the whole table",
                           &(tdg__pg_end_t){.error = "the system has no random numbers"});
        return;
    }
    postgres->seen_now.complete = true;
    tdg__pg_source_submit(postgres, TDG__PG_SNAPSHOT, first,
                          &(tdg__pg_query_t){.sql = postgres->plan.snapshot,
                                             .row = on_snapshot_row,
                                             .done = on_snapshot});
}

/* Something has changed, and it is unknown what. */
static void resync(tdg__pg_source_t *postgres) {
    tdg__source_touch_all(&postgres->source);
    if (template_is_watched(postgres) && postgres->plan.by_table &&
        postgres->listening == TDG__PG_LISTENING)
        take_snapshot(postgres, false);
}

/* ---- Listening ---------------------------------------------------------- */

/* Once, until it is another. */
static void log_trigger(tdg__pg_source_t *postgres, char enabled) {
    static const struct {
        char enabled;
        const char *text;
    } cases[] = {
        {'-', "has no trigger that notifies of its changes"},
        {'D', "has a disabled trigger, or a partition with one"},
        {'C', "has a trigger that notifies on another channel"},
        {'I', "has children by INHERITS without a trigger that notifies on its channel"},
        {'R', "has a trigger that fires for replicated changes only"},
        {'O', "has a trigger that does not fire for replicated changes, nor where "
              "session_replication_role is replica"},
    };

    if (enabled == postgres->logged_trigger)
        return;
    postgres->logged_trigger = enabled;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (cases[i].enabled == enabled)
            tdg__source_log(&postgres->source, TDG_LOG_WARNING,
                            "%s %s; to fix this, run `tidings postgres install --table "
                            "...`. Until then the table is checked every %" PRId64
                            " ms, if the statistics of the server show a change",
                            postgres->plan.table_name, cases[i].text, postgres->probe_ms);
}

/* Where something else than our trigger notifies, what is known of ours does not matter,
 * nor does a count of rows. */
static bool is_ours(const tdg__pg_source_t *postgres, char enabled) {
    return postgres->plan.derived || (enabled != '-' && enabled != 'C');
}

static bool on_state_row(tdg__pg_query_t *query, const PGresult *row) {
    tdg__pg_source_t *postgres = query->user;
    char enabled = PQgetvalue(row, 0, 0)[0];

    snprintf(postgres->state_now, sizeof(postgres->state_now), "%c %s %s", enabled,
             PQgetvalue(row, 0, 1),
             is_ours(postgres, enabled) ? PQgetvalue(row, 0, 2) : "");
    return true;
}

static void begin_watching(tdg__pg_source_t *postgres);
static void ask_state(tdg__pg_source_t *postgres, bool first, int64_t limit_ms);

static void compare_state(tdg__pg_source_t *postgres) {
    bool was_known = postgres->state[0] != '\0';
    bool differs = strcmp(postgres->state, postgres->state_now) != 0;

    memcpy(postgres->state, postgres->state_now, sizeof(postgres->state));
    if (!was_known) {
        begin_watching(postgres);
        return;
    }
    if (differs)
        tdg__source_log(&postgres->source, TDG_LOG_NOTICE,
                        "%s has changed in a way that fires no trigger: everything is "
                        "read again",
                        postgres->plan.table_name);
    if (differs || postgres->altered)
        resync(postgres);
    else if (postgres->compare_owed)
        take_snapshot(postgres, false);
    postgres->altered = postgres->check_again;
}

/* What the table looks like, beside its rows. Another than before: rows may be others,
 * and nobody has said so. */
static void on_state(tdg__pg_query_t *query, const tdg__pg_end_t *end) {
    tdg__pg_source_t *postgres = query->user;

    if (postgres->listening != TDG__PG_LISTENING)
        return; /* asked again by the next connection */
    if (end->status == TDG_EUNREACHABLE) {
        give_up_connection(postgres, "cannot inspect the table", end);
        return;
    }
    if (end->status < 0) {
        log_table_failed(postgres, end->error);
        snprintf(postgres->state_now, sizeof(postgres->state_now), "? %s", end->sqlstate);
    } else {
        if (!postgres->compare_owed)
            postgres->logged_table = false;
        if (is_ours(postgres, postgres->state_now[0]))
            log_trigger(postgres, postgres->state_now[0]);
    }

    compare_state(postgres);
    if (postgres->check_again)
        ask_state(postgres, false, postgres->probe_ms);
}

/* `first`: before what waits. */
static void ask_state(tdg__pg_source_t *postgres, bool first, int64_t limit_ms) {
    if (!postgres->plan.by_table || is_under_way(postgres, TDG__PG_STATE_OF_TABLE))
        return;
    postgres->check_again = false;
    strcpy(postgres->state_now, "?");
    tdg__pg_source_submit(postgres, TDG__PG_STATE_OF_TABLE, first,
                          &(tdg__pg_query_t){.sql = postgres->plan.state,
                                             .row = on_state_row,
                                             .done = on_state,
                                             .limit_ms = limit_ms});
}

/* The table may hold other rows also if it looks as before: a type can be altered. */
static void on_ddl(tdg__pg_source_t *postgres) {
    postgres->altered = true;
    /* One that is under way may have looked before the DDL. */
    postgres->check_again = is_under_way(postgres, TDG__PG_STATE_OF_TABLE);
    ask_state(postgres, false, postgres->probe_ms);
}

static void unlisten(tdg__pg_source_t *postgres) {
    if (postgres->listening != TDG__PG_LISTENING)
        return; /* on_listening() follows, and finds nothing watched */
    postgres->listening = TDG__PG_DEAF;
    if (!is_under_way(postgres, TDG__PG_UNLISTEN))
        tdg__pg_source_submit(postgres, TDG__PG_UNLISTEN, false,
                              &(tdg__pg_query_t){.sql = "UNLISTEN *"});
}

static void on_listening(tdg__pg_query_t *query, const tdg__pg_end_t *end) {
    tdg__pg_source_t *postgres = query->user;

    postgres->listening = TDG__PG_DEAF;
    if (end->status < 0) {
        if (!postgres->source.closing)
            give_up_connection(postgres, "cannot listen", end);
        return;
    }
    postgres->listening = TDG__PG_LISTENING;
    tdg__pg_relay_end(postgres);
    if (postgres->heir != NULL)
        return;
    if (!is_watched(postgres)) {
        unlisten(postgres);
        return;
    }
    postgres->state[0] = '\0';
    postgres->altered = postgres->check_again = false;
    if (postgres->plan.by_table)
        ask_state(postgres, true, 0); /* before any row is read to compare with */
    else
        begin_watching(postgres);
}

static void begin_watching(tdg__pg_source_t *postgres) {
    if (!template_is_watched(postgres)) {
        armed(postgres);
    } else if (postgres->plan.by_table) {
        tdg__source_uris_armed(&postgres->source);
        take_snapshot(postgres, true);
    } else {
        if (postgres->source.compares)
            tdg__source_touch_all(&postgres->source);
        if (postgres->source.away)
            tdg__source_log(&postgres->source, TDG_LOG_WARNING,
                            "changes during the outage may have been missed: of a query, "
                            "only the subscribed URIs are read again, not all that its "
                            "template matches");
        armed(postgres);
    }
}

static void listen_first(tdg__pg_source_t *postgres) {
    if (postgres->listening != TDG__PG_DEAF)
        return;
    tdg__pg_abandon(&postgres->queries[TDG__PG_UNLISTEN]); /* it must not come later */
    postgres->listening = TDG__PG_ASKED;
    tdg__pg_source_submit(
        postgres, TDG__PG_LISTEN, true,
        &(tdg__pg_query_t){.sql = postgres->plan.listen, .done = on_listening});
}

void tdg__pg_source_up(void *user) {
    tdg__pg_source_t *postgres = user;

    if (postgres->source.closing)
        return;
    if (is_watched(postgres) && postgres->plan.listens)
        listen_first(postgres);
    else
        armed(postgres);
    tdg__pg_source_rest(postgres);
}

static void is_down(tdg__pg_source_t *postgres, const char *why) {
    postgres->listening = TDG__PG_DEAF;
    tdg__pg_relay_stop(postgres);
    uv_timer_stop(&postgres->timers[TDG__PG_IDLE]);
    start_timer(postgres, TDG__PG_RETRY, on_retry,
                tdg__source_wait_ms(&postgres->source, postgres->tries), false);
    if (postgres->tries < 31)
        postgres->tries++;
    tdg__source_is_away(&postgres->source, why);
    /* Watching begins all the same: the reconnect touches everything. */
    tdg__source_armed(&postgres->source);
}

void tdg__pg_source_down(void *user, const char *why) {
    tdg__pg_source_t *postgres = user;

    if (postgres->source.closing)
        return;
    /* A connection that is not needed may be lost: the next read opens another. */
    if (is_watched(postgres) || !tdg__pg_is_idle(postgres->pg))
        is_down(postgres, why);
}

static void note_op(tdg__pg_source_t *postgres, const char *uri, tdg__pg_op_t op) {
    if (tdg__pg_seen_set(&postgres->ops, uri, (uint64_t)op) != TDG_ETOOLARGE)
        return;
    /* Full of rows that are never read. */
    tdg__pg_seen_done(&postgres->ops);
    if (tdg__pg_seen_init(&postgres->ops, TDG__PG_MAX_OPS) == 0)
        tdg__pg_seen_set(&postgres->ops, uri, (uint64_t)op);
}

void tdg__pg_source_notified(void *user, const char *payload) {
    tdg__pg_source_t *postgres = user;
    tdg__pg_op_t op;
    int rv;

    if (postgres->heir != NULL) {
        tdg__pg_source_notified(postgres->heir, payload);
        return;
    }
    if (!is_watched(postgres))
        return;
    tdg__text_clear(&postgres->uri);
    rv = tdg__pg_plan_payload(&postgres->plan, payload, &op, &postgres->uri);
    if (op == TDG__PG_DDL && postgres->plan.by_table &&
        postgres->listening == TDG__PG_LISTENING) {
        on_ddl(postgres);
    } else if (postgres->plan.template_ == NULL) {
        note_op(postgres, postgres->source.entry.uri, op);
        tdg__source_touch(&postgres->source, postgres->source.entry.uri);
    } else if (rv == 0) {
        note_op(postgres, postgres->uri.data, op);
        tdg__source_touch(&postgres->source, postgres->uri.data);
    } else {
        resync(postgres);
    }
}

/* ---- At intervals ------------------------------------------------------- */

static void on_every(uv_timer_t *timer) {
    resync(timer->data);
}

static void on_probe(uv_timer_t *timer) {
    tdg__pg_source_t *postgres = timer->data;

    if (postgres->listening != TDG__PG_LISTENING || !tdg__pg_is_idle(postgres->pg))
        return; /* then there is an answer soon, or a time limit */
    if (postgres->plan.by_table) {
        ask_state(postgres, false, postgres->probe_ms);
        return;
    }
    if (uv_now(postgres->source.host.loop) - tdg__pg_heard_ms(postgres->pg) <
        (uint64_t)postgres->probe_ms)
        return;
    tdg__pg_source_submit(
        postgres, TDG__PG_PROBE_SERVER, false,
        &(tdg__pg_query_t){.sql = "SELECT 1", .limit_ms = postgres->probe_ms});
}

static int64_t interval_of(const tdg__pg_source_t *postgres) {
    if (postgres->every_ms > 0)
        return postgres->every_ms;
    return postgres->plan.listens ? 0 : POLL_MS;
}

static void start_intervals(tdg__pg_source_t *postgres) {
    int64_t every = interval_of(postgres);

    if (every > 0 && !runs(postgres, TDG__PG_EVERY))
        start_timer(postgres, TDG__PG_EVERY, on_every, every, true);
    if (postgres->plan.listens && !runs(postgres, TDG__PG_PROBE))
        start_timer(postgres, TDG__PG_PROBE, on_probe, postgres->probe_ms, true);
}

/* ---- Watching ----------------------------------------------------------- */

static int watch_template(tdg__pg_source_t *postgres) {
    bool known = postgres->listening == TDG__PG_LISTENING;

    start_intervals(postgres);
    if (runs(postgres, TDG__PG_RETRY) || (known && !postgres->plan.by_table))
        return 0;
    if (known)
        take_snapshot(postgres, true);
    return TDG_EAGAIN;
}

int tdg__pg_source_watch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source;
    int rv = 0;

    if (target->kind == TDG_TARGET_TEMPLATE) {
        if (!postgres->plan.listens)
            return TDG_ENOTSUP; /* which of its URIs exist is unknown */
        rv = watch_template(postgres);
    } else {
        /* While the server is unreachable, watching begins without it. */
        if (postgres->plan.listens && postgres->listening != TDG__PG_LISTENING &&
            !runs(postgres, TDG__PG_RETRY))
            rv = TDG_EAGAIN;
        start_intervals(postgres);
    }
    if (postgres->plan.listens) {
        tdg__pg_source_need(postgres);
        if (tdg__pg_state(postgres->pg) == TDG__PG_UP)
            listen_first(postgres);
    }
    return rv;
}

static void unwatch_template(tdg__pg_source_t *postgres) {
    postgres->baseline = postgres->compare_again = postgres->compare_owed = false;
    tdg__pg_seen_done(&postgres->seen);
    if (is_under_way(postgres, TDG__PG_SNAPSHOT)) {
        tdg__pg_abandon(&postgres->queries[TDG__PG_SNAPSHOT]);
        tdg__pg_seen_done(&postgres->seen_now);
    }
}

static void rest_unless_watched(tdg__pg_source_t *postgres) {
    if (is_watched(postgres) || postgres->heir != NULL)
        return;
    tdg__pg_relay_stop(postgres);
    uv_timer_stop(&postgres->timers[TDG__PG_EVERY]);
    uv_timer_stop(&postgres->timers[TDG__PG_PROBE]);
    unlisten(postgres);
    tdg__pg_source_rest(postgres);
}

void tdg__pg_source_unwatch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source;

    if (target->kind == TDG_TARGET_TEMPLATE)
        unwatch_template(postgres);
    rest_unless_watched(postgres);
}
