/* SPDX-License-Identifier: MIT
 *
 * Who is subscribed, as the program asks for it. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#include "served.h"
#include "server/context/context.h"
#include "server/mcp/call.h"
#include "unit/targets.h"

enum { CLIENTS = 16 };

struct fixture {
    struct served served;
    struct client clients[CLIENTS];
};

static struct fixture *open_with(void **state, const tdg_server_opts_t *opts) {
    struct fixture *f = *state;

    served_open(&f->served, opts, NULL);
    for (int i = 0; i < CLIENTS; i++)
        served_client(&f->served, &f->clients[i]);
    return f;
}

static int setup(void **state) {
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < CLIENTS; i++)
        client_done(&f->clients[i]);
    served_close(&f->served);
    free(f);
    return 0;
}

static json_t *ask(struct fixture *f, tdg_subscription_query_t query) {
    json_t *all = served_subscriptions(&f->served, &query);

    assert_non_null(all);
    return all;
}

static size_t count(struct fixture *f, tdg_subscription_query_t query) {
    json_t *all = ask(f, query);
    size_t size = json_array_size(all);

    json_decref(all);
    return size;
}

static const char *text(const json_t *entry, const char *key) {
    return json_string_value(json_object_get(entry, key));
}

/* The first entry of the answer; new. */
static json_t *first(struct fixture *f, tdg_subscription_query_t query) {
    json_t *all = ask(f, query);
    json_t *entry = json_incref(json_array_get(all, 0));

    assert_non_null(entry);
    json_decref(all);
    return entry;
}

static void no_two_streams_of_all_workers_have_one_number(void **state) {
    const tdg_server_opts_t opts = {.workers = 4};
    struct fixture *f = open_with(state, &opts);
    json_t *numbers = json_object();

    for (int i = 0; i < CLIENTS; i++)
        modern_listen(&f->clients[i], "{'resourceSubscriptions':['a:1']}");
    json_t *all = ask(f, (tdg_subscription_query_t){.target = FOR_URI("a:1")});
    assert_int_equal(json_array_size(all), CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++) {
        json_int_t stream =
            json_integer_value(json_object_get(json_array_get(all, i), "stream"));
        char key[32];

        snprintf(key, sizeof(key), "%lld", (long long)stream);
        assert_null(json_object_get(numbers, key));
        json_object_set_new(numbers, key, json_true());
        assert_int_equal(count(f, (tdg_subscription_query_t){.stream = (uint64_t)stream}),
                         1);
    }
    json_decref(all);
    json_decref(numbers);
}

static void a_modern_client_is_described(void **state) {
    struct fixture *f = open_with(state, NULL);
    json_t *entry;

    modern_listen(&f->clients[0], "{'resourceSubscriptions':['a:1']}");
    entry = first(f, (tdg_subscription_query_t){0});
    assert_string_equal(text(entry, "target"), "a:1");
    assert_string_equal(text(entry, "kind"), "uri");
    assert_string_equal(text(entry, "state"), "subscribed");
    assert_string_equal(text(entry, "era"), "modern");
    assert_string_equal(text(entry, "protocol"), "2026-07-28");
    assert_string_equal(text(entry, "transport"), "http");
    assert_string_equal(text(entry, "address"), "127.0.0.1");
    assert_null(json_object_get(entry, "session"));
    assert_json_equal(json_object_get(entry, "client"), "{'name':'test','version':'1'}");
    assert_json_equal(json_object_get(entry, "options"), "{}");
    assert_true(json_is_false(json_object_get(entry, "pending")));
    json_decref(entry);
}

/* ---- Behind a proxy ----------------------------------------------------- */

static struct fixture *open_behind(void **state, const char *const *proxies) {
    const tdg_listen_opts_t http = {.trusted_proxies = proxies};
    struct fixture *f = *state;

    served_open_at(&f->served, NULL, &http);
    for (int i = 0; i < CLIENTS; i++)
        served_client(&f->served, &f->clients[i]);
    return f;
}

static void expect_address(struct fixture *f, const char *uri, const char *address) {
    json_t *entry = first(f, (tdg_subscription_query_t){.target = FOR_URI(uri)});

    assert_string_equal(text(entry, "address"), address);
    json_decref(entry);
}

static const char *const loopback[] = {"127.0.0.0/8", NULL};

static void behind_a_proxy_the_forwarded_address_is_shown(void **state) {
    struct fixture *f = open_behind(state, loopback);

    f->clients[0].via = "192.0.2.7";
    modern_listen(&f->clients[0], "{'resourceSubscriptions':['a:1']}");
    expect_address(f, "a:1", "192.0.2.7");

    f->clients[1].via = "2001:db8::7";
    legacy_initialize(&f->clients[1], LATEST_LEGACY);
    legacy_subscribe(&f->clients[1], "a:2");
    expect_address(f, "a:2", "2001:db8::7");
}

static void nobody_else_is_believed(void **state) {
    struct fixture *f = open_behind(state, NULL);

    f->clients[0].via = "192.0.2.7";
    modern_listen(&f->clients[0], "{'resourceSubscriptions':['a:1']}");
    expect_address(f, "a:1", "127.0.0.1");
}

/* Who calls `hold`, as its source sees it. */
static uint64_t client_behind(struct fixture *f, const char *address) {
    struct client *client = &f->clients[0];

    client->via = address;
    modern_send(client, "tools/call", "hold", "'name':'hold'");
    tdg_request_t *request = served_take(&f->served, client);
    uint64_t number = tdg__request_client(request);
    tdg_request_reply_text(request, "done");
    assert_int_equal(client_response(client), 200);
    return number;
}

static void behind_a_proxy_the_forwarded_address_takes_turns(void **state) {
    struct fixture *f = open_behind(state, loopback);
    uint64_t one = client_behind(f, "192.0.2.7");

    assert_int_equal(client_behind(f, "192.0.2.7"), one);
    assert_int_not_equal(client_behind(f, "192.0.2.8"), one);
    assert_int_not_equal(client_behind(f, NULL), one);

    /* of IPv6 one machine has a network */
    assert_int_equal(client_behind(f, "2001:db8::7"), client_behind(f, "2001:db8::8"));
    assert_int_not_equal(client_behind(f, "2001:db8::7"),
                         client_behind(f, "2001:db8:0:1::7"));
}

static void a_legacy_session_is_one_stream(void **state) {
    const tdg_server_opts_t opts = {.workers = 2};
    struct fixture *f = open_with(state, &opts);
    struct client *client = &f->clients[0];
    json_t *entry, *all;

    legacy_initialize(client, LATEST_LEGACY);
    legacy_subscribe(client, "a:2");
    entry = first(f, (tdg_subscription_query_t){.target = FOR_URI("a:2")});
    assert_string_equal(text(entry, "era"), "legacy");
    assert_string_equal(text(entry, "protocol"), LATEST_LEGACY);
    assert_string_equal(text(entry, "transport"), "http");
    assert_string_equal(text(entry, "address"), "127.0.0.1");
    assert_string_equal(text(entry, "session"), client->session);
    assert_json_equal(json_object_get(entry, "client"), "{'name':'test','version':'1'}");
    all = ask(f, (tdg_subscription_query_t){.session = client->session});
    assert_int_equal(json_array_size(all), 4); /* and three lists */
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(
            json_integer_value(json_object_get(json_array_get(all, i), "stream")),
            json_integer_value(json_object_get(entry, "stream")));
    json_decref(all);
    json_decref(entry);
    assert_int_equal(count(f, (tdg_subscription_query_t){.session = "another"}), 0);
}

static void a_session_of_2024_is_described(void **state) {
    static const char *const said[] = {
        "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
        "'protocolVersion':'2024-11-05','capabilities':{},"
        "'clientInfo':{'name':'old','version':'1'}}}",
        "{'jsonrpc':'2.0','method':'notifications/initialized'}",
        "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe','params':{'uri':'a:1'}}",
    };
    struct fixture *f = open_with(state, NULL);
    struct client *stream = &f->clients[0], *post = &f->clients[1];
    char endpoint[128];
    json_t *entry;

    client_request(stream, "GET", "/sse", NULL, NULL);
    assert_int_equal(client_response(stream), 200);
    assert_true(event_field(client_event(stream), "data", endpoint, sizeof(endpoint)));
    for (size_t i = 0; i < COUNT(said); i++) {
        client_request(post, "POST", endpoint, NULL, said[i]);
        assert_int_equal(client_response(post), 202);
    }
    entry = first(f, (tdg_subscription_query_t){.target = FOR_URI("a:1")});
    assert_string_equal(text(entry, "era"), "legacy");
    assert_string_equal(text(entry, "protocol"), "2024-11-05");
    assert_string_equal(text(entry, "transport"), "sse");
    assert_string_equal(text(entry, "address"), "127.0.0.1");
    assert_string_equal(text(entry, "session"), strchr(endpoint, '=') + 1);
    json_decref(entry);
}

/* Both eras, on one pipe. */
static void who_is_on_a_pipe_is_described(void **state) {
    static const char said[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
        "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
        "\"clientInfo\":{\"name\":\"old\",\"version\":\"1\"}}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/subscribe\","
        "\"params\":{\"uri\":\"a:1\"}}\n"
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"subscriptions/listen\","
        "\"params\":{\"_meta\":{"
        "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
        "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"new\",\"version\":\"1\"},"
        "\"io.modelcontextprotocol/clientCapabilities\":{}},"
        "\"notifications\":{\"resourceSubscriptions\":[\"a:2\"]}}}\n";
    struct fixture *f = *state;
    json_t *old, *new;
    int in[2], out[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    served_create(&f->served, NULL);
    assert_int_equal(tdg_server_pipe(f->served.server, in[0], out[1], false), 0);
    assert_int_equal(tdg_server_start(f->served.server), 0);
    for (int i = 0; i < CLIENTS; i++)
        client_init(&f->clients[i], NULL);
    assert_int_equal(write(in[1], said, strlen(said)), strlen(said));
    WAIT_COUNTER(&f->served, &f->clients[0], subscriptions, 2);

    old = first(f, (tdg_subscription_query_t){.target = FOR_URI("a:1")});
    assert_string_equal(text(old, "era"), "legacy");
    assert_string_equal(text(old, "transport"), "stdio");
    assert_non_null(text(old, "session"));
    assert_null(json_object_get(old, "address"));
    new = first(f, (tdg_subscription_query_t){.target = FOR_URI("a:2")});
    assert_string_equal(text(new, "era"), "modern");
    assert_string_equal(text(new, "transport"), "stdio");
    assert_null(json_object_get(new, "session"));
    assert_null(json_object_get(new, "address"));
    json_decref(old);
    json_decref(new);
    tdg_server_stop(f->served.server);
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
    }
}

/* A name is kept up to 128 bytes, in whole characters. */
static void a_long_name_is_cut(void **state) {
    struct fixture *f = open_with(state, NULL);
    char name[301] = "", message[700];
    json_t *entry;

    for (int i = 0; i < 100; i++)
        strcat(name, "\u20ac"); /* three bytes each */
    snprintf(message, sizeof(message),
             "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{'protocolVersion':"
             "'" LATEST_LEGACY "','capabilities':{},"
             "'clientInfo':{'name':'%s','version':''}}}",
             name);
    client_request(&f->clients[0], "POST", "/mcp", "Accept: application/json\r\n",
                   message);
    assert_int_equal(client_response(&f->clients[0]), 200);
    client_header(&f->clients[0], "Mcp-Session-Id", message);
    strcpy(f->clients[0].session, message);
    legacy_subscribe(&f->clients[0], "a:1");
    entry = first(f, (tdg_subscription_query_t){.target = FOR_URI("a:1")});

    const json_t *client = json_object_get(entry, "client");

    assert_int_equal(strlen(text(client, "name")), 126);
    assert_memory_equal(text(client, "name"), name, 126);
    assert_string_equal(text(client, "version"), "");
    json_decref(entry);
}

static void wishes_are_shown_as_they_were_made(void **state) {
    struct fixture *f = open_with(state, NULL);
    json_t *entry;

    legacy_initialize(&f->clients[0], LATEST_LEGACY);
    assert_int_equal(
        legacy_post(&f->clients[0],
                    "{'jsonrpc':'2.0','id':5,'method':'resources/subscribe','params':"
                    "{'uri':'a:1','_meta':{'dev.tidings/options':{'debounceMs':200,"
                    "'rateLimitMs':0,'priority':1,'filter':{'metadata.n':{'gt':7}}}}}}"),
        200);
    assert_body(&f->clients[0], "'result'");
    entry = first(f, (tdg_subscription_query_t){.target = FOR_URI("a:1")});
    assert_json_equal(json_object_get(entry, "options"),
                      "{'debounceMs':200,'rateLimitMs':0,'priority':1,"
                      "'filter':{'metadata.n':{'gt':7}}}");
    json_decref(entry);
}

static void one_target_or_one_client_can_be_asked_for(void **state) {
    const tdg_server_opts_t opts = {.workers = 3};
    struct fixture *f = open_with(state, &opts);

    modern_listen(&f->clients[0], "{'resourceSubscriptions':['a:1','t:{x}'],"
                                  "'toolsListChanged':true}");
    modern_listen(&f->clients[1], "{'resourceSubscriptions':['t:9','a:1']}");
    legacy_initialize(&f->clients[2], LATEST_LEGACY);
    assert_int_equal(count(f, (tdg_subscription_query_t){0}), 8);
    assert_int_equal(count(f, (tdg_subscription_query_t){.max = 2}), 2);
    assert_int_equal(count(f, (tdg_subscription_query_t){.target = FOR_URI("a:1")}), 2);
    assert_int_equal(count(f, (tdg_subscription_query_t){.target = FOR_URI("t:9")}), 1);
    assert_int_equal(
        count(f, (tdg_subscription_query_t){.target = FOR_URI("t:9"), .matching = true}),
        2);
    assert_int_equal(
        count(f, (tdg_subscription_query_t){.target = FOR_TEMPLATE("t:{x}")}), 1);
    assert_int_equal(count(f, (tdg_subscription_query_t){.target = FOR_LIST("tools")}),
                     2);
    assert_int_equal(count(f, (tdg_subscription_query_t){.target = FOR_URI("tools")}), 0);
    assert_int_equal(count(f, (tdg_subscription_query_t){.client = "test"}), 8);
    assert_int_equal(count(f, (tdg_subscription_query_t){.client = "nobody"}), 0);
    assert_int_equal(count(f, (tdg_subscription_query_t){.target = FOR_LIST("tools"),
                                                         .client = "nobody"}),
                     0);
}

/* More than a worker looks at in one turn. */
static void many_are_found_over_several_turns(void **state) {
    enum { AT_ONCE = 80, MANY = CLIENTS * AT_ONCE };
    struct fixture *f = open_with(state, NULL);
    char *filter = malloc(AT_ONCE * 12 + 100);

    assert_non_null(filter);
    for (int i = 0; i < CLIENTS; i++) {
        size_t len = (size_t)sprintf(filter, "{'resourceSubscriptions':['a:1'");

        for (int n = 1; n < AT_ONCE; n++)
            len += (size_t)sprintf(filter + len, ",'t:%d'", n);
        strcpy(filter + len, "]}");
        modern_listen(&f->clients[i], filter);
    }
    free(filter);
    assert_int_equal(count(f, (tdg_subscription_query_t){.max = 2 * MANY}), MANY);
    assert_int_equal(count(f, (tdg_subscription_query_t){0}), 1000);
}

/* Whichever workers they come to. */
static void the_limits_of_all_hold_for_all_workers_together(void **state) {
    enum { MANY = 10 };
    const tdg_server_opts_t opts = {.workers = 4, .max_total_subscriptions = MANY};
    struct fixture *f = open_with(state, &opts);

    for (int i = 0; i < CLIENTS; i++)
        modern_listen(&f->clients[i], "{'resourceSubscriptions':['t:1','t:2']}");
    assert_int_equal(count(f, (tdg_subscription_query_t){0}), MANY);
    for (int i = 0; i < CLIENTS; i++)
        client_reset(&f->clients[i]);
    WAIT_COUNTER(&f->served, &f->clients[0], subscriptions, 0);
    client_connect(&f->clients[0], f->served.port);
    modern_listen(&f->clients[0], "{'resourceSubscriptions':['t:1','t:2']}");
    assert_int_equal(count(f, (tdg_subscription_query_t){0}), 2);
}

/* ---- Workers that do not answer ----------------------------------------- */

static void post_to(struct fixture *f, int worker, tdg__task_t *task) {
    tdg__inbox_post(tdg__server_worker(f->served.server, worker)->inbox, task);
}

/* As a callback of the program that hangs. */
struct block {
    tdg__task_t task;
    sem_t entered, leave;
};

static void run_block(tdg__task_t *task, bool here) {
    struct block *block = (struct block *)(void *)task;

    (void)here;
    sem_post(&block->entered);
    sem_wait(&block->leave);
}

static void a_worker_that_hangs_is_waited_for_until_the_time_is_over(void **state) {
    const tdg_server_opts_t opts = {.workers = 2};
    const tdg_subscription_query_t shortly = {.target = FOR_URI("a:1"), .timeout_ms = 1};
    struct fixture *f = open_with(state, &opts);
    struct block block = {.task = {.run = run_block}};
    json_t *none = NULL;

    for (int i = 0; i < CLIENTS; i++)
        modern_listen(&f->clients[i], "{'resourceSubscriptions':['a:1']}");
    sem_init(&block.entered, 0, 0);
    sem_init(&block.leave, 0, 0);
    post_to(f, 1, &block.task);
    sem_wait(&block.entered);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tdg_server_subscriptions(f->served.server, &shortly, &none),
                         TDG_ETIMEDOUT);
    assert_null(none);
    sem_post(&block.leave);

    /* It comes to the three questions that nobody waits for, and then to this one. */
    assert_int_equal(count(f, (tdg_subscription_query_t){.target = FOR_URI("a:1")}),
                     CLIENTS);
    sem_destroy(&block.entered);
    sem_destroy(&block.leave);
}

/* As a callback of the program that asks when another one does so as well. */
struct callback {
    tdg__task_t task;
    struct fixture *f;
    pthread_barrier_t *together;
    int code;
    json_t *answer;
    sem_t done;
};

static void run_callback(tdg__task_t *task, bool here) {
    struct callback *callback = (struct callback *)(void *)task;
    const tdg_subscription_query_t query = {.timeout_ms = 10};

    (void)here;
    pthread_barrier_wait(callback->together);
    callback->code =
        tdg_server_subscriptions(callback->f->served.server, &query, &callback->answer);
    sem_post(&callback->done);
}

static void callbacks_that_wait_for_each_other_end(void **state) {
    enum { WORKERS = 2 };
    const tdg_server_opts_t opts = {.workers = WORKERS};
    struct fixture *f = open_with(state, &opts);
    struct callback callbacks[WORKERS];
    pthread_barrier_t together;

    pthread_barrier_init(&together, NULL, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        callbacks[i] = (struct callback){
            .task = {.run = run_callback}, .f = f, .together = &together};
        sem_init(&callbacks[i].done, 0, 0);
        post_to(f, i, &callbacks[i].task);
    }
    for (int i = 0; i < WORKERS; i++) {
        sem_wait(&callbacks[i].done);
        sem_destroy(&callbacks[i].done);
        json_decref(callbacks[i].answer);
    }
    /* The one that gives up first can answer the other. */
    assert_true(callbacks[0].code == TDG_ETIMEDOUT || callbacks[1].code == TDG_ETIMEDOUT);
    pthread_barrier_destroy(&together);
}

/* ---- From another thread, of a server on the test's loop ---------------- */

struct asker {
    struct served served;
    uv_loop_t loop;
    uv_async_t answered;
    bool has_answer; /* of the loop's thread */
    tdg_subscription_query_t query;
    json_t *answer;
    int code;
    pthread_t thread;
};

static void *ask_there(void *arg) {
    struct asker *asker = arg;

    asker->code =
        tdg_server_subscriptions(asker->served.server, &asker->query, &asker->answer);
    uv_async_send(&asker->answered);
    return NULL;
}

static void on_answered(uv_async_t *async) {
    struct asker *asker = async->data;

    asker->has_answer = true;
}

static void open_asker(struct asker *asker, const tdg_server_opts_t *opts) {
    *asker = (struct asker){.answer = NULL};
    assert_int_equal(uv_loop_init(&asker->loop), 0);
    served_open(&asker->served, opts, &asker->loop);
    assert_int_equal(uv_async_init(&asker->loop, &asker->answered, on_answered), 0);
    asker->answered.data = asker;
}

static void close_asker(struct asker *asker) {
    uv_close((uv_handle_t *)&asker->answered, NULL);
    served_close(&asker->served);
    assert_int_equal(uv_loop_close(&asker->loop), 0);
    json_decref(asker->answer);
}

/* Listens to so many templates that all match t:5. */
static void listen_to_templates(struct client *client, int first, int count) {
    char *filter = malloc((size_t)count * 16 + 100);
    size_t len = (size_t)sprintf(filter, "{'resourceSubscriptions':['a:1'");

    for (int i = 0; i < count; i++)
        len += (size_t)sprintf(filter + len, ",'t:{v%d}'", first + i);
    strcpy(filter + len, "]}");
    modern_listen(client, filter);
    free(filter);
}

/* A turn looks at 1,024 records, also where one target is asked for. */
static void the_subscribers_of_one_target_take_several_turns(void **state) {
    enum { LISTENS = 80, EACH = 40 };
    const tdg_server_opts_t opts = {.flags = TDG_ANY_TEMPLATE};
    struct client clients[LISTENS];
    struct asker asker;
    int turns = 0;

    (void)state;
    open_asker(&asker, &opts);
    for (int i = 0; i < LISTENS; i++) {
        served_client(&asker.served, &clients[i]);
        listen_to_templates(&clients[i], i * EACH, EACH);
    }
    while (uv_run(&asker.loop, UV_RUN_NOWAIT) != 0 && turns++ < 10)
        ; /* nothing is left to be done */

    asker.query = (tdg_subscription_query_t){
        .target = FOR_URI("t:5"), .matching = true, .max = 10000};
    assert_int_equal(pthread_create(&asker.thread, NULL, ask_there, &asker), 0);
    for (turns = 0; !asker.has_answer; turns++)
        uv_run(&asker.loop, UV_RUN_ONCE);
    pthread_join(asker.thread, NULL);
    assert_int_equal(json_array_size(asker.answer), LISTENS * EACH);
    assert_true(turns >= LISTENS * EACH / 1024 + 1);

    for (int i = 0; i < LISTENS; i++)
        client_done(&clients[i]);
    close_asker(&asker);
}

/* The loop does not run, so nobody answers; the server is told to stop. */
static void a_server_that_stops_is_not_waited_for(void **state) {
    struct asker asker;

    (void)state;
    open_asker(&asker, NULL);
    asker.query = (tdg_subscription_query_t){.target = FOR_URI("a:1"), .client = "test"};
    assert_int_equal(pthread_create(&asker.thread, NULL, ask_there, &asker), 0);
    tdg_server_stop_soon(asker.served.server);
    pthread_join(asker.thread, NULL); /* what was asked is still in the inbox, or not */
    assert_int_equal(asker.code, TDG_EENDED);
    assert_null(asker.answer);
    close_asker(&asker);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(no_two_streams_of_all_workers_have_one_number),
        CASE(a_modern_client_is_described),
        CASE(behind_a_proxy_the_forwarded_address_is_shown),
        CASE(nobody_else_is_believed),
        CASE(behind_a_proxy_the_forwarded_address_takes_turns),
        CASE(a_legacy_session_is_one_stream),
        CASE(a_session_of_2024_is_described),
        CASE(who_is_on_a_pipe_is_described),
        CASE(a_long_name_is_cut),
        CASE(wishes_are_shown_as_they_were_made),
        CASE(one_target_or_one_client_can_be_asked_for),
        CASE(many_are_found_over_several_turns),
        CASE(the_limits_of_all_hold_for_all_workers_together),
        CASE(a_worker_that_hangs_is_waited_for_until_the_time_is_over),
        CASE(callbacks_that_wait_for_each_other_end),
        cmocka_unit_test(the_subscribers_of_one_target_take_several_turns),
        cmocka_unit_test(a_server_that_stops_is_not_waited_for),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("inspect", tests, NULL, NULL);
}
