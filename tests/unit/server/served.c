/* SPDX-License-Identifier: MIT */
#include "served.h"

static void read_it(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    if (strcmp(uri, "t:none") == 0)
        tdg_request_fail_not_found(request);
    else
        tdg_request_reply_text(request, uri);
}

static void echo(void *user, tdg_request_t *request, const json_t *arguments) {
    const char *text = json_string_value(json_object_get(arguments, "text"));

    (void)user;
    tdg_request_reply_text(request, text != NULL ? text : "nothing");
}

static void hold(void *user, tdg_request_t *request, const json_t *arguments) {
    struct served *served = user;

    (void)arguments;
    pthread_mutex_lock(&served->lock);
    if (served->held_count == MAX_HELD)
        abort();
    served->held[served->held_count++] = request;
    pthread_mutex_unlock(&served->lock);
}

static void add_all(struct served *served) {
    tdg_server_t *server = served->server;
    const tdg_resource_t resources[] = {
        {.uri = "a:1", .name = "one", .read = read_it},
        {.uri = "a:2", .name = "two", .read = read_it},
    };
    const tdg_template_t template_ = {
        .uri_template = "t:{x}", .name = "t", .read = read_it};
    const tdg_tool_t tools[] = {
        {.name = "echo", .call = echo},
        {.name = "hold", .call = hold, .user = served},
    };
    const tdg_prompt_t prompt = {.name = "p", .get = echo};

    for (size_t i = 0; i < COUNT(resources); i++)
        assert_int_equal(tdg_server_add_resource(server, &resources[i]), 0);
    assert_int_equal(tdg_server_add_template(server, &template_), 0);
    for (size_t i = 0; i < COUNT(tools); i++)
        assert_int_equal(tdg_server_add_tool(server, &tools[i]), 0);
    assert_int_equal(tdg_server_add_prompt(server, &prompt), 0);
}

static void create_empty(struct served *served, const tdg_server_opts_t *opts) {
    tdg_server_opts_t all = opts != NULL ? *opts : (tdg_server_opts_t){0};
    tdg_settings_t settings = all.settings != NULL ? *all.settings : (tdg_settings_t){0};

    memset(served, 0, sizeof(*served));
    pthread_mutex_init(&served->lock, NULL);
    /* TDG_WORKERS=3: the same tests where requests have to find their sessions. */
    if (all.workers == 0)
        all.workers =
            getenv("TDG_WORKERS") != NULL ? (unsigned)atoi(getenv("TDG_WORKERS")) : 1;
    if (settings.timing == TDG_TIMING_INHERIT)
        settings.timing = TDG_TIMING_IMMEDIATE;
    if (settings.rate_limit_ms == TDG_RATE_INHERIT)
        settings.rate_limit_ms = TDG_RATE_OFF;
    all.settings = &settings;
    /* Else an answer comes as a stream where the machine needs 15 s to make it. */
    if (all.keepalive_ms == 0)
        all.keepalive_ms = 3600000;
    /* Else an answer that nobody reads is cut where a test needs 30 s to come to it. */
    if (all.request_timeout_ms == 0)
        all.request_timeout_ms = 3600000;
    assert_int_equal(tdg_server_create(&all, &served->server), 0);
}

void served_create(struct served *served, const tdg_server_opts_t *opts) {
    create_empty(served, opts);
    add_all(served);
}

static void start_at(struct served *served, const tdg_listen_opts_t *http,
                     uv_loop_t *loop) {
    served->loop = loop;
    assert_int_equal(tdg_server_listen(served->server, http), 0);
    served->port = tdg_server_port(served->server, 0);
    assert_int_not_equal(served->port, 0);
    assert_int_equal(loop != NULL ? tdg_server_attach(served->server, loop)
                                  : tdg_server_start(served->server),
                     0);
}

static void start(struct served *served, uv_loop_t *loop) {
    start_at(served, &(tdg_listen_opts_t){.port = 0}, loop);
}

void served_open_at(struct served *served, const tdg_server_opts_t *opts,
                    const tdg_listen_opts_t *http) {
    served_create(served, opts);
    start_at(served, http, NULL);
}

void served_open(struct served *served, const tdg_server_opts_t *opts, uv_loop_t *loop) {
    served_create(served, opts);
    start(served, loop);
}

void served_open_empty(struct served *served, const tdg_server_opts_t *opts) {
    create_empty(served, opts);
    start(served, NULL);
}

void served_destroy(struct served *served) {
    tdg_server_destroy(served->server);
    served->server = NULL;
    pthread_mutex_destroy(&served->lock);
}

void served_close(struct served *served) {
    tdg_server_stop(served->server);
    if (served->loop != NULL)
        uv_run(served->loop, UV_RUN_DEFAULT);
    served_destroy(served);
}

size_t served_held(struct served *served) {
    pthread_mutex_lock(&served->lock);
    size_t count = served->held_count;
    pthread_mutex_unlock(&served->lock);
    return count;
}

tdg_request_t *served_take(struct served *served, struct client *client) {
    WAIT_UNTIL(client, served_held(served) > 0);
    pthread_mutex_lock(&served->lock);
    tdg_request_t *request = served->held[0];
    served->held_count--;
    memmove(served->held, served->held + 1, served->held_count * sizeof(request));
    pthread_mutex_unlock(&served->lock);
    return request;
}

void served_client(struct served *served, struct client *ret) {
    client_init(ret, served->loop);
    client_connect(ret, served->port);
}

void served_change(struct served *served, const char *uri) {
    assert_int_equal(tdg_server_notify_updated(served->server, uri, NULL), 0);
}

json_t *served_subscriptions(struct served *served,
                             const tdg_subscription_query_t *query) {
    json_t *all = NULL;

    tdg_server_subscriptions(served->server, query, &all);
    return all;
}

tdg_server_counters_t served_counters(struct served *served) {
    tdg_server_counters_t counters;

    tdg_server_counters(served->server, &counters);
    return counters;
}
