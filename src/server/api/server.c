/* SPDX-License-Identifier: MIT
 *
 * The public functions of a server: options, adding and removing, starting and
 * stopping. */
#include "server/api/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <uv.h>

#include <tidings/tidings.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "server/api/options.h"
#include "server/context/limits.h"
#include "server/feed/trace.h"
#include "server/http/http.h"
#include "server/http/route.h"
#include "server/log/log.h"
#include "server/loop/worker.h"
#include "server/mcp/census.h"
#include "server/stdio/stdio_front.h"

enum {
    MAX_LISTENERS = 16,
    DEFAULT_MAX_SUBSCRIPTIONS = 1000,
    DEFAULT_INSPECT_MS = 10000,
};

struct listening {
    tdg__listener_t listener;
    char *host;
    uint16_t port;
    int fd; /* of the first worker; -1: given away */
};

/* The part that the other rooms see comes first. */
struct server {
    tdg_server_t shared;
    tdg__log_t log;
    tdg__configured_t *configured;

    struct listening listening[MAX_LISTENERS];
    size_t listening_count;
    int pipe_in, pipe_out; /* -1: none */
    bool pipe_erlmcp;

    pthread_mutex_t life; /* held while workers are created, or get settings */
    atomic_bool attached;

    pthread_mutex_t lock; /* for what follows, and for waking workers */
    pthread_cond_t changed;
    unsigned open_workers;
    bool worker_open[TDG__MAX_WORKERS];
    int ended_fd; /* eventfd: wakes tdg_server_run() when all workers are closed; -1 */
};

static struct server *own(const tdg_server_t *server) {
    return (struct server *)(uintptr_t)server;
}

/* ---- The end of a worker ------------------------------------------------ */

/* Marks it as closed, so that it is not woken. *ret_last: the others are, too. Returns
 * whether it was open. */
static bool mark_closed(struct server *server, const tdg__worker_t *worker,
                        bool *ret_last) {
    bool was_open = false;

    *ret_last = true;
    pthread_mutex_lock(&server->lock);
    for (unsigned i = 0; i < server->shared.worker_count; i++) {
        if (server->shared.workers[i] == worker && server->worker_open[i]) {
            server->worker_open[i] = false;
            was_open = true;
        }
        if (server->worker_open[i])
            *ret_last = false;
    }
    pthread_mutex_unlock(&server->lock);
    return was_open;
}

static void worker_closed(tdg__worker_t *worker) {
    struct server *server = own(worker->server);
    uint64_t one = 1;
    bool last, was_open = mark_closed(server, worker, &last);

    /* Logged before those that wait for the end are woken: they may destroy the server.
     */
    if (was_open && last) {
        tdg__log_settle(&server->log, INT64_MAX);
        tdg__server_log(&server->shared, TDG_LOG_INFO, "stopped");
    }

    pthread_mutex_lock(&server->lock);
    if (was_open)
        server->open_workers--;
    if (server->open_workers == 0 && server->ended_fd >= 0 &&
        write(server->ended_fd, &one, sizeof(one)) < 0)
        abort(); /* an eventfd takes eight bytes, always */
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* ---- Creating ----------------------------------------------------------- */

/* The result of the program's watcher must not be taken for a code of the server, such as
 * that a client's wishes are wrong, or that the time is over. Only "not supported" and
 * "not found" are passed on. */
static int answer_of_watcher(int code) {
    if (code == TDG_WATCH_PENDING)
        return TDG_EAGAIN;
    return code >= 0 || code == TDG_ENOTSUP || code == TDG_ENOTFOUND ? code
                                                                     : TDG_EREFUSED;
}

/* Names of the hub's targets end in NUL. */
static tdg_target_t target_of_hub(const tdg__target_t *target) {
    return (tdg_target_t){(tdg_target_kind_t)target->kind, target->name};
}

static int watch_start(void *user, const tdg__target_t *target) {
    tdg_server_t *server = user;
    const tdg_watcher_t *watcher = server->opts.watcher;
    const tdg_target_t watched = target_of_hub(target);

    tdg__trace_watch(server, target, "starts", NULL);
    int rv = answer_of_watcher(watcher->start(watcher->user, server, &watched));
    tdg__trace_watch_answered(server, target, rv);
    return rv;
}

static void watch_stop(void *user, const tdg__target_t *target) {
    tdg_server_t *server = user;
    const tdg_watcher_t *watcher = server->opts.watcher;
    const tdg_target_t watched = target_of_hub(target);

    if (watcher->stop != NULL)
        watcher->stop(watcher->user, server, &watched);
    tdg__trace_watch(server, target, "stopped", NULL);
}

static void on_taken_back(void *user) {
    tdg_server_t *server = user;

    for (unsigned i = 0; i < server->worker_count; i++)
        tdg__worker_recheck(server->workers[i]);
}

static int create_budgets(tdg_server_t *server) {
    size_t workers = server->opts.workers;

    server->answers = tdg__budget_create(workers * TDG__ANSWERS_MAX);
    server->small_answers = tdg__budget_create(workers * TDG__SMALL_ANSWERS_MAX);
    server->parallel_reads = tdg__budget_create(workers * TDG__PARALLEL_READS);
    server->forwards = tdg__budget_create(TDG__FORWARDS_MAX);
    server->strange_forwards = tdg__budget_create(TDG__STRANGE_FORWARDS_MAX);
    return server->answers != NULL && server->small_answers != NULL &&
                   server->parallel_reads != NULL && server->forwards != NULL &&
                   server->strange_forwards != NULL
               ? 0
               : TDG_ENOMEM;
}

static int init_parts(tdg_server_t *server) {
    tdg__hub_opts_t hub = {
        .start = server->opts.watcher->start != NULL ? watch_start : NULL,
        .stop = watch_stop,
        .user = server,
    };

    int rv = tdg__catalogue_create(on_taken_back, server, &server->catalogue);
    if (rv == 0)
        rv = tdg__hub_create(&hub, &server->hub);
    if (rv == 0)
        rv = tdg__configured_create(server->opts.settings, &own(server)->configured);
    if (rv == 0)
        rv = tdg__routes_create(&server->routes);
    if (rv == 0)
        rv = tdg__census_create(server->opts.max_sessions,
                                server->opts.max_sessions_per_address, &server->census);
    if (rv < 0)
        return rv;
    return create_budgets(server);
}

static void init_locks(tdg_server_t *server) {
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* that of uv_hrtime() */
    pthread_cond_init(&own(server)->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&own(server)->life, NULL);
    pthread_mutex_init(&own(server)->lock, NULL);
}

int tdg_server_create_sized(const tdg_server_opts_t *opts, size_t opts_size,
                            size_t settings_size, size_t watcher_size,
                            tdg_server_t **ret) {
    const tdg__given_opts_t given = {opts, opts_size, settings_size, watcher_size};

    if (ret == NULL)
        return TDG_EINVAL;

    struct server *whole = tdg__calloc(1, sizeof(*whole));
    if (whole == NULL)
        return TDG_ENOMEM;
    tdg_server_t *server = &whole->shared;
    whole->pipe_in = whole->pipe_out = whole->ended_fd = -1;
    init_locks(server);

    int rv = tdg__options_copy(&given, &server->opts);
    if (server->opts.log == NULL)
        server->opts.debug = 0;
    server->log = &whole->log;
    tdg__log_init(server->log, server->opts.log, server->opts.log_user);
    if (rv == 0)
        rv = init_parts(server);
    if (rv < 0) {
        tdg_server_destroy(server);
        return rv;
    }
    *ret = server;
    return 0;
}

static void free_listening(struct listening *listening) {
    if (listening->fd >= 0)
        close(listening->fd);
    tdg__free_strings(listening->listener.hosts);
    tdg__free_strings(listening->listener.origins);
    tdg__networks_destroy(listening->listener.proxies.networks);
    tdg__free(listening->host);
}

void tdg_server_destroy(tdg_server_t *server) {
    if (server == NULL)
        return;
    tdg_server_stop(server);
    /* An attached server closes when its loop runs; nobody else may be running it now. */
    for (unsigned i = 0; i < server->worker_count; i++)
        tdg__worker_destroy(server->workers[i]);
    for (size_t i = 0; i < own(server)->listening_count; i++)
        free_listening(&own(server)->listening[i]);
    tdg__routes_destroy(server->routes);
    tdg__census_destroy(server->census);
    tdg__budget_unref(server->answers);
    tdg__budget_unref(server->small_answers);
    tdg__budget_unref(server->parallel_reads);
    tdg__budget_unref(server->forwards);
    tdg__budget_unref(server->strange_forwards);
    tdg__hub_destroy(server->hub);
    tdg__catalogue_destroy(server->catalogue);
    tdg__configured_destroy(own(server)->configured);
    tdg__options_free(&server->opts);
    if (server->log != NULL)
        tdg__log_done(server->log);
    pthread_cond_destroy(&own(server)->changed);
    pthread_mutex_destroy(&own(server)->lock);
    pthread_mutex_destroy(&own(server)->life);
    tdg__free(own(server));
}

/* ---- Listening ---------------------------------------------------------- */

/* With several workers each has a socket of its own on the same address, which any other
 * program of this user could join. So it is made sure first that nobody is there. */
static int bind_first(const char *host, uint16_t port, bool shared, int *ret_fd,
                      uint16_t *ret_port) {
    int rv = tdg__net_bind(host, port, false, ret_fd, ret_port);
    if (rv < 0 || !shared)
        return rv;

    close(*ret_fd);
    return tdg__net_bind(host, *ret_port, true, ret_fd, ret_port);
}

/* Which callers are allowed depends on the address of the socket, not on how it was
 * written. */
static void look_at_address(struct listening *listening) {
    tdg__listener_t *listener = &listening->listener;

    listener->loopback = tdg__net_bound_to_loopback(listening->fd);
    if (gethostname(listener->machine, sizeof(listener->machine) - 1) < 0)
        listener->machine[0] = '\0';
}

/* Why the system refused, which tdg__net_bind() leaves in errno, as a code. */
static int code_of_system(int rv) {
    return rv == TDG_ESYSTEM && errno > 0 ? -1000 - errno : rv;
}

static int start_listening(tdg_server_t *server, const tdg_listen_opts_t *opts) {
    const char *host = opts->host != NULL ? opts->host : "127.0.0.1";
    struct listening *listening = &own(server)->listening[own(server)->listening_count];

    *listening = (struct listening){.fd = -1};
    listening->listener.erlmcp = opts->erlmcp;
    listening->listener.proxies.forwarded = opts->forwarded;
    int rv =
        tdg__copy(host, &listening->host) &&
                tdg__copy_strings(opts->allowed_hosts, &listening->listener.hosts) &&
                tdg__copy_strings(opts->allowed_origins, &listening->listener.origins)
            ? 0
            : TDG_ENOMEM;
    if (rv == 0)
        rv = tdg__networks_create(opts->trusted_proxies,
                                  &listening->listener.proxies.networks);
    if (rv == 0)
        rv = code_of_system(bind_first(host, opts->port, server->opts.workers > 1,
                                       &listening->fd, &listening->port));
    if (rv < 0) {
        free_listening(listening);
        return rv;
    }
    look_at_address(listening);
    own(server)->listening_count++;
    return 0;
}

int tdg_server_listen_sized(tdg_server_t *server, const tdg_listen_opts_t *given,
                            size_t size) {
    tdg_listen_opts_t opts;

    if (server == NULL || given == NULL || server->worker_count > 0 ||
        own(server)->listening_count == MAX_LISTENERS)
        return TDG_EINVAL;

    int rv = tdg__sized_read(&opts, sizeof(opts), given, size);
    return rv < 0 ? rv : start_listening(server, &opts);
}

uint16_t tdg_server_port(const tdg_server_t *server, size_t index) {
    return server != NULL && index < own(server)->listening_count
               ? own(server)->listening[index].port
               : 0;
}

int tdg_server_pipe(tdg_server_t *server, int input, int output, bool erlmcp) {
    if (server == NULL || fcntl(input, F_GETFD) < 0 || fcntl(output, F_GETFD) < 0 ||
        own(server)->pipe_in >= 0 || server->worker_count > 0)
        return TDG_EINVAL;
    own(server)->pipe_in = input;
    own(server)->pipe_out = output;
    own(server)->pipe_erlmcp = erlmcp;
    return 0;
}

/* ---- Starting ----------------------------------------------------------- */

/* The first worker takes the sockets that are bound already; they are gone where a start
 * has failed before. */
static int listen_worker(tdg_server_t *server, unsigned index) {
    for (size_t i = 0; i < own(server)->listening_count; i++) {
        struct listening *listening = &own(server)->listening[i];
        uint16_t port;
        int fd = listening->fd;

        if (fd < 0) {
            int rv = tdg__net_bind(listening->host, listening->port,
                                   server->opts.workers > 1, &fd, &port);
            if (rv < 0)
                return rv;
        }
        listening->fd = -1;
        int rv = tdg__net_listen(server->workers[index]->net, fd, &listening->listener);
        if (rv < 0)
            return rv;
    }
    return 0;
}

static int create_workers(tdg_server_t *server, uv_loop_t *loop) {
    unsigned count = loop != NULL ? 1 : server->opts.workers;

    for (unsigned i = 0; i < count; i++) {
        const tdg__worker_opts_t opts = {
            .server = server,
            .index = i,
            .loop = loop,
            .configured = own(server)->configured,
            .closed = worker_closed,
        };

        int rv = tdg__worker_create(&opts, &server->workers[i]);
        if (rv == 0)
            rv = tdg__http_open(server->workers[i]);
        if (rv < 0)
            return rv;
    }
    for (unsigned i = 0; i < count; i++) {
        int rv = listen_worker(server, i);
        if (rv < 0)
            return rv;
    }
    if (own(server)->pipe_in < 0)
        return 0;
    return tdg__stdio_open(server->workers[0], own(server)->pipe_in,
                           own(server)->pipe_out, own(server)->pipe_erlmcp,
                           tdg_server_stop_soon);
}

/* Back to the time before the start, but for the sockets: they are closed. */
static void destroy_workers(tdg_server_t *server) {
    for (unsigned i = 0; i < TDG__MAX_WORKERS && server->workers[i] != NULL; i++) {
        tdg__worker_destroy(server->workers[i]);
        server->workers[i] = NULL;
    }
}

/* From here on others see the workers. */
static void open_workers(tdg_server_t *server) {
    pthread_mutex_lock(&own(server)->lock);
    for (unsigned i = 0; i < server->opts.workers; i++)
        own(server)->worker_open[i] = true;
    own(server)->open_workers = server->opts.workers;
    atomic_store(&server->worker_count, server->opts.workers);
    pthread_mutex_unlock(&own(server)->lock);
}

static int prepare(tdg_server_t *server, uv_loop_t *loop) {
    if (server->worker_count > 0 || tdg__server_stopping(server) ||
        (own(server)->listening_count == 0 && own(server)->pipe_in < 0))
        return TDG_EINVAL;

    own(server)->attached = loop != NULL;
    if (loop != NULL)
        server->opts.workers = 1;
    int rv = create_workers(server, loop);
    if (rv < 0)
        destroy_workers(server);
    else
        open_workers(server);
    return rv;
}

static void log_start(tdg_server_t *server) {
    for (size_t i = 0; i < own(server)->listening_count; i++) {
        const struct listening *listening = &own(server)->listening[i];
        bool v6 = strchr(listening->host, ':') != NULL;

        tdg__server_log(server, TDG_LOG_INFO, "listening on http://%s%s%s:%u/mcp%s",
                        v6 ? "[" : "", listening->host, v6 ? "]" : "", listening->port,
                        listening->listener.erlmcp ? " (erlmcp)" : "");
    }
    if (own(server)->pipe_in >= 0)
        tdg__server_log(server, TDG_LOG_INFO, "serving one client on descriptors %d, %d",
                        own(server)->pipe_in, own(server)->pipe_out);
    tdg__server_log(server, TDG_LOG_INFO, "started: %s %s, %u workers", server->opts.name,
                    server->opts.version, server->opts.workers);
}

static int start(tdg_server_t *server, uv_loop_t *loop) {
    if (server == NULL)
        return TDG_EINVAL;

    pthread_mutex_lock(&own(server)->life);
    int rv = prepare(server, loop);
    pthread_mutex_unlock(&own(server)->life);
    if (rv < 0)
        return rv;

    log_start(server);
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (rv == 0)
            rv = tdg__worker_start(server->workers[i]);
        if (rv < 0) { /* those that run already stop, the others never began */
            tdg_server_stop_soon(server);
            tdg__worker_close(server->workers[i]);
        }
    }
    if (tdg__server_stopping(server)) /* who said so may have come too early */
        tdg_server_stop_soon(server);
    if (rv < 0) {
        tdg__server_log(server, TDG_LOG_ERROR, "cannot start a thread");
        tdg_server_wait(server);
    }
    return rv;
}

int tdg_server_start(tdg_server_t *server) {
    return start(server, NULL);
}

int tdg_server_attach(tdg_server_t *server, uv_loop_t *loop) {
    return loop != NULL ? start(server, loop) : TDG_EINVAL;
}

/* ---- Stopping ----------------------------------------------------------- */

void tdg_server_stop_soon(tdg_server_t *server) {
    if (server == NULL)
        return;
    if (!atomic_exchange(&server->stopping, true) && server->worker_count > 0)
        tdg__server_log(server, TDG_LOG_INFO, "stopping");
    pthread_mutex_lock(&own(server)->lock);
    for (unsigned i = 0; i < server->worker_count; i++) {
        if (own(server)->worker_open[i])
            tdg__worker_wake(server->workers[i]);
    }
    pthread_cond_broadcast(&own(server)->changed); /* for who waits for a worker */
    pthread_mutex_unlock(&own(server)->lock);
}

int tdg__server_await(tdg_server_t *server, const bool *done, uint64_t until_ns) {
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};
    int waited = 0, rv = 0;

    pthread_mutex_lock(&own(server)->lock);
    while (!*done && !tdg__server_stopping(server) && waited != ETIMEDOUT)
        waited =
            pthread_cond_timedwait(&own(server)->changed, &own(server)->lock, &until);
    if (!*done)
        rv = tdg__server_stopping(server) ? TDG_EENDED : TDG_ETIMEDOUT;
    pthread_mutex_unlock(&own(server)->lock);
    return rv;
}

void tdg__server_finish(tdg_server_t *server, bool *done) {
    pthread_mutex_lock(&own(server)->lock);
    *done = true;
    pthread_cond_broadcast(&own(server)->changed);
    pthread_mutex_unlock(&own(server)->lock);
}

void tdg_server_wait(tdg_server_t *server) {
    if (server == NULL || own(server)->attached)
        return;
    pthread_mutex_lock(&own(server)->lock);
    while (own(server)->open_workers > 0)
        pthread_cond_wait(&own(server)->changed, &own(server)->lock);
    /* Under the lock, since several may wait; the threads no longer need it. */
    for (unsigned i = 0; i < server->worker_count; i++)
        tdg__worker_join(server->workers[i]);
    pthread_mutex_unlock(&own(server)->lock);
}

void tdg_server_stop(tdg_server_t *server) {
    if (server == NULL || server->worker_count == 0)
        return;
    tdg_server_stop_soon(server);
    tdg_server_wait(server);
}

/* ---- A program that is nothing but a server ----------------------------- */

/* Threads that the program has started before may take the signal, so blocking it here
 * and waiting would not do: it is handled, wherever it arrives. SIGHUP is kept for
 * reloading, and does nothing yet, unless it comes from the kernel: then the terminal is
 * gone. */
static _Atomic int signal_fd = -1;

static void on_signal(int number, siginfo_t *info, void *context) {
    int error = errno;
    uint64_t one = 1;

    (void)context;
    if (number != SIGHUP || info->si_code == SI_KERNEL)
        (void)!write(signal_fd, &one, sizeof(one));
    errno = error;
}

static const int handled[] = {SIGINT, SIGTERM, SIGHUP};
enum { HANDLED = sizeof(handled) / sizeof(handled[0]) };

static void handle_signals(struct sigaction *before) {
    struct sigaction action = {.sa_sigaction = on_signal};

    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < HANDLED; i++) {
        /* A second Ctrl-C does not wait for the first. */
        action.sa_flags = SA_RESTART | SA_SIGINFO;
        if (handled[i] != SIGHUP)
            action.sa_flags |= (int)SA_RESETHAND;
        sigaction(handled[i], &action, &before[i]);
    }
}

static void restore_signals(const struct sigaction *before) {
    for (size_t i = 0; i < HANDLED; i++)
        sigaction(handled[i], &before[i], NULL);
}

/* A signal and the end of the pipe write to the same descriptor. By poll(), which a
 * signal always interrupts: ThreadSanitizer calls handlers only when the call has
 * returned. */
static void wait_for_end(const tdg_server_t *server) {
    struct pollfd ended = {.fd = own(server)->ended_fd, .events = POLLIN};

    while (poll(&ended, 1, -1) < 0 && errno == EINTR)
        ;
}

int tdg_server_run(tdg_server_t *server) {
    struct sigaction before[HANDLED];

    if (server == NULL)
        return TDG_EINVAL;
    own(server)->ended_fd = eventfd(0, EFD_CLOEXEC);
    if (own(server)->ended_fd < 0)
        return TDG_ESYSTEM;

    signal_fd = own(server)->ended_fd;
    handle_signals(before);
    int rv = tdg_server_start(server);
    if (rv == 0) {
        wait_for_end(server);
        tdg_server_stop(server);
    }
    restore_signals(before);
    signal_fd = -1;
    close(own(server)->ended_fd);
    own(server)->ended_fd = -1;
    return rv;
}

/* ---- The catalogue ------------------------------------------------------ */

/* The lists that a kind belongs to. */
static const char *const lists[TDG__KIND_COUNT] = {
    [TDG__RESOURCE] = "resources",
    [TDG__TEMPLATE] = "resources",
    [TDG__TOOL] = "tools",
    [TDG__PROMPT] = "prompts",
};

/* A list change always fits in. Without memory it is lost; the next one means the same.
 */
static void list_changed(tdg_server_t *server, tdg__kind_t kind) {
    tdg__target_t list = tdg__target_list(lists[kind]);

    if ((server->opts.flags & TDG_NO_LIST_CHANGED) == 0 &&
        tdg__hub_publish(server->hub, &list, NULL, false) < 0)
        tdg__server_log_event(server, TDG__EVENT_LIST_CHANGE_LOST, lists[kind]);
}

static bool says_something(const tdg_settings_t *settings) {
    return settings->timing != TDG_TIMING_INHERIT ||
           settings->rate_limit_ms != TDG_RATE_INHERIT ||
           settings->min_window_ms != TDG_FLOOR_INHERIT ||
           settings->min_rate_limit_ms != TDG_FLOOR_INHERIT;
}

static bool has_entry(const tdg_server_t *server, tdg__kind_t kind, const char *key) {
    tdg__entry_t *entry = tdg__catalogue_find(server->catalogue, kind, key);

    tdg__entry_unref(entry);
    return entry != NULL;
}

static tdg_target_t target_of_entry(tdg__kind_t kind, const char *key) {
    return (tdg_target_t){
        kind == TDG__TEMPLATE ? TDG_TARGET_TEMPLATE : TDG_TARGET_URI,
        key,
    };
}

static int configure_new(tdg_server_t *server, tdg__kind_t kind, const char *key,
                         const tdg_settings_t *settings, tdg_settings_t *ret_before) {
    const tdg_target_t target = target_of_entry(kind, key);

    *ret_before = tdg__configured_get(own(server)->configured, &target);
    if (!says_something(settings) &&
        !(has_entry(server, kind, key) && says_something(ret_before)))
        return 0;
    return tdg_server_configure(server, &target, settings);
}

/* For settings that are taken back: the caller could do nothing about a failure. */
static void reconfigure(tdg_server_t *server, tdg__kind_t kind, const char *key,
                        const tdg_settings_t *settings) {
    const tdg_target_t target = target_of_entry(kind, key);

    if (tdg_server_configure(server, &target, settings) < 0)
        tdg__server_log_event(server, TDG__EVENT_SETTING_LOST, key);
}

static bool has_settings(tdg__kind_t kind) {
    return kind == TDG__RESOURCE || kind == TDG__TEMPLATE;
}

/* Adds a new entry with this key, and its settings as they were given (NULL: none). These
 * come first: once it is added, nothing may fail, since its `user` is ours then. */
static int add(tdg_server_t *server, tdg__entry_t *entry, const char *key,
               const tdg_settings_t *given, size_t size) {
    tdg__kind_t kind = entry->kind; /* it may be gone as soon as it was added */
    tdg_settings_t settings, before = {0};

    int rv = tdg__sized_read(&settings, sizeof(settings), given, size);
    if (rv == 0 && has_settings(kind))
        rv = configure_new(server, kind, key, &settings, &before);
    if (rv < 0) {
        tdg__entry_discard(entry);
        return rv;
    }

    rv = tdg__catalogue_add(server->catalogue, entry);
    if (rv == 0)
        list_changed(server, kind);
    else if (says_something(&settings) || says_something(&before))
        reconfigure(server, kind, key, &before);
    return rv;
}

static int removed(tdg_server_t *server, tdg__kind_t kind, const char *key, int rv) {
    static const tdg_settings_t none;

    if (rv < 0)
        return rv;
    if (has_settings(kind))
        reconfigure(server, kind, key, &none);
    list_changed(server, kind);
    return 0;
}

int tdg_server_add_resource_sized(tdg_server_t *server, const tdg_resource_t *given,
                                  size_t size, size_t settings_size) {
    tdg_resource_t resource;
    tdg__entry_t *entry;

    if (server == NULL || given == NULL)
        return TDG_EINVAL;

    int rv = tdg__sized_read(&resource, sizeof(resource), given, size);
    if (rv == 0)
        rv = tdg__entry_from_resource(&resource, &entry);
    return rv < 0 ? rv
                  : add(server, entry, resource.uri, resource.settings, settings_size);
}

int tdg_server_add_template_sized(tdg_server_t *server, const tdg_template_t *given,
                                  size_t size, size_t settings_size) {
    tdg_template_t template_;
    tdg__entry_t *entry;

    if (server == NULL || given == NULL)
        return TDG_EINVAL;

    int rv = tdg__sized_read(&template_, sizeof(template_), given, size);
    if (rv == 0)
        rv = tdg__entry_from_template(&template_, &entry);
    return rv < 0 ? rv
                  : add(server, entry, template_.uri_template, template_.settings,
                        settings_size);
}

int tdg_server_add_tool_sized(tdg_server_t *server, const tdg_tool_t *given,
                              size_t size) {
    tdg_tool_t tool;
    tdg__entry_t *entry;

    if (server == NULL || given == NULL)
        return TDG_EINVAL;

    int rv = tdg__sized_read(&tool, sizeof(tool), given, size);
    if (rv == 0)
        rv = tdg__entry_from_tool(&tool, &entry);
    return rv < 0 ? rv : add(server, entry, tool.name, NULL, 0);
}

int tdg_server_add_prompt_sized(tdg_server_t *server, const tdg_prompt_t *given,
                                size_t size) {
    tdg_prompt_t prompt;
    tdg__entry_t *entry;

    if (server == NULL || given == NULL)
        return TDG_EINVAL;

    int rv = tdg__sized_read(&prompt, sizeof(prompt), given, size);
    if (rv == 0)
        rv = tdg__entry_from_prompt(&prompt, &entry);
    return rv < 0 ? rv : add(server, entry, prompt.name, NULL, 0);
}

struct removal {
    tdg__catalogue_t *catalogue;
    const char *uri;
    tdg__entry_t *entry; /* that was removed */
    bool taken_back;
};

static int commit_removal(void *arg) {
    struct removal *removal = arg;

    return tdg__catalogue_take(removal->catalogue, TDG__RESOURCE, removal->uri,
                               &removal->entry, &removal->taken_back);
}

/* Removing and notifying are one: a notified client no longer finds the resource, without
 * a notification the resource stays, and of two removers one notifies. */
int tdg_server_remove_resource(tdg_server_t *server, const char *uri) {
    if (server == NULL || uri == NULL)
        return TDG_EINVAL;
    if (!has_entry(server, TDG__RESOURCE, uri)) /* whatever else there is to say */
        return TDG_ENOTFOUND;

    struct removal removal = {.catalogue = server->catalogue, .uri = uri};
    tdg__target_t target = tdg__target_uri(uri);
    int rv =
        tdg__hub_publish_with(server->hub, &target, NULL, true, commit_removal, &removal);
    if (removal.taken_back)
        tdg__catalogue_announce_removal(server->catalogue);
    tdg__entry_unref(removal.entry);
    return removed(server, TDG__RESOURCE, uri, rv);
}

static int remove_other(tdg_server_t *server, tdg__kind_t kind, const char *key) {
    if (server == NULL)
        return TDG_EINVAL;
    return removed(server, kind, key,
                   tdg__catalogue_remove(server->catalogue, kind, key));
}

int tdg__server_unlist(tdg_server_t *server, const char *uri) {
    return remove_other(server, TDG__RESOURCE, uri);
}

int tdg_server_remove_template(tdg_server_t *server, const char *uri_template) {
    return remove_other(server, TDG__TEMPLATE, uri_template);
}

int tdg_server_remove_tool(tdg_server_t *server, const char *name) {
    return remove_other(server, TDG__TOOL, name);
}

int tdg_server_remove_prompt(tdg_server_t *server, const char *name) {
    return remove_other(server, TDG__PROMPT, name);
}

/* ---- Notifying ---------------------------------------------------------- */

static int notify(tdg_server_t *server, const char *uri, json_t *metadata, bool deleted) {
    int rv = TDG_EINVAL;

    if (server != NULL && tdg__server_stopping(server)) {
        rv = TDG_EENDED;
    } else if (server != NULL && uri != NULL) {
        tdg__target_t target = tdg__target_uri(uri);

        rv = tdg__hub_publish(server->hub, &target, metadata, deleted);
    }
    json_decref(metadata);
    return rv;
}

int tdg_server_notify_updated(tdg_server_t *server, const char *uri, json_t *metadata) {
    return notify(server, uri, metadata, false);
}

int tdg_server_notify_deleted(tdg_server_t *server, const char *uri, json_t *metadata) {
    return notify(server, uri, metadata, true);
}

int tdg_server_watch_done(tdg_server_t *server, const tdg_target_t *target, int result) {
    if (server == NULL)
        return TDG_EINVAL;

    tdg__target_t watched = tdg__target_to_engine(target);
    int answer = answer_of_watcher(result);
    int rv = tdg__hub_watch_done(server->hub, &watched, answer);
    if (rv == 0)
        tdg__trace_watch_answered(server, &watched, answer);
    return rv;
}

int tdg_server_configure_sized(tdg_server_t *server, const tdg_target_t *target,
                               const tdg_settings_t *given, size_t size) {
    tdg_settings_t settings;

    if (server == NULL || given == NULL)
        return TDG_EINVAL;

    int rv = tdg__sized_read(&settings, sizeof(settings), given, size);
    if (rv < 0)
        return rv;

    pthread_mutex_lock(&own(server)->life);
    rv = tdg__configured_set(own(server)->configured, target, &settings);
    for (unsigned i = 0; rv == 0 && i < server->worker_count; i++)
        rv = tdg__configured_send(server->workers[i], target, &settings);
    pthread_mutex_unlock(&own(server)->life);
    return rv;
}

/* ---- Looking inside ----------------------------------------------------- */

void tdg_server_counters_sized(const tdg_server_t *server, tdg_server_counters_t *ret,
                               size_t size) {
    tdg_server_counters_t sum = {0};

    if (ret == NULL)
        return;
    if (server != NULL)
        tdg__workers_count(server, &sum);
    (void)tdg__sized_write(ret, size, &sum, sizeof(sum));
}

int tdg_server_subscriptions_sized(tdg_server_t *server,
                                   const tdg_subscription_query_t *query,
                                   size_t query_size, json_t **ret) {
    tdg_subscription_query_t full;

    if (server == NULL || ret == NULL)
        return TDG_EINVAL;

    int rv = tdg__sized_read(&full, sizeof(full), query, query_size);
    if (rv < 0)
        return rv;
    if (server->worker_count == 0)
        return TDG_EENDED;
    if (full.max == 0)
        full.max = DEFAULT_MAX_SUBSCRIPTIONS;
    if (full.timeout_ms == 0)
        full.timeout_ms = DEFAULT_INSPECT_MS;

    uint64_t until_ns = uv_hrtime() + full.timeout_ms * UINT64_C(1000000);
    json_t *all = json_array();

    rv = all != NULL ? 0 : TDG_ENOMEM;
    for (unsigned i = 0; rv == 0 && i < server->worker_count; i++)
        rv = tdg__inspect_worker(server->workers[i], &full, until_ns, all);
    if (rv < 0)
        json_decref(all);
    else
        *ret = all;
    return rv;
}
