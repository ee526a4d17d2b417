/* SPDX-License-Identifier: MIT
 *
 * Programs that keep running and write lines: the last complete line is the content. A
 * daemon is one such program, for one URI. It runs while the URI is watched, and restarts
 * when it ends, with growing waits. A read without a daemon starts one, takes its first
 * line and stops it.
 *
 *      created           there is room               ended, is watched
 *     ────────▶ WAITING ──────────────▶ RUNNING ───────────────────────▶ PAUSED
 *                  ▲ │                     │ ended, is not watched          │
 *                  │ └──────────────────▶ STOPPED                           │
 *                  │   cannot be started                                    │
 *                  └──────────────────── the wait is over ──────────────────┘
 *
 *     DROPPED: from any state; freed when its program and its timer are gone
 *
 * There are at most as many daemons as programs may run; another one is refused. A
 * program that is being stopped counts until it has ended, and a new daemon is WAITING
 * for that.
 *
 * Every line is published, unless one read of the output has more than PUBLISHED: of the
 * rest only the last is, and the program is not read for a moment. The same happens where
 * much of a line is discarded because it is too long. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "source/command/command.h"

enum {
    FIRST_LINE_MS = 1000, /* a watched program may take so long for its first line */
    PUBLISHED = 100,      /* lines of one read */
    REST_MS = 20,
    LONG_RUN_MS = 10000, /* after such a run the waits start small again */
};

enum state { WAITING, RUNNING, PAUSED, STOPPED, DROPPED };

struct daemon {
    tdg__queue_t link; /* first */
    tdg__command_source_t *command;
    char *uri;
    enum state state;
    bool watched;
    tdg__process_t *process; /* while RUNNING; while DROPPED until it has ended */
    tdg__command_words_t words;
    tdg__fetch_t *fetch; /* that waits for the first line; or NULL */
    uv_timer_t timer;    /* RUNNING: no first line; PAUSED: the wait is over */
    uint64_t started_ms;
    unsigned tries;

    tdg__text_t part;    /* of the line that is being written */
    tdg__text_t line;    /* the last one */
    int line_status;     /* TDG_ETOOLARGE: it was too long */
    int64_t line_number; /* 0: no line yet */
    int64_t line_ms;

    int failed; /* TDG_EUNREACHABLE: it ended badly; TDG_ENOTFOUND: it cannot start */
    char why[TDG__COMMAND_WHY];
};

static void start(struct daemon *daemon);
static void on_timer(uv_timer_t *timer);

/* ---- Records ------------------------------------------------------------ */

/* Walks the daemons: begin with NULL, which also ends. */
static struct daemon *next_of(const tdg__command_source_t *command,
                              const struct daemon *daemon) {
    tdg__queue_t *next = daemon != NULL ? daemon->link.next : command->daemons.next;

    return next != &command->daemons ? (struct daemon *)next : NULL;
}

static struct daemon *find(const tdg__command_source_t *command, const char *uri) {
    struct daemon *daemon = next_of(command, NULL);

    while (daemon != NULL && (daemon->state == DROPPED || strcmp(daemon->uri, uri) != 0))
        daemon = next_of(command, daemon);
    return daemon;
}

static bool is_full(const tdg__command_source_t *command) {
    const struct daemon *daemon = NULL;
    int64_t count = 0;

    while ((daemon = next_of(command, daemon)) != NULL)
        count += daemon->state != DROPPED;
    return count >= command->max_programs;
}

static void free_daemon(struct daemon *daemon) {
    tdg__text_done(&daemon->part);
    tdg__text_done(&daemon->line);
    tdg__free(daemon->uri);
    tdg__free(daemon);
}

static struct daemon *create(tdg__command_source_t *command, const char *uri) {
    struct daemon *daemon = tdg__calloc(1, sizeof(*daemon));
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
    tdg__queue_append(&command->daemons, &daemon->link);
    tdg__source_hold(&command->source);
    return daemon;
}

static void on_timer_closed(uv_handle_t *handle) {
    struct daemon *daemon = handle->data;
    tdg__source_t *source = &daemon->command->source;

    tdg__queue_remove(&daemon->link);
    free_daemon(daemon);
    tdg__source_let_go(source);
}

static void drop(struct daemon *daemon) {
    if (daemon->state == DROPPED)
        return;
    daemon->state = DROPPED;
    uv_timer_stop(&daemon->timer);
    if (daemon->process != NULL)
        tdg__process_stop(daemon->process);
    else
        uv_close((uv_handle_t *)&daemon->timer, on_timer_closed);
}

/* ---- Answers ------------------------------------------------------------ */

/* Ends a fetch with what is known. A daemon that is not watched is dropped first: the end
 * of the fetch may start another one. */
static void answer(struct daemon *daemon, tdg__fetch_t *fetch) {
    if (!daemon->watched)
        drop(daemon);
    if (daemon->failed != 0) {
        tdg__fetch_failed_inside(fetch, daemon->failed, "the program has failed", "%s",
                                 daemon->why);
    } else if (daemon->line_number == 0) {
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

/* Something is new: answers the fetch that waits, or touches the URI. */
static void publish(struct daemon *daemon) {
    tdg__fetch_t *fetch = daemon->fetch;

    daemon->fetch = NULL;
    if (fetch != NULL)
        answer(daemon, fetch);
    else if (daemon->watched)
        tdg__source_touch(&daemon->command->source, daemon->uri);
}

/* ---- Lines -------------------------------------------------------------- */

static void end_line(struct daemon *daemon) {
    tdg__text_t line = daemon->part;

    daemon->part = daemon->line;
    tdg__text_clear(&daemon->part);
    daemon->line = line;
    daemon->line_status = line.error;
    daemon->line_number++;
    daemon->line_ms = tdg__wall_ms();
    daemon->failed = 0;
}

static void on_output(void *user, const char *data, size_t len) {
    struct daemon *daemon = user;
    int separator = daemon->command->mode == TDG__COMMAND_NUL ? '\0' : '\n';
    const char *end = data + len, *stop;
    size_t lines = 0;

    assert(daemon->state == RUNNING);
    while ((stop = memchr(data, separator, (size_t)(end - data))) != NULL) {
        tdg__text_add(&daemon->part, data, (size_t)(stop - data));
        end_line(daemon);
        data = stop + 1;
        if (++lines <= PUBLISHED)
            publish(daemon);
        if (daemon->state == DROPPED)
            return;
    }
    tdg__text_add(&daemon->part, data, (size_t)(end - data));
    if (daemon->part.error != 0)
        tdg__process_wasted(daemon->process, (size_t)(end - data));
    if (lines > PUBLISHED) {
        publish(daemon);
        tdg__process_rest(daemon->process, REST_MS);
    }
}

static void on_said(void *user, const char *line) {
    struct daemon *daemon = user;

    tdg__command_log_line(daemon->command, &daemon->words, line);
}

/* ---- Life --------------------------------------------------------------- */

static void start_later(struct daemon *daemon) {
    tdg__source_t *source = &daemon->command->source;
    int64_t wait = tdg__source_wait_ms(source, daemon->tries++);

    daemon->state = PAUSED;
    if (daemon->failed == 0 && daemon->tries == 1)
        tdg__source_log(source, TDG_LOG_NOTICE,
                        "%s: the program has ended; restarting it in %" PRId64
                        " ms, then with growing waits",
                        daemon->uri, wait);
    uv_timer_start(&daemon->timer, on_timer, (uint64_t)wait, 0);
}

/* A program has ended. All that are WAITING try; those without room go on waiting. */
static void let_start(tdg__command_source_t *command) {
    struct daemon *daemon = NULL;

    command->running--;
    while ((daemon = next_of(command, daemon)) != NULL)
        if (daemon->state == WAITING)
            uv_timer_start(&daemon->timer, on_timer, 0, 0);
}

static void on_ended(void *user, const tdg__process_end_t *end) {
    struct daemon *daemon = user;
    bool badly = end->error != 0 || end->signal != 0 || end->exit_status != 0;

    assert(daemon->state == RUNNING || daemon->state == DROPPED);
    daemon->process = NULL;
    let_start(daemon->command);
    if (daemon->state == DROPPED) {
        uv_close((uv_handle_t *)&daemon->timer, on_timer_closed);
        return;
    }
    daemon->state = STOPPED;
    if (daemon->part.len > 0 || daemon->part.error != 0) {
        end_line(daemon);
        publish(daemon);
        if (daemon->state == DROPPED)
            return;
    }

    bool heals = !badly && daemon->failed != 0;

    if (heals) /* it has nothing new to write, and works again */
        daemon->failed = 0;
    if (badly || (daemon->line_number == 0 && !daemon->watched)) {
        daemon->failed = TDG_EUNREACHABLE;
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
        publish(daemon);
}

static const tdg__process_ops_t ops = {
    .output = on_output, .said = on_said, .ended = on_ended};

static void start(struct daemon *daemon) {
    tdg__source_t *source = &daemon->command->source;
    char why[TDG__COMMAND_WHY];

    assert(daemon->process == NULL && daemon->state != DROPPED);
    daemon->words.first[0] = '\0';
    tdg__text_clear(&daemon->part);
    daemon->started_ms = uv_now(source->host.loop);
    daemon->state = WAITING;
    if (!tdg__command_has_room(daemon->command))
        return;

    int rv = tdg__command_start(daemon->command, daemon->uri, &ops, daemon,
                                &daemon->process, why);
    if (rv == 0) {
        daemon->state = RUNNING;
        uv_timer_start(&daemon->timer, on_timer, FIRST_LINE_MS, 0);
        return;
    }
    daemon->state = STOPPED;
    memcpy(daemon->why, why, sizeof(why));
    daemon->failed = rv == TDG_ENOMEM ? TDG_EUNREACHABLE : rv;
    if (daemon->watched && rv == TDG_ENOMEM)
        start_later(daemon);
}

/* The wait is over; or it has been RUNNING for a while without a first line, and a fetch
 * waits no longer for that. */
static void on_timer(uv_timer_t *timer) {
    struct daemon *daemon = timer->data;

    if (daemon->state != RUNNING) {
        start(daemon);
        if (daemon->state != RUNNING && daemon->state != WAITING && daemon->fetch != NULL)
            publish(daemon); /* it cannot be started */
    } else if (daemon->watched && (daemon->failed != 0 || daemon->fetch != NULL)) {
        daemon->failed = 0;
        publish(daemon);
    }
}

/* ---- For command.c ------------------------------------------------------ */

int tdg__daemon_watch(tdg__command_source_t *command, const char *uri) {
    struct daemon *daemon = find(command, uri);

    if (daemon == NULL && is_full(command))
        return TDG_ETOTAL;
    if (daemon == NULL)
        daemon = create(command, uri);
    if (daemon == NULL)
        return TDG_ENOMEM;
    daemon->watched = true;
    if (daemon->state != RUNNING)
        start(daemon);
    return 0;
}

void tdg__daemon_unwatch(tdg__command_source_t *command, const char *uri) {
    struct daemon *daemon = find(command, uri);

    if (daemon == NULL)
        return;
    daemon->watched = false;
    if (daemon->fetch == NULL)
        drop(daemon);
}

void tdg__daemon_fetch(tdg__command_source_t *command, tdg__fetch_t *fetch) {
    struct daemon *daemon = find(command, fetch->uri);
    uint64_t now = uv_now(command->source.host.loop);

    if (daemon == NULL && is_full(command)) {
        tdg__fetch_failed(fetch, TDG_EUNREACHABLE,
                          "the limit max-programs of running programs is reached");
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
    if (daemon->line_number > 0 || daemon->failed != 0 ||
        (daemon->state != RUNNING && daemon->state != WAITING) ||
        (daemon->watched && now - daemon->started_ms >= FIRST_LINE_MS)) {
        answer(daemon, fetch);
        return;
    }
    daemon->fetch = fetch;
    fetch->state = daemon;
}

void tdg__daemon_cancel(tdg__command_source_t *command, tdg__fetch_t *fetch) {
    struct daemon *daemon = fetch->state;

    (void)command;
    daemon->fetch = NULL;
    if (!daemon->watched)
        drop(daemon);
    tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "cancelled");
}

void tdg__daemons_close(tdg__command_source_t *command) {
    struct daemon *daemon = NULL;

    while ((daemon = next_of(command, daemon)) != NULL)
        drop(daemon);
}
