/* SPDX-License-Identifier: MIT
 *
 * A program as a stranger compiles it, against whatever headers abi_test.py gives it:
 * each function that takes, fills or hands out a struct, with a guard behind those that
 * the library fills. C11 and C++17. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/tidings.h>

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

#define GUARD UINT64_C(0xa5a5a5a5a5a5a5a5)

static void read_it(void *user, tdg_request_t *request, const char *uri) {
    (void)uri;
    tdg_request_reply_text(request, (const char *)user);
}

static void call_it(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user, (void)arguments;
    tdg_request_reply_text(request, "called");
}

static int start(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)server;
    if (strcmp(target->name, "clock://full") == 0)
        return TDG_EAGAIN;
    if (target->kind == TDG_TARGET_URI)
        ++*(int *)user;
    return 0;
}

static void stop(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server, (void)target;
}

static char text[] = "12:00";
static int starts;

/* `longest`: every time is as long as it can be. */
static tdg_server_t *serve(bool longest) {
    static tdg_settings_t settings;
    static tdg_watcher_t watcher;
    static tdg_server_opts_t opts;
    static tdg_resource_t resource;
    static tdg_template_t template_;
    static tdg_tool_t tool;
    static tdg_prompt_t prompt;
    static tdg_listen_opts_t http;
    static tdg_target_t target;
    tdg_server_t *server;

    settings.timing = TDG_TIMING_IMMEDIATE;
    settings.rate_limit_ms = TDG_RATE_OFF;
    watcher.start = start;
    watcher.stop = stop;
    watcher.user = &starts;
    opts.name = "abi";
    opts.workers = 1;
    opts.settings = &settings;
    opts.watcher = &watcher;
    if (longest) {
        opts.linger_ms = opts.keepalive_ms = TDG_NONE;
        opts.request_timeout_ms = opts.idle_timeout_ms = opts.session_idle_ms =
            UINT32_MAX;
        opts.handshake_timeout_ms = opts.stream_lifetime_ms = UINT32_MAX;
        opts.retry_ms = opts.stop_timeout_ms = UINT32_MAX;
    }
    CHECK(tdg_server_create(&opts, &server) == 0);

    resource.uri = "clock://now";
    resource.name = "now";
    resource.read = read_it;
    resource.user = text;
    resource.settings = &settings;
    CHECK(tdg_server_add_resource(server, &resource) == 0);
    template_.uri_template = "clock://{zone}";
    template_.name = "zones";
    template_.read = read_it;
    template_.user = text;
    template_.settings = &settings;
    CHECK(tdg_server_add_template(server, &template_) == 0);
    tool.name = "tool";
    tool.call = call_it;
    CHECK(tdg_server_add_tool(server, &tool) == 0);
    prompt.name = "prompt";
    prompt.get = call_it;
    CHECK(tdg_server_add_prompt(server, &prompt) == 0);
    target.name = "clock://now";
    CHECK(tdg_server_configure(server, &target, &settings) == 0);
    CHECK(tdg_server_listen(server, &http) == 0);
    CHECK(tdg_server_start(server) == 0);
    return server;
}

static void look_at_server(tdg_server_t *server) {
    static struct {
        tdg_server_counters_t counters;
        uint64_t guard;
    } filled;
    static tdg_subscription_query_t query;
    const tdg_target_t target = {TDG_TARGET_URI, "clock://now"};
    json_t *list;

    filled.guard = GUARD;
    tdg_server_counters(server, &filled.counters);
    CHECK(filled.guard == GUARD);
    query.target = &target; /* a legacy session listens to lists as well */
    query.client = "abi-client";
    CHECK(tdg_server_subscriptions(server, &query, &list) == 0);
    CHECK(json_array_size(list) == 1);
    json_decref(list);
}

static void look_at_client(tdg_client_t *client) {
    static struct {
        tdg_client_counters_t counters;
        uint64_t guard;
        tdg_server_facts_t facts;
        uint64_t second_guard;
        tdg_failure_t failure;
        uint64_t third_guard;
    } filled;
    json_t *result;

    filled.guard = filled.second_guard = filled.third_guard = GUARD;
    tdg_client_counters(client, &filled.counters);
    CHECK(filled.counters.subscriptions == 1);
    CHECK(tdg_client_facts(client, &filled.facts) == 0);
    CHECK(strcmp(filled.facts.name, "abi") == 0);
    tdg_server_facts_done(&filled.facts);
    CHECK(filled.facts.name == NULL);
    CHECK(tdg_client_read(client, "nowhere://x", &result, &filled.failure) ==
          TDG_ENOTFOUND);
    CHECK(filled.failure.code == TDG_ENOTFOUND);
    tdg_failure_done(&filled.failure);
    CHECK(filled.guard == GUARD && filled.second_guard == GUARD &&
          filled.third_guard == GUARD);
}

static void subscribe_and_notify(bool longest, tdg_era_t era) {
    static tdg_client_opts_t opts;
    static tdg_subscribe_opts_t subscribe;
    char url[64];
    tdg_server_t *server = serve(longest);
    tdg_client_t *client;
    tdg_event_t *event;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u/mcp",
             (unsigned)tdg_server_port(server, 0));
    opts.url = url;
    opts.name = "abi-client";
    opts.era = era;
    if (longest) {
        opts.connect_timeout_ms = opts.timeout_ms = opts.quiet_ms = UINT32_MAX;
        opts.retry_ms = opts.retry_max_ms = UINT32_MAX;
    }
    CHECK(tdg_client_connect(&opts, &client, NULL) == 0);
    subscribe.reread = true;
    CHECK(tdg_client_subscribe(client, "clock://now", &subscribe, NULL) == 0);
    CHECK(starts == 1);
    starts = 0;
    look_at_server(server);
    look_at_client(client);

    CHECK(tdg_server_notify_updated(server, "clock://now", NULL) == 0);
    CHECK(tdg_client_next(client, 10000, &event) == 0);
    CHECK(event->kind == TDG_EVENT_UPDATED && strcmp(event->uri, "clock://now") == 0);
    CHECK(event->contents != NULL);
    tdg_event_free(event);
    tdg_client_close(client);

    /* Full is no "later": what a watcher refuses for whatever reason is refused. */
    opts.flags = TDG_CLIENT_ONE_LIFE;
    CHECK(tdg_client_connect(&opts, &client, NULL) == 0);
    CHECK(tdg_client_subscribe(client, "clock://full", NULL, NULL) == TDG_EREFUSED);
    opts.flags = 0;

    tdg_client_close(client);
    tdg_server_stop(server);
    CHECK(tdg_server_notify_updated(server, "clock://now", NULL) == TDG_EENDED);
    tdg_server_destroy(server);
}

/* A size that no struct has: of a call by hand, or of memory that was overwritten. */
static void refuse_sizes(void) {
    static const size_t sizes[] = {0, 4097, SIZE_MAX};
    static tdg_server_opts_t server_opts;
    static tdg_listen_opts_t http;
    static tdg_settings_t settings;
    static tdg_client_opts_t client_opts;
    static tdg_sources_opts_t sources_opts;
    static tdg_server_facts_t facts;
    tdg_server_counters_t counters;
    tdg_target_t target = {TDG_TARGET_URI, "clock://now"};
    tdg_server_t *server, *other;
    tdg_client_t *client;
    tdg_failure_t failure;
    json_t *list;
    size_t i;

    CHECK(tdg_server_create(NULL, &server) == 0);
    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        CHECK(tdg_server_create_sized(&server_opts, sizes[i], sizeof(settings),
                                      sizeof(tdg_watcher_t), &other) == TDG_EINVAL);
        server_opts.settings = &settings;
        CHECK(tdg_server_create_sized(&server_opts, sizeof(server_opts), sizes[i],
                                      sizeof(tdg_watcher_t), &other) == TDG_EINVAL);
        CHECK(tdg_server_listen_sized(server, &http, sizes[i]) == TDG_EINVAL);
        CHECK(tdg_server_configure_sized(server, &target, &settings, sizes[i]) ==
              TDG_EINVAL);
        counters.requests = 7;
        tdg_server_counters_sized(server, &counters, sizes[i]);
        CHECK(counters.requests == 7); /* nothing is written */
        tdg_server_facts_done_sized(&facts, sizes[i]);
        CHECK(tdg_client_connect_sized(&client_opts, sizes[i], &client, &failure) ==
              TDG_EINVAL);
        CHECK(tdg_sources_serve_sized(&sources_opts, sizes[i]) == TDG_EINVAL);
    }
    /* A server that is not there has nothing to say. */
    tdg_server_counters(NULL, &counters);
    CHECK(counters.requests == 0);
    tdg_server_counters(server, NULL);
    CHECK(tdg_server_port(NULL, 0) == 0);
    CHECK(tdg_server_subscriptions(NULL, NULL, &list) == TDG_EINVAL);
    tdg_server_stop(NULL);
    tdg_server_stop_soon(NULL);
    tdg_server_wait(NULL);
    tdg_server_destroy(server);
}

/* Functions of the headers have an address like those of the library. */
static void take_addresses(void) {
    int (*volatile create)(const tdg_server_opts_t *, tdg_server_t **) =
        tdg_server_create;
    int (*volatile listen)(tdg_server_t *, const tdg_listen_opts_t *) = tdg_server_listen;
    int (*volatile serve_config)(const tdg_sources_opts_t *) = tdg_sources_serve;
    int (*volatile connect)(const tdg_client_opts_t *, tdg_client_t **, tdg_failure_t *) =
        tdg_client_connect;
    tdg_server_t *server;

    CHECK(create(NULL, &server) == 0);
    CHECK(listen(server, NULL) == TDG_EINVAL);
    tdg_server_destroy(server);
    CHECK(serve_config(NULL) == TDG_EINVAL);
    CHECK(connect(NULL, NULL, NULL) == TDG_EINVAL);
}

int main(void) {
    subscribe_and_notify(false, TDG_ERA_MODERN);
    subscribe_and_notify(true, TDG_ERA_MODERN);
    subscribe_and_notify(true, TDG_ERA_LEGACY);
    refuse_sizes();
    take_addresses();
    return 0;
}
