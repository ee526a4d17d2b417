/* SPDX-License-Identifier: MIT */
#include "ours.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HELD = 64 };

atomic_int ours_held;
static atomic_int changes;
static tdg_request_t *_Atomic held[MAX_HELD];

static void read_count(void *user, tdg_request_t *request, const char *uri) {
    char text[16];

    (void)user;
    if (strcmp(uri, "t:none") == 0) {
        tdg_request_fail_not_found(request);
        return;
    }
    snprintf(text, sizeof(text), "%d", atomic_load(&changes));
    tdg_request_reply_text(request, text);
}

static const char *text_in(const json_t *arguments, const char *name) {
    const char *text = json_string_value(json_object_get(arguments, name));

    return text != NULL ? text : "";
}

static void change(void *user, tdg_request_t *request, const json_t *arguments) {
    json_int_t times = json_integer_value(json_object_get(arguments, "times"));

    (void)user;
    for (json_int_t i = 0; i < (times > 0 ? times : 1); i++) {
        int number = atomic_fetch_add(&changes, 1) + 1;

        tdg_request_notify_updated(request, text_in(arguments, "uri"),
                                   json_pack("{s:i}", "number", number));
    }
    tdg_request_reply_text(request, "changed");
}

static void delete_it(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    tdg_server_notify_deleted(tdg_request_server(request), text_in(arguments, "uri"),
                              NULL);
    tdg_request_reply_text(request, "deleted");
}

static void add(void *user, tdg_request_t *request, const json_t *arguments) {
    tdg_resource_t resource = {
        .uri = text_in(arguments, "uri"), .name = "added", .read = read_count};

    (void)user;
    if (tdg_server_add_resource(tdg_request_server(request), &resource) == 0)
        tdg_request_reply_text(request, "added");
    else
        tdg_request_reply_tool_error(request, "it cannot be added");
}

static void echo(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user;
    tdg_request_reply_text(request, text_in(arguments, "text"));
}

static void hold(void *user, tdg_request_t *request, const json_t *arguments) {
    int place = atomic_fetch_add(&ours_held, 1);

    (void)user, (void)arguments;
    if (place >= MAX_HELD)
        abort();
    atomic_store(&held[place], request);
}

static void complete(void *user, tdg_request_t *request, const char *argument,
                     const char *value, const json_t *context) {
    (void)user, (void)context;
    tdg_request_reply_completion(request, json_pack("[s, s]", argument, value), 2, false);
}

static bool add_all(tdg_server_t *server) {
    const tdg_resource_t resources[] = {
        {.uri = "a:1", .name = "one", .read = read_count},
        {.uri = "a:2", .name = "two", .read = read_count},
        {.uri = "a:mute", .name = "mute", .read = read_count, .not_subscribable = true},
    };
    const tdg_template_t template_ = {
        .uri_template = "t:{x}", .name = "t", .read = read_count, .complete = complete};
    const tdg_tool_t tools[] = {
        {.name = "change", .call = change}, {.name = "delete", .call = delete_it},
        {.name = "add", .call = add},       {.name = "echo", .call = echo},
        {.name = "hold", .call = hold},
    };
    const tdg_prompt_t prompt = {.name = "p", .get = echo, .complete = complete};
    bool added = tdg_server_add_template(server, &template_) == 0 &&
                 tdg_server_add_prompt(server, &prompt) == 0;

    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
        added = added && tdg_server_add_resource(server, &resources[i]) == 0;
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++)
        added = added && tdg_server_add_tool(server, &tools[i]) == 0;
    return added;
}

static tdg_server_t *create(unsigned flags) {
    tdg_server_opts_t opts = {.name = "ours",
                              .version = "7",
                              .instructions = "Be kind.",
                              .flags = flags,
                              .workers = 1,
                              .stop_timeout_ms = 500,
                              .settings =
                                  &(tdg_settings_t){.timing = TDG_TIMING_IMMEDIATE,
                                                    .rate_limit_ms = TDG_RATE_OFF}};
    tdg_server_t *server = NULL;

    if (tdg_server_create(&opts, &server) < 0 || !add_all(server)) {
        tdg_server_destroy(server);
        return NULL;
    }
    return server;
}

bool ours_open(struct ours *ours, unsigned flags, uint16_t port) {
    tdg_listen_opts_t http = {.port = port};

    ours->server = create(flags);
    if (ours->server == NULL || tdg_server_listen(ours->server, &http) < 0 ||
        tdg_server_start(ours->server) < 0) {
        ours_close(ours);
        return false;
    }
    ours->port = tdg_server_port(ours->server, 0);
    snprintf(ours->url, sizeof(ours->url), "http://127.0.0.1:%u/mcp", ours->port);
    return true;
}

/* What is held is answered to nobody, so that nothing leaks. */
static void release_held(void) {
    for (int i = 0; i < MAX_HELD; i++) {
        tdg_request_t *request = atomic_exchange(&held[i], NULL);

        if (request != NULL)
            tdg_request_reply_text(request, "at last");
    }
    atomic_store(&ours_held, 0);
}

void ours_close(struct ours *ours) {
    if (ours->server == NULL)
        return;
    tdg_server_stop(ours->server);
    release_held();
    tdg_server_destroy(ours->server);
    ours->server = NULL;
}

int ours_serve_stdio(bool deaf) {
    tdg_server_t *server = create(0);
    sigset_t term;
    int rv;

    if (server == NULL || tdg_server_pipe(server, 0, 1, false) < 0)
        return 1;
    if (!deaf) {
        rv = tdg_server_run(server);
        release_held();
        tdg_server_destroy(server);
        return rv < 0;
    }

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    if (tdg_server_start(server) < 0)
        return 1;
    tdg_server_wait(server);
    fprintf(stderr, "I stay\n");
    for (;;)
        pause();
}
