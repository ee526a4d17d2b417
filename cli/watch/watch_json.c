/* SPDX-License-Identifier: MIT
 *
 * One JSON object per line, for programs. docs/watch.md lists the fields: fields may be
 * added, and none changes its meaning. */
#include "watch/watch.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "terminal.h"

static void put_key(watch_t *watch, const char *key) {
    tdg__text_put(&watch->out, ",\"");
    tdg__text_put(&watch->out, key);
    tdg__text_put(&watch->out, "\":");
}

static void put_string(watch_t *watch, const char *key, const char *value) {
    put_key(watch, key);
    tdg__text_put_quoted(&watch->out, value, strlen(value));
}

static void put_number(watch_t *watch, const char *key, int64_t value) {
    put_key(watch, key);
    if (value < 0)
        tdg__text_put(&watch->out, "-");
    tdg__text_put_u64(&watch->out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

static void put_true(watch_t *watch, const char *key) {
    put_key(watch, key);
    tdg__text_put(&watch->out, "true");
}

static void put_json(watch_t *watch, const char *key, const json_t *value) {
    put_key(watch, key);
    tdg__text_put_json(&watch->out, value);
}

static void begin(watch_t *watch, const char *event, int64_t at_ms) {
    tdg__text_put(&watch->out, "{\"event\":\"");
    tdg__text_put(&watch->out, event);
    tdg__text_put(&watch->out, "\"");
    put_number(watch, "at", at_ms);
}

/* Nothing but ASCII for a terminal, which may take other characters for commands. They
 * are in strings, so they can be escaped where they stand. */
static void make_ascii(watch_t *watch) {
    tdg__text_t given = watch->out;
    uint32_t character;
    char text[16];

    tdg__text_init(&watch->out, SIZE_MAX / 2);
    for (size_t at = 0, bytes; at < given.len; at += bytes) {
        character = cli_decode(given.data + at, given.len - at, &bytes);
        if (character < 0x7f) {
            tdg__text_add(&watch->out, given.data + at, 1);
            continue;
        }
        if (character < 0x10000)
            snprintf(text, sizeof(text), "\\u%04X", (unsigned)character);
        else
            snprintf(text, sizeof(text), "\\u%04X\\u%04X",
                     (unsigned)(0xd800 + ((character - 0x10000) >> 10)),
                     (unsigned)(0xdc00 + (character & 0x3ff)));
        tdg__text_put(&watch->out, text);
    }
    if (given.error != 0)
        watch->out.error = given.error;
    tdg__text_done(&given);
}

static void end(watch_t *watch) {
    tdg__text_put(&watch->out, "}\n");
    if (watch->is_terminal)
        make_ascii(watch);
    watch_flush(watch);
}

static void put_diff(watch_t *watch, const watch_item_t *item) {
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
        put_string(watch, "diff", text.data);
    else if (diff > WATCH_DIFF_TEXT)
        put_string(watch, "no_diff", names[diff]);
    tdg__text_done(&text);
}

void watch_json_item(watch_t *watch, const watch_item_t *item) {
    begin(watch, watch_kind_name(item->kind), item->facts->at_ms);
    if (item->facts->uri != NULL)
        put_string(watch, "uri", item->facts->uri);
    if (item->kind == WATCH_LIST_CHANGED)
        put_string(watch, "list", watch_list_name(item->facts->list));
    if (item->facts->version > 0)
        put_number(watch, "version", item->facts->version);
    if (item->merged > 0)
        put_number(watch, "merged", (int64_t)item->merged);
    if (item->facts->maybe)
        put_true(watch, "maybe");
    if (item->facts->polled)
        put_true(watch, "polled");
    if (item->facts->older)
        put_true(watch, "older");
    if (item->facts->metadata != NULL)
        put_json(watch, "metadata", item->facts->metadata);
    if (watch->opts.read && item->facts->contents != NULL)
        put_json(watch, "contents", item->facts->contents);
    if (watch->opts.diff)
        put_diff(watch, item);
    if (item->facts->code != 0) {
        put_string(watch, "code", tdg_error_name(item->facts->code));
        put_string(watch, "message",
                   item->facts->message != NULL ? item->facts->message
                                                : tdg_strerror(item->facts->code));
    }
    end(watch);
}

void watch_json_ready(watch_t *watch, size_t count) {
    tdg_server_facts_t facts;

    begin(watch, "watching", tdg__wall_ms());
    put_string(watch, "server", watch->opts.target.name);
    put_number(watch, "subscriptions", (int64_t)count);
    if (tdg_client_facts(watch->client, &facts) == 0) {
        put_string(watch, "protocol", facts.protocol);
        put_string(watch, "transport", facts.transport);
        put_string(watch, "server_name", facts.name);
        put_string(watch, "server_version", facts.version);
        tdg_server_facts_done(&facts);
    }
    end(watch);
}

void watch_json_dropped(watch_t *watch, uint64_t count) {
    begin(watch, "dropped", tdg__wall_ms());
    put_number(watch, "count", (int64_t)count);
    end(watch);
}

void watch_json_command(watch_t *watch, const watch_command_t *command, int status) {
    begin(watch, "command", tdg__wall_ms());
    put_string(watch, "uri", command->item->facts->uri);
    if (WIFEXITED(status))
        put_number(watch, "status", WEXITSTATUS(status));
    else
        put_number(watch, "signal", WTERMSIG(status));
    if (command->late)
        put_true(watch, "timed_out");
    put_number(watch, "ms", cli_now_ms() - command->since_ms);
    end(watch);
}
