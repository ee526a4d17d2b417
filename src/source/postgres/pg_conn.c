/* SPDX-License-Identifier: MIT
 *
 * A callback of the owner may do anything, including closing. Therefore `turn` counts the
 * connections: code that calls a callback compares it before it continues, and a query of
 * an earlier turn was lost with its connection. The record itself is freed when the last
 * handle is closed, which is never before control is back in the loop. */
#include "source/postgres/pg_conn.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "source/postgres/pg_params.h"

enum {
    WHY_SIZE = 512,
    /* The server ends a statement by itself; later than this it is gone. Also the limit
     * of a cancel request once its query has ended. */
    GRACE_MS = 5000,
};

struct watch {
    uv_poll_t poll; /* first */
    int fd;
};

struct tdg__pg {
    tdg__pg_opts_t opts;
    tdg__pg_params_t params;
    tdg__pg_state_t state;
    unsigned turn;
    PGconn *conn;
    struct watch *watch; /* of conn's socket; NULL: none */
    uv_timer_t limit;
    int64_t limit_ms;        /* of the query that runs */
    char why[WHY_SIZE];      /* not empty: it is lost, and on_limit() says so */
    char farewell[WHY_SIZE]; /* what the server said before it closed; or empty */
    uint64_t heard_ms;

    size_t looking_up; /* the host that is */
    char lookup_why[WHY_SIZE];

    tdg__queue_t queue; /* queries that wait */
    tdg__pg_query_t *active;
    bool busy;       /* a query runs, be it abandoned */
    bool skipping;   /* its rows are not wanted */
    bool cancelling; /* a cancel request is on its way: nothing new until it is through */
    bool cancel_runs; /* in a thread, perhaps for an earlier connection */
    tdg__pg_end_t end;
    PGresult *last; /* what `end` points into */

    bool closing;
    unsigned open; /* handles and requests of libuv */
};

/* A request that may outlive the connection that it was made for. */
struct lookup {
    uv_getaddrinfo_t request; /* first */
    tdg__pg_t *pg;
    unsigned turn;
};

struct cancel {
    uv_work_t request; /* first */
    tdg__pg_t *pg;
    PGcancel *cancel;
    unsigned turn;
};

static void pump(tdg__pg_t *pg);
static void look_up(tdg__pg_t *pg);

static void release(tdg__pg_t *pg) {
    assert(pg->open > 0);
    if (--pg->open > 0)
        return;

    pg->opts.ops.closed(pg->opts.user);
    tdg__pg_params_done(&pg->params);
    tdg__free(pg);
}

/* libpq's messages have several lines; the first says it. */
static void first_line(char *out, size_t size, const char *message) {
    size_t len;

    while (*message == ' ' || *message == '\n' || *message == '\t')
        message++;
    len = strcspn(message, "\n");
    snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), message);
    if (out[0] == '\0')
        snprintf(out, size, "no reason given");
}

/* ---- The socket --------------------------------------------------------- */

static void on_watch_closed(uv_handle_t *handle) {
    struct watch *watch = (struct watch *)handle;
    tdg__pg_t *pg = handle->data;

    tdg__free(watch);
    release(pg);
}

static void unwatch(tdg__pg_t *pg) {
    if (pg->watch == NULL)
        return;
    uv_close((uv_handle_t *)&pg->watch->poll, on_watch_closed);
    pg->watch = NULL;
}

static void on_poll(uv_poll_t *poll, int status, int events);

/* Waits for these events; libpq may have another socket than last time. */
static int watch_socket(tdg__pg_t *pg, int events) {
    int fd = PQsocket(pg->conn);

    if (pg->watch != NULL && pg->watch->fd != fd)
        unwatch(pg);
    if (fd < 0)
        return TDG_ESYSTEM;
    if (pg->watch == NULL) {
        struct watch *watch = tdg__calloc(1, sizeof(*watch));

        if (watch == NULL)
            return TDG_ENOMEM;
        if (uv_poll_init(pg->opts.loop, &watch->poll, fd) != 0) {
            tdg__free(watch);
            return TDG_ESYSTEM;
        }
        watch->poll.data = pg;
        watch->fd = fd;
        pg->watch = watch;
        pg->open++;
    }
    return uv_poll_start(&pg->watch->poll, events, on_poll) == 0 ? 0 : TDG_ESYSTEM;
}

/* ---- Coming and going --------------------------------------------------- */

/* Back to DOWN; queries are not ended yet. */
static void drop(tdg__pg_t *pg) {
    unwatch(pg);
    PQclear(pg->last);
    PQfinish(pg->conn);
    pg->last = NULL;
    pg->conn = NULL;
    pg->state = TDG__PG_DOWN;
    pg->turn++;
    pg->busy = pg->skipping = pg->cancelling = false;
    pg->why[0] = pg->farewell[0] = '\0';
    uv_timer_stop(&pg->limit);
}

/* The query is no longer under way: whatever its owner does,
 * it may be submitted again. */
static void end(tdg__pg_query_t *query, const tdg__pg_end_t *how) {
    assert(query->pg != NULL && !tdg__queue_has(&query->link));
    query->pg = NULL;
    if (query->done != NULL)
        query->done(query, how);
}

static tdg__pg_query_t *take_lost(tdg__pg_t *pg) {
    tdg__pg_query_t *query = pg->active;

    if (query != NULL && query->turn != pg->turn) {
        pg->active = NULL;
        return query;
    }
    for (tdg__queue_t *at = pg->queue.next; at != &pg->queue; at = at->next) {
        query = TDG__RECORD(tdg__pg_query_t, link, at);
        if (query->turn != pg->turn) {
            tdg__queue_remove(at);
            return query;
        }
    }
    return NULL;
}

static void end_lost(tdg__pg_t *pg, const char *why) {
    tdg__pg_end_t how = {.status = TDG_EUNREACHABLE, .error = why, .sqlstate = ""};
    tdg__pg_query_t *query;

    while ((query = take_lost(pg)) != NULL)
        end(query, &how);
}

static void lost(tdg__pg_t *pg, const char *message) {
    char why[WHY_SIZE];

    first_line(why, sizeof(why), pg->farewell[0] != '\0' ? pg->farewell : message);
    drop(pg);
    pg->opts.ops.down(pg->opts.user, why);
    end_lost(pg, why);
}

static void on_limit(uv_timer_t *timer) {
    tdg__pg_t *pg = timer->data;
    char why[WHY_SIZE];

    if (pg->why[0] != '\0')
        snprintf(why, sizeof(why), "%s", pg->why);
    else if (pg->state == TDG__PG_CONNECTING)
        snprintf(why, sizeof(why), "no connection within %lld ms",
                 (long long)pg->opts.connect_timeout_ms);
    else if (!pg->busy)
        snprintf(why, sizeof(why), "a cancel request was not answered within %d ms",
                 GRACE_MS);
    else
        snprintf(why, sizeof(why), "no answer within %lld ms", (long long)pg->limit_ms);
    lost(pg, why);
}

/* As lost(), but from the loop: for callers that do not expect to be called back. */
static void lose_soon(tdg__pg_t *pg, const char *message) {
    first_line(pg->why, sizeof(pg->why), message);
    uv_timer_start(&pg->limit, on_limit, 0, 0);
}

static void connected(tdg__pg_t *pg) {
    unsigned turn = pg->turn;

    assert(pg->state == TDG__PG_CONNECTING);
    uv_timer_stop(&pg->limit);
    pg->state = TDG__PG_UP;
    pg->heard_ms = uv_now(pg->opts.loop);
    if (PQsetnonblocking(pg->conn, 1) != 0) {
        lost(pg, PQerrorMessage(pg->conn));
        return;
    }
    pg->opts.ops.up(pg->opts.user);
    if (pg->turn == turn)
        pump(pg);
}

static void go_on_connecting(tdg__pg_t *pg, PostgresPollingStatusType next) {
    switch (next) {
    case PGRES_POLLING_READING:
        if (watch_socket(pg, UV_READABLE) < 0)
            lost(pg, "cannot watch the socket of the connection");
        break;
    case PGRES_POLLING_WRITING:
        if (watch_socket(pg, UV_WRITABLE) < 0)
            lost(pg, "cannot watch the socket of the connection");
        break;
    case PGRES_POLLING_OK:
        connected(pg);
        break;
    default:
        lost(pg, PQerrorMessage(pg->conn));
        break;
    }
}

/* Without this libpq prints to stderr. An error that belongs to no query is the reason
 * why the server closes the connection. */
static void on_notice(void *arg, const PGresult *notice) {
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *message = PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY);
    tdg__pg_t *pg = arg;

    if (severity != NULL && message != NULL &&
        (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
        first_line(pg->farewell, sizeof(pg->farewell), message);
}

static void start(tdg__pg_t *pg) {
    tdg__pg_params_finish(&pg->params);
    pg->conn = PQconnectStartParams(pg->params.keywords, pg->params.values, 0);
    if (pg->conn != NULL)
        PQsetNoticeReceiver(pg->conn, on_notice, pg);
    if (pg->conn == NULL)
        lose_soon(pg, "out of memory");
    else if (PQstatus(pg->conn) == CONNECTION_BAD)
        lose_soon(pg, PQerrorMessage(pg->conn));
    else if (watch_socket(pg, UV_WRITABLE) < 0)
        lose_soon(pg, "cannot watch the socket of the connection");
}

static void on_looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *list) {
    struct lookup *lookup = (struct lookup *)request;
    tdg__pg_t *pg = lookup->pg;
    bool wanted = lookup->turn == pg->turn && pg->state == TDG__PG_CONNECTING;
    int rv = 0;

    tdg__free(lookup);
    if (wanted && status != 0)
        snprintf(pg->lookup_why, sizeof(pg->lookup_why), "cannot find the host %s: %s",
                 pg->params.hosts[pg->looking_up], uv_strerror(status));
    for (struct addrinfo *a = list; wanted && status == 0 && a != NULL && rv == 0;
         a = a->ai_next)
        rv = tdg__pg_params_add(&pg->params, pg->looking_up, a->ai_addr);
    uv_freeaddrinfo(list);

    if (wanted && rv < 0) {
        lose_soon(pg, "out of memory");
    } else if (wanted) {
        pg->looking_up++;
        look_up(pg);
    }
    release(pg);
}

static int begin_lookup(tdg__pg_t *pg, const char *host) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct lookup *lookup = tdg__calloc(1, sizeof(*lookup));

    if (lookup == NULL)
        return TDG_ENOMEM;
    lookup->pg = pg;
    lookup->turn = pg->turn;
    if (uv_getaddrinfo(pg->opts.loop, &lookup->request, on_looked_up, host, NULL,
                       &hints) != 0) {
        tdg__free(lookup);
        return TDG_ESYSTEM;
    }
    pg->open++;
    return 0;
}

/* Goes on with the host whose turn it is; behind the last one connects. A name that
 * cannot be found is left out, as long as another host is left. */
static void look_up(tdg__pg_t *pg) {
    tdg__pg_params_t *params = &pg->params;

    for (; pg->looking_up < params->host_count; pg->looking_up++) {
        if (tdg__pg_params_wants(params, pg->looking_up)) {
            if (begin_lookup(pg, params->hosts[pg->looking_up]) < 0)
                lose_soon(pg, "cannot resolve the host");
            return;
        }
        if (tdg__pg_params_add(params, pg->looking_up, NULL) < 0) {
            lose_soon(pg, "out of memory");
            return;
        }
    }

    if (params->host_count > 0 && params->address_count == 0)
        lose_soon(pg, pg->lookup_why);
    else
        start(pg);
}

void tdg__pg_connect(tdg__pg_t *pg) {
    if (pg->state != TDG__PG_DOWN || pg->closing)
        return;

    pg->state = TDG__PG_CONNECTING;
    uv_update_time(pg->opts.loop);
    uv_timer_start(&pg->limit, on_limit, (uint64_t)pg->opts.connect_timeout_ms, 0);
    pg->looking_up = 0;
    pg->lookup_why[0] = '\0';
    tdg__pg_params_forget(&pg->params);
    look_up(pg);
}

void tdg__pg_disconnect(tdg__pg_t *pg) {
    drop(pg);
    end_lost(pg, "the connection was closed");
}

/* ---- Queries ------------------------------------------------------------ */

static void send_cancel(uv_work_t *request) {
    struct cancel *cancel = (struct cancel *)request;
    char why[256];

    PQcancel(cancel->cancel, why, sizeof(why)); /* if it fails, more rows are skipped */
}

static void on_cancel_sent(uv_work_t *request, int status) {
    struct cancel *cancel = (struct cancel *)request;
    tdg__pg_t *pg = cancel->pg;
    bool ours = cancel->turn == pg->turn;

    (void)status;
    PQfreeCancel(cancel->cancel);
    tdg__free(cancel);
    pg->cancel_runs = false;
    if (ours) {
        pg->cancelling = false;
        if (!pg->busy && pg->why[0] == '\0')
            uv_timer_stop(&pg->limit);
        pump(pg);
    }
    release(pg);
}

/* Asks the server to stop. Without memory it goes on until its time is over; likewise
 * while an earlier request hangs, which takes a thread that others need. */
static void stop_server(tdg__pg_t *pg) {
    struct cancel *cancel = !pg->cancel_runs ? tdg__calloc(1, sizeof(*cancel)) : NULL;

    if (cancel == NULL)
        return;
    cancel->pg = pg;
    cancel->turn = pg->turn;
    cancel->cancel = PQgetCancel(pg->conn);
    if (cancel->cancel == NULL || uv_queue_work(pg->opts.loop, &cancel->request,
                                                send_cancel, on_cancel_sent) != 0) {
        PQfreeCancel(cancel->cancel);
        tdg__free(cancel);
        return;
    }
    pg->cancelling = pg->cancel_runs = true;
    pg->open++;
}

/* Whether an error is temporary: the server cannot answer now, rather than refuses. */
static bool is_passing(const char *sqlstate) {
    static const char *const classes[] = {"08", "40", "53", "55", "57", "58"};

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (strncmp(sqlstate, classes[i], 2) == 0)
            return true;
    return sqlstate[0] == '\0';
}

static void keep_end(tdg__pg_t *pg, PGresult *result) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    ExecStatusType status = PQresultStatus(result);

    PQclear(pg->last);
    pg->last = result;
    pg->end = (tdg__pg_end_t){.sqlstate = state != NULL ? state : "", .result = result};
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
        return;

    pg->end.result = NULL;
    pg->end.status = is_passing(pg->end.sqlstate) ? TDG_EUNREACHABLE : TDG_EINVAL;
    pg->end.error = message != NULL ? message : PQresultErrorMessage(result);
    if (status != PGRES_FATAL_ERROR) {
        pg->end.status = TDG_EINVAL;
        pg->end.error = "this kind of statement returns no rows";
    }
}

/* Returns false where the connection is of no use any more. */
static bool on_result(tdg__pg_t *pg, PGresult *result) {
    tdg__pg_query_t *query = pg->active;
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_SINGLE_TUPLE) {
        keep_end(pg, result);
        /* COPY: there is no way to refuse it but to leave. */
        return status != PGRES_COPY_OUT && status != PGRES_COPY_IN &&
               status != PGRES_COPY_BOTH;
    }
    if (query != NULL && query->row != NULL && !pg->skipping &&
        !query->row(query, result)) {
        pg->skipping = true;
        stop_server(pg);
    }
    PQclear(result);
    return true;
}

/* No query runs. A cancel request may hang though the connection works, for example where
 * new connections are dropped by a firewall; nothing else can run before its end. */
static void limit_rest(tdg__pg_t *pg) {
    uv_timer_stop(&pg->limit);
    if (!pg->cancelling)
        return;
    uv_update_time(pg->opts.loop);
    uv_timer_start(&pg->limit, on_limit, GRACE_MS, 0);
}

static void end_query(tdg__pg_t *pg) {
    tdg__pg_query_t *query = pg->active;
    PGresult *last = pg->last;
    tdg__pg_end_t how = pg->end;
    char error[WHY_SIZE];

    if (pg->skipping)
        how = (tdg__pg_end_t){.status = TDG_ETOOLARGE, .error = "stopped"};
    if (how.error != NULL) {
        first_line(error, sizeof(error), how.error);
        how.error = error;
    }
    if (how.sqlstate == NULL)
        how.sqlstate = "";
    pg->active = NULL;
    pg->last = NULL;
    pg->busy = pg->skipping = false;
    if (pg->why[0] == '\0') /* else it is on its way to on_limit() */
        limit_rest(pg);
    if (query != NULL)
        end(query, &how);
    PQclear(last);
}

static void start_next(tdg__pg_t *pg) {
    tdg__pg_query_t *query;

    if (tdg__queue_is_empty(&pg->queue) || pg->busy || pg->cancelling ||
        pg->state != TDG__PG_UP || pg->why[0] != '\0')
        return;

    assert(pg->active == NULL);
    query = TDG__RECORD(tdg__pg_query_t, link, tdg__queue_take(&pg->queue));
    pg->active = query;
    pg->busy = true;
    pg->end =
        (tdg__pg_end_t){.status = TDG_EUNREACHABLE, .error = "no result", .sqlstate = ""};
    uv_update_time(pg->opts.loop);
    pg->limit_ms = query->limit_ms > 0 ? query->limit_ms : pg->opts.timeout_ms + GRACE_MS;
    uv_timer_start(&pg->limit, on_limit, (uint64_t)pg->limit_ms, 0);
    if (!PQsendQueryParams(pg->conn, query->sql, query->count, NULL, query->values, NULL,
                           NULL, 0) ||
        !PQsetSingleRowMode(pg->conn))
        lose_soon(pg, PQerrorMessage(pg->conn));
}

static void arm(tdg__pg_t *pg) {
    int flushed = PQflush(pg->conn);

    if (flushed < 0)
        lose_soon(pg, PQerrorMessage(pg->conn));
    else if (watch_socket(pg, UV_READABLE | (flushed > 0 ? UV_WRITABLE : 0)) < 0)
        lose_soon(pg, "cannot watch the socket of the connection");
}

/* Takes what has arrived. Returns false where the connection is gone afterwards. */
static bool take_results(tdg__pg_t *pg, unsigned turn) {
    while (pg->busy && !PQisBusy(pg->conn)) {
        PGresult *result = PQgetResult(pg->conn);

        if (result != NULL) {
            if (on_result(pg, result))
                continue;
            end_query(pg);
            if (pg->turn == turn)
                lost(pg, "the query began a COPY, which is not supported");
            return false;
        }
        end_query(pg);
        if (pg->turn != turn)
            return false;
        start_next(pg);
    }
    return true;
}

static bool take_notices(tdg__pg_t *pg, unsigned turn) {
    PGnotify *notice;

    while ((notice = PQnotifies(pg->conn)) != NULL) {
        pg->opts.ops.notified(pg->opts.user, notice->extra);
        PQfreemem(notice);
        if (pg->turn != turn)
            return false;
    }
    return true;
}

static void pump(tdg__pg_t *pg) {
    unsigned turn = pg->turn;

    if (pg->state != TDG__PG_UP || pg->why[0] != '\0')
        return;
    if (!take_results(pg, turn) || !take_notices(pg, turn))
        return;
    if (PQstatus(pg->conn) == CONNECTION_BAD) {
        lost(pg, PQerrorMessage(pg->conn));
        return;
    }
    start_next(pg);
    if (pg->why[0] == '\0')
        arm(pg);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    tdg__pg_t *pg = poll->data;

    (void)events;
    if (pg->why[0] != '\0')
        return;
    if (pg->state == TDG__PG_CONNECTING) {
        /* libpq may close this socket and open another under the same number. */
        uv_poll_stop(poll);
        go_on_connecting(pg, PQconnectPoll(pg->conn));
        return;
    }

    /* An error on the socket too is libpq's to find and to put into words. */
    if (!PQconsumeInput(pg->conn)) {
        lost(pg, PQerrorMessage(pg->conn));
        return;
    }
    if (status < 0) {
        lost(pg, uv_strerror(status));
        return;
    }
    pg->heard_ms = uv_now(pg->opts.loop);
    pump(pg);
}

void tdg__pg_submit(tdg__pg_t *pg, tdg__pg_query_t *query, bool first) {
    assert(!tdg__pg_is_under_way(query));
    query->pg = pg;
    query->turn = pg->turn;
    if (first)
        tdg__queue_prepend(&pg->queue, &query->link);
    else
        tdg__queue_append(&pg->queue, &query->link);
    if (pg->state == TDG__PG_UP && !pg->busy) {
        start_next(pg);
        if (pg->why[0] == '\0')
            arm(pg);
    }
}

bool tdg__pg_is_under_way(const tdg__pg_query_t *query) {
    return query->pg != NULL;
}

void tdg__pg_abandon(tdg__pg_query_t *query) {
    if (query->pg == NULL)
        return;
    if (query->pg->active == query)
        query->pg->active = NULL;
    else
        tdg__queue_remove(&query->link);
    query->pg = NULL;
}

/* ---- Beginning and end -------------------------------------------------- */

tdg__pg_state_t tdg__pg_state(const tdg__pg_t *pg) {
    return pg->state;
}

bool tdg__pg_is_idle(const tdg__pg_t *pg) {
    return tdg__queue_is_empty(&pg->queue) && pg->active == NULL && !pg->busy;
}

uint64_t tdg__pg_heard_ms(const tdg__pg_t *pg) {
    return pg->heard_ms;
}

int tdg__pg_create(const tdg__pg_opts_t *opts, tdg__pg_t **ret) {
    tdg__pg_t *pg = tdg__calloc(1, sizeof(*pg));
    int rv;

    if (pg == NULL)
        return TDG_ENOMEM;

    pg->opts = *opts;
    pg->opts.conninfo = NULL;
    tdg__queue_init(&pg->queue);
    rv = tdg__pg_params_init(&pg->params, opts->conninfo, opts->timeout_ms);
    if (rv < 0) {
        tdg__free(pg);
        return rv;
    }

    uv_timer_init(opts->loop, &pg->limit);
    pg->limit.data = pg;
    pg->open = 1;
    *ret = pg;
    return 0;
}

static void on_limit_closed(uv_handle_t *handle) {
    release(handle->data);
}

void tdg__pg_close(tdg__pg_t *pg) {
    if (pg->closing)
        return;
    pg->closing = true;
    drop(pg);
    end_lost(pg, "the source was closed");
    uv_close((uv_handle_t *)&pg->limit, on_limit_closed);
}
