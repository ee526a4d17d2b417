/* SPDX-License-Identifier: MIT */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const lists[] = {
    [TDG_LIST_RESOURCES] = "resources",
    [TDG_LIST_TEMPLATES] = "templates",
    [TDG_LIST_TOOLS] = "tools",
    [TDG_LIST_PROMPTS] = "prompts",
};

static const char *const kinds[] = {
    [TDG_EVENT_UPDATED] = "updated", [TDG_EVENT_DELETED] = "deleted",
    [TDG_EVENT_LOST] = "lost",       [TDG_EVENT_LIST_CHANGED] = "list_changed",
    [TDG_EVENT_DOWN] = "down",       [TDG_EVENT_UP] = "up",
    [TDG_EVENT_MESSAGE] = "message", [TDG_EVENT_CLOSED] = "closed",
};

static const char *text_of(const json_t *line, const char *name) {
    return json_string_value(json_object_get(line, name));
}

static uint32_t number_of(const json_t *line, const char *name) {
    return (uint32_t)json_integer_value(json_object_get(line, name));
}

const char **driver_strings(const json_t *array) {
    size_t count = json_array_size(array);
    const char **strings;

    if (!json_is_array(array))
        return NULL;
    strings = calloc(count + 1, sizeof(*strings));
    for (size_t i = 0; strings != NULL && i < count; i++)
        strings[i] = json_string_value(json_array_get(array, i));
    return strings;
}

int driver_list(const char *name) {
    for (size_t i = 0; name != NULL && i < sizeof(lists) / sizeof(lists[0]); i++)
        if (strcmp(lists[i], name) == 0)
            return (int)i;
    return -1;
}

static unsigned flags_of(const json_t *line) {
    static const struct {
        const char *name;
        unsigned flag;
    } flags[] = {
        {"patient", TDG_CLIENT_PATIENT},
        {"one_life", TDG_CLIENT_ONE_LIFE},
        {"logs", TDG_CLIENT_LOGS},
        {"insecure_token", TDG_CLIENT_INSECURE_TOKEN},
    };
    unsigned found = 0;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (json_is_true(json_object_get(line, flags[i].name)))
            found |= flags[i].flag;
    return found;
}

static tdg_era_t era_of(const char *text) {
    if (text == NULL)
        return TDG_ERA_FIND;
    return strcmp(text, "modern") == 0 ? TDG_ERA_MODERN : TDG_ERA_LEGACY;
}

void driver_opts(const json_t *line, tdg_client_opts_t *ret) {
    *ret = (tdg_client_opts_t){
        .url = text_of(line, "url"),
        .argv = driver_strings(json_object_get(line, "argv")),
        .env = driver_strings(json_object_get(line, "env")),
        .cwd = text_of(line, "cwd"),
        .headers = driver_strings(json_object_get(line, "headers")),
        .token_file = text_of(line, "token_file"),
        .ca_file = text_of(line, "ca_file"),
        .proxy = text_of(line, "proxy"),
        .name = text_of(line, "name"),
        .version = text_of(line, "version"),
        .era = era_of(text_of(line, "era")),
        .flags = flags_of(line),
        .connect_timeout_ms = number_of(line, "connect_timeout_ms"),
        .timeout_ms = number_of(line, "timeout_ms"),
        .quiet_ms = number_of(line, "quiet_ms"),
        .retry_ms = number_of(line, "retry_ms"),
        .retry_max_ms = number_of(line, "retry_max_ms"),
        .retry_per_minute = number_of(line, "retry_per_minute"),
        .max_message_bytes = number_of(line, "max_message_bytes"),
        .max_subscriptions = number_of(line, "max_subscriptions"),
    };
}

void driver_opts_done(tdg_client_opts_t *opts) {
    free((void *)(uintptr_t)opts->argv);
    free((void *)(uintptr_t)opts->env);
    free((void *)(uintptr_t)opts->headers);
}

void driver_subscribe_opts(const json_t *line, tdg_subscribe_opts_t *ret) {
    const json_t *opts = json_object_get(line, "opts");

    *ret = (tdg_subscribe_opts_t){
        .batch_ms = json_integer_value(json_object_get(opts, "batch_ms")),
        .debounce_ms = json_integer_value(json_object_get(opts, "debounce_ms")),
        .throttle_ms = json_integer_value(json_object_get(opts, "throttle_ms")),
        .rate_limit_ms = json_integer_value(json_object_get(opts, "rate_limit_ms")),
        .filter = json_object_get(opts, "filter"),
        .since_ms = json_integer_value(json_object_get(opts, "since_ms")),
        .reread = json_is_true(json_object_get(opts, "reread")),
        .poll_ms = number_of(opts, "poll_ms"),
    };
}

/* ---- Out ---------------------------------------------------------------- */

static void set_number(json_t *object, const char *name, int64_t value) {
    if (value != 0)
        json_object_set_new(object, name, json_integer(value));
}

static void set_true(json_t *object, const char *name, bool value) {
    if (value)
        json_object_set_new(object, name, json_true());
}

/* A copy: what is told belongs to the client, and another thread writes it out. */
static void set_json(json_t *object, const char *name, const json_t *value) {
    if (value != NULL)
        json_object_set_new(object, name, json_deep_copy(value));
}

static void set_text(json_t *object, const char *name, const char *value) {
    if (value != NULL)
        json_object_set_new(object, name, json_string(value));
}

json_t *driver_event(const char *name, const tdg_event_t *event) {
    json_t *told = json_pack("{s:s, s:s}", "event", kinds[event->kind], "client", name);

    set_text(told, "uri", event->uri);
    if (event->kind == TDG_EVENT_LIST_CHANGED)
        set_text(told, "list", lists[event->list]);
    set_number(told, "version", event->version);
    set_number(told, "merged", event->merged);
    set_true(told, "maybe", event->maybe);
    set_true(told, "older", event->older);
    set_true(told, "polled", event->polled);
    set_number(told, "at_ms", event->at_ms);
    set_json(told, "metadata", event->metadata);
    set_json(told, "contents", event->contents);
    if (event->code != 0)
        set_text(told, "code", tdg_error_name(event->code));
    set_text(told, "message", event->message);
    return told;
}

json_t *driver_answer(int code, tdg_failure_t *failure) {
    json_t *answer = json_pack("{s:s}", "code", tdg_error_name(code));

    if (code != 0 && failure != NULL) {
        if (failure->code != 0)
            set_text(answer, "failure_code", tdg_error_name(failure->code));
        set_number(answer, "rpc_code", failure->rpc_code);
        set_number(answer, "http_status", failure->http_status);
        set_text(answer, "message", failure->message);
        set_json(answer, "data", failure->data);
    }
    if (failure != NULL)
        tdg_failure_done(failure);
    return answer;
}
