/* SPDX-License-Identifier: MIT
 *
 * The life cycle: make ─▶ list ─▶ serve ─▶ (reload)* ─▶ stop the server ─▶ close the
 * sources. The sources outlive the server's last response, since they provide the
 * content. */
#include "serve/serve.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/store.h"
#include "source/push/webhook.h"

enum { CONFIG_POLL_MS = 1000 };

struct tdg__serve {
    tdg__serve_opts_t opts;
    tdg__config_t *config;
    tdg__live_entry_t *entries; /* until they are served */
    size_t count;

    uv_loop_t loop;
    tdg__live_t *live;
    tdg_server_t *server;
    uv_signal_t signals[3];  /* SIGINT, SIGTERM, SIGHUP */
    uv_timer_t config_timer; /* looks whether the config file is another one */
    uv_fs_t config_look;
    bool looking;
    uv_stat_t config_seen; /* what it was like before it was last read */
    bool has_terminal;
    bool started, stopping;
    bool reload_waits;        /* it was asked for during the start */
    bool replacing, replaced; /* a reload is under way; its sources are ready already */
    int result;

    pthread_t waiter; /* waits for the server's end */
    bool has_waiter;
    tdg__task_t stopped;
};

tdg_server_t *tdg__serve_server(tdg__serve_t *serve) {
    return serve->server;
}

const tdg__config_t *tdg__serve_config(tdg__serve_t *serve) {
    return serve->config;
}

tdg__live_t *tdg__serve_live(tdg__serve_t *serve) {
    return serve->live;
}

static void log_line(tdg__serve_t *serve, tdg_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void log_line(tdg__serve_t *serve, tdg_log_level_t level, const char *format,
                     ...) {
    char message[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    serve->opts.log(serve->opts.user, level, message);
}

/* ---- The end ------------------------------------------------------------ */

static void close_handles(tdg__serve_t *serve) {
    for (size_t i = 0; i < sizeof(serve->signals) / sizeof(serve->signals[0]); i++)
        uv_close((uv_handle_t *)&serve->signals[i], NULL);
    uv_close((uv_handle_t *)&serve->config_timer, NULL);
}

static void on_live_closed(void *user) {
    close_handles(user);
}

static void run_stopped(tdg__task_t *task, bool here) {
    (void)here;
    tdg__live_close(TDG__RECORD(tdg__serve_t, stopped, task)->live);
}

static void *wait_for_server(void *arg) {
    tdg__serve_t *serve = arg;

    tdg_server_wait(serve->server);
    serve->stopped.run = run_stopped;
    tdg__live_post(serve->live, &serve->stopped);
    return NULL;
}

static void stop(tdg__serve_t *serve) {
    if (serve->stopping)
        return;
    serve->stopping = true;
    if (serve->started)
        tdg_server_stop_soon(serve->server); /* the waiter goes on from there */
    else
        tdg__live_close(serve->live);
}

static void fail(tdg__serve_t *serve, int code) {
    serve->result = code;
    stop(serve);
}

/* ---- Reloading ---------------------------------------------------------- */

/* Before it is read: so whatever is written from then on makes a difference. */
static void see_config(tdg__serve_t *serve) {
    uv_fs_t look;

    if (serve->opts.config_file == NULL)
        return;
    if (uv_fs_stat(NULL, &look, serve->opts.config_file, NULL) == 0)
        serve->config_seen = look.statbuf;
    uv_fs_req_cleanup(&look);
}

static void reload(tdg__serve_t *serve) {
    tdg__problems_t problems;
    tdg__live_entry_t *entries;
    tdg__config_t *config;
    size_t count;

    serve->reload_waits = !serve->started;
    if (serve->stopping || !serve->started)
        return;
    if (serve->opts.config_file == NULL || strcmp(serve->opts.config_file, "-") == 0) {
        log_line(serve, TDG_LOG_NOTICE, "SIGHUP: no config file to reload");
        return;
    }
    see_config(serve);
    tdg__problems_init(&problems, serve->opts.config_file);
    int rv = tdg__serve_load(serve->opts.config_file, serve->opts.paths, &problems,
                             &config, &entries, &count);
    if (rv < 0) {
        serve->opts.problems(serve->opts.user, &problems);
        log_line(serve, TDG_LOG_ERROR,
                 "cannot reload %s (%s); the previous config stays in force",
                 serve->opts.config_file,
                 rv == TDG_EINVAL ? "see its mistakes above" : tdg_strerror(rv));
        tdg__problems_done(&problems);
        return;
    }
    tdg__problems_done(&problems);
    if (!tdg__node_equal(tdg__node_get(serve->config->tree, "server"),
                         tdg__node_get(config->tree, "server")))
        log_line(serve, TDG_LOG_WARNING,
                 "%s: changes under `server` take effect after a restart",
                 serve->opts.config_file);
    serve->replacing = true;
    serve->replaced = false;
    rv = tdg__live_replace(serve->live, entries, count);
    serve->replacing = false;
    tdg__free(entries);
    if (rv < 0) {
        log_line(serve, TDG_LOG_ERROR, "the new config was not applied: %s",
                 tdg_strerror(rv));
        tdg__config_destroy(config);
        return;
    }
    rv = tdg__live_publish(serve->live, serve->server, config->publish.key);
    if (rv < 0)
        log_line(serve, TDG_LOG_ERROR, "publishing keeps the old key: %s",
                 tdg_strerror(rv));
    tdg__config_destroy(serve->config);
    serve->config = config;
    if (serve->replaced) /* not said before the key is the new one, too */
        serve->opts.reloaded(serve->opts.user, serve);
}

static bool same_file(const uv_stat_t *a, const uv_stat_t *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void on_config_seen(uv_fs_t *look) {
    tdg__serve_t *serve = look->data;
    bool changed = look->result == 0 && !same_file(&look->statbuf, &serve->config_seen);

    serve->looking = false;
    uv_fs_req_cleanup(look);
    if (changed) /* while it is away, what is there goes on */
        reload(serve);
}

static void on_config_timer(uv_timer_t *timer) {
    tdg__serve_t *serve = timer->data;

    if (serve->looking || !serve->config->top.reload_on_change || serve->stopping)
        return;
    serve->config_look.data = serve;
    serve->looking = uv_fs_stat(&serve->loop, &serve->config_look,
                                serve->opts.config_file, on_config_seen) == 0;
}

/* ---- Signals ------------------------------------------------------------ */

static bool has_terminal(void) {
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void on_signal(uv_signal_t *handle, int number) {
    tdg__serve_t *serve = handle->data;

    if (number == SIGHUP && !(serve->has_terminal && !has_terminal())) {
        reload(serve);
        return;
    }
    if (serve->stopping) { /* a second Ctrl-C does not wait for the first */
        signal(number, SIG_DFL);
        raise(number);
    }
    stop(serve);
}

static int handle_signals(tdg__serve_t *serve) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        serve->signals[i].data = serve;
        if (uv_signal_start(&serve->signals[i], on_signal, numbers[i]) != 0)
            return TDG_ESYSTEM;
    }
    return 0;
}

/* ---- The start ---------------------------------------------------------- */

static void start(tdg__serve_t *serve) {
    assert(!serve->started && !serve->stopping);

    int rv = tdg_server_start(serve->server);

    if (rv == 0 && pthread_create(&serve->waiter, NULL, wait_for_server, serve) != 0) {
        tdg_server_stop(serve->server);
        rv = TDG_ESYSTEM;
    }
    if (rv < 0) {
        log_line(serve, TDG_LOG_ERROR, "cannot start: %s", tdg_strerror(rv));
        fail(serve, rv);
        return;
    }
    serve->has_waiter = serve->started = true;
    if (serve->opts.config_file != NULL)
        uv_timer_start(&serve->config_timer, on_config_timer, CONFIG_POLL_MS,
                       CONFIG_POLL_MS);
    serve->opts.started(serve->opts.user, serve);
    if (serve->reload_waits)
        reload(serve);
}

/* The first list is complete: now somebody may ask. */
static void on_ready(void *user) {
    tdg__serve_t *serve = user;

    if (serve->stopping)
        return;
    if (!serve->started)
        start(serve);
    else if (serve->replacing)
        serve->replaced = true;
    else
        serve->opts.reloaded(serve->opts.user, serve);
}

static void on_log(void *user, tdg_log_level_t level, const char *message) {
    tdg__serve_t *serve = user;

    serve->opts.log(serve->opts.user, level, message);
}

/* Where a listener says nothing of it, the command line decides, then the config. */
bool tdg__serve_speaks_erlmcp(const tdg__serve_t *serve, tdg__dialect_t said) {
    if (said == TDG__DIALECT_UNSAID)
        said = serve->opts.dialect;
    if (said == TDG__DIALECT_UNSAID)
        said = (tdg__dialect_t)serve->config->server.dialect;
    return said == TDG__DIALECT_ERLMCP;
}

static int listen_on(tdg__serve_t *serve, const tdg__listen_url_t *listen) {
    const tdg__config_server_t *config = &serve->config->server;
    tdg_listen_opts_t opts = {
        .host = listen->host,
        .port = listen->port,
        .allowed_hosts = (const char *const *)config->allowed_hosts,
        .allowed_origins = (const char *const *)config->allowed_origins,
        .trusted_proxies = (const char *const *)config->trusted_proxies,
        .forwarded = config->proxy_header == TDG__PROXY_FORWARDED,
        .erlmcp = tdg__serve_speaks_erlmcp(serve, listen->dialect),
    };
    char url[TDG__LISTEN_URL_MAX];

    int rv = tdg_server_listen(serve->server, &opts);
    if (rv == 0)
        return 0;
    tdg__listen_url_put(listen, url);
    if (tdg_system_error(rv) == EADDRINUSE)
        log_line(serve, TDG_LOG_ERROR,
                 "cannot listen on %s: the address is in use already; "
                 "`--listen http://127.0.0.1:0` takes any free port",
                 url);
    else
        log_line(serve, TDG_LOG_ERROR, "cannot listen on %s: %s", url, tdg_strerror(rv));
    return rv;
}

static int listen_on_given(tdg__serve_t *serve) {
    for (const char *const *url = serve->opts.listen; *url != NULL; url++) {
        tdg__parse_error_t error;
        tdg__listen_url_t listen;

        int rv = tdg__listen_url_parse(*url, &listen, &error);
        if (rv < 0)
            log_line(serve, TDG_LOG_ERROR, "--listen %s: %s", *url, error.text);
        else
            rv = listen_on(serve, &listen);
        if (rv < 0)
            return rv;
    }
    return 0;
}

static bool needs_http(const tdg__serve_t *serve) {
    for (size_t i = 0; i < serve->count; i++)
        if (tdg__webhook_path(serve->entries[i].source) != NULL)
            return true;
    return serve->config->publish.key != NULL;
}

static int listen_all(tdg__serve_t *serve) {
    int rv = 0;

    if (serve->opts.listen != NULL)
        return listen_on_given(serve);
    if (serve->opts.stdio) {
        if (needs_http(serve))
            log_line(
                serve, TDG_LOG_WARNING,
                "webhooks and publishing need HTTP, which is off with --stdio; --listen "
                "URL switches it on");
        return 0;
    }
    for (size_t i = 0; i < serve->config->listen_count && rv == 0; i++)
        rv = listen_on(serve, &serve->config->listen[i]);
    return rv;
}

static int make_server(tdg__serve_t *serve) {
    tdg_server_opts_t opts = serve->config->opts;

    const tdg_watcher_t watcher = tdg__live_watcher(serve->live);

    opts.watcher = &watcher;
    opts.log = on_log;
    opts.log_user = serve;
    opts.debug = serve->opts.debug;

    int rv = tdg_server_create(&opts, &serve->server);
    if (rv < 0) {
        log_line(serve, TDG_LOG_ERROR, "cannot create the server: %s", tdg_strerror(rv));
        return rv;
    }
    tdg__live_bind(serve->live, serve->server);
    tdg__live_set_stale_size(serve->live, (size_t)serve->config->server.stale_size);
    rv = tdg__live_publish(serve->live, serve->server, serve->config->publish.key);
    if (rv < 0) {
        log_line(serve, TDG_LOG_ERROR, "cannot enable publishing: %s", tdg_strerror(rv));
        return rv;
    }
    if (serve->opts.stdio) {
        rv = tdg_server_pipe(serve->server, STDIN_FILENO, STDOUT_FILENO,
                             tdg__serve_speaks_erlmcp(serve, TDG__DIALECT_UNSAID));
        if (rv < 0) {
            log_line(serve, TDG_LOG_ERROR, "cannot serve standard input and output: %s",
                     tdg_strerror(rv));
            return rv;
        }
    }
    return listen_all(serve);
}

static int load(tdg__serve_t *serve) {
    const char *file = serve->opts.config_file;
    tdg__problems_t problems;

    see_config(serve);
    tdg__problems_init(&problems, file != NULL ? file : "tidings");
    int rv = tdg__serve_load(file, serve->opts.paths, &problems, &serve->config,
                             &serve->entries, &serve->count);
    if (rv < 0) {
        serve->opts.problems(serve->opts.user, &problems);
        if (problems.count == 0)
            log_line(serve, TDG_LOG_ERROR, "%s", tdg_strerror(rv));
    }
    tdg__problems_done(&problems);
    return rv;
}

static void init_handles(tdg__serve_t *serve) {
    for (size_t i = 0; i < sizeof(serve->signals) / sizeof(serve->signals[0]); i++)
        uv_signal_init(&serve->loop, &serve->signals[i]);
    uv_timer_init(&serve->loop, &serve->config_timer);
    serve->config_timer.data = serve;
}

int tdg__serve_create(const tdg__serve_opts_t *opts, tdg__serve_t **ret) {
    static const tdg__live_ops_t live_ops = {
        .ready = on_ready, .closed = on_live_closed, .log = on_log};
    tdg__serve_t *serve = tdg__calloc(1, sizeof(*serve));
    if (serve == NULL)
        return TDG_ENOMEM;
    serve->opts = *opts;
    serve->has_terminal = has_terminal();

    int rv = load(serve);
    if (rv < 0)
        goto fail_serve;
    rv = uv_loop_init(&serve->loop) != 0 ? TDG_ESYSTEM : 0;
    if (rv < 0)
        goto fail_load;
    rv = tdg__live_create(&serve->loop, &live_ops, serve, &serve->live);
    if (rv < 0)
        goto fail_loop;
    init_handles(serve);
    rv = make_server(serve);
    if (rv == 0)
        rv = handle_signals(serve);
    if (rv < 0)
        goto fail_live;
    *ret = serve;
    return 0;

fail_live:
    tdg__live_close(serve->live);
    uv_run(&serve->loop, UV_RUN_DEFAULT);
    tdg__live_destroy(serve->live);
    tdg_server_destroy(serve->server);
fail_loop:
    uv_loop_close(&serve->loop);
fail_load:
    tdg__live_free_entries(serve->entries, serve->count);
    tdg__config_destroy(serve->config);
fail_serve:
    tdg__free(serve);
    return rv;
}

int tdg__serve_run(tdg__serve_t *serve) {
    int rv = tdg__live_replace(serve->live, serve->entries, serve->count);

    tdg__free(serve->entries);
    serve->entries = NULL;
    serve->count = 0;
    if (rv < 0) {
        log_line(serve, TDG_LOG_ERROR, "%s", tdg_strerror(rv));
        fail(serve, rv);
    }
    uv_run(&serve->loop, UV_RUN_DEFAULT);
    if (serve->has_waiter)
        pthread_join(serve->waiter, NULL);
    return serve->result;
}

void tdg__serve_destroy(tdg__serve_t *serve) {
    if (serve == NULL)
        return;
    tdg__live_close(serve->live); /* where it has never run */
    uv_run(&serve->loop, UV_RUN_DEFAULT);
    tdg__live_destroy(serve->live);
    tdg_server_destroy(serve->server);
    uv_loop_close(&serve->loop);
    tdg__live_free_entries(serve->entries, serve->count);
    tdg__config_destroy(serve->config);
    tdg__free(serve);
}
