/* SPDX-License-Identifier: MIT
 *
 * Everything at the same time: several workers, clients of both eras that come and go in
 * threads of their own, threads that publish, add, remove, configure and look. Also runs
 * under TSan. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "clock.h"
#include "served.h"
#include "unit/targets.h"

/* On a thread of its own an assertion would not be seen. */
#define DIE()                                                                            \
    do {                                                                                 \
        fprintf(stderr, "%s:%d: died\n", __FILE__, __LINE__);                            \
        abort();                                                                         \
    } while (0)

enum { WORKERS = 3, CLIENTS = 3, PUBLISHERS = 2, ROUNDS = 12, CHANGES = 400 };

static struct {
    struct served served;
    atomic_bool over;
    atomic_uint finished; /* clients */
    atomic_uint watching; /* watchers that were started and not stopped */
} world;

static int watch(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server;
    atomic_fetch_add(&world.watching, 1);
    return strcmp(target->name, "t:slow") == 0 ? TDG_WATCH_PENDING : 0;
}

static void unwatch(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server, (void)target;
    atomic_fetch_sub(&world.watching, 1);
}

/* ---- Clients ------------------------------------------------------------ */

static void wait_for_update(struct client *stream, const char *uri) {
    char text[64];

    snprintf(text, sizeof(text), "'uri':'%s'", uri);
    do {
        if (client_message(stream) == NULL)
            DIE();
    } while (!has(stream->event, text));
}

static void legacy_round(struct client *post, struct client *get) {
    legacy_initialize(post, LATEST_LEGACY);
    legacy_join(get, post);
    client_connect(get, world.served.port);
    if (legacy_get(get, NULL) != 200)
        DIE();
    legacy_subscribe(post, "a:1");
    legacy_subscribe(post, "t:{x}");
    wait_for_update(get, "a:1");
    wait_for_update(get, "t:1");
    if (legacy_post(post, "{'jsonrpc':'2.0','id':1,'method':'resources/list'}") != 200 ||
        legacy_post(post, "{'jsonrpc':'2.0','id':2,'method':'tools/call','params':"
                          "{'name':'echo'}}") != 200)
        DIE();
    legacy_unsubscribe(post, "t:{x}");
    legacy_unsubscribe(post, "a:1");
}

static void modern_round(struct client *post, struct client *listen) {
    client_connect(listen, world.served.port);
    modern_listen(listen, "{'resourceSubscriptions':['a:1','a:2','t:slow'],"
                          "'resourcesListChanged':true}");
    wait_for_update(listen, "a:1");
    if (modern_post(post, "resources/read", "a:1", "'uri':'a:1'") != 200 ||
        modern_post(post, "resources/list", NULL, NULL) != 200)
        DIE();
}

static void *call(void *arg) {
    struct client post, stream;

    (void)arg;
    client_init(&post, NULL);
    client_init(&stream, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        client_connect(&post, world.served.port);
        if (i % 2 == 0)
            legacy_round(&post, &stream);
        else
            modern_round(&post, &stream);
        if (i % 3 == 0)
            client_reset(&stream);
    }
    client_done(&post);
    client_done(&stream);
    atomic_fetch_add(&world.finished, 1);
    return NULL;
}

/* ---- The other side ----------------------------------------------------- */

static void tell(const char *uri) {
    int rv = tdg_server_notify_updated(world.served.server, uri,
                                       json_pack("{s:s}", "by", "a thread"));

    if (rv < 0 && rv != TDG_EAGAIN && rv != TDG_EENDED) /* full, or stopped */
        DIE();
}

static void *publish(void *arg) {
    (void)arg;
    while (!atomic_load(&world.over)) {
        tell("a:1");
        tell("a:2");
        tell("t:1");
        sched_yield();
    }
    return NULL;
}

static void read_it(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    tdg_request_reply_text(request, uri);
}

static void *arrange(void *arg) {
    const tdg_resource_t more = {
        .uri = "a:3",
        .name = "three",
        .read = read_it,
        .settings = &(tdg_settings_t){.timing = TDG_TIMING_THROTTLE, .window_ms = 5}};
    tdg_server_counters_t counters;

    (void)arg;
    while (!atomic_load(&world.over)) {
        if (tdg_server_add_resource(world.served.server, &more) < 0)
            DIE();
        tdg_server_counters(world.served.server, &counters);
        json_decref(served_subscriptions(&world.served, NULL));
        tdg_server_watch_done(world.served.server, FOR_URI("t:slow"), 0);
        /* Where it cannot be told, since a worker has too much to do, it stays. */
        int rv;
        while ((rv = tdg_server_remove_resource(world.served.server, "a:3")) ==
               TDG_EAGAIN)
            sched_yield();
        if (rv < 0)
            DIE();
    }
    return NULL;
}

static void begin(pthread_t *thread, void *(*run)(void *arg)) {
    assert_int_equal(pthread_create(thread, NULL, run, NULL), 0);
}

static void serves_and_is_changed_from_all_sides(void **state) {
    const tdg_server_opts_t opts = {.workers = WORKERS,
                                    .linger_ms = 10,
                                    .keepalive_ms = 50,
                                    .watcher = &(tdg_watcher_t){watch, unwatch, NULL}};
    pthread_t clients[CLIENTS], publishers[PUBLISHERS], arranger;

    (void)state;
    served_open(&world.served, &opts, NULL);
    for (size_t i = 0; i < CLIENTS; i++)
        begin(&clients[i], call);
    for (size_t i = 0; i < PUBLISHERS; i++)
        begin(&publishers[i], publish);
    begin(&arranger, arrange);
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
    tdg_server_stop(world.served.server); /* while the others go on */
    atomic_store(&world.over, true);
    for (size_t i = 0; i < PUBLISHERS; i++)
        assert_int_equal(pthread_join(publishers[i], NULL), 0);
    assert_int_equal(pthread_join(arranger, NULL), 0);
    served_destroy(&world.served);
    assert_int_equal(world.finished, CLIENTS);
    assert_int_equal(world.watching, 0); /* whoever was started was stopped */
}

/* ---- Making room -------------------------------------------------------- */

enum { CROWD = 4, VISITS = 60, ROOM = 3 };

/* Begins a session; false: there is no room. */
static bool introduce(struct client *client) {
    char id[256];

    client_request(client, "POST", "/mcp", NULL,
                   "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                   "'protocolVersion':'2025-11-25','capabilities':{},"
                   "'clientInfo':{'name':'c','version':'1'}}}");
    int status = client_response(client);
    if (status != 200 && status != 503)
        DIE();
    client_header(client, "Mcp-Session-Id", id);
    snprintf(client->session, sizeof(client->session), "%.63s", id);
    return status == 200;
}

/* Some go on with the handshake, open a stream before or after it, or leave. */
static void *crowd_in(void *arg) {
    struct served *served = arg;
    struct client client;

    client_init(&client, NULL);
    for (int i = 0; i < VISITS; i++) {
        client_connect(&client, served->port);
        for (int n = 0; n < 5 && introduce(&client); n++)
            ;
        if (client.session[0] == '\0')
            continue;
        if (i % 3 == 0)
            legacy_post(&client,
                        "{'jsonrpc':'2.0','method':'notifications/initialized'}");
        if (i % 2 == 0)
            legacy_get(&client, NULL);
        if (i % 5 == 0)
            client_reset(&client);
    }
    client_done(&client);
    return NULL;
}

static void sessions_make_room_on_all_workers(void **state) {
    const tdg_server_opts_t opts = {.workers = WORKERS,
                                    .max_sessions = ROOM,
                                    .max_sessions_per_address = ROOM,
                                    .session_idle_ms = 15000,
                                    .handshake_timeout_ms = 15000};
    pthread_t threads[CROWD];
    struct served served;
    struct client client;

    (void)state;
    served_open(&served, &opts, NULL);
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_in, &served), 0);
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    served_client(&served, &client);
    WAIT_UNTIL(&client, served_counters(&served).sessions <= ROOM);
    clock_pass(15000);
    WAIT_UNTIL(&client, served_counters(&served).sessions == 0);
    for (int i = 0; i < ROOM; i++) { /* nothing is counted that is gone */
        legacy_initialize(&client, LATEST_LEGACY);
        assert_int_equal(legacy_post(&client, "{'jsonrpc':'2.0','id':1,'method':'ping'}"),
                         200);
    }
    client_done(&client);
    served_close(&served);
}

/* ---- Starting and stopping beside others -------------------------------- */

static void *look_and_configure(void *arg) {
    const tdg_settings_t settings = {.timing = TDG_TIMING_BATCH, .window_ms = 1};
    struct served *served = arg;
    tdg_server_counters_t counters;

    for (int i = 0; i < CHANGES; i++) {
        tdg_server_counters(served->server, &counters);
        int rv = tdg_server_configure(served->server, FOR_URI("a:1"), &settings);
        if (rv == 0)
            rv = tdg_server_notify_updated(served->server, "a:1", NULL);
        if (rv < 0 && rv != TDG_EENDED) /* it stops meanwhile */
            DIE();
        json_decref(served_subscriptions(served, &(tdg_subscription_query_t){.max = 1}));
    }
    return NULL;
}

static void starts_and_stops_while_others_call_it(void **state) {
    const tdg_server_opts_t opts = {.workers = WORKERS};
    const tdg_listen_opts_t http = {.port = 0};
    struct served served;
    pthread_t threads[2];

    (void)state;
    served_create(&served, &opts);
    assert_int_equal(tdg_server_listen(served.server, &http), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_and_configure, &served),
                         0);
    assert_int_equal(tdg_server_start(served.server), 0);
    tdg_server_stop(served.server);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    served_destroy(&served);
}

static void *stop_it_soon(void *arg) {
    struct served *served = arg;

    tdg_server_stop_soon(served->server);
    return NULL;
}

/* A stop that comes in the middle of the start is not forgotten. */
static void a_stop_during_the_start_counts(void **state) {
    const tdg_server_opts_t opts = {.workers = WORKERS};
    const tdg_listen_opts_t http = {.port = 0};
    struct served served;
    pthread_t thread;

    (void)state;
    for (int i = 0; i < 20; i++) {
        served_create(&served, &opts);
        assert_int_equal(tdg_server_listen(served.server, &http), 0);
        assert_int_equal(pthread_create(&thread, NULL, stop_it_soon, &served), 0);
        int rv = tdg_server_start(served.server); /* or it comes before */
        assert_true(rv == 0 || rv == TDG_EINVAL);
        assert_int_equal(pthread_join(thread, NULL), 0);
        tdg_server_wait(served.server);
        served_destroy(&served);
    }
}

/* A connection that names a session of another worker is answered by that; nobody gets
 * more connections so. */
static void forwarding_connections_count_towards_the_limit(void **state) {
    enum { LIMIT = 4, MANY = 40 };
    const tdg_server_opts_t opts = {.workers = 2, .max_connections = LIMIT};
    struct client clients[MANY], last;
    struct served served;
    int served_count = 0;

    (void)state;
    served_open(&served, &opts, NULL);
    for (int i = 0; i < MANY; i++) {
        served_client(&served, &clients[i]);
        client_request(&clients[i], "DELETE", "/mcp",
                       "Mcp-Session-Id: 0100112233445566778899aabbccddeeff\r\n", NULL);
        int status = client_response(&clients[i]);
        assert_true(status == 404 || status == 503);
        served_count += status == 404;
    }
    assert_in_range(served_count, 1, LIMIT);
    for (int i = 0; i < MANY; i++)
        client_done(&clients[i]);
    client_init(&last, NULL);
    WAIT_COUNTER(&served, &last, connections, 0);
    client_connect(&last, served.port); /* there is room again */
    legacy_initialize(&last, LATEST_LEGACY);
    client_done(&last);
    served_close(&served);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_and_is_changed_from_all_sides),
        cmocka_unit_test(sessions_make_room_on_all_workers),
        cmocka_unit_test(starts_and_stops_while_others_call_it),
        cmocka_unit_test(a_stop_during_the_start_counts),
        cmocka_unit_test(forwarding_connections_count_towards_the_limit),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("server_threads", tests, NULL, NULL);
}
