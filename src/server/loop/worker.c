/* SPDX-License-Identifier: MIT
 *
 * One turn of the loop: sockets, timers and the inbox are served; then whatever became
 * ready in the engine is written, before the loop waits again. */
#include "server/loop/worker.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include <uv.h>

#include "base/alloc.h"
#include "server/context/front.h"
#include "server/feed/feed.h"
#include "server/feed/trace.h"
#include "server/log/log.h"
#include "server/loop/recheck.h"
#include "server/loop/trim.h"
#include "server/mcp/session.h"

enum {
    MAX_CHANGES = 65536,
    ENTRIES_AT_ONCE = 256,
    ENTRIES_NS = 5000000, /* that a turn spends on entries */
    HANDLES = 6
};

typedef enum worker_state {
    RUNNING,
    FLUSHING,  /* what was accepted before the stop is being applied */
    FINISHING, /* streams end when that is written; what is being answered is answered */
    CLOSING,   /* connections and handles are being closed */
    CLOSED,
} worker_state_t;

/* The fields of tdg_server_counters_t in their order, for other threads to read. */
enum { COUNTERS = sizeof(tdg_server_counters_t) / sizeof(uint64_t) };

_Static_assert(sizeof(tdg_server_counters_t) == COUNTERS * sizeof(uint64_t),
               "the counters are numbers of 64 bits and nothing else");

struct worker {
    tdg__worker_t shared; /* first: what the other rooms see of it */
    void (*closed)(tdg__worker_t *worker);
    bool traces_changes; /* TDG_DEBUG_NOTIFICATIONS */
    worker_state_t state;
    tdg__inbox_entry_t entries[ENTRIES_AT_ONCE]; /* taken from the inbox ... */
    size_t entry_count, next_entry;              /* ... and not applied yet */
    bool outdated;                   /* the next is of a watcher that has stopped since */
    tdg__task_t *tasks, **last_task; /* the same */
    int64_t alarm_ms;                /* when the timer goes off; INT64_MAX: not set */
    int64_t stop_by_ms;
    bool has_last_number; /* while flushing: */
    uint64_t last_number; /* of what was accepted before the stop */
    uint64_t tick_ms;
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
    atomic_uint_fast64_t counters[COUNTERS];
    tdg__recheck_t recheck;
    tdg__trim_t trim; /* of the first worker, for the whole process */
};

static struct worker *own(tdg__worker_t *worker) {
    return (struct worker *)worker;
}

bool tdg__worker_is_here(const tdg__worker_t *worker) {
    const struct worker *this = (const struct worker *)worker;

    return tdg__worker_current() == worker ||
           (!this->owns_loop && worker->engine != NULL &&
            pthread_equal(this->attached_by, pthread_self()));
}

/* ---- Time --------------------------------------------------------------- */

static void on_alarm(uv_timer_t *timer) {
    struct worker *worker = timer->data;

    worker->alarm_ms = INT64_MAX;
    tdg__worker_refresh(&worker->shared);
}

static void set_alarm(struct worker *worker) {
    int64_t due = tdg__engine_next_deadline(worker->shared.engine);
    int64_t now = tdg__worker_now(&worker->shared);

    if (due == worker->alarm_ms)
        return;
    worker->alarm_ms = due;
    if (due == INT64_MAX)
        uv_timer_stop(&worker->alarm);
    else
        uv_timer_start(&worker->alarm, on_alarm, due > now ? (uint64_t)(due - now) : 0,
                       0);
}

/* ---- The inbox ----------------------------------------------------------- */

static int apply_change(struct worker *worker, const tdg__inbox_entry_t *entry) {
    int rv = entry->unfiltered
                 ? tdg__engine_apply_unfiltered(worker->shared.engine, entry->change)
                 : tdg__engine_apply(worker->shared.engine, entry->change);

    if (worker->traces_changes && rv == 0)
        tdg__trace_change(&worker->shared, entry->change);
    return rv;
}

/* Returns the engine's result; with TDG_ENOMEM nothing has happened. */
static int apply(struct worker *worker, const tdg__inbox_entry_t *entry) {
    if (entry->change != NULL)
        return apply_change(worker, entry);
    if (entry->error != 0)
        return tdg__engine_watch_done(worker->shared.engine, &entry->target,
                                      TDG__WATCH_FAILED, entry->error);
    tdg__engine_armed_at(worker->shared.engine, entry->number);
    return tdg__engine_watch_done(worker->shared.engine, &entry->target, TDG__WATCH_ARMED,
                                  0);
}

static void drop(tdg__inbox_entry_t *entry) {
    if (entry->change == NULL)
        tdg__free((void *)(uintptr_t)entry->target.name);
    tdg__change_unref(entry->change);
    *entry = (tdg__inbox_entry_t){0};
}

static void take_tasks(struct worker *worker) {
    *worker->last_task = tdg__inbox_take_tasks(worker->shared.inbox);
    while (*worker->last_task != NULL)
        worker->last_task = &(*worker->last_task)->next;
}

static void run_task(struct worker *worker, bool here) {
    tdg__task_t *task = worker->tasks;

    assert(task != NULL && task->run != NULL);
    worker->tasks = task->next;
    if (worker->tasks == NULL)
        worker->last_task = &worker->tasks;
    task->run(task, here);
}

/* Bounded in time like entries: among them are answers, of which hundreds may come at
 * once. At least one is run. */
static void run_tasks(struct worker *worker, uint64_t until_ns) {
    take_tasks(worker);
    while (worker->tasks != NULL) {
        run_task(worker, true);
        if (worker->tasks != NULL && uv_hrtime() >= until_ns) {
            uv_async_send(&worker->wake);
            return;
        }
    }
}

static void drop_tasks(struct worker *worker) {
    take_tasks(worker);
    while (worker->tasks != NULL)
        run_task(worker, false);
}

/* Entries that cannot be applied for want of memory are kept, with all that follow, until
 * the next try: none may be dropped silently. The time of a turn is bounded, or a busy
 * publisher would stop all else. Returns false where the turn is over. */
static bool apply_taken(struct worker *worker, uint64_t until_ns) {
    while (worker->next_entry < worker->entry_count) {
        tdg__inbox_entry_t *entry = &worker->entries[worker->next_entry];

        if (!worker->outdated && apply(worker, entry) == TDG_ENOMEM)
            return false;
        worker->outdated = false;
        drop(entry);
        worker->next_entry++;
        if (worker->next_entry % 8 == 0 && uv_hrtime() >= until_ns) {
            uv_async_send(&worker->wake);
            return false;
        }
    }
    return true;
}

/* Returns whether nothing is left. */
static bool read_inbox(struct worker *worker) {
    uint64_t until_ns = uv_hrtime() + ENTRIES_NS;

    run_tasks(worker, until_ns);
    while (apply_taken(worker, until_ns)) {
        worker->next_entry = 0;
        worker->entry_count =
            tdg__inbox_take(worker->shared.inbox, worker->entries, ENTRIES_AT_ONCE);
        if (worker->entry_count == 0)
            return true;
    }
    return false;
}

static void take_inbox(struct worker *worker) {
    tdg__announced_t announced = tdg__recheck_turn(&worker->recheck);

    if (read_inbox(worker))
        tdg__recheck_let(&worker->recheck, announced);
}

static void begin_stop(struct worker *worker);

static void on_wake(uv_async_t *async) {
    struct worker *worker = async->data;

    tdg__worker_refresh(&worker->shared);
    take_inbox(worker);
    if (tdg__server_stopping(worker->shared.server))
        begin_stop(worker);
}

static void wake(void *user) {
    struct worker *worker = user;

    uv_async_send(&worker->wake);
}

void tdg__worker_recheck(tdg__worker_t *worker) {
    tdg__recheck_ask(&own(worker)->recheck);
}

void tdg__worker_wake(tdg__worker_t *worker) {
    wake(own(worker));
}

/* ---- Callbacks of the engine -------------------------------------------- */

static int call_watch(void *user, const tdg__target_t *target) {
    struct worker *worker = user;

    return tdg__hub_watch(worker->shared.server->hub, worker->shared.inbox, target);
}

/* A watcher's answer that waits for memory is not that of the next watcher of its target.
 */
static void forget_answer(struct worker *worker, const tdg__target_t *target) {
    tdg__inbox_entry_t *entry = &worker->entries[worker->next_entry];

    if (worker->next_entry < worker->entry_count && entry->change == NULL &&
        tdg__target_equal(&entry->target, target))
        worker->outdated = true;
}

static void call_unwatch(void *user, const tdg__target_t *target) {
    struct worker *worker = user;

    forget_answer(worker, target);
    tdg__hub_unwatch(worker->shared.server->hub, worker->shared.inbox, target);
}

static void call_settled(void *user, tdg__stream_t stream, const tdg__target_t *target,
                         int status, bool resumed) {
    struct worker *worker = user;
    tdg__feed_t *feed = tdg__engine_stream_user(worker->shared.engine, stream);

    if (feed != NULL) {
        tdg__trace_settled(feed, target, status);
        feed->ops->settled(feed, target, status, resumed);
    }
}

static void call_list_matches(void *user, const tdg__target_t *template_,
                              bool (*visit)(void *arg, const tdg__target_t *uri),
                              void *arg) {
    struct worker *worker = user;

    tdg__catalogue_list_matches(worker->shared.server->catalogue, template_, visit, arg);
}

static bool call_absent(void *user, const tdg__target_t *uri) {
    struct worker *worker = user;

    return tdg__hub_is_absent(worker->shared.server->hub, uri);
}

static int create_engine(struct worker *worker, tdg__configured_t *configured,
                         uint64_t number) {
    const tdg_server_opts_t *opts = &worker->shared.server->opts;
    bool watched = opts->watcher->start != NULL;
    tdg__engine_opts_t engine = {
        .calls = {.watch = watched ? call_watch : NULL,
                  .unwatch = watched ? call_unwatch : NULL,
                  .settled = call_settled,
                  .absent = watched ? call_absent : NULL,
                  .list_matches = call_list_matches},
        .user = worker,
        .defaults = tdg__settings_to_engine(opts->settings),
        .epoch = tdg__hub_epoch(worker->shared.server->hub),
        .first_number = number + 1,
        .shared_numbers = true,
        .linger_ms = opts->linger_ms,
        .max_subscriptions = opts->max_subscriptions,
        .max_total = opts->max_total_subscriptions,
        .max_total_bytes = opts->max_subscribed_bytes,
        .tally = &worker->shared.server->tally,
        .max_pending = opts->max_pending,
        .history = opts->max_history,
    };

    int rv = tdg__engine_create(&engine, &worker->shared.engine);
    if (rv < 0)
        return rv;
    return tdg__configured_apply(configured, worker->shared.engine);
}

/* ---- Ticks --------------------------------------------------------------- */

static uint64_t load_of(const tdg_server_t *server) {
    tdg_server_counters_t counters;

    tdg__workers_count(server, &counters);
    return counters.subscriptions + counters.connections;
}

static void on_tick(uv_timer_t *timer) {
    struct worker *worker = timer->data;
    int64_t now_ms = tdg__worker_now(&worker->shared);

    tdg__worker_refresh(&worker->shared);
    for (tdg__front_t *front = worker->shared.fronts; front != NULL; front = front->next)
        if (front->ops->tick != NULL)
            front->ops->tick(front, now_ms);
    tdg__sessions_expire(worker->shared.sessions, now_ms);
    tdg__server_log_settle(worker->shared.server);
    if (worker->shared.index == 0)
        tdg__trim_tick(&worker->trim, now_ms, load_of(worker->shared.server));
    if (worker->entry_count > 0)
        take_inbox(worker);
}

/* Often enough for the shortest of the time-outs that a tick checks. */
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

static void publish_counters(struct worker *worker) {
    tdg__counters_t now;

    tdg__engine_counters(worker->shared.engine, &now);
    const union {
        tdg_server_counters_t fields;
        uint64_t numbers[COUNTERS];
    } counters = {{
        .connections = tdg__net_connections(worker->shared.net),
        .sessions = tdg__sessions_count(worker->shared.sessions),
        .streams = now.streams,
        .subscriptions = now.subscriptions,
        .pending = now.pending,
        .requests = worker->shared.requests,
        .changes = now.changes,
        .delivered = now.delivered,
        .merged = now.merged,
        .filtered = now.filtered,
        .rate_limited = now.rate_limited,
        .ended = now.ended,
    }};

    for (size_t i = 0; i < COUNTERS; i++)
        atomic_store_explicit(&worker->counters[i], counters.numbers[i],
                              memory_order_relaxed);
}

static void go_on_stopping(struct worker *worker);

/* The loop does not wait while there is more. */
static void on_hurry(uv_idle_t *hurry) {
    (void)hurry;
}

static void flush(struct worker *worker) {
    if (tdg__feeds_flush(&worker->shared, &worker->flushed))
        uv_idle_start(&worker->hurry, on_hurry);
    else
        uv_idle_stop(&worker->hurry);
}

/* A loop that has more to do than its core can would leave other threads waiting for that
 * core, those that fetch content for reads among them, until the scheduler takes it away.
 * It offers it once per turn instead. */
static void offer_core(const struct worker *worker) {
    if (uv_is_active((const uv_handle_t *)&worker->hurry) ||
        tdg__net_has_more(worker->shared.net))
        sched_yield();
}

static void end_turn(struct worker *worker) {
    for (tdg__front_t *front = worker->shared.fronts; front != NULL; front = front->next)
        if (front->ops->turn_ends != NULL)
            front->ops->turn_ends(front);
}

static void on_prepare(uv_prepare_t *prepare) {
    struct worker *worker = prepare->data;

    if (worker->state >= CLOSING)
        return;
    flush(worker);
    offer_core(worker);
    publish_counters(worker);
    if (worker->state != RUNNING)
        go_on_stopping(worker);
    if (worker->state >= CLOSING)
        return;
    set_alarm(worker);
    end_turn(worker);
}

static void on_check(uv_check_t *check) {
    struct worker *worker = check->data;

    if (worker->state < CLOSING)
        flush(worker);
}

/* ---- Stopping ----------------------------------------------------------- */

static void begin_stop(struct worker *worker) {
    if (worker->state != RUNNING)
        return;
    worker->state = FLUSHING;
    worker->stop_by_ms =
        tdg__worker_now(&worker->shared) + worker->shared.server->opts.stop_timeout_ms;
    /* Looks often enough whether all is done, or the time is over. */
    uv_timer_start(&worker->tick, on_tick, 0, 10);
    for (tdg__front_t *front = worker->shared.fronts; front != NULL; front = front->next)
        if (front->ops->stop != NULL)
            front->ops->stop(front);
}

/* One less of what the loop has to wait for: the last one closes the worker. */
static void let_go(struct worker *worker) {
    assert(worker->handles > 0);
    if (--worker->handles > 0)
        return;
    worker->state = CLOSED;
    if (tdg__worker_current() == &worker->shared)
        tdg__worker_set_current(NULL);
    worker->closed(&worker->shared);
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
    struct worker *worker = own(job->worker);

    (void)status; /* nobody cancels */
    if (worker->shared.engine != NULL)
        tdg__worker_refresh(&worker->shared);
    job->done(job);
    let_go(worker);
}

void tdg__worker_do(tdg__worker_t *worker, tdg__job_t *job) {
    assert(tdg__worker_is_here(worker) && own(worker)->state != CLOSED);
    job->work.data = job;
    job->worker = worker;
    own(worker)->handles++;
    (void)uv_queue_work(worker->loop, &job->work, run_job, job_done);
}

static void drop_entries(struct worker *worker) {
    do {
        while (worker->next_entry < worker->entry_count)
            drop(&worker->entries[worker->next_entry++]);
        worker->next_entry = 0;
        worker->entry_count =
            tdg__inbox_take(worker->shared.inbox, worker->entries, ENTRIES_AT_ONCE);
    } while (worker->entry_count > 0);
}

static void close_rest(struct worker *worker) {
    assert(worker->state == CLOSING && worker->shared.fronts == NULL);
    uv_handle_t *handles[HANDLES] = {
        (uv_handle_t *)&worker->wake,  (uv_handle_t *)&worker->alarm,
        (uv_handle_t *)&worker->tick,  (uv_handle_t *)&worker->prepare,
        (uv_handle_t *)&worker->check, (uv_handle_t *)&worker->hurry,
    };

    worker->shared.net = NULL; /* its front has closed it */
    tdg__sessions_destroy(worker->shared.sessions);
    worker->shared.sessions = NULL;
    if (worker->shared.inbox != NULL) {
        tdg__inbox_close(worker->shared.inbox);
        drop_tasks(worker);
        drop_entries(worker);
    }
    tdg__engine_destroy(worker->shared.engine);
    worker->shared.engine = NULL;
    for (size_t i = 0; i < HANDLES; i++)
        uv_close(handles[i], handle_closed);
}

/* One after the other: all write through the network of the first, which closes last. */
static void close_fronts(void *arg) {
    struct worker *worker = arg;
    tdg__front_t *front = worker->shared.fronts;

    assert(worker->state == CLOSING);
    if (front == NULL) {
        close_rest(worker);
        return;
    }
    worker->shared.fronts = front->next;
    front->ops->close(front, close_fronts, worker);
}

static void close_worker(struct worker *worker) {
    assert(worker->state < CLOSING);
    worker->state = CLOSING;
    tdg__hub_leave(worker->shared.server->hub, worker->shared.inbox);
    close_fronts(worker);
}

/* Whether all that was accepted before the stop has been applied. That is what was in the
 * inbox once no request was being answered that may publish: what comes later is not
 * waited for, or a busy publisher would keep the streams open. */
static bool may_publish(const struct worker *worker) {
    for (const tdg__front_t *front = worker->shared.fronts; front != NULL;
         front = front->next)
        if (front->ops->may_publish != NULL && front->ops->may_publish(front))
            return true;
    return false;
}

static bool has_applied(struct worker *worker, bool time_is_over) {
    tdg__counters_t counters;

    if (!worker->has_last_number && (time_is_over || !may_publish(worker))) {
        worker->has_last_number = true;
        worker->last_number = tdg__hub_last_number(worker->shared.server->hub);
    }
    bool has_number = worker->has_last_number;
    bool empty = read_inbox(worker);

    tdg__engine_counters(worker->shared.engine, &counters);
    return has_number && (empty || counters.last_number >= worker->last_number);
}

static void finish_streams(struct worker *worker) {
    for (tdg__front_t *front = worker->shared.fronts; front != NULL; front = front->next)
        if (front->ops->finish != NULL)
            front->ops->finish(front);
}

static bool is_busy(const struct worker *worker) {
    for (const tdg__front_t *front = worker->shared.fronts; front != NULL;
         front = front->next)
        if (front->ops->busy(front) > 0)
            return true;
    return false;
}

static void give_up(struct worker *worker) {
    size_t connections = 0;
    const char *alone = NULL;

    for (tdg__front_t *front = worker->shared.fronts; front != NULL;
         front = front->next) {
        size_t busy = front->ops->busy(front);

        if (front->ops->alone == NULL)
            connections += busy;
        else if (busy > 0)
            alone = front->ops->alone;
        if (front->ops->give_up != NULL)
            front->ops->give_up(front);
    }
    tdg__server_log(worker->shared.server, TDG_LOG_WARNING,
                    "stop_timeout_ms (config: stop-timeout) has expired; "
                    "connections cut: %zu%s%s",
                    connections, alone != NULL ? ", and " : "",
                    alone != NULL ? alone : "");
}

static void go_on_stopping(struct worker *worker) {
    bool time_is_over = tdg__worker_now(&worker->shared) >= worker->stop_by_ms;

    assert(worker->state == FLUSHING || worker->state == FINISHING);

    if (worker->state == FLUSHING && has_applied(worker, time_is_over)) {
        worker->state = FINISHING;
        tdg__engine_end_windows(worker->shared.engine);
        flush(worker);
    }
    if (worker->state == FINISHING)
        finish_streams(worker);

    bool busy = worker->state == FLUSHING || is_busy(worker);

    if (busy && !time_is_over)
        return;
    if (busy)
        give_up(worker);
    close_worker(worker);
}

/* ---- Life --------------------------------------------------------------- */

static int init_handles(struct worker *worker) {
    int rv = uv_async_init(worker->shared.loop, &worker->wake, on_wake);
    if (rv < 0)
        return TDG_ESYSTEM;
    uv_timer_init(worker->shared.loop, &worker->alarm);
    uv_timer_init(worker->shared.loop, &worker->tick);
    uv_prepare_init(worker->shared.loop, &worker->prepare);
    uv_check_init(worker->shared.loop, &worker->check);
    uv_idle_init(worker->shared.loop, &worker->hurry);
    worker->wake.data = worker->alarm.data = worker->tick.data = worker;
    worker->prepare.data = worker->check.data = worker->hurry.data = worker;
    worker->handles = HANDLES;
    worker->tick_ms = tick_period(&worker->shared.server->opts);
    uv_timer_start(&worker->tick, on_tick, worker->tick_ms, worker->tick_ms);
    uv_prepare_start(&worker->prepare, on_prepare);
    uv_check_start(&worker->check, on_check);
    return 0;
}

static int init_loop(struct worker *worker, uv_loop_t *loop) {
    worker->shared.loop = loop;
    worker->attached_by = pthread_self();
    if (loop == NULL) {
        if (uv_loop_init(&worker->own_loop) < 0)
            return TDG_ESYSTEM;
        worker->shared.loop = &worker->own_loop;
        worker->owns_loop = true;
    }
    return init_handles(worker);
}

static int create_info(struct worker *worker) {
    tdg__server_info_t info;

    tdg__server_describe(worker->shared.server, &info);
    worker->shared.info = tdg__result_server_info(&info);
    return worker->shared.info != NULL ? 0 : TDG_ENOMEM;
}

static int create_parts(struct worker *worker, const tdg__worker_opts_t *opts) {
    uint64_t number;

    int rv = init_loop(worker, opts->loop);
    if (rv == 0)
        rv = tdg__inbox_create(MAX_CHANGES, wake, worker, &worker->shared.inbox);
    if (rv == 0)
        rv = tdg__hub_join(worker->shared.server->hub, worker->shared.inbox, &number);
    if (rv == 0)
        rv = create_engine(worker, opts->configured, number);
    if (rv == 0)
        rv = tdg__sessions_create(&worker->shared, opts->index, &worker->shared.sessions);
    if (rv == 0)
        rv = create_info(worker);
    return rv;
}

int tdg__worker_create(const tdg__worker_opts_t *opts, tdg__worker_t **ret) {
    struct worker *worker = tdg__calloc(1, sizeof(*worker));
    if (worker == NULL)
        return TDG_ENOMEM;

    worker->shared.server = opts->server;
    worker->shared.index = opts->index;
    worker->closed = opts->closed;
    worker->traces_changes = (opts->server->opts.debug & TDG_DEBUG_NOTIFICATIONS) != 0;
    worker->shared.advanced_ms = -1;
    worker->alarm_ms = INT64_MAX;
    worker->last_task = &worker->tasks;
    tdg__recheck_init(&worker->recheck, &worker->shared);
    int rv = create_parts(worker, opts);
    if (rv < 0) {
        tdg__worker_destroy(&worker->shared);
        return rv;
    }
    if (opts->index == 0)
        tdg__trim_tick(&worker->trim, tdg__worker_now(&worker->shared),
                       0); /* what it has at first */
    if (opts->loop != NULL)
        tdg__worker_set_current(&worker->shared);
    *ret = &worker->shared;
    return 0;
}

/* Signals are the business of the program's own threads, but for those that report a
 * fault in this one. */
static const int faults[] = {SIGABRT, SIGBUS,  SIGFPE, SIGILL,
                             SIGPROF, SIGSEGV, SIGSYS, SIGTRAP};

static void run(void *arg) {
    struct worker *worker = arg;

    tdg__worker_set_current(&worker->shared);
    uv_run(worker->shared.loop, UV_RUN_DEFAULT);
    tdg__worker_set_current(NULL);
}

int tdg__worker_start(tdg__worker_t *shared) {
    struct worker *worker = own(shared);
    sigset_t all, before;

    assert(worker->state == RUNNING && !worker->has_thread);
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

void tdg__worker_join(tdg__worker_t *shared) {
    struct worker *worker = own(shared);

    if (worker->has_thread)
        uv_thread_join(&worker->thread);
    worker->has_thread = false;
}

/* A worker that never ran, or whose loop has stopped running, is closed the ordinary way,
 * by running its loop a little. */
void tdg__worker_close(tdg__worker_t *shared) {
    struct worker *worker = own(shared);

    if (worker->state < CLOSING && worker->handles > 0)
        close_worker(worker);
    while (worker->state != CLOSED && worker->handles > 0)
        uv_run(worker->shared.loop, UV_RUN_ONCE);
}

void tdg__worker_destroy(tdg__worker_t *shared) {
    struct worker *worker = own(shared);

    if (worker == NULL)
        return;
    if (worker->state != CLOSED)
        tdg__worker_close(shared);
    if (worker->owns_loop) {
        int rv = uv_loop_close(&worker->own_loop);
        assert(rv == 0);
        (void)rv;
    }
    tdg__trim_done(&worker->trim);
    json_decref(worker->shared.info);
    tdg__inbox_unref(worker->shared.inbox);
    tdg__free(worker);
}

void tdg__workers_count(const tdg_server_t *server, tdg_server_counters_t *ret) {
    union {
        uint64_t numbers[COUNTERS];
        tdg_server_counters_t fields;
    } sum = {{0}};
    uint64_t changes = 0;

    for (unsigned w = 0; w < server->worker_count; w++) {
        const atomic_uint_fast64_t *counters = own(server->workers[w])->counters;

        sum.fields.changes = 0;
        for (size_t i = 0; i < COUNTERS; i++)
            sum.numbers[i] += atomic_load_explicit(&counters[i], memory_order_relaxed);
        if (sum.fields.changes > changes) /* every worker sees every change */
            changes = sum.fields.changes;
    }
    *ret = sum.fields;
    ret->changes = changes;
}
