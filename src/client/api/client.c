/* SPDX-License-Identifier: MIT
 *
 * The thread of a client. One turn of its loop:
 *
 *     commands ─▶ core ─▶ transports       woken by uv_async_send()
 *     sockets, pipes ─▶ transports ─▶ core ─▶ events, answers
 *     timer ─▶ core                   armed before every wait, for the core's deadline
 *
 * The users of a client are counted: its thread, its owner, and every running call. The
 * last one frees it. So waiting calls may outlive tdg_client_close() for the moment that
 * they need to return, and a thread that hangs (in a name look-up, for example) does not
 * block the owner. */
#include "client/api/client.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include <uv.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "client/session/event.h"
#include "client/subs/subscribing.h"

enum { MAX_TASKS = 100000, CLOSE_MS = 5000 };

struct tdg_client {
    tdg__client_opts_t own;
    tdg__events_t *events;     /* NULL: there is a callback */
    atomic_uint_fast64_t lost; /* events for the callback that there was no memory for */

    /* Of the thread. */
    uv_loop_t loop;
    uv_async_t wake;
    uv_prepare_t before_wait;
    uv_timer_t timer;
    tdg__core_t *core;
    bool amidst; /* inside of a callback that comes from the middle of something */

    pthread_t thread;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t ended;
    tdg__client_task_t *first, **last;
    size_t tasks;
    size_t users; /* thread, owner, calls inside */
    bool closing; /* no call comes in any more, and no event goes out */
    bool over;    /* the thread has done all its work */
    bool left;    /* the owner is gone, and hears nothing any more */
    tdg__client_task_t stop;
};

/* The client whose thread this is. */
static _Thread_local const tdg_client_t *here;

bool tdg__client_is_here(const tdg_client_t *client) {
    return here == client;
}

bool tdg__client_is_amidst(const tdg_client_t *client) {
    return client->amidst;
}

tdg__core_t *tdg__client_core(tdg_client_t *client) {
    return client->core;
}

uint32_t tdg__client_timeout(const tdg_client_t *client) {
    return client->own.opts.timeout_ms;
}

/* ---- Life --------------------------------------------------------------- */

static void client_free(tdg_client_t *client) {
    tdg__events_destroy(client->events);
    tdg__client_opts_done(&client->own);
    pthread_cond_destroy(&client->ended);
    pthread_mutex_destroy(&client->lock);
    tdg__free(client);
}

bool tdg__client_enter(tdg_client_t *client) {
    bool open;

    pthread_mutex_lock(&client->lock);
    open = !client->closing;
    client->users += open;
    pthread_mutex_unlock(&client->lock);
    return open;
}

void tdg__client_leave(tdg_client_t *client) {
    bool last;

    pthread_mutex_lock(&client->lock);
    last = --client->users == 0;
    pthread_mutex_unlock(&client->lock);
    if (last)
        client_free(client);
}

/* ---- Commands ----------------------------------------------------------- */

/* Under the lock, so that the loop is not closed meanwhile. */
static void push(tdg_client_t *client, tdg__client_task_t *task) {
    task->next = NULL;
    *client->last = task;
    client->last = &task->next;
    client->tasks++;
    uv_async_send(&client->wake);
}

int tdg__client_post(tdg_client_t *client, tdg__client_task_t *task) {
    int rv = 0;

    pthread_mutex_lock(&client->lock);
    if (client->closing)
        rv = TDG_EENDED;
    else if (client->tasks >= MAX_TASKS)
        rv = TDG_EAGAIN;
    else
        push(client, task);
    pthread_mutex_unlock(&client->lock);
    return rv;
}

static void run_tasks(uv_async_t *wake) {
    tdg_client_t *client = wake->data;
    tdg__client_task_t *task, *next;

    pthread_mutex_lock(&client->lock);
    task = client->first;
    client->first = NULL;
    client->last = &client->first;
    client->tasks = 0;
    pthread_mutex_unlock(&client->lock);

    uv_update_time(&client->loop);
    for (; task != NULL; task = next) {
        next = task->next; /* it is gone once it has run */
        task->run(client->core, task);
    }
}

/* ---- What the core wants ------------------------------------------------ */

static int64_t core_now(void *user) {
    tdg_client_t *client = user;

    return (int64_t)uv_now(&client->loop);
}

static uint64_t core_random(void *user) {
    uint64_t number;

    (void)user;
    /* It spreads attempts over time and is no secret. */
    if (tdg__random(&number, sizeof(number)) < 0)
        number = uv_hrtime();
    return number;
}

static int make_transport(void *user, tdg__transport_kind_t kind,
                          const tdg__transport_calls_t *calls, void *transport_user,
                          tdg__transport_t **ret) {
    tdg_client_t *client = user;
    const tdg_client_opts_t *opts = &client->own.opts;
    const tdg__transport_opts_t made = {
        .url = opts->url,
        .web = {.headers = opts->headers,
                .token_file = opts->token_file,
                .ca_file = opts->ca_file,
                .proxy = opts->proxy,
                .insecure_token = (opts->flags & TDG_CLIENT_INSECURE_TOKEN) != 0,
                .connect_timeout_ms = opts->connect_timeout_ms},
        .argv = opts->argv,
        .env = opts->env,
        .cwd = opts->cwd,
        .max_message_bytes = opts->max_message_bytes,
    };

    return tdg__transport_create(kind, &client->loop, &made, calls, transport_user, ret);
}

void tdg__client_wake(tdg_client_t *client) {
    if (client->events != NULL)
        tdg__events_wake(client->events);
}

static bool is_set(tdg_client_t *client, const bool *flag) {
    bool set;

    pthread_mutex_lock(&client->lock);
    set = *flag;
    pthread_mutex_unlock(&client->lock);
    return set;
}

bool tdg__client_is_left(tdg_client_t *client) {
    return is_set(client, &client->left);
}

/* The task that stops may wait behind a callback that takes longer than the owner waits
 * for, and behind all that the core has to report after that. */
static bool is_closing(tdg_client_t *client) {
    return is_set(client, &client->closing);
}

static void core_log(void *user, tdg_log_level_t level, const char *line) {
    tdg_client_t *client = user;

    if (client->own.opts.log == NULL || tdg__client_is_left(client))
        return;

    bool before = client->amidst;

    tdg__client_wake(client);
    client->amidst = true;
    client->own.opts.log(client->own.opts.user, level, line);
    client->amidst = before;
}

static void core_program_line(void *user, const char *line) {
    tdg_client_t *client = user;

    if (client->own.opts.on_stderr == NULL || tdg__client_is_left(client))
        return;

    bool before = client->amidst;

    tdg__client_wake(client);
    client->amidst = true;
    client->own.opts.on_stderr(client->own.opts.user, line);
    client->amidst = before;
}

static void core_event(void *user, tdg_event_t *event) {
    tdg_client_t *client = user;
    bool last = event != NULL && event->kind == TDG_EVENT_CLOSED;

    if (is_closing(client)) {
        tdg_event_free(event);
        return;
    }

    if (client->events != NULL) {
        tdg__events_put(client->events, event);
        if (last)
            tdg__events_end(client->events);
    } else if (event != NULL) {
        client->own.opts.on_event(client->own.opts.user, client, event);
        tdg_event_free(event);
    } else {
        atomic_fetch_add_explicit(&client->lost, 1, memory_order_relaxed);
        core_log(client, TDG_LOG_WARNING, "out of memory: an event was lost");
    }
}

static void core_forget(void *user, const char *uri) {
    tdg_client_t *client = user;

    if (client->events != NULL)
        tdg__events_forget(client->events, uri);
}

static json_t *core_input(void *user, const char *method, const json_t *params) {
    tdg_client_t *client = user;
    json_t *result;

    if (is_closing(client))
        return NULL;
    tdg__client_wake(client);
    client->amidst = true;
    result = client->own.opts.on_input(client->own.opts.user, method, params);
    client->amidst = false;
    return result;
}

static void core_progress(void *user, const json_t *params) {
    tdg_client_t *client = user;

    if (is_closing(client))
        return;
    tdg__client_wake(client);
    client->amidst = true;
    client->own.opts.on_progress(client->own.opts.user, params);
    client->amidst = false;
}

/* ---- The thread --------------------------------------------------------- */

static void tick(uv_timer_t *timer) {
    tdg_client_t *client = timer->data;

    tdg__core_tick(client->core);
}

static void arm(uv_prepare_t *before_wait) {
    tdg_client_t *client = before_wait->data;
    int64_t deadline = tdg__core_deadline(client->core);
    int64_t now = core_now(client);

    tdg__client_wake(client);
    if (deadline == INT64_MAX)
        uv_timer_stop(&client->timer);
    else
        uv_timer_start(&client->timer, tick,
                       deadline > now ? (uint64_t)(deadline - now) : 0, 0);
}

static void stopped(void *user) {
    tdg_client_t *client = user;

    uv_stop(&client->loop);
}

static void run_stop(tdg__core_t *core, tdg__client_task_t *task) {
    tdg_client_t *client = (tdg_client_t *)((char *)task - offsetof(tdg_client_t, stop));

    tdg__core_stop(core, stopped, client);
}

/* Nobody posts any more: `closing` is set. Also for a loop that never ran. */
static void close_loop(tdg_client_t *client) {
    uv_close((uv_handle_t *)&client->wake, NULL);
    uv_close((uv_handle_t *)&client->before_wait, NULL);
    uv_close((uv_handle_t *)&client->timer, NULL);
    uv_run(&client->loop, UV_RUN_DEFAULT);
    uv_loop_close(&client->loop);
}

static void *client_thread(void *arg) {
    tdg_client_t *client = arg;

    here = client;
    uv_update_time(&client->loop);
    uv_run(&client->loop, UV_RUN_DEFAULT); /* until stopped() */
    tdg__core_destroy(client->core);
    close_loop(client);

    pthread_mutex_lock(&client->lock);
    client->over = true;
    pthread_cond_broadcast(&client->ended);
    pthread_mutex_unlock(&client->lock);
    tdg__client_leave(client);
    return NULL;
}

/* Signals are for the program's own threads; SIGPIPE, of a program or server that does
 * not read any more, is for nobody. Faults of this thread itself come through, to whoever
 * handles them, and SIGCHLD where there is a child: the handler is libuv's, and a program
 * may block it everywhere else. */
static int start_thread(tdg_client_t *client) {
    static const int faults[] = {SIGABRT, SIGBUS,  SIGFPE, SIGILL,
                                 SIGPROF, SIGSEGV, SIGSYS, SIGTRAP};
    sigset_t blocked, before;
    int rv;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&blocked, faults[i]);
    if (client->own.opts.argv != NULL)
        sigdelset(&blocked, SIGCHLD);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    rv = pthread_create(&client->thread, NULL, client_thread, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rv != 0) {
        errno = rv;
        return TDG_ESYSTEM;
    }
    pthread_setname_np(client->thread, "tidings-client");
    return 0;
}

/* ---- Beginning and end -------------------------------------------------- */

static void init_lock(tdg_client_t *client) {
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&client->ended, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&client->lock, NULL);
    client->last = &client->first;
    client->stop.run = run_stop;
}

static int open_loop(tdg_client_t *client) {
    if (uv_loop_init(&client->loop) < 0)
        return TDG_ESYSTEM;
    if (uv_async_init(&client->loop, &client->wake, run_tasks) < 0) {
        uv_loop_close(&client->loop);
        return TDG_ESYSTEM;
    }

    uv_prepare_init(&client->loop, &client->before_wait);
    uv_timer_init(&client->loop, &client->timer);
    client->wake.data = client->before_wait.data = client->timer.data = client;
    uv_prepare_start(&client->before_wait, arm);
    return 0;
}

static int make_core(tdg_client_t *client) {
    const tdg_client_opts_t *opts = &client->own.opts;
    tdg__core_opts_t core = {.upper = &tdg__core_subs,
                             .client = opts,
                             .now = core_now,
                             .random = core_random,
                             .make_transport = make_transport,
                             .event = core_event,
                             .forget = core_forget,
                             .log = core_log,
                             .program_line = core_program_line,
                             .input = opts->on_input != NULL ? core_input : NULL,
                             .progress = opts->on_progress != NULL ? core_progress : NULL,
                             .user = client};

    return tdg__core_create(&core, &client->core);
}

/* Stores a client whose thread runs, and which is not connected yet. */
int tdg__client_create(const tdg_client_opts_t *opts, tdg_client_t **ret,
                       tdg_failure_t *failure) {
    tdg_client_t *client = tdg__calloc(1, sizeof(*client));
    int rv;

    if (client == NULL)
        return tdg__client_fail(failure, TDG_ENOMEM, "out of memory");

    rv = tdg__client_opts_init(&client->own, opts, failure);
    if (rv < 0) {
        tdg__free(client);
        return rv;
    }
    init_lock(client);
    if (opts->on_event == NULL)
        rv = tdg__events_create(&client->events);
    if (rv == 0)
        rv = open_loop(client);
    if (rv < 0)
        goto fail;

    rv = make_core(client);
    if (rv < 0)
        goto fail_loop;

    client->users = 2; /* the thread, and the owner */
    rv = start_thread(client);
    if (rv < 0)
        goto fail_core;

    *ret = client;
    return 0;

fail_core:
    tdg__core_destroy(client->core);
fail_loop:
    close_loop(client);
fail:
    tdg__client_fail(failure, rv, "cannot create a client: %s",
                     rv == TDG_ESYSTEM ? strerror(errno) : tdg_strerror(rv));
    client_free(client);
    return rv;
}

int tdg_client_connect_sized(const tdg_client_opts_t *given, size_t size,
                             tdg_client_t **ret, tdg_failure_t *failure) {
    tdg_client_opts_t own;
    const tdg_client_opts_t *opts = given != NULL ? &own : NULL;
    tdg_client_t *client = NULL;
    int rv = tdg__client_opts_read(&own, sizeof(own), given, size, failure);

    if (rv < 0)
        return rv;

    if (opts == NULL || ret == NULL)
        return tdg__client_fail(failure, TDG_EINVAL, "no options, or nowhere to store");

    rv = tdg__client_create(opts, &client, failure);
    if (rv < 0)
        return rv;

    rv = tdg__client_connect(client, failure);
    if (rv < 0) {
        tdg_client_close(client);
        return rv;
    }
    *ret = client;
    return 0;
}

void tdg_client_stop(tdg_client_t *client) {
    if (client == NULL)
        return;

    pthread_mutex_lock(&client->lock);
    if (!client->closing) {
        client->closing = true;
        push(client, &client->stop);
    }
    pthread_mutex_unlock(&client->lock);
    if (client->events != NULL)
        tdg__events_end(client->events);
}

void tdg_client_close(tdg_client_t *client) {
    struct timespec until = tdg__deadline_in(CLOSE_MS);
    int rv = 0;
    bool over;

    if (client == NULL || tdg__client_is_here(client))
        return; /* a thread cannot wait for itself */

    tdg_client_stop(client);
    pthread_mutex_lock(&client->lock);
    while (!client->over && rv != ETIMEDOUT)
        rv = pthread_cond_timedwait(&client->ended, &client->lock, &until);
    over = client->over;
    client->left = true;
    pthread_mutex_unlock(&client->lock);

    if (over)
        pthread_join(client->thread, NULL);
    else
        pthread_detach(client->thread);
    tdg__client_leave(client);
}

/* ---- Events ------------------------------------------------------------- */

int tdg_client_next(tdg_client_t *client, int timeout_ms, tdg_event_t **ret) {
    int rv;

    if (client == NULL || ret == NULL || client->events == NULL ||
        tdg__client_is_here(client))
        return TDG_EINVAL;
    if (!tdg__client_enter(client))
        return TDG_EENDED;

    rv = tdg__events_next(client->events, timeout_ms, ret);
    tdg__client_leave(client);
    return rv;
}

int tdg_client_fd(tdg_client_t *client) {
    return client != NULL && client->events != NULL ? tdg__events_fd(client->events) : -1;
}

size_t tdg__client_waiting(tdg_client_t *client) {
    return client->events != NULL ? tdg__events_waiting(client->events) : 0;
}

uint64_t tdg__client_lost(tdg_client_t *client) {
    return client->events != NULL
               ? tdg__events_lost(client->events)
               : atomic_load_explicit(&client->lost, memory_order_relaxed);
}
