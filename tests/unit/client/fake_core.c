/* SPDX-License-Identifier: MIT */
#include "fake_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/session/core.h"
#include "client/session/event.h"
#include "client/subs/subscribing.h"

/* Not used: this is the core. */
struct tdg__core_upper {
    int none;
};
const tdg__core_upper_t tdg__core_subs = {0};

struct fake fake;

void fake_reset(void) {
    memset(&fake, 0, sizeof(fake));
    fake.era = TDG_ERA_MODERN;
}

/* One answer that is due some time. */
struct due {
    struct due *next;
    int64_t at_ms; /* INT64_MAX: never */
    tdg__core_done_fn done;
    void *user;
    int code;
    json_t *result;
};

struct tdg__core {
    tdg__core_opts_t opts;
    struct due *due;
    void (*stopped)(void *user);
    void *stopped_user;
    json_t *subscriptions;
    tdg_client_counters_t counts;
};

static void add_due(tdg__core_t *core, int64_t in_ms, int code, json_t *result,
                    tdg__core_done_fn done, void *user) {
    struct due *due = malloc(sizeof(*due)), **last = &core->due;

    if (due == NULL)
        abort();
    *due = (struct due){.at_ms = in_ms < 0 ? INT64_MAX
                                           : core->opts.now(core->opts.user) + in_ms,
                        .done = done,
                        .user = user,
                        .code = code,
                        .result = result};
    while (*last != NULL)
        last = &(*last)->next;
    *last = due;
    atomic_fetch_add(&fake.waiting, 1);
}

static void finish(struct due *due, int code) {
    tdg_failure_t failure = {.code = code, .message = "as the test wants it"};

    if (code == TDG_EREFUSED) {
        failure.rpc_code = -32000;
        failure.data = json_pack("{s:s}", "why", "test");
    }
    atomic_fetch_sub(&fake.waiting, 1);
    due->done(due->user, code, code == 0 ? due->result : NULL,
              code == 0 ? NULL : &failure);
    json_decref(failure.data);
    json_decref(due->result);
    free(due);
}

int tdg__core_create(const tdg__core_opts_t *opts, tdg__core_t **ret) {
    tdg__core_t *core = calloc(1, sizeof(*core));

    if (core == NULL)
        return TDG_ENOMEM;
    core->opts = *opts;
    core->subscriptions = json_array();
    atomic_fetch_add(&fake.created, 1);
    if (opts->client->url != NULL)
        snprintf(fake.url, sizeof(fake.url), "%s", opts->client->url);
    *ret = core;
    return 0;
}

void tdg__core_destroy(tdg__core_t *core) {
    if (core == NULL)
        return;
    json_decref(core->subscriptions);
    free(core);
    atomic_fetch_add(&fake.destroyed, 1);
}

void tdg__core_connect(tdg__core_t *core, tdg__core_done_fn done, void *user) {
    add_due(core, 0, fake.connect_code, NULL, done, user);
}

void tdg__core_stop(tdg__core_t *core, void (*done)(void *user), void *user) {
    struct due *due, *next;

    for (due = core->due, core->due = NULL; due != NULL; due = next) {
        next = due->next;
        finish(due, TDG_EENDED);
    }
    core->stopped = done;
    core->stopped_user = user;
}

void tdg__core_tick(tdg__core_t *core) {
    int64_t now = core->opts.now(core->opts.user);
    struct due **place = &core->due;

    while (*place != NULL) {
        struct due *due = *place;

        if (due->at_ms > now) {
            place = &due->next;
            continue;
        }
        *place = due->next;
        finish(due, due->code);
    }
    if (core->stopped != NULL && !atomic_load(&fake.hang)) {
        void (*stopped)(void *user) = core->stopped;

        core->stopped = NULL;
        stopped(core->stopped_user);
    }
}

int64_t tdg__core_deadline(const tdg__core_t *core) {
    int64_t at = INT64_MAX;

    for (const struct due *due = core->due; due != NULL; due = due->next)
        at = due->at_ms < at ? due->at_ms : at;
    if (core->stopped != NULL && atomic_load(&fake.hang))
        return core->opts.now(core->opts.user) + 20;
    return core->stopped != NULL ? 0 : at;
}

static void tell(tdg__core_t *core, tdg_event_kind_t kind, const json_t *params) {
    const char *uri = json_string_value(json_object_get(params, "uri"));
    json_int_t count = json_integer_value(json_object_get(params, "count"));

    for (json_int_t i = 0; i < (count > 0 ? count : 1); i++)
        core->opts.event(core->opts.user,
                         tdg__event_create(kind, uri, NULL, NULL, 0, NULL));
}

static json_t *described(const char *method, const json_t *params) {
    json_t *answer = NULL;
    char *text;

    if (fake.answer == NULL)
        return json_pack("{s:s, s:O?}", "method", method, "params", params);

    text = strdup(fake.answer);
    for (char *c = text; c != NULL && *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    answer = json_loads(text, JSON_DECODE_ANY, NULL);
    free(text);
    return answer;
}

void tdg__core_request(tdg__core_t *core, const char *method, json_t *params,
                       uint32_t timeout_ms, tdg__core_done_fn done, void *user) {
    static const struct {
        const char *method;
        int64_t in_ms;
        int code;
    } known[] = {
        {"echo", 0, 0},
        {"slowly", 50, 0},
        {"refuse", 0, TDG_EREFUSED},
        {"never", -1, 0},
    };

    char *text = json_dumps(params, JSON_COMPACT | JSON_SORT_KEYS);

    fake.timeout_ms = timeout_ms;
    snprintf(fake.request, sizeof(fake.request), "%s %s", method,
             text != NULL ? text : "-");
    free(text);
    core->counts.requests++;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(method, known[i].method) == 0) {
            add_due(core, known[i].in_ms, known[i].code, params, done, user);
            return;
        }
    }
    if (strcmp(method, "event") == 0)
        tell(core, TDG_EVENT_UPDATED, params);
    else if (strcmp(method, "close") == 0)
        tell(core, TDG_EVENT_CLOSED, params);
    else if (strcmp(method, "lose") == 0)
        core->opts.event(core->opts.user, NULL);
    else if (strcmp(method, "log") == 0)
        core->opts.log(core->opts.user, TDG_LOG_DEBUG, "a line");
    else if (strcmp(method, "input") == 0)
        json_decref(core->opts.input(core->opts.user, "roots/list", NULL));
    else if (strcmp(method, "progress") == 0)
        core->opts.progress(core->opts.user, params);
    add_due(core, 0, 0, described(method, params), done, user);
    json_decref(params);
}

void tdg__core_list(tdg__core_t *core, tdg_list_kind_t list, tdg__core_done_fn done,
                    void *user) {
    add_due(core, 0, 0, json_pack("[i]", (int)list), done, user);
}

void tdg__core_call(tdg__core_t *core, const char *tool, json_t *arguments,
                    uint32_t timeout_ms, tdg__core_done_fn done, void *user) {
    fake.timeout_ms = timeout_ms;
    add_due(core, 0, 0, json_pack("{s:s, s:o?}", "tool", tool, "arguments", arguments),
            done, user);
}

/* URIs that begin with "bad:" are refused. */
void tdg__core_subscribe(tdg__core_t *core, const char *const *uris, size_t count,
                         const tdg_subscribe_opts_t *opts, int *codes,
                         tdg__core_done_fn done, void *user) {
    int first = 0;

    (void)opts;
    for (size_t i = 0; i < count; i++) {
        int code = strncmp(uris[i], "bad:", 4) == 0 ? TDG_EREFUSED : 0;

        if (codes != NULL)
            codes[i] = code;
        if (first == 0)
            first = code;
        if (code == 0)
            json_array_append_new(core->subscriptions, json_string(uris[i]));
    }
    add_due(core, 0, first, NULL, done, user);
}

void tdg__core_unsubscribe(tdg__core_t *core, const char *uri, tdg__core_done_fn done,
                           void *user) {
    int code = TDG_ENOTFOUND;

    for (size_t i = json_array_size(core->subscriptions); i-- > 0;) {
        if (strcmp(json_string_value(json_array_get(core->subscriptions, i)), uri) == 0) {
            json_array_remove(core->subscriptions, i);
            code = 0;
        }
    }
    core->opts.forget(core->opts.user, uri);
    add_due(core, 0, code, NULL, done, user);
}

bool tdg__core_is_subscribed(const tdg__core_t *core, const char *uri) {
    for (size_t i = 0; i < json_array_size(core->subscriptions); i++) {
        if (strcmp(json_string_value(json_array_get(core->subscriptions, i)), uri) == 0)
            return true;
    }
    return false;
}

void tdg__core_watch_lists(tdg__core_t *core, unsigned lists, tdg__core_done_fn done,
                           void *user) {
    (void)lists;
    add_due(core, 0, 0, NULL, done, user);
}

json_t *tdg__core_subscriptions(const tdg__core_t *core) {
    return json_copy(core->subscriptions);
}

int tdg__core_facts(const tdg__core_t *core, tdg_server_facts_t *ret) {
    (void)core;
    *ret = (tdg_server_facts_t){.era = fake.era,
                                .protocol = "fake",
                                .transport = "none",
                                .name = "server",
                                .version = "",
                                .info = json_object(),
                                .capabilities = json_object(),
                                .supported = json_array()};
    return 0;
}

void tdg__core_count(const tdg__core_t *core, tdg_client_counters_t *ret) {
    *ret = core->counts;
    ret->subscriptions = json_array_size(core->subscriptions);
}

/* ---- Transports, which this core does not have ------------------------------- */

int tdg__transport_create(tdg__transport_kind_t kind, uv_loop_t *loop,
                          const tdg__transport_opts_t *opts,
                          const tdg__transport_calls_t *calls, void *user,
                          tdg__transport_t **ret) {
    (void)kind, (void)loop, (void)opts, (void)calls, (void)user, (void)ret;
    return TDG_ENOTSUP;
}
