/* SPDX-License-Identifier: MIT */
#include "driver.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *text_of(const json_t *line, const char *name) {
    const char *text = json_string_value(json_object_get(line, name));

    return text != NULL ? text : "";
}

/* An answer with what a call has given; `value` is stolen. */
static json_t *with(int code, tdg_failure_t *failure, const char *name, json_t *value) {
    json_t *answer = driver_answer(code, failure);

    if (code == 0 && value != NULL)
        json_object_set_new(answer, name, value);
    return answer;
}

/* ---- Connecting --------------------------------------------------------- */

static void on_event(void *user, tdg_client_t *client, const tdg_event_t *event) {
    const driven_t *driven = user;

    (void)client;
    driver_tell(driver_event(driven->name, event));
}

static json_t *on_input(void *user, const char *method, const json_t *params) {
    const driven_t *driven = user;
    const json_t *answer = json_object_get(driven->input, method);

    driver_tell(json_pack("{s:s, s:s, s:O?}", "input", method, "client", driven->name,
                          "params", params));
    return answer != NULL ? json_deep_copy(answer) : NULL;
}

static void on_log(void *user, tdg_log_level_t level, const char *line) {
    static const char *const levels[] = {[TDG_LOG_DEBUG] = "debug",
                                         [TDG_LOG_INFO] = "info",
                                         [TDG_LOG_WARNING] = "warning"};
    const driven_t *driven = user;

    driver_tell(json_pack("{s:s, s:s, s:s}", "log", levels[level], "client", driven->name,
                          "line", line));
}

static void on_stderr(void *user, const char *line) {
    const driven_t *driven = user;

    driver_tell(json_pack("{s:s, s:s, s:s}", "log", "program", "client", driven->name,
                          "line", line));
}

/* Events as they come, until the client has ended or is to be closed. */
static void *fetch(void *arg) {
    driven_t *driven = arg;
    struct pollfd wait[] = {{.fd = tdg_client_fd(driven->client), .events = POLLIN},
                            {.fd = driven->wake[0], .events = POLLIN}};
    int rv = 0;

    while (rv == 0 || rv == TDG_ETIMEDOUT) {
        tdg_event_t *event;

        if (rv == TDG_ETIMEDOUT && poll(wait, 2, -1) < 0)
            break;
        if (wait[1].revents != 0)
            return NULL;
        rv = tdg_client_next(driven->client, 0, &event);
        if (rv == 0) {
            driver_tell(driver_event(driven->name, event));
            tdg_event_free(event);
        }
    }
    driver_tell(json_pack("{s:s, s:s}", "event", "ended", "client", driven->name));
    return NULL;
}

static void start_fetcher(driven_t *driven) {
    driven->fetching = pipe(driven->wake) == 0 &&
                       pthread_create(&driven->fetcher, NULL, fetch, driven) == 0;
}

static json_t *do_connect(driven_t *driven, const json_t *line) {
    tdg_client_opts_t opts;
    tdg_failure_t failure = {0};
    tdg_client_t *client = NULL;
    int rv;

    if (driven->client != NULL)
        return driver_answer(TDG_EINVAL, NULL);
    json_decref(driven->opts);
    driven->opts = json_deep_copy(line);
    driven->input = json_object_get(driven->opts, "input");
    driver_opts(driven->opts, &opts);
    opts.user = driven;
    opts.log = on_log;
    opts.on_stderr = on_stderr;
    opts.on_input = driven->input != NULL ? on_input : NULL;
    opts.on_event = json_is_true(json_object_get(line, "callback")) ? on_event : NULL;

    rv = tdg_client_connect(&opts, &client, &failure);
    driven->client = client;
    driver_opts_done(&opts);
    if (rv == 0 && opts.on_event == NULL &&
        !json_is_true(json_object_get(line, "manual")))
        start_fetcher(driven);
    return driver_answer(rv, &failure);
}

void driver_close(driven_t *driven) {
    tdg_client_t *client = driven->client;

    if (driven->fetching) {
        (void)!write(driven->wake[1], "", 1);
        pthread_join(driven->fetcher, NULL);
        close(driven->wake[0]);
        close(driven->wake[1]);
        driven->fetching = false;
    }
    driven->client = NULL;
    tdg_client_close(client);
}

static json_t *do_close(driven_t *driven, const json_t *line) {
    (void)line;
    driver_close(driven);
    return driver_answer(0, NULL);
}

static json_t *do_facts(driven_t *driven, const json_t *line) {
    tdg_server_facts_t facts;
    json_t *answer;
    int rv = tdg_client_facts(driven->client, &facts);

    (void)line;
    if (rv < 0)
        return driver_answer(rv, NULL);
    answer = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:O?, s:O?, s:O?, s:s?, s:b, s:b}", "code",
        "TDG_OK", "era", facts.era == TDG_ERA_MODERN ? "modern" : "legacy", "protocol",
        facts.protocol, "transport", facts.transport, "name", facts.name, "version",
        facts.version, "info", facts.info, "capabilities", facts.capabilities,
        "supported", facts.supported, "instructions", facts.instructions, "subscribe",
        facts.subscribe, "ours", facts.ours);
    tdg_server_facts_done(&facts);
    return answer;
}

static json_t *do_counts(driven_t *driven, const json_t *line) {
    tdg_client_counters_t counts;

    (void)line;
    tdg_client_counters(driven->client, &counts);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                     "code", "TDG_OK", "updates", (json_int_t)counts.updates, "repeated",
                     (json_int_t)counts.repeated, "older", (json_int_t)counts.older,
                     "reconnects", (json_int_t)counts.reconnects, "streams",
                     (json_int_t)counts.streams, "initialised",
                     (json_int_t)counts.sessions, "requests", (json_int_t)counts.requests,
                     "keepalives", (json_int_t)counts.keepalives, "reads",
                     (json_int_t)counts.reads, "retrying", (json_int_t)counts.retrying,
                     "subscriptions", (json_int_t)counts.subscriptions, "waiting",
                     (json_int_t)counts.pending);
}

/* ---- Subscriptions ------------------------------------------------------ */

static json_t *do_subscribe(driven_t *driven, const json_t *line) {
    tdg_subscribe_opts_t opts;
    tdg_failure_t failure = {0};
    int rv;

    driver_subscribe_opts(line, &opts);
    rv = tdg_client_subscribe(driven->client, text_of(line, "uri"), &opts, &failure);
    return driver_answer(rv, &failure);
}

static json_t *do_subscribe_all(driven_t *driven, const json_t *line) {
    const char **uris = driver_strings(json_object_get(line, "uris"));
    size_t count = json_array_size(json_object_get(line, "uris"));
    int *codes = calloc(count + 1, sizeof(*codes));
    json_t *names = json_array();
    tdg_subscribe_opts_t opts;
    tdg_failure_t failure = {0};
    json_t *answer;

    driver_subscribe_opts(line, &opts);
    answer = driver_answer(
        tdg_client_subscribe_all(driven->client, uris, count, &opts, codes, &failure),
        NULL);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(names, json_string(tdg_error_name(codes[i])));
    json_object_set_new(answer, "codes", names);
    json_object_set_new(answer, "message", json_string(failure.message));
    tdg_failure_done(&failure);
    free(codes);
    free(uris);
    return answer;
}

static json_t *do_unsubscribe(driven_t *driven, const json_t *line) {
    tdg_failure_t failure = {0};
    int rv = tdg_client_unsubscribe(driven->client, text_of(line, "uri"), &failure);

    return driver_answer(rv, &failure);
}

static json_t *do_subscriptions(driven_t *driven, const json_t *line) {
    json_t *uris;
    int rv = tdg_client_subscriptions(driven->client, &uris);

    (void)line;
    return rv == 0 ? with(0, NULL, "uris", uris) : driver_answer(rv, NULL);
}

static json_t *do_watch_lists(driven_t *driven, const json_t *line) {
    const json_t *names = json_object_get(line, "lists");
    tdg_failure_t failure = {0};
    unsigned wanted = 0;
    int rv;

    for (size_t i = 0; i < json_array_size(names); i++) {
        int list = driver_list(json_string_value(json_array_get(names, i)));

        if (list >= 0)
            wanted |= 1U << list;
    }
    rv = tdg_client_watch_lists(driven->client, wanted, &failure);
    return driver_answer(rv, &failure);
}

/* One event, for a client that was connected with "manual". */
static json_t *do_next(driven_t *driven, const json_t *line) {
    tdg_event_t *event;
    int wait = (int)json_integer_value(json_object_get(line, "timeout_ms"));
    int rv = tdg_client_next(driven->client, wait, &event);
    json_t *answer = driver_answer(rv, NULL);

    if (rv == 0) {
        json_object_set_new(answer, "next", driver_event(driven->name, event));
        tdg_event_free(event);
    }
    return answer;
}

/* ---- Requests ----------------------------------------------------------- */

static json_t *params_of(const json_t *line, const char *name) {
    const json_t *params = json_object_get(line, name);

    return params != NULL ? json_deep_copy(params) : NULL;
}

static json_t *do_list(driven_t *driven, const json_t *line) {
    int list = driver_list(text_of(line, "list"));
    tdg_failure_t failure = {0};
    json_t *found = NULL;
    int rv;

    if (list < 0)
        return driver_answer(TDG_EINVAL, NULL);
    rv = tdg_client_list(driven->client, (tdg_list_kind_t)list, &found, &failure);
    return with(rv, &failure, "result", found);
}

static json_t *do_read(driven_t *driven, const json_t *line) {
    tdg_failure_t failure = {0};
    json_t *found = NULL;
    int rv = tdg_client_read(driven->client, text_of(line, "uri"), &found, &failure);

    return with(rv, &failure, "result", found);
}

static json_t *do_call(driven_t *driven, const json_t *line) {
    tdg_failure_t failure = {0};
    json_t *found = NULL;
    int rv = tdg_client_call(driven->client, text_of(line, "tool"),
                             params_of(line, "arguments"), &found, &failure);

    return with(rv, &failure, "result", found);
}

static json_t *do_prompt(driven_t *driven, const json_t *line) {
    tdg_failure_t failure = {0};
    json_t *found = NULL;
    int rv = tdg_client_prompt(driven->client, text_of(line, "prompt"),
                               params_of(line, "arguments"), &found, &failure);

    return with(rv, &failure, "result", found);
}

static json_t *do_complete(driven_t *driven, const json_t *line) {
    tdg_failure_t failure = {0};
    json_t *found = NULL;
    int rv = tdg_client_complete(driven->client, text_of(line, "ref"),
                                 text_of(line, "argument"), text_of(line, "value"),
                                 params_of(line, "context"), &found, &failure);

    return with(rv, &failure, "result", found);
}

static json_t *do_ping(driven_t *driven, const json_t *line) {
    tdg_failure_t failure = {0};
    int rv = tdg_client_ping(driven->client, &failure);

    (void)line;
    return driver_answer(rv, &failure);
}

static json_t *do_request(driven_t *driven, const json_t *line) {
    tdg_failure_t failure = {0};
    json_t *found = NULL;
    int rv = tdg_client_request(
        driven->client, text_of(line, "method"), params_of(line, "params"),
        (uint32_t)json_integer_value(json_object_get(line, "timeout_ms")), &found,
        &failure);

    return with(rv, &failure, "result", found);
}

/* ---- Finding the function ----------------------------------------------- */

json_t *driver_do(const json_t *line) {
    static const struct {
        const char *name;
        json_t *(*work)(driven_t *driven, const json_t *line);
    } table[] = {
        {"connect", do_connect},
        {"close", do_close},
        {"facts", do_facts},
        {"counts", do_counts},
        {"subscribe", do_subscribe},
        {"subscribe_all", do_subscribe_all},
        {"unsubscribe", do_unsubscribe},
        {"subscriptions", do_subscriptions},
        {"watch_lists", do_watch_lists},
        {"next", do_next},
        {"list", do_list},
        {"read", do_read},
        {"call", do_call},
        {"prompt", do_prompt},
        {"complete", do_complete},
        {"ping", do_ping},
        {"request", do_request},
    };
    const char *name = text_of(line, "do");
    driven_t *driven = driver_find(text_of(line, "client"));

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(name, table[i].name) == 0)
            return driven->client == NULL && i > 1 ? driver_answer(TDG_EENDED, NULL)
                                                   : table[i].work(driven, line);
    return json_pack("{s:s, s:s}", "code", "TDG_EINVAL", "message",
                     "the driver knows no such thing");
}
