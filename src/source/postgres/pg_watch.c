/* SPDX-License-Identifier: MIT
 *
 * The connection of a source comes and goes, listens, and compares; see postgres.c for
 * the whole of it. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "source/postgres/pg_source.h"

/* `every`, where there is nothing else to go by. */
enum { POLL_MS = 10 * 1000 };

/* ---- Small things ------------------------------------------------------- */

static bool is_watched(const tdg__pg_source_t *p) {
    return tdg__source_is_watched(&p->source);
}

static bool template_is_watched(const tdg__pg_source_t *p) {
    return tdg__source_template_is_watched(&p->source);
}

static void start_timer(tdg__pg_source_t *p, int which, uv_timer_cb callback,
                        int64_t wait_ms, bool repeat) {
    uv_timer_start(&p->timers[which], callback, (uint64_t)wait_ms,
                   repeat ? (uint64_t)wait_ms : 0);
}

void tdg__pg_source_submit(tdg__pg_source_t *p, int which, bool first,
                           const tdg__pg_query_t *query) {
    assert(!tdg__pg_is_under_way(&p->queries[which]));
    p->queries[which] = *query;
    p->queries[which].user = p;
    tdg__pg_submit(p->pg, &p->queries[which], first);
}

static bool is_under_way(const tdg__pg_source_t *p, int which) {
    return tdg__pg_is_under_way(&p->queries[which]);
}

static bool runs(const tdg__pg_source_t *p, int which) {
    return uv_is_active((const uv_handle_t *)&p->timers[which]) != 0;
}

static void on_idle(uv_timer_t *timer) {
    tdg__pg_source_t *p = timer->data;

    if (is_watched(p) && p->plan.listens)
        return;
    if (!tdg__pg_is_idle(p->pg)) { /* not every use says when it ends */
        tdg__pg_source_rest(p);
        return;
    }
    tdg__pg_disconnect(p->pg);
    p->listening = TDG__PG_DEAF;
}

/* After every use: from now on the connection is idle, unless it listens. */
void tdg__pg_source_rest(tdg__pg_source_t *p) {
    if (p->pg != NULL && !p->source.closing)
        start_timer(p, TDG__PG_IDLE, on_idle, p->idle_ms, false);
}

/* While it is waiting for the next try, that comes first. */
void tdg__pg_source_need(tdg__pg_source_t *p) {
    uv_timer_stop(&p->timers[TDG__PG_IDLE]);
    if (!runs(p, TDG__PG_RETRY))
        tdg__pg_connect(p->pg);
}

bool tdg__pg_source_waits(const tdg__pg_source_t *p) {
    return runs(p, TDG__PG_RETRY) && tdg__pg_state(p->pg) == TDG__PG_DOWN;
}

static void on_retry(uv_timer_t *timer) {
    tdg__pg_source_t *p = timer->data;

    if (is_watched(p))
        tdg__pg_connect(p->pg);
}

static void is_down(tdg__pg_source_t *p, const char *why);

/* The connection works, but not for what we need. */
static void give_up_connection(tdg__pg_source_t *p, const char *what,
                               const tdg__pg_end_t *end) {
    char why[600];

    if (tdg__pg_state(p->pg) != TDG__PG_UP)
        return; /* lost; that is known */
    snprintf(why, sizeof(why), "%s: %s", what, end->error);
    is_down(p, why);
    tdg__pg_disconnect(p->pg);
}

/* ---- Watching is complete ----------------------------------------------- */

static void rest_unless_watched(tdg__pg_source_t *p);

static void refuse_template(tdg__pg_source_t *p) {
    if (!tdg__source_awaits_template(&p->source))
        return;
    tdg__source_watched(&p->source,
                        &(tdg_target_t){TDG_TARGET_TEMPLATE, p->source.entry.uri},
                        TDG_EREFUSED);
    rest_unless_watched(p);
}

static void armed(tdg__pg_source_t *p) {
    p->tries =
        0; /* not before: a server that refuses to go on is not asked each second */
    tdg__source_armed(&p->source);
    tdg__source_is_back(&p->source);
}

/* Once, until it can be looked at again. */
static void log_table_failed(tdg__pg_source_t *p, const char *why) {
    if (!p->logged_table)
        tdg__source_log(&p->source, TDG_LOG_ERROR, "cannot inspect %s: %s",
                        p->plan.table_name, why);
    p->logged_table = true;
}

/* ---- What the table holds ----------------------------------------------- */

static void touch(void *arg, const char *uri) {
    tdg__pg_source_t *p = arg;

    tdg__source_touch(&p->source, uri);
}

static bool on_snapshot_row(tdg__pg_query_t *query, const PGresult *row) {
    tdg__pg_source_t *p = query->user;
    const char *values[TDG__TEMPLATE_MAX_NAMES];
    int count = (int)p->plan.variable_count;
    int rv;

    for (int i = 0; i < count; i++)
        values[i] = PQgetisnull(row, 0, i) ? NULL : PQgetvalue(row, 0, i);
    tdg__text_clear(&p->uri);
    rv = tdg__pg_plan_uri(&p->plan, values, &p->uri);
    if (rv == TDG_ENOTFOUND)
        return true; /* no URI can name this row */
    if (rv == 0)
        rv = tdg__pg_seen_add(&p->seen_now, p->uri.data,
                              tdg__pg_digest(PQgetvalue(row, 0, count)));
    if (rv < 0)
        p->seen_now.complete = false;
    return rv == 0;
}

/* Touches what differs from before; without a baseline, everything. */
static void compare(tdg__pg_source_t *p) {
    tdg__pg_seen_t before = p->seen;
    bool first = tdg__source_awaits_template(&p->source) && !p->source.compares;

    p->seen = p->seen_now;
    p->seen_now = (tdg__pg_seen_t){.max = 0};
    if (!p->seen.complete)
        tdg__source_log(&p->source, TDG_LOG_WARNING,
                        "%s has more than max-keys (%" PRId64 ") rows: of changes during "
                        "an outage, only changes of known rows are notified",
                        p->plan.table_name, p->max_keys);
    if (!p->baseline && !first) {
        tdg__pg_seen_each(&p->seen, touch, p);
    } else if (p->baseline && before.complete && p->seen.complete) {
        tdg__pg_seen_compare(&before, &p->seen, touch, p);
    } else if (p->baseline) {
        tdg__source_log(&p->source, TDG_LOG_WARNING,
                        "%s: changes of rows beyond max-keys may have been missed",
                        p->plan.table_name);
        tdg__pg_seen_each(&before, touch, p);
        tdg__pg_seen_each(&p->seen, touch, p);
    }
    p->baseline = true;
    tdg__pg_seen_done(&before);
}

static void take_snapshot(tdg__pg_source_t *p, bool first);

static void on_snapshot(tdg__pg_query_t *query, const tdg__pg_end_t *end) {
    tdg__pg_source_t *p = query->user;
    bool taken = end->status == 0 || end->status == TDG_ETOOLARGE;

    if (!template_is_watched(p) || !taken)
        tdg__pg_seen_done(&p->seen_now);
    if (end->status == TDG_EAWAY) {
        give_up_connection(p, "cannot compare the whole table", end);
        return;
    }
    if (!taken) {
        log_table_failed(p, end->error);
        refuse_template(p);
    } else if (template_is_watched(p)) {
        compare(p);
        if (p->compare_again)
            take_snapshot(p, false);
    }
    armed(p);
}

static void take_snapshot(tdg__pg_source_t *p, bool first) {
    if (is_under_way(p, TDG__PG_SNAPSHOT)) {
        p->compare_again = true;
        return;
    }
    p->compare_again = false;
    if (tdg__pg_seen_init(&p->seen_now, (size_t)p->max_keys) < 0) {
        give_up_connection(p, "cannot compare the whole table",
                           &(tdg__pg_end_t){.error = "the system has no random numbers"});
        return;
    }
    p->seen_now.complete = true;
    tdg__pg_source_submit(p, TDG__PG_SNAPSHOT, first,
                          &(tdg__pg_query_t){.sql = p->plan.snapshot,
                                             .row = on_snapshot_row,
                                             .done = on_snapshot});
}

/* Something has changed, and it is unknown what. */
static void resync(tdg__pg_source_t *p) {
    tdg__source_touch_all(&p->source);
    if (template_is_watched(p) && p->plan.by_table && p->listening == TDG__PG_LISTENING)
        take_snapshot(p, false);
}

/* ---- Listening ---------------------------------------------------------- */

/* Once, until it is another. */
static void log_trigger(tdg__pg_source_t *p, char enabled) {
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

    if (enabled == p->logged_trigger)
        return;
    p->logged_trigger = enabled;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (cases[i].enabled == enabled)
            tdg__source_log(&p->source, TDG_LOG_WARNING,
                            "%s %s; `tidings postgres install --table ...` makes one. "
                            "Until then the table is checked every %" PRId64
                            " ms, if the statistics of the server say that it changed",
                            p->plan.table_name, cases[i].text, p->probe_ms);
}

/* Where something else than our trigger notifies, what is known of ours does not matter,
 * nor does a count of rows. */
static bool is_ours(const tdg__pg_source_t *p, char enabled) {
    return p->plan.derived || (enabled != '-' && enabled != 'C');
}

static bool on_state_row(tdg__pg_query_t *query, const PGresult *row) {
    tdg__pg_source_t *p = query->user;
    char enabled = PQgetvalue(row, 0, 0)[0];

    snprintf(p->state_now, sizeof(p->state_now), "%c %s %s", enabled,
             PQgetvalue(row, 0, 1), is_ours(p, enabled) ? PQgetvalue(row, 0, 2) : "");
    return true;
}

static void begin_watching(tdg__pg_source_t *p);
static void ask_state(tdg__pg_source_t *p, bool first, int64_t limit_ms);

static void compare_state(tdg__pg_source_t *p) {
    bool was_known = p->state[0] != '\0';
    bool differs = strcmp(p->state, p->state_now) != 0;

    memcpy(p->state, p->state_now, sizeof(p->state));
    if (!was_known) {
        begin_watching(p);
        return;
    }
    if (differs)
        tdg__source_log(&p->source, TDG_LOG_NOTICE,
                        "%s has changed in a way that fires no trigger: everything is "
                        "looked at again",
                        p->plan.table_name);
    if (differs || p->altered)
        resync(p);
    p->altered = p->check_again;
}

/* What the table looks like, beside its rows. Another than before: rows may be others,
 * and nobody has said so. */
static void on_state(tdg__pg_query_t *query, const tdg__pg_end_t *end) {
    tdg__pg_source_t *p = query->user;

    if (p->listening != TDG__PG_LISTENING)
        return; /* asked again by the next connection */
    if (end->status == TDG_EAWAY) {
        give_up_connection(p, "cannot inspect the table", end);
        return;
    }
    if (end->status < 0) {
        log_table_failed(p, end->error);
        snprintf(p->state_now, sizeof(p->state_now), "? %s", end->sqlstate);
    } else {
        p->logged_table = false;
        if (is_ours(p, p->state_now[0]))
            log_trigger(p, p->state_now[0]);
    }

    compare_state(p);
    if (p->check_again)
        ask_state(p, false, p->probe_ms);
}

/* `first`: before what waits. */
static void ask_state(tdg__pg_source_t *p, bool first, int64_t limit_ms) {
    if (!p->plan.by_table || is_under_way(p, TDG__PG_STATE_OF_TABLE))
        return;
    p->check_again = false;
    strcpy(p->state_now, "?");
    tdg__pg_source_submit(p, TDG__PG_STATE_OF_TABLE, first,
                          &(tdg__pg_query_t){.sql = p->plan.state,
                                             .row = on_state_row,
                                             .done = on_state,
                                             .limit_ms = limit_ms});
}

/* The table may hold other rows also if it looks as before: a type can be altered. */
static void on_ddl(tdg__pg_source_t *p) {
    p->altered = true;
    /* One that is under way may have looked before the DDL. */
    p->check_again = is_under_way(p, TDG__PG_STATE_OF_TABLE);
    ask_state(p, false, p->probe_ms);
}

static void unlisten(tdg__pg_source_t *p) {
    if (p->listening != TDG__PG_LISTENING)
        return; /* on_listening() follows, and finds nothing watched */
    p->listening = TDG__PG_DEAF;
    if (!is_under_way(p, TDG__PG_UNLISTEN))
        tdg__pg_source_submit(p, TDG__PG_UNLISTEN, false,
                              &(tdg__pg_query_t){.sql = "UNLISTEN *"});
}

static void on_listening(tdg__pg_query_t *query, const tdg__pg_end_t *end) {
    tdg__pg_source_t *p = query->user;

    p->listening = TDG__PG_DEAF;
    if (end->status < 0) {
        if (!p->source.closing)
            give_up_connection(p, "cannot listen", end);
        return;
    }
    p->listening = TDG__PG_LISTENING;
    tdg__pg_relay_end(p);
    if (p->heir != NULL)
        return;
    if (!is_watched(p)) {
        unlisten(p);
        return;
    }
    p->state[0] = '\0';
    p->altered = p->check_again = false;
    if (p->plan.by_table)
        ask_state(p, true, 0); /* before any row is read to compare with */
    else
        begin_watching(p);
}

static void begin_watching(tdg__pg_source_t *p) {
    if (!template_is_watched(p)) {
        armed(p);
    } else if (p->plan.by_table) {
        tdg__source_uris_armed(&p->source);
        take_snapshot(p, true);
    } else {
        if (p->source.compares)
            tdg__source_touch_all(&p->source);
        if (p->source.away)
            tdg__source_log(&p->source, TDG_LOG_WARNING,
                            "changes during the outage may have been missed: of a query, "
                            "only URIs that are watched by themselves are read again");
        armed(p);
    }
}

static void listen_first(tdg__pg_source_t *p) {
    if (p->listening != TDG__PG_DEAF)
        return;
    tdg__pg_abandon(&p->queries[TDG__PG_UNLISTEN]); /* it must not come later */
    p->listening = TDG__PG_ASKED;
    tdg__pg_source_submit(
        p, TDG__PG_LISTEN, true,
        &(tdg__pg_query_t){.sql = p->plan.listen, .done = on_listening});
}

void tdg__pg_source_up(void *user) {
    tdg__pg_source_t *p = user;

    if (p->source.closing)
        return;
    if (is_watched(p) && p->plan.listens)
        listen_first(p);
    else
        armed(p);
    tdg__pg_source_rest(p);
}

static void is_down(tdg__pg_source_t *p, const char *why) {
    p->listening = TDG__PG_DEAF;
    tdg__pg_relay_stop(p);
    uv_timer_stop(&p->timers[TDG__PG_IDLE]);
    start_timer(p, TDG__PG_RETRY, on_retry, tdg__source_wait_ms(&p->source, p->tries),
                false);
    if (p->tries < 31)
        p->tries++;
    tdg__source_is_away(&p->source, why);
    /* Watching begins all the same: the reconnect touches everything. */
    tdg__source_armed(&p->source);
}

void tdg__pg_source_down(void *user, const char *why) {
    tdg__pg_source_t *p = user;

    if (p->source.closing)
        return;
    /* A connection that is not needed may be lost: the next read opens another. */
    if (is_watched(p) || !tdg__pg_is_idle(p->pg))
        is_down(p, why);
}

static void note_op(tdg__pg_source_t *p, const char *uri, tdg__pg_op_t op) {
    if (tdg__pg_seen_set(&p->ops, uri, (uint64_t)op) != TDG_ETOOLARGE)
        return;
    /* Full of rows that are never read. */
    tdg__pg_seen_done(&p->ops);
    if (tdg__pg_seen_init(&p->ops, TDG__PG_MAX_OPS) == 0)
        tdg__pg_seen_set(&p->ops, uri, (uint64_t)op);
}

void tdg__pg_source_notified(void *user, const char *payload) {
    tdg__pg_source_t *p = user;
    tdg__pg_op_t op;
    int rv;

    if (p->heir != NULL) {
        tdg__pg_source_notified(p->heir, payload);
        return;
    }
    if (!is_watched(p))
        return;
    tdg__text_clear(&p->uri);
    rv = tdg__pg_plan_payload(&p->plan, payload, &op, &p->uri);
    if (op == TDG__PG_DDL && p->plan.by_table && p->listening == TDG__PG_LISTENING) {
        on_ddl(p);
    } else if (p->plan.template_ == NULL) {
        note_op(p, p->source.entry.uri, op);
        tdg__source_touch(&p->source, p->source.entry.uri);
    } else if (rv == 0) {
        note_op(p, p->uri.data, op);
        tdg__source_touch(&p->source, p->uri.data);
    } else {
        resync(p);
    }
}

/* ---- At intervals ------------------------------------------------------- */

static void on_every(uv_timer_t *timer) {
    resync(timer->data);
}

static void on_probe(uv_timer_t *timer) {
    tdg__pg_source_t *p = timer->data;

    if (p->listening != TDG__PG_LISTENING || !tdg__pg_is_idle(p->pg))
        return; /* then there is an answer soon, or a time limit */
    if (p->plan.by_table) {
        ask_state(p, false, p->probe_ms);
        return;
    }
    if (uv_now(p->source.host.loop) - tdg__pg_heard_ms(p->pg) < (uint64_t)p->probe_ms)
        return;
    tdg__pg_source_submit(p, TDG__PG_PROBE_SERVER, false,
                          &(tdg__pg_query_t){.sql = "SELECT 1", .limit_ms = p->probe_ms});
}

static int64_t interval_of(const tdg__pg_source_t *p) {
    if (p->every_ms > 0)
        return p->every_ms;
    return p->plan.listens ? 0 : POLL_MS;
}

static void start_intervals(tdg__pg_source_t *p) {
    int64_t every = interval_of(p);

    if (every > 0 && !runs(p, TDG__PG_EVERY))
        start_timer(p, TDG__PG_EVERY, on_every, every, true);
    if (p->plan.listens && !runs(p, TDG__PG_PROBE))
        start_timer(p, TDG__PG_PROBE, on_probe, p->probe_ms, true);
}

/* ---- Watching ----------------------------------------------------------- */

static int watch_template(tdg__pg_source_t *p) {
    bool known = p->listening == TDG__PG_LISTENING;

    start_intervals(p);
    if (runs(p, TDG__PG_RETRY) || (known && !p->plan.by_table))
        return 0;
    if (known)
        take_snapshot(p, true);
    return TDG_EAGAIN;
}

int tdg__pg_source_watch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__pg_source_t *p = (tdg__pg_source_t *)source;
    int rv = 0;

    if (target->kind == TDG_TARGET_TEMPLATE) {
        if (!p->plan.listens)
            return TDG_ENOTSUP; /* which of its URIs exist is unknown */
        rv = watch_template(p);
    } else {
        /* While the server is unreachable, watching begins without it. */
        if (p->plan.listens && p->listening != TDG__PG_LISTENING &&
            !runs(p, TDG__PG_RETRY))
            rv = TDG_EAGAIN;
        start_intervals(p);
    }
    if (p->plan.listens) {
        tdg__pg_source_need(p);
        if (tdg__pg_state(p->pg) == TDG__PG_UP)
            listen_first(p);
    }
    return rv;
}

static void unwatch_template(tdg__pg_source_t *p) {
    p->baseline = p->compare_again = false;
    tdg__pg_seen_done(&p->seen);
    if (is_under_way(p, TDG__PG_SNAPSHOT)) {
        tdg__pg_abandon(&p->queries[TDG__PG_SNAPSHOT]);
        tdg__pg_seen_done(&p->seen_now);
    }
}

static void rest_unless_watched(tdg__pg_source_t *p) {
    if (is_watched(p) || p->heir != NULL)
        return;
    tdg__pg_relay_stop(p);
    uv_timer_stop(&p->timers[TDG__PG_EVERY]);
    uv_timer_stop(&p->timers[TDG__PG_PROBE]);
    unlisten(p);
    tdg__pg_source_rest(p);
}

void tdg__pg_source_unwatch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__pg_source_t *p = (tdg__pg_source_t *)source;

    if (target->kind == TDG_TARGET_TEMPLATE)
        unwatch_template(p);
    rest_unless_watched(p);
}
