/* SPDX-License-Identifier: MIT
 *
 * One JSON object per line, for programs. docs/watch.md lists the fields: fields may be
 * added, and none changes its meaning. */
#include "watch/watch.h"

#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/clock.h"

static void put(watch_t *watch, json_t *line, const char *key, json_t *value) {
    if (json_object_set_new(line, key, value) < 0)
        watch->out.error = TDG_ENOMEM;
}

static void put_string(watch_t *watch, json_t *line, const char *key, const char *value) {
    put(watch, line, key, json_string(value));
}

static void put_number(watch_t *watch, json_t *line, const char *key, int64_t value) {
    put(watch, line, key, json_integer(value));
}

/* `value` is borrowed. */
static void put_json(watch_t *watch, json_t *line, const char *key, const json_t *value) {
    put(watch, line, key, json_incref((json_t *)(uintptr_t)value));
}

static json_t *begin(const char *event, int64_t at_ms) {
    return json_pack("{s:s, s:I}", "event", event, "at", (json_int_t)at_ms);
}

/* Shows a line, which is stolen. Nothing but ASCII for a terminal, which may take other
 * characters for commands; jansson leaves DEL as it is, inside a string. */
static void end(watch_t *watch, json_t *line) {
    size_t flags = JSON_COMPACT | (watch->is_terminal ? JSON_ENSURE_ASCII : 0);
    char *text = json_dumps(line, flags), *del;

    if (text == NULL)
        watch->out.error = TDG_ENOMEM;
    for (char *at = text; at != NULL; at = del) {
        del = watch->is_terminal ? strchr(at, 0x7f) : NULL;
        tdg__text_add(&watch->out, at, del != NULL ? (size_t)(del - at) : strlen(at));
        if (del != NULL) {
            tdg__text_put(&watch->out, "\\u007F");
            del++;
        }
    }
    tdg__text_put(&watch->out, "\n");
    tdg__free(text);
    json_decref(line);
    watch_flush(watch);
}

static void put_diff(watch_t *watch, json_t *line, const watch_item_t *item) {
    static const char *const names[] = {
        [WATCH_DIFF_SAME] = "same",
        [WATCH_DIFF_UNKNOWN] = "nothing to compare with",
        [WATCH_DIFF_BINARY] = "not text",
        [WATCH_DIFF_LARGE] = "too large",
    };
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    watch_diff_t diff = watch_compare(watch, item, &text);
    if (diff == WATCH_DIFF_TEXT && text.error == 0)
        put_string(watch, line, "diff", text.data);
    else if (diff > WATCH_DIFF_TEXT)
        put_string(watch, line, "no_diff", names[diff]);
    tdg__text_done(&text);
}

void watch_json_item(watch_t *watch, const watch_item_t *item) {
    json_t *line = begin(watch_kind_name(item->kind), item->event->at_ms);

    if (item->event->uri != NULL)
        put_string(watch, line, "uri", item->event->uri);
    if (item->kind == WATCH_LIST_CHANGED)
        put_string(watch, line, "list", watch_list_name(item->event->list));
    if (item->event->version > 0)
        put_number(watch, line, "version", item->event->version);
    if (item->merged > 0)
        put_number(watch, line, "merged", (int64_t)item->merged);
    if (item->event->maybe)
        put(watch, line, "maybe", json_true());
    if (item->event->polled)
        put(watch, line, "polled", json_true());
    if (item->event->older)
        put(watch, line, "older", json_true());
    if (item->event->metadata != NULL)
        put_json(watch, line, "metadata", item->event->metadata);
    if (watch->opts.read && item->event->contents != NULL)
        put_json(watch, line, "contents", item->event->contents);
    if (watch->opts.diff)
        put_diff(watch, line, item);
    if (item->event->code != 0) {
        put_string(watch, line, "code", tdg_error_name(item->event->code));
        put_string(watch, line, "message",
                   item->event->message != NULL ? item->event->message
                                                : tdg_strerror(item->event->code));
    }
    end(watch, line);
}

void watch_json_ready(watch_t *watch, size_t count) {
    json_t *line = begin("watching", tdg__wall_ms());
    tdg_server_facts_t facts;

    put_string(watch, line, "server", watch->opts.target.name);
    put_number(watch, line, "subscriptions", (int64_t)count);
    if (tdg_client_facts(watch->client, &facts) == 0) {
        put_string(watch, line, "protocol", facts.protocol);
        put_string(watch, line, "transport", facts.transport);
        put_string(watch, line, "server_name", facts.name);
        put_string(watch, line, "server_version", facts.version);
        tdg_server_facts_done(&facts);
    }
    end(watch, line);
}

void watch_json_dropped(watch_t *watch, uint64_t count) {
    json_t *line = begin("dropped", tdg__wall_ms());

    put_number(watch, line, "count", (int64_t)count);
    end(watch, line);
}

void watch_json_command(watch_t *watch, const watch_command_t *command, int status) {
    json_t *line = begin("command", tdg__wall_ms());

    put_string(watch, line, "uri", command->item->event->uri);
    if (WIFEXITED(status))
        put_number(watch, line, "status", WEXITSTATUS(status));
    else
        put_number(watch, line, "signal", WTERMSIG(status));
    if (command->late)
        put(watch, line, "timed_out", json_true());
    put_number(watch, line, "ms", cli_now_ms() - command->since_ms);
    end(watch, line);
}
