/* SPDX-License-Identifier: MIT
 *
 * Programs that stay and write lines: the last complete line is the content. A feed is
 * one such program, for one URI. It runs while the URI is watched, and is started again
 * when it ends, with growing waits. A read that finds none starts one, takes its first
 * line and stops it.
 *
 * There are no more feeds than programs may run; what would need another is refused. One
 * that was told to end still counts as a program until it is gone, and a new feed waits
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
#include "source/command.h"

enum {
    FIRST_LINE_MS = 1000, /* who watches waits no longer for a line before all is well */
    TOLD = 100,           /* lines of one read */
    REST_MS = 20,
    LONG_RUN_MS = 10000, /* after this the waits begin small again */
};

struct tdg__feed {
    tdg__command_t *command;
    struct tdg__feed *next, **self;
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

static void start(struct tdg__feed *feed);
static void on_timer(uv_timer_t *timer);

/* ---- Records ------------------------------------------------------------ */

static struct tdg__feed *find(const tdg__command_t *command, const char *uri) {
    struct tdg__feed *feed = command->feeds;

    while (feed != NULL && (feed->dropped || strcmp(feed->uri, uri) != 0))
        feed = feed->next;
    return feed;
}

static bool is_full(const tdg__command_t *command) {
    int64_t count = 0;

    for (const struct tdg__feed *feed = command->feeds; feed != NULL; feed = feed->next)
        count += !feed->dropped;
    return count >= command->max_programs;
}

static void free_feed(struct tdg__feed *feed) {
    tdg__text_done(&feed->part);
    tdg__text_done(&feed->line);
    tdg__free(feed->uri);
    tdg__free(feed);
}

static struct tdg__feed *create(tdg__command_t *command, const char *uri) {
    struct tdg__feed *feed = tdg__calloc(1, sizeof(*feed));
    if (feed == NULL)
        return NULL;

    feed->command = command;
    tdg__text_init(&feed->part, (size_t)command->source.entry.max_size);
    tdg__text_init(&feed->line, (size_t)command->source.entry.max_size);
    feed->uri = tdg__malloc(strlen(uri) + 1);
    if (feed->uri == NULL) {
        free_feed(feed);
        return NULL;
    }
    strcpy(feed->uri, uri);
    uv_timer_init(command->source.host.loop, &feed->timer);
    feed->timer.data = feed;
    feed->timer_open = true;
    feed->next = command->feeds;
    feed->self = &command->feeds;
    if (feed->next != NULL)
        feed->next->self = &feed->next;
    command->feeds = feed;
    return feed;
}

static void check_gone(struct tdg__feed *feed) {
    tdg__command_t *command = feed->command;

    if (feed->process != NULL || feed->timer_open)
        return;
    *feed->self = feed->next;
    if (feed->next != NULL)
        feed->next->self = feed->self;
    free_feed(feed);
    tdg__command_check_closed(command);
}

static void on_timer_closed(uv_handle_t *handle) {
    struct tdg__feed *feed = handle->data;

    feed->timer_open = false;
    check_gone(feed);
}

static void drop(struct tdg__feed *feed) {
    if (feed->dropped)
        return;
    feed->dropped = true;
    if (feed->process != NULL)
        tdg__process_stop(feed->process);
    uv_close((uv_handle_t *)&feed->timer, on_timer_closed);
}

/* ---- Answers ------------------------------------------------------------ */

/* Ends a fetch with what is known. A feed that nobody watches goes first: the end of the
 * fetch may begin another one. */
static void answer(struct tdg__feed *feed, tdg__fetch_t *fetch) {
    if (!feed->watched)
        drop(feed);
    if (feed->failed != 0) {
        tdg__fetch_failed_inside(fetch, feed->failed, "the program has failed", "%s",
                                 feed->why);
    } else if (!feed->has_line) {
        tdg__fetch_failed(fetch, TDG_ENOTFOUND, "the program has written no line yet");
    } else if (feed->line_status != 0) {
        tdg__fetch_failed(fetch, feed->line_status, "%s",
                          feed->line_status == TDG_ETOOLARGE
                              ? "the line is longer than max-size"
                              : tdg_strerror(feed->line_status));
    } else {
        tdg__content_t content = {
            .data = feed->line.data,
            .len = feed->line.len,
            .metadata = json_pack("{s:I}", "line", (json_int_t)feed->line_number),
            .updated_ms = feed->line_ms};

        tdg__fetch_done(fetch, &content);
    }
}

/* Tells whoever waits, or whoever watches, that there is something new. */
static void tell(struct tdg__feed *feed) {
    tdg__fetch_t *fetch = feed->fetch;

    feed->fetch = NULL;
    if (fetch != NULL)
        answer(feed, fetch);
    else if (feed->watched)
        tdg__source_touch(&feed->command->source, feed->uri);
}

/* ---- Lines -------------------------------------------------------------- */

static void end_line(struct tdg__feed *feed) {
    tdg__text_t line = feed->part;

    feed->part = feed->line;
    tdg__text_clear(&feed->part);
    feed->line = line;
    feed->line_status = line.error;
    feed->line_number++;
    feed->line_ms = tdg__wall_ms();
    feed->has_line = true;
    feed->failed = 0;
}

static void on_output(void *user, const char *data, size_t len) {
    struct tdg__feed *feed = user;
    int separator = feed->command->mode == TDG__COMMAND_NUL ? '\0' : '\n';
    const char *end = data + len, *stop;
    size_t lines = 0;

    while ((stop = memchr(data, separator, (size_t)(end - data))) != NULL) {
        tdg__text_add(&feed->part, data, (size_t)(stop - data));
        end_line(feed);
        data = stop + 1;
        if (++lines <= TOLD)
            tell(feed);
        if (feed->dropped)
            return;
    }
    tdg__text_add(&feed->part, data, (size_t)(end - data));
    if (feed->part.error != 0)
        tdg__process_wasted(feed->process, (size_t)(end - data));
    if (lines > TOLD) {
        tell(feed);
        tdg__process_rest(feed->process, REST_MS);
    }
}

static void on_said(void *user, const char *line) {
    struct tdg__feed *feed = user;

    tdg__command_said(feed->command, &feed->words, line);
}

/* ---- Life --------------------------------------------------------------- */

static void start_later(struct tdg__feed *feed) {
    tdg__source_t *source = &feed->command->source;
    int64_t wait = tdg__source_wait_ms(source, feed->tries++);

    if (feed->failed == 0 && feed->tries == 1)
        tdg__source_log(source, TDG_LOG_NOTICE,
                        "%s: the program has ended; it is started again in %" PRId64
                        " ms, then less often",
                        feed->uri, wait);
    uv_timer_start(&feed->timer, on_timer, (uint64_t)wait, 0);
}

/* A program is gone. All that wait may try; who finds no room waits on. */
static void let_start(tdg__command_t *command) {
    command->running--;
    for (struct tdg__feed *feed = command->feeds; feed != NULL; feed = feed->next)
        if (feed->waiting && !feed->dropped)
            uv_timer_start(&feed->timer, on_timer, 0, 0);
}

static void on_ended(void *user, const tdg__process_end_t *end) {
    struct tdg__feed *feed = user;
    bool badly = end->error != 0 || end->signal != 0 || end->exit_status != 0;

    feed->process = NULL;
    let_start(feed->command);
    if (feed->dropped) {
        check_gone(feed);
        return;
    }
    if (feed->part.len > 0 || feed->part.error != 0) {
        end_line(feed);
        tell(feed);
        if (feed->dropped)
            return;
    }

    bool heals = !badly && feed->failed != 0;

    if (heals) /* it has nothing new to write, and is well again */
        feed->failed = 0;
    if (badly || (!feed->has_line && !feed->watched)) {
        feed->failed = TDG_EAWAY;
        if (badly)
            tdg__command_describe(feed->command, end, &feed->words, feed->why);
        else
            snprintf(feed->why, sizeof(feed->why), "the program ended without a line");
    }
    if (end->duration_ms >= LONG_RUN_MS)
        feed->tries = 0;
    if (feed->watched)
        start_later(feed);
    if (badly || heals || feed->fetch != NULL)
        tell(feed);
}

static const tdg__process_ops_t ops = {
    .output = on_output, .said = on_said, .ended = on_ended};

static void start(struct tdg__feed *feed) {
    tdg__source_t *source = &feed->command->source;
    char why[TDG__COMMAND_WHY];

    feed->words.first[0] = '\0';
    tdg__text_clear(&feed->part);
    feed->started_ms = uv_now(source->host.loop);
    feed->waiting = !tdg__command_has_room(feed->command);
    if (feed->waiting)
        return;

    int rv =
        tdg__command_start(feed->command, feed->uri, &ops, feed, &feed->process, why);
    if (rv == 0) {
        uv_timer_start(&feed->timer, on_timer, FIRST_LINE_MS, 0);
        return;
    }
    memcpy(feed->why, why, sizeof(why));
    feed->failed = rv == TDG_ENOMEM ? TDG_EAWAY : rv;
    if (feed->watched && rv == TDG_ENOMEM)
        start_later(feed);
}

/* It is time to start again; or it has been running for a while, and whoever waits for
 * its first line knows that there is none. */
static void on_timer(uv_timer_t *timer) {
    struct tdg__feed *feed = timer->data;

    if (feed->process == NULL) {
        start(feed);
        if (feed->process == NULL && !feed->waiting && feed->fetch != NULL)
            tell(feed); /* it cannot be started */
    } else if (feed->watched && (feed->failed != 0 || feed->fetch != NULL)) {
        feed->failed = 0;
        tell(feed);
    }
}

/* ---- For command.c ------------------------------------------------------ */

int tdg__feed_watch(tdg__command_t *command, const char *uri) {
    struct tdg__feed *feed;

    feed = find(command, uri);
    if (feed == NULL && is_full(command))
        return TDG_ETOTAL;
    if (feed == NULL)
        feed = create(command, uri);
    if (feed == NULL)
        return TDG_ENOMEM;
    feed->watched = true;
    if (feed->process == NULL)
        start(feed);
    return 0;
}

void tdg__feed_unwatch(tdg__command_t *command, const char *uri) {
    struct tdg__feed *feed = find(command, uri);

    if (feed == NULL)
        return;
    feed->watched = false;
    if (feed->fetch == NULL)
        drop(feed);
}

void tdg__feed_fetch(tdg__command_t *command, tdg__fetch_t *fetch) {
    struct tdg__feed *feed = find(command, fetch->uri);
    uint64_t now = uv_now(command->source.host.loop);

    if (feed == NULL && is_full(command)) {
        tdg__fetch_failed(fetch, TDG_EAWAY,
                          "as many programs as max-programs allows run already");
        return;
    }
    if (feed == NULL) {
        feed = create(command, fetch->uri);
        if (feed == NULL) {
            tdg__fetch_failed(fetch, TDG_ENOMEM, "%s", tdg_strerror(TDG_ENOMEM));
            return;
        }
        start(feed);
    }
    if (feed->has_line || feed->failed != 0 ||
        (feed->process == NULL && !feed->waiting) ||
        (feed->watched && now - feed->started_ms >= FIRST_LINE_MS)) {
        answer(feed, fetch);
        return;
    }
    feed->fetch = fetch;
    fetch->state = feed;
}

void tdg__feed_cancel(tdg__command_t *command, tdg__fetch_t *fetch) {
    struct tdg__feed *feed = fetch->state;

    (void)command;
    feed->fetch = NULL;
    if (!feed->watched)
        drop(feed);
    tdg__fetch_failed(fetch, TDG_EAWAY, "cancelled");
}

void tdg__feeds_close(tdg__command_t *command) {
    for (struct tdg__feed *feed = command->feeds; feed != NULL; feed = feed->next)
        drop(feed);
}
