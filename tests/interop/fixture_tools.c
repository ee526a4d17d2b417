/* SPDX-License-Identifier: MIT
 *
 * Tools by which tests make things happen in the server, and look inside. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Answering ---------------------------------------------------------- */

const char *fixture_string(tdg_request_t *request, const json_t *arguments,
                           const char *name) {
    const char *value = json_string_value(json_object_get(arguments, name));
    char text[64];

    if (value == NULL) {
        snprintf(text, sizeof(text), "the argument %s is missing", name);
        tdg_request_reply_tool_error(request, text);
    }
    return value;
}

void fixture_reply_code(tdg_request_t *request, int rv) {
    if (rv == 0)
        tdg_request_reply_text(request, "done");
    else
        tdg_request_reply_tool_error(request, tdg_error_name(rv));
}

void fixture_reply_object(tdg_request_t *request, json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT);

    tdg_request_reply(request,
                      json_pack("{s:[{s:s, s:s}], s:o}", "content", "type", "text",
                                "text", text, "structuredContent", object));
    free(text);
}

uint32_t fixture_number(const json_t *arguments, const char *name, uint32_t fallback) {
    const json_t *value = json_object_get(arguments, name);

    return json_is_integer(value) ? (uint32_t)json_integer_value(value) : fallback;
}

/* ---- Changes ------------------------------------------------------------ */

/* {uri, metadata?, count?}: with a count, metadata.n says which of them a change is. */
static void call_publish(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *uri = fixture_string(request, arguments, "uri");
    const json_t *metadata = json_object_get(arguments, "metadata");
    uint32_t n = fixture_number(arguments, "count", 0);
    int rv = 0;

    (void)user;
    if (uri == NULL)
        return;
    for (uint32_t i = 0; i < (n == 0 ? 1 : n) && rv == 0; i++) {
        json_t *own = metadata != NULL ? json_deep_copy(metadata) : NULL;

        if (n != 0) {
            if (own == NULL)
                own = json_object();
            json_object_set_new(own, "n", json_integer(i + 1));
        }
        fixture_live_changed(uri);
        rv = tdg_request_notify_updated(request, uri, own);
    }
    fixture_reply_code(request, rv);
}

static void call_delete(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *uri = fixture_string(request, arguments, "uri");
    json_t *metadata = json_object_get(arguments, "metadata");

    (void)user;
    if (uri == NULL)
        return;
    fixture_reply_code(request, tdg_server_notify_deleted(
                                    tdg_request_server(request), uri,
                                    metadata != NULL ? json_deep_copy(metadata) : NULL));
}

/* {uri, timing, windowMs, rateLimitMs} */
static void call_configure(void *user, tdg_request_t *request, const json_t *arguments) {
    static const char *const modes[] = {"inherit", "immediate", "batch", "debounce",
                                        "throttle"};
    const char *uri = fixture_string(request, arguments, "uri");
    const char *timing = json_string_value(json_object_get(arguments, "timing"));
    tdg_settings_t settings = {.window_ms = fixture_number(arguments, "windowMs", 0)};

    (void)user;
    if (uri == NULL)
        return;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]) && timing != NULL; i++)
        if (strcmp(modes[i], timing) == 0)
            settings.timing = (tdg_timing_mode_t)i;
    if (json_object_get(arguments, "rateLimitMs") != NULL)
        settings.rate_limit_ms = (int32_t)fixture_number(arguments, "rateLimitMs", 0);
    if (settings.rate_limit_ms == 0 && json_object_get(arguments, "rateLimitMs") != NULL)
        settings.rate_limit_ms = TDG_RATE_OFF;
    fixture_reply_code(request, tdg_server_configure(tdg_request_server(request),
                                                     &(tdg_target_t){TDG_TARGET_URI, uri},
                                                     &settings));
}

/* ---- Lists -------------------------------------------------------------- */

static void read_added(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    tdg_request_reply_text(request, uri);
}

static void call_added(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    (void)arguments;
    tdg_request_reply_text(request, "added");
}

static void call_add_resource(void *user, tdg_request_t *request,
                              const json_t *arguments) {
    const char *uri = fixture_string(request, arguments, "uri");
    const char *name = json_string_value(json_object_get(arguments, "name"));
    tdg_resource_t resource = {
        .uri = uri, .name = name != NULL ? name : "added", .read = read_added};

    (void)user;
    if (uri != NULL)
        fixture_reply_code(
            request, tdg_server_add_resource(tdg_request_server(request), &resource));
}

static void call_remove_resource(void *user, tdg_request_t *request,
                                 const json_t *arguments) {
    const char *uri = fixture_string(request, arguments, "uri");

    (void)user;
    if (uri != NULL)
        fixture_reply_code(request,
                           tdg_server_remove_resource(tdg_request_server(request), uri));
}

static void call_add_tool(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *name = fixture_string(request, arguments, "name");
    tdg_tool_t tool = {.name = name, .description = "Added later.", .call = call_added};

    (void)user;
    if (name != NULL)
        fixture_reply_code(request,
                           tdg_server_add_tool(tdg_request_server(request), &tool));
}

static void call_remove_tool(void *user, tdg_request_t *request,
                             const json_t *arguments) {
    const char *name = fixture_string(request, arguments, "name");

    (void)user;
    if (name != NULL)
        fixture_reply_code(request,
                           tdg_server_remove_tool(tdg_request_server(request), name));
}

static void call_add_prompt(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *name = fixture_string(request, arguments, "name");
    tdg_prompt_t prompt = {
        .name = name, .description = "Added later.", .get = call_added};

    (void)user;
    if (name != NULL)
        fixture_reply_code(request,
                           tdg_server_add_prompt(tdg_request_server(request), &prompt));
}

static void call_remove_prompt(void *user, tdg_request_t *request,
                               const json_t *arguments) {
    const char *name = fixture_string(request, arguments, "name");

    (void)user;
    if (name != NULL)
        fixture_reply_code(request,
                           tdg_server_remove_prompt(tdg_request_server(request), name));
}

/* ---- Answers that come later -------------------------------------------- */

static void answer_slow(void *request) {
    tdg_request_reply_text(request, "slow answer");
}

/* {ms} */
static void call_slow(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    fixture_later(fixture_number(arguments, "ms", 100), answer_slow, request);
}

/* {level, text, count?} */
static void call_log(void *user, tdg_request_t *request, const json_t *arguments) {
    uint32_t n = fixture_number(arguments, "count", 1);
    tdg_log_level_t level =
        (tdg_log_level_t)fixture_number(arguments, "level", TDG_LOG_INFO);
    json_t *text = json_object_get(arguments, "text");

    (void)user;
    for (uint32_t i = 0; i < n; i++)
        tdg_request_log(request, level, "fixture",
                        text != NULL ? json_deep_copy(text) : json_integer(i));
    tdg_request_reply_text(request, "logged");
}

/* ---- Looking inside ----------------------------------------------------- */

static void call_counters(void *user, tdg_request_t *request, const json_t *arguments) {
    tdg_server_counters_t c;

    (void)user;
    (void)arguments;
    tdg_server_counters(tdg_request_server(request), &c);
    fixture_reply_object(
        request, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                           "connections", (json_int_t)c.connections, "sessions",
                           (json_int_t)c.sessions, "streams", (json_int_t)c.streams,
                           "subscriptions", (json_int_t)c.subscriptions, "pending",
                           (json_int_t)c.pending, "requests", (json_int_t)c.requests,
                           "changes", (json_int_t)c.changes, "delivered",
                           (json_int_t)c.delivered, "merged", (json_int_t)c.merged,
                           "filtered", (json_int_t)c.filtered, "rate_limited",
                           (json_int_t)c.rate_limited, "ended", (json_int_t)c.ended));
}

static void tell_subscriptions(void *arg) {
    tdg_request_t *request = arg;
    json_t *list = NULL;

    tdg_server_subscriptions(tdg_request_server(request), NULL, &list);
    fixture_reply_object(
        request, json_pack("{s:o}", "subscriptions", list != NULL ? list : json_null()));
}

/* Asking waits for the workers, so it is done from another thread. */
static void call_subscriptions(void *user, tdg_request_t *request,
                               const json_t *arguments) {
    (void)user;
    (void)arguments;
    fixture_later(0, tell_subscriptions, request);
}

static void call_watched(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    (void)arguments;
    fixture_reply_object(request, fixture_live_watched());
}

/* {uri, error?} */
static void call_arm(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *uri = fixture_string(request, arguments, "uri");
    const json_t *error = json_object_get(arguments, "error");

    (void)user;
    if (uri != NULL)
        fixture_reply_code(request, fixture_live_arm(tdg_request_server(request), uri,
                                                     (int)json_integer_value(error)));
}

/* ---- The table ---------------------------------------------------------- */

static const struct offered_tool tools[] = {
    {"publish", "Says that a resource changed.", call_publish, WITH_STRING("uri")},
    {"delete", "Says that a resource is gone.", call_delete, WITH_STRING("uri")},
    {"configure", "Sets when subscribers are told.", call_configure, WITH_STRING("uri")},
    {"add_resource", "Adds a resource.", call_add_resource, WITH_STRING("uri")},
    {"remove_resource", "Removes a resource.", call_remove_resource, WITH_STRING("uri")},
    {"add_tool", "Adds a tool.", call_add_tool, WITH_STRING("name")},
    {"remove_tool", "Removes a tool.", call_remove_tool, WITH_STRING("name")},
    {"add_prompt", "Adds a prompt.", call_add_prompt, WITH_STRING("name")},
    {"remove_prompt", "Removes a prompt.", call_remove_prompt, WITH_STRING("name")},
    {"slow", "Answers later, from another thread.", call_slow, NULL},
    {"log", "Sends log messages.", call_log, NULL},
    {"counters", "Numbers about the server.", call_counters, NULL},
    {"subscriptions", "Who is subscribed to what.", call_subscriptions, NULL},
    {"watched", "How often watching was started, stopped.", call_watched, NULL},
    {"arm", "Lets a watcher under slow:// begin.", call_arm, WITH_STRING("uri")},
};

int fixture_offer_tools(tdg_server_t *server, const struct offered_tool *list, size_t n) {
    int rv = 0;

    for (size_t i = 0; i < n && rv == 0; i++) {
        json_t *schema =
            list[i].schema != NULL ? json_loads(list[i].schema, 0, NULL) : NULL;
        tdg_tool_t tool = {.name = list[i].name,
                           .description = list[i].description,
                           .input_schema = schema,
                           .call = list[i].call};

        rv = tdg_server_add_tool(server, &tool);
        json_decref(schema);
    }
    return rv;
}

int fixture_add_tools(tdg_server_t *server) {
    int rv = fixture_offer_tools(server, tools, sizeof(tools) / sizeof(tools[0]));

    return rv == 0 ? fixture_add_held(server) : rv;
}
