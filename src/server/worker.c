/* SPDX-License-Identifier: MIT
 *
 * One turn of the loop: sockets, timers and the inbox are served; then whatever became
 * ready in the engine is written, before the loop waits again. */
#include "server/worker.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include <uv.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "net/conn.h"
#include "server/feed.h"
#include "server/http.h"
#include "server/limits.h"
#include "server/log.h"
#include "server/occupant.h"
#include "server/pipe.h"
#include "server/recheck.h"
#include "server/route.h"
#include "server/server.h"
#include "server/session.h"
#include "server/trace.h"
#include "server/trim.h"

enum {
    MAX_NEWS = 65536,
    NEWS_AT_ONCE = 256,
    NEWS_NS = 5000000, /* that a turn spends on news */
    MAX_KEPT = 64 << 20,
    HANDLES = 6
};

typedef enum worker_state {
    RUNNING,
    FLUSHING,  /* what was accepted before the stop is being applied */
    FINISHING, /* streams end when that is written; what is being answered is answered */
    CLOSING,   /* connections and handles are being closed */
    CLOSED,
} worker_state_t;

struct counters {
    atomic_uint_fast64_t connections, sessions, streams, subscriptions, pending, requests,
        delivered, merged, filtered, rate_limited, ended, changes;
};

struct tdg__worker {
    tdg_server_t *server;
    unsigned index;
    bool traces_changes; /* TDG_DEBUG_NOTIFICATIONS */
    worker_state_t state;
    tdg__inbox_t *inbox;
    tdg__engine_t *engine;
    tdg__net_t *net;
    tdg__sessions_t *sessions;
    tdg__pipe_t *pipe;
    json_t *info; /* one per worker, since threads should not share a count */
    tdg__news_t news[NEWS_AT_ONCE];  /* taken from the inbox ... */
    size_t news_count, next_news;    /* ... and not applied yet */
    bool outdated;                   /* the next is of a watcher that has stopped since */
    tdg__task_t *tasks, **last_task; /* the same */
    uint64_t requests;
    size_t kept_bytes;
    int64_t advanced_ms; /* the engine's time */
    int64_t alarm_ms;    /* when the timer goes off; INT64_MAX: not set */
    int64_t stop_by_ms;
    bool has_last_number; /* while flushing: */
    uint64_t last_number; /* of what was accepted before the stop */
    uint64_t tick_ms;
    uv_loop_t *loop;
    uv_loop_t own_loop;
    bool owns_loop, has_thread;
    pthread_t attached_by; /* where it does not own its loop */
    uv_thread_t thread;
    uv_async_t wake;
    uv_timer_t alarm, tick;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t hurry;       /* runs while more is ready than was written */
    tdg__stream_t flushed; /* the last one that was written to; 0: begin with the first */
    unsigned handles;      /* open ones of these six, and jobs that run */
    struct counters counters;
    tdg__recheck_t recheck;
    tdg__trim_t trim; /* of the first worker, for the whole process */
};

static _Thread_local tdg__worker_t *current;

tdg__worker_t *tdg__worker_current(void) {
    return current;
}

bool tdg__worker_is_here(const tdg__worker_t *worker) {
    return current == worker || (!worker->owns_loop && worker->engine != NULL &&
                                 pthread_equal(worker->attached_by, pthread_self()));
}

tdg_server_t *tdg__worker_server(const tdg__worker_t *worker) {
    return worker->server;
}

tdg__inbox_t *tdg__worker_inbox(const tdg__worker_t *worker) {
    return worker->inbox;
}

tdg__engine_t *tdg__worker_engine(const tdg__worker_t *worker) {
    return worker->engine;
}

tdg__net_t *tdg__worker_net(const tdg__worker_t *worker) {
    return worker->net;
}

tdg__sessions_t *tdg__worker_sessions(const tdg__worker_t *worker) {
    return worker->sessions;
}

json_t *tdg__worker_info(const tdg__worker_t *worker) {
    return worker->info;
}

int64_t tdg__worker_now(const tdg__worker_t *worker) {
    return (int64_t)uv_now(worker->loop);
}

void tdg__worker_count_request(tdg__worker_t *worker) {
    worker->requests++;
}

bool tdg__worker_keep(tdg__worker_t *worker, size_t bytes) {
    if (bytes > MAX_KEPT - worker->kept_bytes)
        return false;
    worker->kept_bytes += bytes;
    return true;
}

void tdg__worker_unkeep(tdg__worker_t *worker, size_t bytes) {
    worker->kept_bytes -= bytes;
}

/* ---- Time --------------------------------------------------------------- */

void tdg__worker_refresh(tdg__worker_t *worker) {
    int64_t now = tdg__worker_now(worker);

    if (now == worker->advanced_ms)
        return;
    worker->advanced_ms = now;
    tdg__engine_advance(worker->engine, now, tdg__wall_ms());
}

static void on_alarm(uv_timer_t *timer) {
    tdg__worker_t *worker = timer->data;

    worker->alarm_ms = INT64_MAX;
    tdg__worker_refresh(worker);
}

static void set_alarm(tdg__worker_t *worker) {
    int64_t due = tdg__engine_next_deadline(worker->engine);
    int64_t now = tdg__worker_now(worker);

    if (due == worker->alarm_ms)
        return;
    worker->alarm_ms = due;
    if (due == INT64_MAX)
        uv_timer_stop(&worker->alarm);
    else
        uv_timer_start(&worker->alarm, on_alarm, due > now ? (uint64_t)(due - now) : 0,
                       0);
}

/* ---- News --------------------------------------------------------------- */

static int apply_change(tdg__worker_t *worker, const tdg__news_t *news) {
    int rv = news->unfiltered ? tdg__engine_apply_unfiltered(worker->engine, news->change)
                              : tdg__engine_apply(worker->engine, news->change);

    if (worker->traces_changes && rv == 0)
        tdg__trace_change(worker, worker->index, news->change);
    return rv;
}

/* Returns what the engine said; with TDG_ENOMEM nothing has happened. */
static int apply(tdg__worker_t *worker, const tdg__news_t *news) {
    if (news->change != NULL)
        return apply_change(worker, news);
    if (news->error != 0)
        return tdg__engine_watch_done(worker->engine, &news->target, TDG__WATCH_FAILED,
                                      news->error);
    tdg__engine_armed_at(worker->engine, news->number);
    return tdg__engine_watch_done(worker->engine, &news->target, TDG__WATCH_ARMED, 0);
}

static void drop(tdg__news_t *news) {
    if (news->change == NULL)
        tdg__free((void *)(uintptr_t)news->target.name);
    tdg__change_unref(news->change);
    *news = (tdg__news_t){0};
}

static void take_tasks(tdg__worker_t *worker) {
    *worker->last_task = tdg__inbox_take_tasks(worker->inbox);
    while (*worker->last_task != NULL)
        worker->last_task = &(*worker->last_task)->next;
}

static void run_task(tdg__worker_t *worker, bool here) {
    tdg__task_t *task = worker->tasks;

    worker->tasks = task->next;
    if (worker->tasks == NULL)
        worker->last_task = &worker->tasks;
    task->run(task, here);
}

/* Bounded in time like news: among them are answers, of which hundreds may come at once.
 * At least one is run. */
static void run_tasks(tdg__worker_t *worker, uint64_t until_ns) {
    take_tasks(worker);
    while (worker->tasks != NULL) {
        run_task(worker, true);
        if (worker->tasks != NULL && uv_hrtime() >= until_ns) {
            uv_async_send(&worker->wake);
            return;
        }
    }
}

static void drop_tasks(tdg__worker_t *worker) {
    take_tasks(worker);
    while (worker->tasks != NULL)
        run_task(worker, false);
}

/* News that cannot be applied for want of memory are kept, with all that follow, until
 * the next try: none may be left out in silence. What a turn does is bounded in time, or
 * a busy publisher would stop all else. Returns false where the turn is over. */
static bool apply_taken(tdg__worker_t *worker, uint64_t until_ns) {
    while (worker->next_news < worker->news_count) {
        tdg__news_t *news = &worker->news[worker->next_news];

        if (!worker->outdated && apply(worker, news) == TDG_ENOMEM)
            return false;
        worker->outdated = false;
        drop(news);
        worker->next_news++;
        if (worker->next_news % 8 == 0 && uv_hrtime() >= until_ns) {
            uv_async_send(&worker->wake);
            return false;
        }
    }
    return true;
}

/* Returns whether nothing is left. */
static bool read_inbox(tdg__worker_t *worker) {
    uint64_t until_ns = uv_hrtime() + NEWS_NS;

    run_tasks(worker, until_ns);
    while (apply_taken(worker, until_ns)) {
        worker->next_news = 0;
        worker->news_count = tdg__inbox_take(worker->inbox, worker->news, NEWS_AT_ONCE);
        if (worker->news_count == 0)
            return true;
    }
    return false;
}

static void take_inbox(tdg__worker_t *worker) {
    tdg__announced_t announced = tdg__recheck_turn(&worker->recheck);

    if (read_inbox(worker))
        tdg__recheck_let(&worker->recheck, announced);
}

static void begin_stop(tdg__worker_t *worker);

static void on_wake(uv_async_t *async) {
    tdg__worker_t *worker = async->data;

    tdg__worker_refresh(worker);
    take_inbox(worker);
    if (tdg__server_stopping(worker->server))
        begin_stop(worker);
}

static void wake(void *user) {
    tdg__worker_t *worker = user;

    uv_async_send(&worker->wake);
}

void tdg__worker_recheck(tdg__worker_t *worker) {
    tdg__recheck_ask(&worker->recheck);
}

void tdg__worker_wake(tdg__worker_t *worker) {
    wake(worker);
}

/* ---- The engine's questions --------------------------------------------- */

static int call_watch(void *user, const tdg__target_t *target) {
    tdg__worker_t *worker = user;

    return tdg__hub_watch(tdg__server_hub(worker->server), worker->inbox, target);
}

/* A watcher's answer that waits for memory is not that of the next watcher of its target.
 */
static void forget_answer(tdg__worker_t *worker, const tdg__target_t *target) {
    tdg__news_t *news = &worker->news[worker->next_news];

    if (worker->next_news < worker->news_count && news->change == NULL &&
        tdg__target_equal(&news->target, target))
        worker->outdated = true;
}

static void call_unwatch(void *user, const tdg__target_t *target) {
    tdg__worker_t *worker = user;

    forget_answer(worker, target);
    tdg__hub_unwatch(tdg__server_hub(worker->server), worker->inbox, target);
}

static void call_settled(void *user, tdg__stream_t stream, const tdg__target_t *target,
                         int status, bool resumed) {
    tdg__worker_t *worker = user;
    tdg__feed_t *feed = tdg__engine_stream_user(worker->engine, stream);

    if (feed != NULL) {
        tdg__trace_settled(feed, target, status);
        feed->ops->settled(feed, target, status, resumed);
    }
}

static void call_list_matches(void *user, const tdg__target_t *template_,
                              bool (*visit)(void *arg, const tdg__target_t *uri),
                              void *arg) {
    tdg__worker_t *worker = user;

    tdg__catalogue_list_matches(tdg__server_catalogue(worker->server), template_, visit,
                                arg);
}

static bool call_absent(void *user, const tdg__target_t *uri) {
    tdg__worker_t *worker = user;

    return tdg__hub_is_absent(tdg__server_hub(worker->server), uri);
}

static int create_engine(tdg__worker_t *worker, uint64_t number) {
    const tdg_server_opts_t *opts = tdg__server_opts(worker->server);
    bool watched = opts->watcher.start != NULL;
    tdg__engine_opts_t engine = {
        .calls = {.watch = watched ? call_watch : NULL,
                  .unwatch = watched ? call_unwatch : NULL,
                  .settled = call_settled,
                  .absent = watched ? call_absent : NULL,
                  .list_matches = call_list_matches},
        .user = worker,
        .defaults = tdg__settings_to_engine(&opts->settings),
        .epoch = tdg__hub_epoch(tdg__server_hub(worker->server)),
        .first_number = number + 1,
        .shared_numbers = true,
        .linger_ms = opts->linger_ms,
        .max_subscriptions = opts->max_subscriptions,
        .max_total = opts->max_total_subscriptions,
        .max_total_bytes = opts->max_subscribed_bytes,
        .tally = tdg__server_tally(worker->server),
        .max_pending = opts->max_pending,
        .history = opts->max_history,
    };

    int rv = tdg__engine_create(&engine, &worker->engine);
    if (rv < 0)
        return rv;
    return tdg__server_configure_engine(worker->server, worker->engine);
}

/* ---- Connections -------------------------------------------------------- */

static void on_request(void *user, tdg__conn_t *conn,
                       const tdg__http_request_t *request) {
    tdg__worker_t *worker = user;

    tdg__worker_refresh(worker);
    tdg__http_serve(worker, conn, request);
}

static bool on_head(void *user, tdg__conn_t *conn, const tdg__http_request_t *request) {
    tdg__worker_t *worker = user;

    tdg__worker_refresh(worker);
    return tdg__http_admit(worker, conn, request);
}

static void on_drained(void *user, tdg__conn_t *conn) {
    tdg__worker_refresh(user); /* first: it may end what occupies the connection */

    tdg__occupant_t *occupant = tdg__conn_user(conn);
    if (occupant != NULL && occupant->drained != NULL)
        occupant->drained(occupant);
}

static void on_closed(void *user, tdg__conn_t *conn) {
    tdg__worker_refresh(user); /* first: it may end what occupies the connection */

    tdg__occupant_t *occupant = tdg__conn_user(conn);
    if (occupant != NULL)
        occupant->closed(occupant);
}

static void on_half_closed(void *user, tdg__conn_t *conn) {
    tdg__worker_refresh(user); /* first: it may end what occupies the connection */

    tdg__occupant_t *occupant = tdg__conn_user(conn);
    if (occupant != NULL && occupant->half_closed != NULL)
        occupant->half_closed(occupant);
}

static void on_not_taken(void *user, int error) {
    const tdg__worker_t *worker = user;
    char why[100];

    if (error == 0)
        tdg__server_log_event(worker->server, TDG__EVENT_CONNECTION_REFUSED, NULL);
    else
        tdg__server_log_event(worker->server, TDG__EVENT_NOT_ACCEPTED,
                              uv_strerror_r(error, why, sizeof(why)));
}

static int create_net(tdg__worker_t *worker) {
    const tdg_server_opts_t *opts = tdg__server_opts(worker->server);
    tdg__net_opts_t net = {
        .calls = {.request = on_request,
                  .head = on_head,
                  .drained = on_drained,
                  .closed = on_closed,
                  .half_closed = on_half_closed,
                  .not_taken = on_not_taken},
        .user = worker,
        .limits = {.max_header_bytes = opts->max_header_bytes,
                  .max_fields = 100,
                  .max_body_bytes = SIZE_MAX,
                  .body_limit = tdg__http_body_limit,
                  .user = worker->server},
        .request_timeout_ms = opts->request_timeout_ms,
        .idle_timeout_ms = opts->idle_timeout_ms,
        .write_timeout_ms = opts->request_timeout_ms,
        .pace_window_ms = TDG__PACE_WINDOW_MS,
        .pace_min_bytes = TDG__PACE_MIN_BYTES,
        .max_connections = (opts->max_connections - 1) / opts->workers + 1,
        .total = tdg__server_connections(worker->server),
        .max_total = opts->max_connections,
        .max_body_total = TDG__BODIES_MAX,
    };

    return tdg__net_create(worker->loop, &net, &worker->net);
}

int tdg__worker_listen(tdg__worker_t *worker, int fd, void *tag) {
    return tdg__net_listen(worker->net, fd, tag);
}

int tdg__worker_pipe(tdg__worker_t *worker, int input, int output, bool erlmcp) {
    return tdg__pipe_open(worker, input, output, erlmcp, &worker->pipe);
}

void tdg__worker_pipe_ended(tdg__worker_t *worker) {
    tdg_server_stop_soon(worker->server);
}

/* ---- Ticks: signs of life, idle sessions, old streams ------------------- */

struct tick {
    const tdg_server_opts_t *opts;
    int64_t now_ms;
};

static void tick_conn(void *arg, tdg__conn_t *conn) {
    const struct tick *tick = arg;
    tdg__occupant_t *occupant = tdg__conn_user(conn);
    tdg__outlet_t *outlet = tdg__conn_outlet(conn);

    if (occupant == NULL)
        return;
    if (!occupant->streaming) {
        if (occupant->tick != NULL)
            occupant->tick(occupant, tick->now_ms);
        else if (occupant->late != NULL &&
                 tick->now_ms - occupant->started_ms >= tick->opts->keepalive_ms)
            occupant->late(occupant);
        return;
    }
    if (tick->opts->stream_lifetime_ms > 0 && occupant->finish != NULL &&
        tick->now_ms - occupant->started_ms >= tick->opts->stream_lifetime_ms) {
        occupant->finish(occupant);
        return;
    }
    if (outlet->queued == 0 &&
        tick->now_ms - outlet->written_ms >= tick->opts->keepalive_ms)
        tdg__outlet_piece(outlet, ":\n\n", 3);
}

static uint64_t load_of(const tdg_server_t *server) {
    tdg_counters_t counters;

    tdg_server_counters(server, &counters);
    return counters.subscriptions + counters.connections;
}

static void on_tick(uv_timer_t *timer) {
    tdg__worker_t *worker = timer->data;
    struct tick tick = {tdg__server_opts(worker->server), tdg__worker_now(worker)};

    tdg__worker_refresh(worker);
    tdg__net_each(worker->net, tick_conn, &tick);
    tdg__sessions_expire(worker->sessions, tick.now_ms);
    tdg__server_log_settle(worker->server);
    if (worker->index == 0)
        tdg__trim_tick(&worker->trim, tick.now_ms, load_of(worker->server));
    if (worker->news_count > 0)
        take_inbox(worker);
}

/* Often enough for the shortest of the times that it looks after. */
static uint64_t tick_period(const tdg_server_opts_t *opts) {
    uint64_t shortest = opts->keepalive_ms;

    if (opts->session_idle_ms < shortest)
        shortest = opts->session_idle_ms;
    if (opts->handshake_timeout_ms < shortest)
        shortest = opts->handshake_timeout_ms;
    if (opts->stream_lifetime_ms > 0 && opts->stream_lifetime_ms < shortest)
        shortest = opts->stream_lifetime_ms;
    shortest /= 4;
    return shortest < 10 ? 10 : shortest > 1000 ? 1000 : shortest;
}

/* ---- Turns -------------------------------------------------------------- */

static void set(atomic_uint_fast64_t *counter, uint64_t value) {
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static void publish_counters(tdg__worker_t *worker) {
    struct counters *counters = &worker->counters;
    tdg__counters_t now;

    tdg__engine_counters(worker->engine, &now);
    set(&counters->connections, tdg__net_connections(worker->net));
    set(&counters->sessions, tdg__sessions_count(worker->sessions));
    set(&counters->streams, now.streams);
    set(&counters->subscriptions, now.subscriptions);
    set(&counters->pending, now.pending);
    set(&counters->requests, worker->requests);
    set(&counters->changes, now.changes);
    set(&counters->delivered, now.delivered);
    set(&counters->merged, now.merged);
    set(&counters->filtered, now.filtered);
    set(&counters->rate_limited, now.rate_limited);
    set(&counters->ended, now.ended);
}

static void go_on_stopping(tdg__worker_t *worker);

/* The loop does not wait while there is more. */
static void on_hurry(uv_idle_t *hurry) {
    (void)hurry;
}

static void flush(tdg__worker_t *worker) {
    if (tdg__feeds_flush(worker, &worker->flushed))
        uv_idle_start(&worker->hurry, on_hurry);
    else
        uv_idle_stop(&worker->hurry);
}

/* A loop that has more to do than its core can would leave other threads waiting for that
 * core, those that fetch what somebody reads among them, until the scheduler takes it
 * away. It offers it once per turn instead. */
static void offer_core(const tdg__worker_t *worker) {
    if (uv_is_active((const uv_handle_t *)&worker->hurry) ||
        tdg__net_has_more(worker->net))
        sched_yield();
}

static void on_prepare(uv_prepare_t *prepare) {
    tdg__worker_t *worker = prepare->data;

    if (worker->state >= CLOSING)
        return;
    flush(worker);
    offer_core(worker);
    publish_counters(worker);
    if (worker->state != RUNNING)
        go_on_stopping(worker);
    if (worker->state < CLOSING)
        set_alarm(worker);
}

static void on_check(uv_check_t *check) {
    tdg__worker_t *worker = check->data;

    if (worker->state < CLOSING)
        flush(worker);
}

/* ---- Stopping ----------------------------------------------------------- */

/* A stream with something to write ends when that is with the kernel. */
static void finish_conn(void *arg, tdg__conn_t *conn) {
    tdg__occupant_t *occupant = tdg__conn_user(conn);

    (void)arg;
    if (occupant == NULL || occupant->finish == NULL ||
        (occupant->has_more != NULL && occupant->has_more(occupant)))
        return;
    occupant->finish(occupant);
}

static void give_up_conn(void *arg, tdg__conn_t *conn) {
    tdg__occupant_t *occupant = tdg__conn_user(conn);

    (void)arg;
    if (occupant != NULL && occupant->give_up != NULL)
        occupant->give_up(occupant);
}

static void begin_stop(tdg__worker_t *worker) {
    if (worker->state != RUNNING)
        return;
    worker->state = FLUSHING;
    worker->stop_by_ms =
        tdg__worker_now(worker) + tdg__server_opts(worker->server)->stop_timeout_ms;
    /* Looks often enough whether all is done, or the time is over. */
    uv_timer_start(&worker->tick, on_tick, 0, 10);
    tdg__net_stop_listening(worker->net);
    tdg__net_finish(worker->net);
    if (worker->pipe != NULL)
        tdg__pipe_stop(worker->pipe);
}

/* One less of what the loop has to wait for: the last one closes the worker. */
static void let_go(tdg__worker_t *worker) {
    if (--worker->handles > 0)
        return;
    worker->state = CLOSED;
    if (current == worker)
        current = NULL;
    tdg__server_worker_closed(worker->server, worker);
}

static void handle_closed(uv_handle_t *handle) {
    let_go(handle->data);
}

static void run_job(uv_work_t *work) {
    tdg__job_t *job = work->data;

    job->run(job);
}

static void job_done(uv_work_t *work, int status) {
    tdg__job_t *job = work->data;
    tdg__worker_t *worker = job->worker;

    (void)status; /* nobody cancels */
    if (worker->engine != NULL)
        tdg__worker_refresh(worker);
    job->done(job);
    let_go(worker);
}

void tdg__worker_do(tdg__worker_t *worker, tdg__job_t *job) {
    job->work.data = job;
    job->worker = worker;
    worker->handles++;
    (void)uv_queue_work(worker->loop, &job->work, run_job, job_done);
}

static void drop_news(tdg__worker_t *worker) {
    do {
        while (worker->next_news < worker->news_count)
            drop(&worker->news[worker->next_news++]);
        worker->next_news = 0;
        worker->news_count = tdg__inbox_take(worker->inbox, worker->news, NEWS_AT_ONCE);
    } while (worker->news_count > 0);
}

static void net_closed(void *arg) {
    tdg__worker_t *worker = arg;
    uv_handle_t *handles[HANDLES] = {
        (uv_handle_t *)&worker->wake,  (uv_handle_t *)&worker->alarm,
        (uv_handle_t *)&worker->tick,  (uv_handle_t *)&worker->prepare,
        (uv_handle_t *)&worker->check, (uv_handle_t *)&worker->hurry,
    };

    worker->net = NULL;
    tdg__sessions_destroy(worker->sessions);
    worker->sessions = NULL;
    if (worker->inbox != NULL) {
        tdg__inbox_close(worker->inbox);
        drop_tasks(worker);
        drop_news(worker);
    }
    tdg__engine_destroy(worker->engine);
    worker->engine = NULL;
    for (size_t i = 0; i < HANDLES; i++)
        uv_close(handles[i], handle_closed);
}

static void pipe_closed(void *arg) {
    tdg__worker_t *worker = arg;

    worker->pipe = NULL;
    tdg__net_close(worker->net, net_closed, worker);
}

static void close_worker(tdg__worker_t *worker) {
    worker->state = CLOSING;
    tdg__hub_leave(tdg__server_hub(worker->server), worker->inbox);
    if (worker->pipe != NULL)
        tdg__pipe_close(worker->pipe, 0, pipe_closed, worker);
    else
        pipe_closed(worker);
}

/* Whether all that was accepted before the stop has been applied. That is what was in the
 * inbox once no request was being answered that may publish: what comes later is not
 * waited for, or a busy publisher would keep the streams open. */
static bool has_applied(tdg__worker_t *worker, bool time_is_over) {
    tdg__counters_t counters;

    if (!worker->has_last_number &&
        (time_is_over || !tdg__routes_busy(tdg__server_routes(worker->server)))) {
        worker->has_last_number = true;
        worker->last_number = tdg__hub_last_number(tdg__server_hub(worker->server));
    }
    bool has_number = worker->has_last_number;
    bool empty = read_inbox(worker);

    tdg__engine_counters(worker->engine, &counters);
    return has_number && (empty || counters.last_number >= worker->last_number);
}

/* Requests that were on their way may have begun streams, so this comes again and again.
 */
static void finish_streams(tdg__worker_t *worker) {
    tdg__net_each(worker->net, finish_conn, NULL);
    if (worker->pipe != NULL)
        tdg__pipe_finish(worker->pipe);
}

static void go_on_stopping(tdg__worker_t *worker) {
    bool time_is_over = tdg__worker_now(worker) >= worker->stop_by_ms;

    if (worker->state == FLUSHING && has_applied(worker, time_is_over)) {
        worker->state = FINISHING;
        tdg__engine_end_windows(worker->engine);
        flush(worker);
    }
    if (worker->state == FINISHING)
        finish_streams(worker);

    size_t connections = tdg__net_connections(worker->net);
    bool piping = worker->pipe != NULL && tdg__pipe_busy(worker->pipe);
    bool busy = worker->state == FLUSHING || connections > 0 || piping;

    if (busy && !time_is_over)
        return;
    if (busy) {
        tdg__net_each(worker->net, give_up_conn, NULL);
        tdg__server_log(worker->server, TDG_LOG_WARNING,
                        "the time to stop is over; connections that are cut: %zu%s",
                        connections, piping ? ", and the pipe" : "");
    }
    close_worker(worker);
}

/* ---- Life --------------------------------------------------------------- */

static int init_handles(tdg__worker_t *worker) {
    int rv = uv_async_init(worker->loop, &worker->wake, on_wake);
    if (rv < 0)
        return TDG_ESYSTEM;
    uv_timer_init(worker->loop, &worker->alarm);
    uv_timer_init(worker->loop, &worker->tick);
    uv_prepare_init(worker->loop, &worker->prepare);
    uv_check_init(worker->loop, &worker->check);
    uv_idle_init(worker->loop, &worker->hurry);
    worker->wake.data = worker->alarm.data = worker->tick.data = worker;
    worker->prepare.data = worker->check.data = worker->hurry.data = worker;
    worker->handles = HANDLES;
    worker->tick_ms = tick_period(tdg__server_opts(worker->server));
    uv_timer_start(&worker->tick, on_tick, worker->tick_ms, worker->tick_ms);
    uv_prepare_start(&worker->prepare, on_prepare);
    uv_check_start(&worker->check, on_check);
    return 0;
}

static int init_loop(tdg__worker_t *worker, uv_loop_t *loop) {
    worker->loop = loop;
    worker->attached_by = pthread_self();
    if (loop == NULL) {
        if (uv_loop_init(&worker->own_loop) < 0)
            return TDG_ESYSTEM;
        worker->loop = &worker->own_loop;
        worker->owns_loop = true;
    }
    return init_handles(worker);
}

static int create_info(tdg__worker_t *worker) {
    tdg__server_info_t info;

    tdg__server_describe(worker->server, &info);
    worker->info = tdg__result_server_info(&info);
    return worker->info != NULL ? 0 : TDG_ENOMEM;
}

int tdg__worker_create(tdg_server_t *server, unsigned index, uv_loop_t *loop,
                       tdg__worker_t **ret) {
    uint64_t number;
    tdg__worker_t *worker = tdg__calloc(1, sizeof(*worker));
    if (worker == NULL)
        return TDG_ENOMEM;

    worker->server = server;
    worker->index = index;
    worker->traces_changes =
        (tdg__server_opts(server)->debug & TDG_DEBUG_NOTIFICATIONS) != 0;
    worker->advanced_ms = -1;
    worker->alarm_ms = INT64_MAX;
    worker->last_task = &worker->tasks;
    tdg__recheck_init(&worker->recheck, worker);
    int rv = init_loop(worker, loop);
    if (rv == 0)
        rv = tdg__inbox_create(MAX_NEWS, wake, worker, &worker->inbox);
    if (rv == 0)
        rv = tdg__hub_join(tdg__server_hub(server), worker->inbox, &number);
    if (rv == 0)
        rv = create_engine(worker, number);
    if (rv == 0)
        rv = tdg__sessions_create(worker, index, &worker->sessions);
    if (rv == 0)
        rv = create_info(worker);
    if (rv == 0)
        rv = create_net(worker);
    if (rv < 0) {
        tdg__worker_destroy(worker);
        return rv;
    }
    if (index == 0)
        tdg__trim_tick(&worker->trim, tdg__worker_now(worker),
                       0); /* what it has at first */
    if (loop != NULL)
        current = worker;
    *ret = worker;
    return 0;
}

/* Signals are the business of the program's own threads, but for those that tell of a
 * fault in this one. */
static const int faults[] = {SIGABRT, SIGBUS,  SIGFPE, SIGILL,
                             SIGPROF, SIGSEGV, SIGSYS, SIGTRAP};

static void run(void *arg) {
    tdg__worker_t *worker = arg;

    current = worker;
    uv_run(worker->loop, UV_RUN_DEFAULT);
    current = NULL;
}

int tdg__worker_start(tdg__worker_t *worker) {
    sigset_t all, before;

    if (!worker->owns_loop)
        return 0;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rv = uv_thread_create(&worker->thread, run, worker);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    worker->has_thread = rv == 0;
    return rv == 0 ? 0 : TDG_ESYSTEM;
}

bool tdg__worker_closed(const tdg__worker_t *worker) {
    return worker->state == CLOSED;
}

void tdg__worker_join(tdg__worker_t *worker) {
    if (worker->has_thread)
        uv_thread_join(&worker->thread);
    worker->has_thread = false;
}

/* A worker that never ran, or whose loop nobody runs any more, is closed the ordinary
 * way, by running its loop a little. */
void tdg__worker_close(tdg__worker_t *worker) {
    if (worker->state < CLOSING && worker->inbox != NULL && worker->net != NULL) {
        close_worker(worker);
    } else if (worker->state < CLOSING) {
        if (worker->inbox != NULL)
            tdg__hub_leave(tdg__server_hub(worker->server), worker->inbox);
        worker->state = CLOSING;
        if (worker->handles > 0)
            net_closed(worker);
    }
    while (worker->state != CLOSED && worker->handles > 0)
        uv_run(worker->loop, UV_RUN_ONCE);
}

void tdg__worker_destroy(tdg__worker_t *worker) {
    if (worker == NULL)
        return;
    if (worker->state != CLOSED)
        tdg__worker_close(worker);
    if (worker->owns_loop) {
        int rv = uv_loop_close(&worker->own_loop);
        assert(rv == 0);
        (void)rv;
    }
    tdg__trim_done(&worker->trim);
    json_decref(worker->info);
    tdg__inbox_unref(worker->inbox);
    tdg__free(worker);
}

static uint64_t get(const atomic_uint_fast64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void tdg__worker_add_counters(const tdg__worker_t *worker, tdg_counters_t *sum) {
    const struct counters *counters = &worker->counters;

    sum->connections += get(&counters->connections);
    sum->sessions += get(&counters->sessions);
    sum->streams += get(&counters->streams);
    sum->subscriptions += get(&counters->subscriptions);
    sum->pending += get(&counters->pending);
    sum->requests += get(&counters->requests);
    sum->delivered += get(&counters->delivered);
    sum->merged += get(&counters->merged);
    sum->filtered += get(&counters->filtered);
    sum->rate_limited += get(&counters->rate_limited);
    sum->ended += get(&counters->ended);
    /* Every worker sees every change. */
    if (get(&counters->changes) > sum->changes)
        sum->changes = get(&counters->changes);
}
