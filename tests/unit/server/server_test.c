/* SPDX-License-Identifier: MIT
 *
 * The life of a server with threads of its own: creating, listening, starting, stopping,
 * destroying, and what of it clients see. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "served.h"

/* ---- Creating ----------------------------------------------------------- */

static void takes_no_options_and_a_null_to_destroy(void **state) {
    tdg_server_t *server;

    (void)state;
    assert_int_equal(tdg_server_create(NULL, &server), 0);
    tdg_server_destroy(server);
    tdg_server_destroy(NULL);
}

static void refuses_options_that_make_no_sense(void **state) {
    const tdg_server_opts_t bad[] = {
        {.workers = 65},
        {.flags = TDG_NO_LEGACY | TDG_NO_MODERN},
        {.settings = &(tdg_settings_t){.timing = (tdg_timing_mode_t)99}},
        {.settings = &(tdg_settings_t){.rate_limit_ms = -2}},
    };
    tdg_server_t *server = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(tdg_server_create(&bad[i], &server), TDG_EINVAL);
    assert_null(server);
    assert_int_equal(tdg_server_create(NULL, NULL), TDG_EINVAL);
}

/* ---- Listening ---------------------------------------------------------- */

static void a_port_in_use_is_refused(unsigned first, unsigned second) {
    const tdg_server_opts_t opts[] = {{.workers = first}, {.workers = second}};
    tdg_listen_opts_t http = {.port = 0};
    struct served one, two;

    served_create(&one, &opts[0]);
    assert_int_equal(tdg_server_listen(one.server, &http), 0);
    http.port = tdg_server_port(one.server, 0);
    assert_int_equal(tdg_server_start(one.server), 0);

    served_create(&two, &opts[1]);
    assert_int_equal(tdg_system_error(tdg_server_listen(two.server, &http)), EADDRINUSE);
    assert_int_equal(tdg_server_port(two.server, 0), 0);

    /* Neither before the other has started. */
    assert_int_equal(tdg_server_listen(one.server, &http), TDG_EINVAL);
    served_close(&one);
    assert_int_equal(tdg_server_listen(two.server, &http), 0);
    served_destroy(&two);
}

static void refuses_a_port_in_use(void **state) {
    (void)state;
    a_port_in_use_is_refused(1, 1);
    a_port_in_use_is_refused(1, 3);
    a_port_in_use_is_refused(3, 1);
    a_port_in_use_is_refused(3, 3);
}

static void refuses_hosts_that_are_no_address(void **state) {
    static const char *const hosts[] = {"", "nobody.invalid", "127.0.0.256", "::g",
                                        "127.0.0.1:80"};
    tdg_listen_opts_t http = {.port = 0};
    struct served served;

    (void)state;
    served_create(&served, NULL);
    for (size_t i = 0; i < COUNT(hosts); i++) {
        http.host = hosts[i];
        assert_int_equal(tdg_server_listen(served.server, &http), TDG_EINVAL);
    }
    http.host = "192.0.2.1"; /* nobody's */
    assert_int_equal(tdg_system_error(tdg_server_listen(served.server, &http)),
                     EADDRNOTAVAIL);
    assert_int_equal(tdg_server_listen(served.server, NULL), TDG_EINVAL);
    assert_int_equal(tdg_server_listen(NULL, &http), TDG_EINVAL);
    served_destroy(&served);
}

static void listens_at_several_addresses(void **state) {
    tdg_listen_opts_t http = {.host = "localhost"}, other = {.host = "127.0.0.2"};
    struct client client;
    struct served served;

    (void)state;
    served_create(&served, NULL);
    assert_int_equal(tdg_server_listen(served.server, &http), 0);
    assert_int_equal(tdg_server_listen(served.server, &http), 0);
    assert_int_equal(tdg_server_listen(served.server, &other), 0);
    assert_int_equal(tdg_server_port(served.server, 3), 0);
    assert_int_equal(tdg_server_start(served.server), 0);
    client_init(&client, NULL);
    for (size_t i = 0; i < 2; i++) {
        client_connect(&client, tdg_server_port(served.server, i));
        assert_int_equal(modern_post(&client, "server/discover", NULL, NULL), 200);
    }
    client_done(&client);
    served_close(&served);
}

static void has_a_bound_on_listeners(void **state) {
    tdg_listen_opts_t http = {.port = 0};
    struct served served;
    int rv = 0;

    (void)state;
    served_create(&served, NULL);
    for (int i = 0; i < 17 && rv == 0; i++)
        rv = tdg_server_listen(served.server, &http);
    assert_int_equal(rv, TDG_EINVAL);
    served_destroy(&served);
}

/* ---- Starting ----------------------------------------------------------- */

static void does_not_start_with_nothing_to_serve_on(void **state) {
    struct served served;

    (void)state;
    served_create(&served, NULL);
    assert_int_equal(tdg_server_start(served.server), TDG_EINVAL);
    assert_int_equal(tdg_server_attach(served.server, NULL), TDG_EINVAL);
    assert_int_equal(tdg_server_run(served.server), TDG_EINVAL);
    assert_int_equal(tdg_server_start(NULL), TDG_EINVAL);
    assert_int_equal(tdg_server_run(NULL), TDG_EINVAL);
    served_destroy(&served);
}

static void starts_once(void **state) {
    struct served served;
    tdg_listen_opts_t http = {.port = 0};

    (void)state;
    served_open(&served, NULL, NULL);
    assert_int_equal(tdg_server_start(served.server), TDG_EINVAL);
    assert_int_equal(tdg_server_listen(served.server, &http), TDG_EINVAL);
    assert_int_equal(tdg_server_pipe(served.server, 0, 1, false), TDG_EINVAL);
    tdg_server_stop(served.server);
    assert_int_equal(tdg_server_start(served.server), TDG_EINVAL);
    served_destroy(&served);
}

static void takes_one_pipe(void **state) {
    struct served served;

    (void)state;
    served_create(&served, NULL);
    assert_int_equal(tdg_server_pipe(served.server, -1, 1, false), TDG_EINVAL);
    assert_int_equal(tdg_server_pipe(served.server, 0, -1, false), TDG_EINVAL);
    assert_int_equal(tdg_server_pipe(NULL, 0, 1, false), TDG_EINVAL);
    assert_int_equal(tdg_server_pipe(served.server, 0, 1, false), 0);
    assert_int_equal(tdg_server_pipe(served.server, 0, 1, false), TDG_EINVAL);
    served_destroy(&served);
}

/* ---- Stopping ----------------------------------------------------------- */

static void stopping_twice_or_before_the_start_is_fine(void **state) {
    struct served served;
    tdg_listen_opts_t http = {.port = 0};
    json_t *none = NULL;

    (void)state;
    served_create(&served, NULL);
    tdg_server_stop(served.server);
    tdg_server_wait(served.server);
    assert_int_equal(tdg_server_subscriptions(served.server, NULL, &none), TDG_EENDED);
    assert_int_equal(tdg_server_listen(served.server, &http), 0);
    assert_int_equal(tdg_server_start(served.server), 0);
    tdg_server_stop(served.server);
    tdg_server_stop(served.server);
    tdg_server_wait(served.server);
    assert_int_equal(tdg_server_subscriptions(served.server, NULL, NULL), TDG_EINVAL);
    assert_int_equal(tdg_server_subscriptions(NULL, NULL, &none), TDG_EINVAL);
    assert_int_equal(tdg_server_subscriptions(served.server, NULL, &none), TDG_EENDED);
    assert_null(none);
    served_destroy(&served);
}

static void expect_caller(tdg_request_t *request) {
    assert_json_equal(tdg_request_client(request), "{'name':'test','version':'1'}");
    tdg_request_reply_text(request, "");
}

static void requests_know_who_calls(void **state) {
    struct client client;
    struct served served;
    tdg_request_t *request;
    char session[128];

    (void)state;
    served_open(&served, NULL, NULL);
    served_client(&served, &client);
    modern_send(&client, "tools/call", "hold", "'name':'hold'");
    expect_caller(served_take(&served, &client));
    assert_int_equal(client_response(&client), 200);

    legacy_initialize(&client, LATEST_LEGACY);
    snprintf(session, sizeof(session), "Mcp-Session-Id: %s\r\n", client.session);
    legacy_send(&client, HOLD);
    request = served_take(&served, &client);
    client_done(&client);
    served_client(&served, &client);
    client_request(&client, "DELETE", "/mcp", session, NULL);
    assert_int_equal(client_response(&client), 204);
    expect_caller(request); /* though its session is gone */
    client_done(&client);
    served_close(&served);
}

/* What a session keeps is bounded, however many there are. */
static void who_says_too_much_is_nobody(void **state) {
    struct client client;
    struct served served;
    tdg_request_t *request;
    char body[6000], fields[128];

    (void)state;
    served_open(&served, NULL, NULL);
    served_client(&served, &client);
    snprintf(body, sizeof(body),
             "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
             "'protocolVersion':'2025-11-25','capabilities':{},"
             "'clientInfo':{'name':'%04096d','version':'1'}}}",
             1);
    client_request(&client, "POST", "/mcp", NULL, body);
    assert_int_equal(client_response(&client), 200);
    client_header(&client, "Mcp-Session-Id", body);
    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %.64s\r\n", body);
    client_request(&client, "POST", "/mcp", fields, HOLD);
    request = served_take(&served, &client);
    assert_null(tdg_request_client(request));
    tdg_request_reply_text(request, "");
    client_done(&client);
    served_close(&served);
}

static void *stop_it(void *arg) {
    struct served *served = arg;

    tdg_server_stop(served->server);
    return NULL;
}

static void several_threads_may_stop_it(void **state) {
    const tdg_server_opts_t opts = {.workers = 3};
    struct served served;
    pthread_t threads[4];

    (void)state;
    served_open(&served, &opts, NULL);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stop_it, &served), 0);
    tdg_server_wait(served.server);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    served_destroy(&served);
}

static void nothing_can_be_notified_after_the_stop(void **state) {
    struct served served;

    (void)state;
    served_open(&served, NULL, NULL);
    assert_int_equal(tdg_server_notify_updated(served.server, "a:1", NULL), 0);
    tdg_server_stop(served.server);
    assert_int_equal(tdg_server_notify_updated(served.server, "a:1", json_object()),
                     TDG_EENDED);
    assert_int_equal(tdg_server_notify_deleted(served.server, "a:1", NULL), TDG_EENDED);
    served_destroy(&served);
}

/* As a program passes them that is compiled with a later header. */
static void fields_of_later_releases_are_refused_unless_zero(void **state) {
    struct {
        tdg_server_opts_t known;
        uint64_t later;
    } opts = {.later = 1};
    struct {
        tdg_server_counters_t known;
        uint64_t later;
    } counters = {.later = 1};
    tdg_server_t *server;

    (void)state;
    assert_int_equal(tdg_server_create_sized(&opts.known, sizeof(opts),
                                             sizeof(tdg_settings_t),
                                             sizeof(tdg_watcher_t), &server),
                     TDG_ENOTSUP);
    opts.later = 0;
    assert_int_equal(tdg_server_create_sized(&opts.known, sizeof(opts),
                                             sizeof(tdg_settings_t),
                                             sizeof(tdg_watcher_t), &server),
                     0);
    tdg_server_counters_sized(server, &counters.known, sizeof(counters));
    assert_int_equal(counters.later, 0);
    tdg_server_destroy(server);
}

static void can_be_destroyed_while_it_runs(void **state) {
    const tdg_server_opts_t opts = {.workers = 2};
    struct client client, stream;
    struct served served;

    (void)state;
    served_open(&served, &opts, NULL);
    served_client(&served, &client);
    served_client(&served, &stream);
    legacy_initialize(&client, LATEST_LEGACY);
    modern_listen(&stream, "{'resourceSubscriptions':['a:1']}");
    served_destroy(&served);
    client_done(&client);
    client_done(&stream);
}

static void *answer_later(void *arg) {
    struct served *served = arg;

    for (size_t i = 0; i < served->held_count; i++) {
        tdg_request_progress(served->held[i], 1, 2, "m");
        tdg_request_log(served->held[i], TDG_LOG_ERROR, NULL, json_string("m"));
        assert_true(tdg_request_cancelled(served->held[i]));
        if (i % 2 == 0)
            tdg_request_reply_text(served->held[i], "late");
        else
            tdg_request_fail(served->held[i], -32000, "late", json_object());
    }
    return NULL;
}

/* Requests outlive the server; they are answered to nobody. */
static void unanswered_requests_survive_the_server(void **state) {
    const tdg_server_opts_t opts = {.workers = 2, .stop_timeout_ms = 50};
    struct client clients[4];
    struct served served;
    pthread_t thread;

    (void)state;
    served_open(&served, &opts, NULL);
    for (size_t i = 0; i < COUNT(clients); i++) {
        served_client(&served, &clients[i]);
        if (i < 2) {
            legacy_initialize(&clients[i], LATEST_LEGACY);
            legacy_send(&clients[i], HOLD);
        } else {
            modern_send(&clients[i], "tools/call", "hold", "'name':'hold'");
        }
    }
    WAIT_UNTIL(&clients[0], served_held(&served) == COUNT(clients));
    served_destroy(&served);
    assert_int_equal(pthread_create(&thread, NULL, answer_later, &served), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < COUNT(clients); i++) {
        assert_int_equal(client_response(&clients[i]), 503);
        client_done(&clients[i]);
    }
}

/* What is being answered is answered; new connections are not taken. */
static void answers_what_is_under_way_before_it_stops(void **state) {
    const tdg_server_opts_t opts = {.stop_timeout_ms = 120000};
    struct client legacy, modern, late;
    struct served served;
    pthread_t thread;

    (void)state;
    served_open(&served, &opts, NULL);
    served_client(&served, &legacy);
    served_client(&served, &modern);
    legacy_initialize(&legacy, LATEST_LEGACY);
    legacy_send(&legacy, HOLD);
    tdg_request_t *first = served_take(&served, &legacy);
    modern_send(&modern, "tools/call", "hold", "'name':'hold'");
    tdg_request_t *second = served_take(&served, &modern);

    assert_int_equal(pthread_create(&thread, NULL, stop_it, &served), 0);
    client_init(&late, NULL);
    WAIT_UNTIL(&legacy, !client_try_connect(&late, served.port));
    tdg_request_reply_text(first, "done one");
    tdg_request_reply_text(second, "done two");
    assert_int_equal(client_response(&legacy), 200);
    assert_body(&legacy, "done one");
    assert_int_equal(client_response(&modern), 200);
    assert_body(&modern, "done two");
    assert_int_equal(pthread_join(thread, NULL), 0);
    served_destroy(&served);
    client_done(&legacy);
    client_done(&modern);
    client_done(&late);
}

/* The request was half sent when the stop began: its stream ends as soon as it is open.
 */
static void a_stream_that_comes_late_does_not_hold_up_the_stop(void **state) {
    const tdg_server_opts_t opts = {.stop_timeout_ms = 120000};
    struct client call, half, late;
    struct served served;
    pthread_t thread;
    char *body = requote("{'jsonrpc':'2.0','id':'m','method':'subscriptions/listen',"
                         "'params':{'_meta':{"
                         "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                         "'io.modelcontextprotocol/clientCapabilities':{}},"
                         "'notifications':{'resourceSubscriptions':['a:1']}}}");
    char head[512];

    (void)state;
    served_open(&served, &opts, NULL);
    served_client(&served, &call);
    served_client(&served, &half);
    snprintf(head, sizeof(head),
             "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
             "Content-Length: %zu\r\n\r\n",
             strlen(body));
    client_send(&half, head);
    modern_send(&call, "tools/call", "hold", "'name':'hold'");
    tdg_request_t *request = served_take(&served, &call);
    WAIT_COUNTER(&served, &call, connections, 2);

    uint64_t began = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, stop_it, &served), 0);
    client_init(&late, NULL);
    WAIT_UNTIL(&call, !client_try_connect(&late, served.port));
    client_send(&half, body);
    int status = client_response(&half);
    if (status == 200)
        while (client_event_within(&half, CLIENT_PATIENCE_MS) != NULL)
            ;
    assert_true(half.ended || half.eof || status == 0 || status == 503);
    tdg_request_reply_text(request, "done");
    assert_int_equal(client_response(&call), 200);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_in_range(now_ms() - began, 0, 100000);
    served_destroy(&served);
    client_done(&call);
    client_done(&half);
    client_done(&late);
    free(body);
}

/* Somebody never answers: the server stops all the same, in its time, and says so. */
static void does_not_wait_longer_than_told(void **state) {
    const tdg_server_opts_t opts = {.stop_timeout_ms = 200};
    struct client legacy, modern;
    struct served served;
    tdg_request_t *requests[2];

    (void)state;
    served_open(&served, &opts, NULL);
    served_client(&served, &legacy);
    served_client(&served, &modern);
    legacy_initialize(&legacy, LATEST_LEGACY);
    legacy_send(&legacy, HOLD);
    requests[0] = served_take(&served, &legacy);
    modern_send(&modern, "tools/call", "hold", "'name':'hold'");
    requests[1] = served_take(&served, &modern);
    uint64_t began = now_ms();
    tdg_server_stop(served.server);
    uint64_t took = now_ms() - began;
    assert_in_range(took, 190, 30000);
    for (size_t i = 0; i < COUNT(requests); i++) {
        assert_true(tdg_request_cancelled(requests[i]));
        tdg_request_reply_text(requests[i], "late");
    }
    assert_int_equal(client_response(&legacy), 503);
    assert_body(&legacy, "'id':7");
    assert_body(&legacy, "'message':'The server is stopping'");
    assert_int_equal(client_response(&modern), 503);
    assert_body(&modern, "'message':'The server is stopping'");
    client_done(&legacy);
    client_done(&modern);
    served_destroy(&served);
}

/* A batch has no id of its own; a stream that has begun can only be cut. */
static void says_that_it_stops_where_that_can_be_said(void **state) {
    const tdg_server_opts_t opts = {.stop_timeout_ms = 200};
    struct client batch, stream;
    struct served served;
    tdg_request_t *requests[3];

    (void)state;
    served_open(&served, &opts, NULL);
    served_client(&served, &batch);
    served_client(&served, &stream);
    legacy_initialize(&batch, "2025-03-26");
    legacy_send(&batch, "[" HOLD ",{'jsonrpc':'2.0','id':8,'method':'tools/call',"
                        "'params':{'name':'hold'}}]");
    requests[0] = served_take(&served, &batch);
    requests[1] = served_take(&served, &batch);
    legacy_initialize(&stream, LATEST_LEGACY);
    legacy_send(&stream, "{'jsonrpc':'2.0','id':7,'method':'tools/call','params':"
                         "{'name':'hold','_meta':{'progressToken':1}}}");
    requests[2] = served_take(&served, &stream);
    tdg_request_progress(requests[2], 1, 2, NULL);
    assert_int_equal(client_response(&stream), 200);
    client_expect(&stream, "'progress':1");
    tdg_server_stop(served.server);
    assert_int_equal(client_response(&batch), 503);
    assert_body(&batch, "'message':'The server is stopping'");
    assert_false(body_has(&batch, "'id'"));
    assert_null(client_message(&stream));
    assert_false(stream.ended);
    for (size_t i = 0; i < COUNT(requests); i++)
        tdg_request_reply_text(requests[i], "late");
    client_done(&batch);
    client_done(&stream);
    served_destroy(&served);
}

static void ends_streams_in_the_way_of_their_protocol(void **state) {
    const tdg_server_opts_t opts = {
        .retry_ms = 4321, .workers = 2, .stop_timeout_ms = 120000};
    struct client client, get, listen, old;
    struct served served;
    char retry[16] = "";

    (void)state;
    served_open(&served, &opts, NULL);
    served_client(&served, &client);
    served_client(&served, &get);
    served_client(&served, &listen);
    served_client(&served, &old);
    legacy_initialize(&client, LATEST_LEGACY);
    legacy_join(&get, &client);
    assert_int_equal(legacy_get(&get, NULL), 200);
    client_event(&get); /* its opening */
    modern_listen(&listen, "{'resourceSubscriptions':['a:1']}");
    client_request(&old, "GET", "/sse", NULL, NULL);
    assert_int_equal(client_response(&old), 200);
    assert_true(has(client_event(&old), "event: endpoint"));

    uint64_t began = now_ms();
    tdg_server_stop(served.server);
    assert_in_range(now_ms() - began, 0, 100000);

    assert_true(event_field(client_event(&get), "retry", retry, sizeof(retry)));
    assert_string_equal(retry, "4321");
    client_expect_end(&get);
    client_expect(&listen, "'resultType':'complete'");
    client_expect_end(&listen);
    assert_true(event_field(client_event(&old), "retry", retry, sizeof(retry)));
    client_expect_end(&old);
    served_destroy(&served);
    client_done(&client);
    client_done(&get);
    client_done(&listen);
    client_done(&old);
}

/* In windows that outlast the test, on several workers, in all eras. */
static void writes_what_it_has_accepted_before_it_ends_the_streams(void **state) {
    const tdg_server_opts_t opts = {.settings =
                                        &(tdg_settings_t){.timing = TDG_TIMING_BATCH,
                                                          .window_ms = 3600000,
                                                          .rate_limit_ms = 3600000},
                                    .workers = 2,
                                    .stop_timeout_ms = 120000};
    struct client client, get, listens[4];
    struct served served;

    (void)state;
    served_open(&served, &opts, NULL);
    served_client(&served, &client);
    served_client(&served, &get);
    legacy_initialize(&client, LATEST_LEGACY);
    legacy_join(&get, &client);
    assert_int_equal(legacy_get(&get, NULL), 200);
    legacy_subscribe(&client, "a:1");
    for (size_t i = 0; i < COUNT(listens); i++) {
        served_client(&served, &listens[i]);
        modern_listen(&listens[i], "{'resourceSubscriptions':['a:1','t:{x}']}");
    }
    served_change(&served, "a:1");
    served_change(&served, "t:9");
    tdg_server_stop(served.server);

    client_expect(&get, "'uri':'a:1'");
    client_expect_end(&get);
    for (size_t i = 0; i < COUNT(listens); i++) {
        client_expect(&listens[i], "'uri':'a:1'");
        client_expect(&listens[i], "'uri':'t:9'");
        client_expect(&listens[i], "'resultType':'complete'");
        client_expect_end(&listens[i]);
        client_done(&listens[i]);
    }
    served_destroy(&served);
    client_done(&client);
    client_done(&get);
}

/* A clean end would say that nothing was left: its connection is cut. */
static void a_reader_that_takes_nothing_is_cut_when_the_time_is_over(void **state) {
    const tdg_server_opts_t opts = {.stop_timeout_ms = 200,
                                    .settings =
                                        &(tdg_settings_t){.rate_limit_ms = TDG_RATE_OFF}};
    struct client client, other;
    struct served served;
    char padding[8000], uri[16];

    (void)state;
    memset(padding, 'x', sizeof(padding) - 1);
    padding[sizeof(padding) - 1] = '\0';
    served_open(&served, &opts, NULL);
    served_client(&served, &client);
    client_init(&other, NULL); /* waits without reading */
    modern_listen(&client, "{'resourceSubscriptions':['t:{x}']}");
    for (int i = 0; i < 1000; i++) { /* 16 MB: more than the kernel takes */
        snprintf(uri, sizeof(uri), "t:%d", i);
        assert_int_equal(tdg_server_notify_updated(served.server, uri,
                                                   json_pack("{s:s}", "pad", padding)),
                         0);
    }
    WAIT_COUNTER(&served, &other, changes, 1000);
    assert_true(served_counters(&served).pending > 0);
    tdg_server_stop(served.server);
    while (client_message_within(&client, CLIENT_PATIENCE_MS) != NULL)
        assert_false(has(client.event, "'resultType':'complete'"));
    assert_false(client.ended);
    served_destroy(&served);
    client_done(&other);
    client_done(&client);
}

static void stop_soon(void *user, tdg_request_t *request, const json_t *arguments) {
    (void)user, (void)arguments;
    tdg_server_stop_soon(tdg_request_server(request));
    tdg_request_reply_text(request, "bye");
}

static void can_be_stopped_by_a_callback(void **state) {
    const tdg_tool_t tool = {.name = "stop", .call = stop_soon};
    const tdg_server_opts_t opts = {.workers = 3};
    struct client client;
    struct served served;

    (void)state;
    served_open(&served, &opts, NULL);
    assert_int_equal(tdg_server_add_tool(served.server, &tool), 0);
    served_client(&served, &client);
    assert_int_equal(modern_post(&client, "tools/call", "stop", "'name':'stop'"), 200);
    assert_body(&client, "bye");
    tdg_server_wait(served.server);
    client_done(&client);
    served_destroy(&served);
}

/* ---- A program that is nothing but a server ----------------------------- */

/* In a process of its own; returns its exit status: 0 where tdg_server_run() was fine. */
static pid_t run_in_child(int *ret_port, int input, int other_end, int output) {
    struct served served;
    tdg_listen_opts_t http = {.port = 0};
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) {
        close(fds[1]);
        assert_int_equal(read(fds[0], ret_port, sizeof(*ret_port)), sizeof(*ret_port));
        close(fds[0]);
        return child;
    }
    alarm(240);
    if (other_end >= 0)
        close(other_end);
    served_create(&served, NULL);
    if (tdg_server_listen(served.server, &http) < 0)
        _exit(2);
    if (input >= 0 && tdg_server_pipe(served.server, input, output, false) < 0)
        _exit(3);
    int port = tdg_server_port(served.server, 0);
    if (write(fds[1], &port, sizeof(port)) != sizeof(port))
        _exit(4);
    int rv = tdg_server_run(served.server);
    served_destroy(&served);
    _exit(rv == 0 ? 0 : 5);
}

static void expect_exit(pid_t child) {
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void runs_until_a_signal(void **state) {
    static const int signals[] = {SIGTERM, SIGINT};
    struct client client;
    int port;

    (void)state;
    client_init(&client, NULL);
    for (size_t i = 0; i < COUNT(signals); i++) {
        pid_t child = run_in_child(&port, -1, -1, -1);

        client_connect(&client, (uint16_t)port);
        modern_listen(&client, "{'resourceSubscriptions':['a:1']}");
        assert_int_equal(kill(child, SIGHUP), 0); /* has no effect yet */
        assert_int_equal(kill(child, signals[i]), 0);
        client_expect(&client, "'resultType':'complete'");
        client_expect_end(&client);
        expect_exit(child);
    }
    client_done(&client);
}

static void runs_until_its_pipe_ends(void **state) {
    struct client client;
    int in[2], out[2], port;
    char line[512] = "";

    (void)state;
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    client_init(&client, NULL);
    pid_t child = run_in_child(&port, in[0], in[1], out[1]);
    close(in[0]);
    close(out[1]);
    client_connect(&client, (uint16_t)port);
    modern_listen(&client, "{'resourceSubscriptions':['a:1']}");
    char *ping = requote("{'jsonrpc':'2.0','id':1,'method':'ping'}\n");
    assert_true(write(in[1], ping, strlen(ping)) > 0);
    free(ping);
    assert_true(read(out[0], line, sizeof(line) - 1) > 0);
    assert_true(has(line, "'id':1"));
    close(in[1]);
    client_expect(&client, "'resultType':'complete'");
    client_expect_end(&client);
    expect_exit(child);
    close(out[0]);
    client_done(&client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_until_a_signal), /* before there are threads: they fork */
        cmocka_unit_test(runs_until_its_pipe_ends),
        cmocka_unit_test(takes_no_options_and_a_null_to_destroy),
        cmocka_unit_test(refuses_options_that_make_no_sense),
        cmocka_unit_test(refuses_a_port_in_use),
        cmocka_unit_test(refuses_hosts_that_are_no_address),
        cmocka_unit_test(listens_at_several_addresses),
        cmocka_unit_test(has_a_bound_on_listeners),
        cmocka_unit_test(does_not_start_with_nothing_to_serve_on),
        cmocka_unit_test(starts_once),
        cmocka_unit_test(takes_one_pipe),
        cmocka_unit_test(stopping_twice_or_before_the_start_is_fine),
        cmocka_unit_test(requests_know_who_calls),
        cmocka_unit_test(who_says_too_much_is_nobody),
        cmocka_unit_test(several_threads_may_stop_it),
        cmocka_unit_test(can_be_destroyed_while_it_runs),
        cmocka_unit_test(unanswered_requests_survive_the_server),
        cmocka_unit_test(answers_what_is_under_way_before_it_stops),
        cmocka_unit_test(a_stream_that_comes_late_does_not_hold_up_the_stop),
        cmocka_unit_test(does_not_wait_longer_than_told),
        cmocka_unit_test(says_that_it_stops_where_that_can_be_said),
        cmocka_unit_test(ends_streams_in_the_way_of_their_protocol),
        cmocka_unit_test(writes_what_it_has_accepted_before_it_ends_the_streams),
        cmocka_unit_test(a_reader_that_takes_nothing_is_cut_when_the_time_is_over),
        cmocka_unit_test(can_be_stopped_by_a_callback),
        cmocka_unit_test(nothing_can_be_notified_after_the_stop),
        cmocka_unit_test(fields_of_later_releases_are_refused_unless_zero),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
