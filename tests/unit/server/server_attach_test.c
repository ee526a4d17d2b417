/* SPDX-License-Identifier: MIT
 *
 * A server in the loop of its embedder: it serves while the loop runs, and when it has
 * stopped the loop ends by itself. */
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/internal.h"
#include "served.h"
#include "server/api/server.h"
#include "server/context/context.h"

#define SUBSCRIBE(uri)                                                                   \
    "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe','params':{'uri':'" uri "'}}"

struct fixture {
    uv_loop_t loop;
    struct served served;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    assert_int_equal(uv_loop_init(&f->loop), 0);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    return state_destroy(state);
}

static void serves_both_eras(void **state) {
    struct fixture *f = *state;
    struct client legacy, modern;

    served_open(&f->served, NULL, &f->loop);
    served_client(&f->served, &legacy);
    served_client(&f->served, &modern);
    legacy_initialize(&legacy, LATEST_LEGACY);
    assert_int_equal(legacy_post(&legacy, "{'jsonrpc':'2.0','id':1,'method':"
                                          "'resources/read','params':{'uri':'a:1'}}"),
                     200);
    assert_body(&legacy, "'text':'a:1'");
    assert_int_equal(modern_post(&modern, "resources/read", "t:x", "'uri':'t:x'"), 200);
    assert_body(&modern, "'text':'t:x'");
    client_done(&legacy);
    client_done(&modern);
    served_close(&f->served);
}

static void tells_of_changes_made_in_the_loop(void **state) {
    struct fixture *f = *state;
    struct client listen;

    served_open(&f->served, NULL, &f->loop);
    served_client(&f->served, &listen);
    modern_listen(&listen, "{'resourceSubscriptions':['a:1']}");
    served_change(&f->served, "a:2");
    served_change(&f->served, "a:1");
    client_expect(&listen, "'uri':'a:1'");
    client_done(&listen);
    served_close(&f->served);
}

enum { MANY = 400 };

static uint64_t count_delivered(const struct fixture *f) {
    tdg_server_counters_t counters;

    tdg_server_counters(f->served.server, &counters);
    return counters.delivered;
}

enum { LISTENED = 100, TERMS = 40 };

/* Allocations and frees while a listen to LISTENED URIs with a filter of so many terms is
 * read and acknowledged. */
static size_t count_work_of_listen(struct fixture *f, int terms) {
    char meta[4096], notifications[1024];
    struct client client;
    size_t before, len, work;

    len = (size_t)sprintf(meta, "'dev.tidings/options':{'filter':{'all':[");
    for (int i = 0; i < terms; i++)
        len += (size_t)sprintf(meta + len, "%s{'metadata.k%d':{'in':['a',%d]}}",
                               i > 0 ? "," : "", i, i);
    sprintf(meta + len, "]}}");
    len = (size_t)sprintf(notifications, "{'resourceSubscriptions':['a:1'");
    for (int i = 1; i < LISTENED; i++)
        len += (size_t)sprintf(notifications + len, ",'t:%d'", i);
    sprintf(notifications + len, "]}");

    served_client(&f->served, &client);
    before = memory_calls();
    modern_listen_with(&client, meta, notifications);
    work = memory_calls() - before;
    client_done(&client);
    return work;
}

/* So that a small request cannot keep the loop busy. */
static void a_filter_is_parsed_once_for_all_uris_of_a_listen(void **state) {
    struct fixture *f = *state;
    size_t small, large;

    served_open(&f->served, NULL, &f->loop);
    count_work_of_listen(f, 1); /* what is made at first use */
    small = count_work_of_listen(f, 1);
    large = count_work_of_listen(f, TERMS);
    served_close(&f->served);
    assert_true(large > small);
    assert_true(large - small < (size_t)TERMS * LISTENED);
}

/* So that other clients have their turn in between. */
static void many_streams_are_written_in_several_turns(void **state) {
    struct fixture *f = *state;
    struct client *clients = calloc(MANY, sizeof(*clients));
    uint64_t before = 0;
    unsigned turns = 0;

    assert_non_null(clients);
    served_open(&f->served, NULL, &f->loop);
    for (unsigned i = 0; i < MANY; i++) {
        served_client(&f->served, &clients[i]);
        modern_listen(&clients[i], "{'resourceSubscriptions':['a:1']}");
    }
    served_change(&f->served, "a:1");
    while (before < MANY) {
        uv_run(&f->loop, UV_RUN_ONCE);

        uint64_t now = count_delivered(f);

        turns += now > before;
        if (now > 0 && now < MANY) /* it does not wait while there is more */
            assert_int_equal(uv_backend_timeout(&f->loop), 0);
        before = now;
    }
    assert_true(turns >= 2);
    for (unsigned i = 0; i < MANY; i++) {
        client_expect(&clients[i], "'uri':'a:1'");
        client_done(&clients[i]);
    }
    free(clients);
    served_close(&f->served);
}

/* Whoever has the loop holds it up between its clock and the server's writes. */
struct holdup {
    uv_check_t check;
    unsigned ms;       /* to hold it up for, once */
    uint64_t ended_ms; /* when it went on */
};

static void hold_up(uv_check_t *check) {
    struct holdup *holdup = check->data;

    if (holdup->ms == 0)
        return;
    usleep(holdup->ms * 1000);
    holdup->ms = 0;
    holdup->ended_ms = now_ms();
}

static void keeps_the_rate_limit_between_writes_when_it_is_held_up(void **state) {
    const tdg_server_opts_t opts = {.settings = &(tdg_settings_t){.rate_limit_ms = 400}};
    struct fixture *f = *state;
    struct holdup holdup = {.ms = 0};
    struct client listen;
    bool kept[2];

    served_open(&f->served, &opts, &f->loop);
    served_client(&f->served, &listen);
    modern_listen(&listen, "{'resourceSubscriptions':['a:1','t:{x}']}");
    uv_check_init(&f->loop, &holdup.check); /* started last, it runs first */
    uv_check_start(&holdup.check, hold_up);
    holdup.check.data = &holdup;

    for (int i = 0; i < 2; i++) {
        const char *uri = i == 0 ? "a:1" : "t:1";

        holdup.ms = 350;
        served_change(&f->served, uri);
        client_expect(&listen, uri);
        served_change(&f->served, uri);
        client_expect(&listen, uri);
        kept[i] = now_ms() - holdup.ended_ms >= 400;
    }
    uv_close((uv_handle_t *)&holdup.check, NULL);
    client_done(&listen);
    served_close(&f->served);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_true(kept[0] && kept[1]);
}

static void *change_it(void *arg) {
    struct served *served = arg;

    if (tdg_server_notify_updated(served->server, "a:1", NULL) < 0)
        abort();
    return NULL;
}

/* Memory is counted, so the thread is alone while it runs. */
static void tells_of_changes_made_in_threads(void **state) {
    struct fixture *f = *state;
    struct client listen;
    pthread_t thread;

    served_open(&f->served, NULL, &f->loop);
    served_client(&f->served, &listen);
    modern_listen(&listen, "{'resourceSubscriptions':['a:1']}");
    assert_int_equal(pthread_create(&thread, NULL, change_it, &f->served), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    client_expect(&listen, "'uri':'a:1'");
    client_done(&listen);
    served_close(&f->served);
}

static void answers_from_the_loop_later(void **state) {
    struct fixture *f = *state;
    struct client client;

    served_open(&f->served, NULL, &f->loop);
    served_client(&f->served, &client);
    modern_send(&client, "tools/call", "hold", "'name':'hold'");
    tdg_request_t *request = served_take(&f->served, &client);
    tdg_request_reply_text(request, "at last");
    assert_int_equal(client_response(&client), 200);
    assert_body(&client, "at last");
    client_done(&client);
    served_close(&f->served);
}

static void shows_its_subscriptions_in_the_loop(void **state) {
    struct fixture *f = *state;
    struct client listen;

    served_open(&f->served, NULL, &f->loop);
    json_t *none = served_subscriptions(&f->served, NULL);
    assert_int_equal(json_array_size(none), 0);
    json_decref(none);
    served_client(&f->served, &listen);
    modern_listen(&listen, "{'resourceSubscriptions':['a:1'],'toolsListChanged':true}");
    json_t *some = served_subscriptions(&f->served, NULL);
    assert_int_equal(json_array_size(some), 2);
    json_decref(some);
    client_done(&listen);
    served_close(&f->served);
}

/* The loop ends by itself; streams end in the way of their protocol. */
static void leaves_the_loop_when_it_has_stopped(void **state) {
    struct fixture *f = *state;
    struct client listen, client;

    served_open(&f->served, NULL, &f->loop);
    served_client(&f->served, &listen);
    served_client(&f->served, &client);
    modern_listen(&listen, "{'resourceSubscriptions':['a:1']}");
    legacy_initialize(&client, LATEST_LEGACY);
    tdg_server_stop(f->served.server);
    tdg_server_stop(f->served.server);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_alive(&f->loop), 0);
    client_expect(&listen, "'resultType':'complete'");
    client_expect_end(&listen);
    assert_null(served_subscriptions(&f->served, NULL));
    assert_int_equal(tdg_server_notify_updated(f->served.server, "a:1", NULL),
                     TDG_EENDED);
    client_done(&listen);
    client_done(&client);
    served_destroy(&f->served);
}

static void can_be_destroyed_without_a_stop(void **state) {
    struct fixture *f = *state;
    struct client listen, call;

    served_open(&f->served, NULL, &f->loop);
    served_client(&f->served, &listen);
    served_client(&f->served, &call);
    modern_listen(&listen, "{'resourceSubscriptions':['a:1']}");
    modern_send(&call, "tools/call", "hold", "'name':'hold'");
    tdg_request_t *request = served_take(&f->served, &call);
    served_destroy(&f->served);
    assert_true(tdg_request_cancelled(request));
    tdg_request_reply_text(request, "late");
    client_done(&listen);
    client_done(&call);
}

static void can_be_destroyed_in_the_middle_of_a_stop(void **state) {
    struct fixture *f = *state;
    struct client call;

    served_open(&f->served, NULL, &f->loop);
    served_client(&f->served, &call);
    modern_send(&call, "tools/call", "hold", "'name':'hold'");
    tdg_request_t *request = served_take(&f->served, &call);
    tdg_server_stop(f->served.server);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    served_destroy(&f->served);
    tdg_request_reply_text(request, "late");
    client_done(&call);
}

static void can_be_destroyed_before_the_loop_runs(void **state) {
    struct fixture *f = *state;

    served_open(&f->served, NULL, &f->loop);
    served_destroy(&f->served);
    served_open(&f->served, NULL, &f->loop);
    tdg_server_stop(f->served.server);
    served_destroy(&f->served);
}

static void two_servers_share_a_loop(void **state) {
    struct fixture *f = *state;
    struct served other;
    struct client one, two;

    served_open(&f->served, NULL, &f->loop);
    served_open(&other, NULL, &f->loop);
    served_client(&f->served, &one);
    served_client(&other, &two);
    modern_listen(&one, "{'resourceSubscriptions':['a:1']}");
    modern_listen(&two, "{'resourceSubscriptions':['a:1']}");
    served_change(&f->served, "a:1");
    client_expect(&one, "'uri':'a:1'");
    served_change(&other, "a:1");
    client_expect(&two, "'uri':'a:1'");
    assert_null(client_event_within(&one, 30));

    json_t *subscriptions = served_subscriptions(&f->served, NULL);
    assert_int_equal(json_array_size(subscriptions), 1);
    json_decref(subscriptions);
    served_destroy(&other);
    served_change(&f->served, "a:1");
    client_expect(&one, "'uri':'a:1'");
    client_done(&one);
    client_done(&two);
    served_close(&f->served);
}

static void has_one_worker_whatever_options_say(void **state) {
    const tdg_server_opts_t opts = {.workers = 8};
    struct fixture *f = *state;
    struct client client;

    served_open(&f->served, &opts, &f->loop);
    for (int i = 0; i < 10; i++) {
        served_client(&f->served, &client);
        legacy_initialize(&client, LATEST_LEGACY);
        assert_memory_equal(client.session, "00", 2);
        client_done(&client);
    }
    served_close(&f->served);
}

/* ---- Pipes -------------------------------------------------------------- */

static void say(int fd, const char *line) {
    char *text = requote(line);

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(write(fd, "\n", 1), 1);
    free(text);
}

static void serves_a_pipe_until_it_ends(void **state) {
    struct fixture *f = *state;
    int in[2], out[2];
    char text[4096] = "";

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    served_create(&f->served, NULL);
    f->served.loop = &f->loop;
    assert_int_equal(tdg_server_pipe(f->served.server, in[0], out[1], false), 0);
    assert_int_equal(tdg_server_attach(f->served.server, &f->loop), 0);
    say(in[1], "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
               "'protocolVersion':'2025-11-25','capabilities':{},"
               "'clientInfo':{'name':'c','version':'1'}}}");
    say(in[1], "{'jsonrpc':'2.0','method':'notifications/initialized'}");
    say(in[1], "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe',"
               "'params':{'uri':'a:1'}}");
    for (int i = 0; i < 10; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    served_change(&f->served, "a:1");
    for (int i = 0; i < 10; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    close(in[1]);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0); /* ends by itself */
    assert_true(read(out[0], text, sizeof(text) - 1) > 0);
    assert_true(has(text, "'id':1,'result'"));
    assert_true(has(text, "'id':2,'result':{}"));
    assert_true(has(text, "notifications/resources/updated"));
    close(in[0]);
    close(out[0]);
    close(out[1]);
    served_destroy(&f->served);
}

/* ---- Starting that fails ------------------------------------------------ */

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)uri;
    tdg_request_fail_not_found(request);
}

static int step(tdg_server_t *server, size_t i, uv_loop_t *loop) {
    static const char *const any[] = {"*", "host", NULL};
    const tdg_listen_opts_t http = {.allowed_hosts = any, .allowed_origins = any};
    const tdg_resource_t resource = {
        .uri = "a:1",
        .name = "one",
        .read = read_nothing,
        .settings = &(tdg_settings_t){.timing = TDG_TIMING_IMMEDIATE}};

    return i == 0   ? tdg_server_add_resource(server, &resource)
           : i == 1 ? tdg_server_listen(server, &http)
                    : tdg_server_attach(server, loop);
}

/* Whatever allocation fails, creating, adding and attaching say so, leave nothing behind,
 * and work when tried again. */
static void nothing_is_left_where_memory_runs_out_at_the_start(void **state) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {.name = "n", .title = "t", .instructions = "i"};
    bool failed = true;

    for (size_t n = 1; failed; n++) {
        tdg_server_t *server = NULL;

        memory_fail(n, MEMORY_ONCE);
        int rv = tdg_server_create(&opts, &server);
        if (rv < 0) {
            assert_int_equal(rv, TDG_ENOMEM);
            assert_null(server);
            continue;
        }
        for (size_t i = 0; i < 3; i++) {
            rv = step(server, i, &f->loop);
            if (rv < 0) {
                assert_int_equal(rv, TDG_ENOMEM);
                assert_true(memory_failed());
                assert_int_equal(step(server, i, &f->loop), 0);
            }
        }
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        tdg_server_destroy(server);
    }
}

/* ---- Late ---------------------------------------------------------------- */

enum { WATCH_MS = 500 };

static int start_never(void *user, tdg_server_t *server, const tdg_target_t *target) {
    int *starts = user;

    (void)server;
    if (target->kind == TDG_TARGET_LIST)
        return 0;
    ++*starts;
    return TDG_WATCH_PENDING;
}

static void stop_nothing(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user;
    (void)server;
    (void)target;
}

/* The loop begins its turn in time, and sees its sockets when a watcher's time is over.
 */
static void be_late(uv_prepare_t *prepare) {
    uv_sleep(2 * WATCH_MS);
    uv_prepare_stop(prepare);
}

static void open_unwatched(struct fixture *f, int *starts) {
    const tdg_server_opts_t opts = {
        .watcher = &(tdg_watcher_t){start_never, stop_nothing, starts}};

    served_open(&f->served, &opts, &f->loop);
    tdg__server_worker(f->served.server, 0)->engine->opts.watch_timeout_ms = WATCH_MS;
}

/* What occupies a connection ends by the clock just before the connection does: each is
 * seen once. */
static void outlives_what_ends_twice(void **state) {
    struct fixture *f = *state;
    uv_prepare_t late;
    int starts = 0;

    open_unwatched(f, &starts);
    uv_prepare_init(&f->loop, &late);
    for (int how = 0; how < 3; how++) {
        struct client client, other;

        served_client(&f->served, &client);
        served_client(&f->served, &other);
        legacy_initialize(&client, LATEST_LEGACY);
        if (how == 2)
            modern_send(&client, "subscriptions/listen", NULL,
                        "'notifications':{'resourceSubscriptions':['a:2']}");
        else
            legacy_send(&client, how == 0 ? SUBSCRIBE("a:1") : SUBSCRIBE("t:1"));
        WAIT_UNTIL(&client, starts == how + 1);
        uv_prepare_start(&late, be_late);
        if (how == 0)
            assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
        else
            client_reset(&client);
        if (how == 0)
            assert_int_equal(client_response(&client), 200);
        client_done(&client);
        WAIT_COUNTER(&f->served, &other, connections, 1);
        client_done(&other);
    }
    uv_close((uv_handle_t *)&late, NULL);
    served_close(&f->served);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(serves_both_eras, setup, teardown),
        cmocka_unit_test_setup_teardown(tells_of_changes_made_in_the_loop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_filter_is_parsed_once_for_all_uris_of_a_listen,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(many_streams_are_written_in_several_turns, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            keeps_the_rate_limit_between_writes_when_it_is_held_up, setup, teardown),
        cmocka_unit_test_setup_teardown(tells_of_changes_made_in_threads, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(answers_from_the_loop_later, setup, teardown),
        cmocka_unit_test_setup_teardown(shows_its_subscriptions_in_the_loop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(leaves_the_loop_when_it_has_stopped, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(can_be_destroyed_without_a_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(can_be_destroyed_in_the_middle_of_a_stop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(can_be_destroyed_before_the_loop_runs, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(two_servers_share_a_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(has_one_worker_whatever_options_say, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(outlives_what_ends_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(serves_a_pipe_until_it_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(
            nothing_is_left_where_memory_runs_out_at_the_start, setup, teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("server_attach", tests, NULL, NULL);
}
