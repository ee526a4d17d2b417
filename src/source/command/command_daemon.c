/* SPDX-License-Identifier: MIT
 *
 * Programs that stay and write lines: the last complete line is the content. A daemon is
 * one such program, for one URI. It runs while the URI is watched, and is started again
 * when it ends, with growing waits. A read that finds none starts one, takes its first
 * line and stops it.
 *
 * There are no more daemons than programs may run; what would need another is refused. One
 * that was told to end still counts as a program until it is gone, and a new daemon waits
 * for that.
 *
 * Every line is told, unless more than TOLD come at once: then only the last of those
 * beyond, and the program has to wait a little. So it has when much of a line is thrown
 * away that is too long. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "source/command/command.h"

enum {
    FIRST_LINE_MS = 1000, /* who watches waits no longer for a line before all is well */
    TOLD = 100,           /* lines of one read */
    REST_MS = 20,
    LONG_RUN_MS = 10000, /* after this the waits begin small again */
};

struct tdg__daemon {
    tdg__command_source_t *command;
    struct tdg__daemon *next, **self;
    char *uri;
    bool watched;
    bool dropped;            /* not found any more; freed when nothing of it runs */
    tdg__process_t *process; /* NULL: it does not run now */
    bool waiting;            /* to be started as soon as another has ended */
    tdg__command_words_t words;
    tdg__fetch_t *fetch; /* that waits for the first line; or NULL */
    uv_timer_t timer;    /* no first line; time to start again */
    bool timer_open;
    uint64_t started_ms;
    unsigned tries;

    tdg__text_t part; /* of the line that is being written */
    tdg__text_t line; /* the last one */
    bool has_line;
    int line_status; /* TDG_ETOOLARGE: it was too long */
    int64_t line_number, line_ms;

    int failed; /* TDG_EAWAY: it ended badly; TDG_ENOTFOUND: it cannot be started */
    char why[TDG__COMMAND_WHY];
};

static void start(struct tdg__daemon *daemon);
static void on_timer(uv_timer_t *timer);

/* ---- Records ------------------------------------------------------------ */

static struct tdg__daemon *find(const tdg__command_source_t *command, const char *uri) {
    struct tdg__daemon *daemon = command->daemons;

    while (daemon != NULL && (daemon->dropped || strcmp(daemon->uri, uri) != 0))
        daemon = daemon->next;
    return daemon;
}

static bool is_full(const tdg__command_source_t *command) {
    int64_t count = 0;

    for (const struct tdg__daemon *daemon = command->daemons; daemon != NULL;
         daemon = daemon->next)
        count += !daemon->dropped;
    return count >= command->max_programs;
}

static void free_daemon(struct tdg__daemon *daemon) {
    tdg__text_done(&daemon->part);
    tdg__text_done(&daemon->line);
    tdg__free(daemon->uri);
    tdg__free(daemon);
}

static struct tdg__daemon *create(tdg__command_source_t *command, const char *uri) {
    struct tdg__daemon *daemon = tdg__calloc(1, sizeof(*daemon));
    if (daemon == NULL)
        return NULL;

    daemon->command = command;
    tdg__text_init(&daemon->part, (size_t)command->source.entry.max_size);
    tdg__text_init(&daemon->line, (size_t)command->source.entry.max_size);
    daemon->uri = tdg__strdup(uri);
    if (daemon->uri == NULL) {
        free_daemon(daemon);
        return NULL;
    }
    uv_timer_init(command->source.host.loop, &daemon->timer);
    daemon->timer.data = daemon;
    daemon->timer_open = true;
    daemon->next = command->daemons;
    daemon->self = &command->daemons;
    if (daemon->next != NULL)
        daemon->next->self = &daemon->next;
    command->daemons = daemon;
    tdg__source_hold(&command->source);
    return daemon;
}

static void check_gone(struct tdg__daemon *daemon) {
    tdg__source_t *source = &daemon->command->source;

    if (daemon->process != NULL || daemon->timer_open)
        return;
    *daemon->self = daemon->next;
    if (daemon->next != NULL)
        daemon->next->self = daemon->self;
    free_daemon(daemon);
    tdg__source_let_go(source);
}

static void on_timer_closed(uv_handle_t *handle) {
    struct tdg__daemon *daemon = handle->data;

    daemon->timer_open = false;
    check_gone(daemon);
}

static void drop(struct tdg__daemon *daemon) {
    if (daemon->dropped)
        return;
    daemon->dropped = true;
    if (daemon->process != NULL)
        tdg__process_stop(daemon->process);
    uv_close((uv_handle_t *)&daemon->timer, on_timer_closed);
}

/* ---- Answers ------------------------------------------------------------ */

/* Ends a fetch with what is known. A daemon that nobody watches goes first: the end of the
 * fetch may begin another one. */
static void answer(struct tdg__daemon *daemon, tdg__fetch_t *fetch) {
    if (!daemon->watched)
        drop(daemon);
    if (daemon->failed != 0) {
        tdg__fetch_failed_inside(fetch, daemon->failed, "the program has failed", "%s",
                                 daemon->why);
    } else if (!daemon->has_line) {
        tdg__fetch_failed(fetch, TDG_ENOTFOUND, "the program has written no line yet");
    } else if (daemon->line_status != 0) {
        tdg__fetch_failed(fetch, daemon->line_status, "%s",
                          daemon->line_status == TDG_ETOOLARGE
                              ? "the line is longer than max-size"
                              : tdg_strerror(daemon->line_status));
    } else {
        tdg__content_t content = {
            .data = daemon->line.data,
            .len = daemon->line.len,
            .metadata = json_pack("{s:I}", "line", (json_int_t)daemon->line_number),
            .updated_ms = daemon->line_ms};

        tdg__fetch_done(fetch, &content);
    }
}

/* Tells whoever waits, or whoever watches, that there is something new. */
static void tell(struct tdg__daemon *daemon) {
    tdg__fetch_t *fetch = daemon->fetch;

    daemon->fetch = NULL;
    if (fetch != NULL)
        answer(daemon, fetch);
    else if (daemon->watched)
        tdg__source_touch(&daemon->command->source, daemon->uri);
}

/* ---- Lines -------------------------------------------------------------- */

static void end_line(struct tdg__daemon *daemon) {
    tdg__text_t line = daemon->part;

    daemon->part = daemon->line;
    tdg__text_clear(&daemon->part);
    daemon->line = line;
    daemon->line_status = line.error;
    daemon->line_number++;
    daemon->line_ms = tdg__wall_ms();
    daemon->has_line = true;
    daemon->failed = 0;
}

static void on_output(void *user, const char *data, size_t len) {
    struct tdg__daemon *daemon = user;
    int separator = daemon->command->mode == TDG__COMMAND_NUL ? '\0' : '\n';
    const char *end = data + len, *stop;
    size_t lines = 0;

    while ((stop = memchr(data, separator, (size_t)(end - data))) != NULL) {
        tdg__text_add(&daemon->part, data, (size_t)(stop - data));
        end_line(daemon);
        data = stop + 1;
        if (++lines <= TOLD)
            tell(daemon);
        if (daemon->dropped)
            return;
    }
    tdg__text_add(&daemon->part, data, (size_t)(end - data));
    if (daemon->part.error != 0)
        tdg__process_wasted(daemon->process, (size_t)(end - data));
    if (lines > TOLD) {
        tell(daemon);
        tdg__process_rest(daemon->process, REST_MS);
    }
}

static void on_said(void *user, const char *line) {
    struct tdg__daemon *daemon = user;

    tdg__command_said(daemon->command, &daemon->words, line);
}

/* ---- Life --------------------------------------------------------------- */

static void start_later(struct tdg__daemon *daemon) {
    tdg__source_t *source = &daemon->command->source;
    int64_t wait = tdg__source_wait_ms(source, daemon->tries++);

    if (daemon->failed == 0 && daemon->tries == 1)
        tdg__source_log(source, TDG_LOG_NOTICE,
                        "%s: the program has ended; restarting it in %" PRId64
                        " ms, then with growing waits",
                        daemon->uri, wait);
    uv_timer_start(&daemon->timer, on_timer, (uint64_t)wait, 0);
}

/* A program is gone. All that wait may try; who finds no room waits on. */
static void let_start(tdg__command_source_t *command) {
    command->running--;
    for (struct tdg__daemon *daemon = command->daemons; daemon != NULL;
         daemon = daemon->next)
        if (daemon->waiting && !daemon->dropped)
            uv_timer_start(&daemon->timer, on_timer, 0, 0);
}

static void on_ended(void *user, const tdg__process_end_t *end) {
    struct tdg__daemon *daemon = user;
    bool badly = end->error != 0 || end->signal != 0 || end->exit_status != 0;

    daemon->process = NULL;
    let_start(daemon->command);
    if (daemon->dropped) {
        check_gone(daemon);
        return;
    }
    if (daemon->part.len > 0 || daemon->part.error != 0) {
        end_line(daemon);
        tell(daemon);
        if (daemon->dropped)
            return;
    }

    bool heals = !badly && daemon->failed != 0;

    if (heals) /* it has nothing new to write, and is well again */
        daemon->failed = 0;
    if (badly || (!daemon->has_line && !daemon->watched)) {
        daemon->failed = TDG_EAWAY;
        if (badly)
            tdg__command_describe(daemon->command, end, &daemon->words, daemon->why);
        else
            snprintf(daemon->why, sizeof(daemon->why),
                     "the program ended without a line");
    }
    if (end->duration_ms >= LONG_RUN_MS)
        daemon->tries = 0;
    if (daemon->watched)
        start_later(daemon);
    if (badly || heals || daemon->fetch != NULL)
        tell(daemon);
}

static const tdg__process_ops_t ops = {
    .output = on_output, .said = on_said, .ended = on_ended};

static void start(struct tdg__daemon *daemon) {
    tdg__source_t *source = &daemon->command->source;
    char why[TDG__COMMAND_WHY];

    daemon->words.first[0] = '\0';
    tdg__text_clear(&daemon->part);
    daemon->started_ms = uv_now(source->host.loop);
    daemon->waiting = !tdg__command_has_room(daemon->command);
    if (daemon->waiting)
        return;

    int rv = tdg__command_start(daemon->command, daemon->uri, &ops, daemon,
                                &daemon->process, why);
    if (rv == 0) {
        uv_timer_start(&daemon->timer, on_timer, FIRST_LINE_MS, 0);
        return;
    }
    memcpy(daemon->why, why, sizeof(why));
    daemon->failed = rv == TDG_ENOMEM ? TDG_EAWAY : rv;
    if (daemon->watched && rv == TDG_ENOMEM)
        start_later(daemon);
}

/* It is time to start again; or it has been running for a while, and whoever waits for
 * its first line knows that there is none. */
static void on_timer(uv_timer_t *timer) {
    struct tdg__daemon *daemon = timer->data;

    if (daemon->process == NULL) {
        start(daemon);
        if (daemon->process == NULL && !daemon->waiting && daemon->fetch != NULL)
            tell(daemon); /* it cannot be started */
    } else if (daemon->watched && (daemon->failed != 0 || daemon->fetch != NULL)) {
        daemon->failed = 0;
        tell(daemon);
    }
}

/* ---- For command.c ------------------------------------------------------ */

int tdg__daemon_watch(tdg__command_source_t *command, const char *uri) {
    struct tdg__daemon *daemon;

    daemon = find(command, uri);
    if (daemon == NULL && is_full(command))
        return TDG_ETOTAL;
    if (daemon == NULL)
        daemon = create(command, uri);
    if (daemon == NULL)
        return TDG_ENOMEM;
    daemon->watched = true;
    if (daemon->process == NULL)
        start(daemon);
    return 0;
}

void tdg__daemon_unwatch(tdg__command_source_t *command, const char *uri) {
    struct tdg__daemon *daemon = find(command, uri);

    if (daemon == NULL)
        return;
    daemon->watched = false;
    if (daemon->fetch == NULL)
        drop(daemon);
}

void tdg__daemon_fetch(tdg__command_source_t *command, tdg__fetch_t *fetch) {
    struct tdg__daemon *daemon = find(command, fetch->uri);
    uint64_t now = uv_now(command->source.host.loop);

    if (daemon == NULL && is_full(command)) {
        tdg__fetch_failed(fetch, TDG_EAWAY,
                          "as many programs as max-programs allows run already");
        return;
    }
    if (daemon == NULL) {
        daemon = create(command, fetch->uri);
        if (daemon == NULL) {
            tdg__fetch_failed(fetch, TDG_ENOMEM, "%s", tdg_strerror(TDG_ENOMEM));
            return;
        }
        start(daemon);
    }
    if (daemon->has_line || daemon->failed != 0 ||
        (daemon->process == NULL && !daemon->waiting) ||
        (daemon->watched && now - daemon->started_ms >= FIRST_LINE_MS)) {
        answer(daemon, fetch);
        return;
    }
    daemon->fetch = fetch;
    fetch->state = daemon;
}

void tdg__daemon_cancel(tdg__command_source_t *command, tdg__fetch_t *fetch) {
    struct tdg__daemon *daemon = fetch->state;

    (void)command;
    daemon->fetch = NULL;
    if (!daemon->watched)
        drop(daemon);
    tdg__fetch_failed(fetch, TDG_EAWAY, "cancelled");
}

void tdg__daemons_close(tdg__command_source_t *command) {
    for (struct tdg__daemon *daemon = command->daemons; daemon != NULL;
         daemon = daemon->next)
        drop(daemon);
}
