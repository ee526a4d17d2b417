/* SPDX-License-Identifier: MIT
 *
 * Lines for people. Changes go to standard output; messages about the connection and the
 * commands go to standard error. Texts from a server cannot affect the terminal: see
 * terminal.h. */
#include "watch/watch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "terminal.h"

enum { MAX_WORD = 4096 }; /* bytes of a URI or such that are shown */

/* A text, perhaps of a server, as part of one line. */
static void put(watch_t *watch, const char *color, const char *text) {
    bool colored = watch->color && color != NULL;

    if (colored)
        tdg__text_put(&watch->out, color);
    cli_put_plain(&watch->out, text, strnlen(text, MAX_WORD), false);
    if (colored)
        tdg__text_put(&watch->out, CLI_OFF);
}

static void clock_text(int64_t at_ms, char *out, size_t size) {
    time_t at = (time_t)(at_ms / 1000);
    struct tm local;

    localtime_r(&at, &local);
    strftime(out, size, "%H:%M:%S", &local);
}

void watch_say(watch_t *watch, const char *format, ...) {
    tdg__text_t line;
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    tdg__text_init(&line, SIZE_MAX);
    tdg__text_put(&line, watch->color_errors ? CLI_DIM "tidings: " : "tidings: ");
    cli_put_plain(&line, text, strlen(text), false);
    tdg__text_put(&line, watch->color_errors ? CLI_OFF "\n" : "\n");
    if (line.error == 0)
        fwrite(line.data, 1, line.len, stderr);
    tdg__text_done(&line);
}

/* 0.4 s, 12 s, 3 min */
static const char *span_text(int64_t ms, char *out, size_t size) {
    if (ms < 10000)
        snprintf(out, size, "%.1f s", (double)ms / 1e3);
    else if (ms < 180000)
        snprintf(out, size, "%" PRId64 " s", ms / 1000);
    else
        snprintf(out, size, "%" PRId64 " min", ms / 60000);
    return out;
}

/* 999 bytes, 1.2 KiB */
static const char *size_text(int64_t bytes, char *out, size_t size) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double number = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(out, size, "%" PRId64 " byte%s", bytes, bytes == 1 ? "" : "s");
        return out;
    }
    for (; number >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        number /= 1024;
    snprintf(out, size, "%.1f %s", number, units[unit]);
    return out;
}

/* ---- One line ----------------------------------------------------------- */

/* "content_update, 1.2 KiB, 3 more": a comma before everything but the first. */
typedef struct facts {
    watch_t *watch;
    size_t count;
} facts_t;

static void put_fact(facts_t *facts, const char *color, const char *text) {
    if (facts->count++ > 0)
        put(facts->watch, NULL, ", ");
    put(facts->watch, color, text);
}

static void put_kind(facts_t *facts, const watch_item_t *item) {
    const char *type =
        json_string_value(json_object_get(item->event->metadata, "change_type"));

    switch (item->kind) {
    case WATCH_DELETED:
        put_fact(facts, CLI_RED, "deleted");
        break;
    case WATCH_LISTED:
        put_fact(facts, CLI_GREEN, "new in the list");
        break;
    case WATCH_UNLISTED:
        put_fact(facts, CLI_RED, "removed from the list");
        break;
    default:
        if (item->event->maybe)
            put_fact(facts, CLI_YELLOW, "may have changed");
        else
            put_fact(facts, CLI_GREEN, type != NULL ? type : "updated");
        break;
    }
}

static void put_size(facts_t *facts, const watch_item_t *item, const body_t *content) {
    const json_t *size = json_object_get(item->event->metadata, "size");
    char text[48];

    if (item->event->contents != NULL)
        put_fact(facts, NULL, size_text((int64_t)content->len, text, sizeof(text)));
    else if (json_is_integer(size) && json_integer_value(size) >= 0)
        put_fact(facts, NULL, size_text(json_integer_value(size), text, sizeof(text)));
}

static void put_facts(watch_t *watch, const watch_item_t *item, const body_t *content,
                      watch_diff_t diff) {
    static const char *const differences[] = {
        [WATCH_DIFF_SAME] = "the content is the same",
        [WATCH_DIFF_UNKNOWN] = "nothing to compare with yet",
        [WATCH_DIFF_BINARY] = "not text",
        [WATCH_DIFF_LARGE] = "too large to compare",
    };
    facts_t facts = {watch, 0};
    char text[64];

    put_kind(&facts, item);
    put_size(&facts, item, content);
    if (item->merged > 0) {
        snprintf(text, sizeof(text), "%" PRIu64 " more merged", item->merged);
        put_fact(&facts, CLI_DIM, text);
    }
    if (item->event->polled)
        put_fact(&facts, CLI_DIM, "found by polling");
    if (item->event->older)
        put_fact(&facts, CLI_YELLOW, "older than the previous one");
    if (diff > WATCH_DIFF_TEXT)
        put_fact(&facts, CLI_YELLOW, differences[diff]);
    if (item->event->code != 0)
        put_fact(&facts, CLI_RED,
                 item->event->message != NULL ? item->event->message
                                              : tdg_strerror(item->event->code));
}

static void put_line(watch_t *watch, const watch_item_t *item, const body_t *content,
                     watch_diff_t diff) {
    char when[16], version[32];

    clock_text(item->event->at_ms, when, sizeof(when));
    put(watch, CLI_DIM, when);
    put(watch, NULL, "  ");
    if (item->kind == WATCH_LIST_CHANGED) {
        put(watch, CLI_BOLD, watch_list_name(item->event->list));
        put(watch, item->event->maybe ? CLI_YELLOW : CLI_GREEN,
            item->event->maybe ? "  the list may have changed"
                               : "  the list has changed");
    } else {
        put(watch, CLI_BOLD, item->event->uri);
        if (item->event->version > 0) {
            snprintf(version, sizeof(version), "  v%" PRId64, item->event->version);
            put(watch, CLI_CYAN, version);
        }
        put(watch, NULL, "  ");
        put_facts(watch, item, content, diff);
    }
    tdg__text_put(&watch->out, "\n");
}

/* ---- Contents and differences ------------------------------------------- */

/* As it is, unless it goes to a terminal. */
static void put_text(watch_t *watch, const char *text, size_t len) {
    if (watch->is_terminal)
        cli_put_plain(&watch->out, text, len, true);
    else
        tdg__text_add(&watch->out, text, len);
}

static void put_content(watch_t *watch, const watch_item_t *item, const body_t *content) {
    char size[48];

    if (item->event->contents == NULL)
        return;
    if (!content->is_text) {
        put(watch, CLI_DIM, "[");
        put(watch, CLI_DIM, size_text((int64_t)content->len, size, sizeof(size)));
        put(watch, CLI_DIM, " of ");
        put(watch, CLI_DIM,
            content->mime_type[0] != '\0' ? content->mime_type : "binary data");
        put(watch, CLI_DIM, "]");
        tdg__text_put(&watch->out, "\n");
        return;
    }
    if (content->len == 0)
        return;
    put_text(watch, content->data, content->len);
    if (content->data[content->len - 1] != '\n')
        tdg__text_put(&watch->out, "\n");
}

static const char *color_of_line(const char *line) {
    switch (line[0]) {
    case '+':
        return strncmp(line, "+++ ", 4) == 0 ? CLI_BOLD : CLI_GREEN;
    case '-':
        return strncmp(line, "--- ", 4) == 0 ? CLI_BOLD : CLI_RED;
    case '@':
        return CLI_CYAN;
    case '\\':
        return CLI_DIM;
    default:
        return NULL;
    }
}

static void put_diff(watch_t *watch, const tdg__text_t *diff) {
    const char *at = diff->data;

    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, "\n");
        const char *color = watch->color ? color_of_line(at) : NULL;

        if (color != NULL)
            tdg__text_put(&watch->out, color);
        put_text(watch, at, len);
        if (color != NULL)
            tdg__text_put(&watch->out, CLI_OFF);
        tdg__text_put(&watch->out, "\n");
        at += len + (at[len] == '\n');
    }
}

/* ---- What is shown ------------------------------------------------------ */

static void show_change(watch_t *watch, const watch_item_t *item) {
    watch_diff_t diff = WATCH_DIFF_NONE;
    body_t content;
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    body_init(&content, item->event->contents);
    if (watch->opts.diff)
        diff = watch_compare(watch, item, &text);
    put_line(watch, item, &content, diff);
    if (watch->opts.read)
        put_content(watch, item, &content);
    if (diff == WATCH_DIFF_TEXT && text.error == 0)
        put_diff(watch, &text);
    body_done(&content);
    tdg__text_done(&text);
    watch_flush(watch);
}

void watch_show_item(watch_t *watch, const watch_item_t *item) {
    const char *why = item->event->message != NULL ? item->event->message
                                                   : tdg_strerror(item->event->code);
    char span[32];

    switch (item->kind) {
    case WATCH_DOWN:
        watch_say(watch, "lost the connection: %s%s", why,
                  watch->opts.no_retry ? "" : "; reconnecting");
        break;
    case WATCH_UP:
        watch_say(watch, "reconnected after %s",
                  span_text(cli_now_ms() - watch->down_since_ms, span, sizeof(span)));
        break;
    case WATCH_LOST:
        watch_say(watch, "%s is no longer watched: %s", item->event->uri, why);
        break;
    case WATCH_CLOSED:
        watch_say(watch, "the client gave up: %s", why);
        break;
    case WATCH_MESSAGE:
        break;
    default:
        show_change(watch, item);
        break;
    }
}

void watch_show_ready(watch_t *watch, size_t count) {
    tdg_server_facts_t facts;

    if (tdg_client_facts(watch->client, &facts) < 0)
        return;
    watch_say(watch, "watching %zu resource%s%s of %s (%s%s%s, protocol %s)", count,
              count == 1 ? "" : "s", watch->uri_count == 0 ? " and the lists" : "",
              watch->opts.target.name,
              facts.name[0] != '\0' ? facts.name : "a server without a name",
              facts.version[0] != '\0' ? " " : "", facts.version, facts.protocol);
    tdg_server_facts_done(&facts);
}

void watch_show_command(watch_t *watch, const watch_command_t *command, int status) {
    char span[32], how[64];

    if (WIFEXITED(status))
        snprintf(how, sizeof(how), "exited with %d", WEXITSTATUS(status));
    else
        snprintf(how, sizeof(how), "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    watch_say(watch, "the command for %s %s after %s%s", command->item->event->uri, how,
              span_text(cli_now_ms() - command->since_ms, span, sizeof(span)),
              command->late ? ", its time limit" : "");
}
