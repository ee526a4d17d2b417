/* SPDX-License-Identifier: MIT
 *
 * Memory runs out while a server serves: every allocation of a long scenario fails in
 * turn, once and for good. The server never crashes and leaks nothing, answers every
 * request or closes its connection, serves the next client when there is memory again,
 * and a change that it has accepted is not lost in silence. Server and clients are in one
 * thread. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "served.h"
#include "unit/targets.h"

enum { SHORT_MS = 60000 }; /* in which each request has an answer, or is cut off */

struct fixture {
    uv_loop_t loop;
    struct served served;
    struct client post, get, listen;
};

/* Ticks come every 10 ms: then the server tries again. */
static const tdg_server_opts_t opts = {.keepalive_ms = 40, .stop_timeout_ms = 200};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    assert_int_equal(uv_loop_init(&f->loop), 0);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    assert_int_equal(uv_loop_close(&f->loop), 0);
    return state_destroy(state);
}

static void open_all(struct fixture *f) {
    served_open(&f->served, &opts, &f->loop);
    client_init(&f->post, &f->loop);
    client_init(&f->get, &f->loop);
    client_init(&f->listen, &f->loop);
}

static void close_all(struct fixture *f) {
    memory_fail(0, MEMORY_ONCE);
    client_done(&f->post);
    client_done(&f->get);
    client_done(&f->listen);
    tdg_server_stop(f->served.server);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    served_destroy(&f->served);
}

/* Posts, whatever becomes of it. A stream is read to its end. */
static int try_post(struct fixture *f, const char *message) {
    if (f->post.fd < 0 || f->post.eof)
        client_connect(&f->post, f->served.port);
    legacy_send(&f->post, message);
    int status = client_response_within(&f->post, SHORT_MS);
    assert_int_not_equal(status, -1);
    if (f->post.chunked)
        while (client_event_within(&f->post, SHORT_MS) != NULL)
            ;
    if (status <= 0)
        client_connect(&f->post, f->served.port);
    return status;
}

static void try_initialize(struct fixture *f) {
    char session[256];

    f->post.session[0] = '\0';
    if (try_post(f, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                    "'protocolVersion':'2025-11-25','capabilities':{},"
                    "'clientInfo':{'name':'c','version':'1'}}}") == 200) {
        client_header(&f->post, "Mcp-Session-Id", session);
        snprintf(f->post.session, sizeof(f->post.session), "%.63s", session);
    }
    legacy_join(&f->get, &f->post);
    try_post(f, "{'jsonrpc':'2.0','method':'notifications/initialized'}");
}

static const char *const messages[] = {
    "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe','params':{'uri':'a:1',"
    "'_meta':{'dev.tidings/options':{'filter':{'metadata.n':{'gt':0}}}}}}",
    "{'jsonrpc':'2.0','id':3,'method':'resources/subscribe','params':{'uri':'t:{x}'}}",
    "{'jsonrpc':'2.0','id':4,'method':'resources/read','params':{'uri':'t:y'}}",
    "{'jsonrpc':'2.0','id':5,'method':'resources/list'}",
    "{'jsonrpc':'2.0','id':6,'method':'tools/call','params':{'name':'echo',"
    "'arguments':{'text':'hello'}}}",
    "{'jsonrpc':'2.0','id':7,'method':'nothing'}",
    "[]",
};

static void drain(struct client *client) {
    if (client->chunked)
        while (client_event_within(client, 0) != NULL)
            ;
}

static void turns(struct fixture *f) {
    for (int i = 0; i < 5; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    drain(&f->get);
    drain(&f->listen);
}

static void try_streams(struct fixture *f, const char *last_event_id) {
    client_connect(&f->get, f->served.port);
    legacy_get(&f->get, last_event_id);
    if (f->listen.chunked)
        return;
    client_connect(&f->listen, f->served.port);
    modern_send(&f->listen, "subscriptions/listen", NULL,
                "'notifications':{'resourceSubscriptions':['a:1','t:{x}'],"
                "'toolsListChanged':true,'resourcesListChanged':true}");
    assert_int_not_equal(client_response_within(&f->listen, SHORT_MS), -1);
}

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user, (void)uri;
    tdg_request_fail_not_found(request);
}

static void try_publish(struct fixture *f) {
    const tdg_resource_t more = {.uri = "a:3", .name = "three", .read = read_nothing};

    tdg_server_notify_updated(f->served.server, "a:1", json_pack("{s:i}", "n", 1));
    turns(f);
    tdg_server_notify_updated(f->served.server, "t:y", NULL);
    tdg_server_notify_deleted(f->served.server, "a:1", NULL);
    tdg_server_add_resource(f->served.server, &more);
    tdg_server_remove_resource(f->served.server, "a:3");
    turns(f);
}

/* A call that is answered later, with all there is to say before. */
static void try_late_answer(struct fixture *f) {
    client_connect(&f->post, f->served.port);
    legacy_send(&f->post,
                "{'jsonrpc':'2.0','id':8,'method':'tools/call','params':{'name':'hold',"
                "'_meta':{'progressToken':1}}}");
    for (int i = 0; i < 20 && served_held(&f->served) == 0; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    if (served_held(&f->served) > 0) {
        tdg_request_t *request = served_take(&f->served, &f->post);

        tdg_request_progress(request, 1, 2, "half");
        tdg_request_log(request, TDG_LOG_ERROR, "l", json_string("said"));
        turns(f);
        tdg_request_reply_text(request, "done");
    }
    assert_int_not_equal(client_response_within(&f->post, SHORT_MS), -1);
    client_connect(&f->post, f->served.port);
}

static void scenario(struct fixture *f) {
    char fields[128];

    try_initialize(f);
    for (size_t i = 0; i < COUNT(messages); i++)
        try_post(f, messages[i]);
    try_streams(f, NULL);
    try_publish(f);
    try_late_answer(f);
    try_streams(f, "1-1-0-0");
    try_publish(f);
    json_decref(served_subscriptions(&f->served, NULL));
    try_post(f, "{'jsonrpc':'2.0','id':9,'method':'resources/unsubscribe','params':{"
                "'uri':'a:1'}}");
    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\n", f->post.session);
    client_request(&f->post, "DELETE", "/mcp", fields, NULL);
    client_response_within(&f->post, SHORT_MS);
}

/* The endpoints of 2024-11-05: answers come by the stream. */
static void old_scenario(struct fixture *f) {
    static const char *const said[] = {
        "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
        "'protocolVersion':'2024-11-05','capabilities':{},"
        "'clientInfo':{'name':'c','version':'1'}}}",
        "{'jsonrpc':'2.0','method':'notifications/initialized'}",
        "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe','params':{'uri':'a:1'}}",
        "{'jsonrpc':'2.0','id':3,'method':'tools/call','params':{'name':'hold'}}",
    };
    char path[256];

    client_connect(&f->get, f->served.port);
    client_request(&f->get, "GET", "/sse", NULL, NULL);
    if (client_response_within(&f->get, SHORT_MS) != 200)
        return;
    const char *event = client_event_within(&f->get, SHORT_MS);
    if (event == NULL || !event_field(event, "data", path, sizeof(path)))
        return;
    for (size_t i = 0; i < COUNT(said); i++) {
        client_connect(&f->post, f->served.port);
        client_request(&f->post, "POST", path, NULL, said[i]);
        client_response_within(&f->post, SHORT_MS);
        turns(f);
    }
    try_publish(f);
    if (served_held(&f->served) > 0)
        tdg_request_reply_text(served_take(&f->served, &f->post), "done");
    turns(f);
}

static void still_serves(struct fixture *f) {
    memory_fail(0, MEMORY_ONCE);
    client_done(&f->post);
    client_done(&f->get);
    client_connect(&f->post, f->served.port);
    legacy_initialize(&f->post, LATEST_LEGACY);
    legacy_join(&f->get, &f->post);
    legacy_subscribe(&f->post, "a:2");
    client_connect(&f->get, f->served.port);
    assert_int_equal(legacy_get(&f->get, NULL), 200);
    served_change(&f->served, "a:2");
    do {
        assert_non_null(client_message(&f->get));
    } while (!has(f->get.event, "'uri':'a:2'")); /* list changes may come before */
}

static void survives(struct fixture *f, void (*play)(struct fixture *f), int how,
                     size_t least) {
    bool failed = true;
    size_t n = 1;

    for (; failed && n < 20000; n++) {
        open_all(f);
        memory_fail(n, how);
        play(f);
        failed = memory_failed();
        still_serves(f);
        close_all(f);
    }
    assert_false(failed);
    assert_true(n > least); /* or the scenario has been cut short */
}

static void survives_every_allocation_that_fails_once(void **state) {
    survives(*state, scenario, MEMORY_ONCE, 600);
    survives(*state, old_scenario, MEMORY_ONCE, 100);
}

static void survives_memory_that_stays_out(void **state) {
    survives(*state, scenario, MEMORY_FROM_THEN_ON, 600);
    survives(*state, old_scenario, MEMORY_FROM_THEN_ON, 100);
}

/* ---- A stream that could not begin -------------------------------------- */

/* Leaves a call open, and the connection's reader after the head of the stream that its
 * progress begins, if it begins. */
static tdg_request_t *hold_and_progress(struct fixture *f, size_t fails) {
    client_connect(&f->post, f->served.port);
    legacy_initialize(&f->post, LATEST_LEGACY);
    legacy_join(&f->get, &f->post);
    legacy_send(&f->post,
                "{'jsonrpc':'2.0','id':8,'method':'tools/call','params':{'name':'hold',"
                "'_meta':{'progressToken':1}}}");
    tdg_request_t *request = served_take(&f->served, &f->post);

    memory_fail(fails, MEMORY_ONCE);
    tdg_request_progress(request, 1, 2, "half");
    for (int i = 0; i < 5; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    return request;
}

/* As JSON, or on a stream behind its progress. */
static void expect_answer(struct client *client) {
    if (!client->chunked) {
        assert_body(client, "done");
        return;
    }
    do {
        assert_non_null(client_message(client));
    } while (!has(client->event, "done"));
}

/* Its id can be guessed: sessions number their requests. */
static void a_stream_that_could_not_begin_is_not_resumed(void **state) {
    struct fixture *f = *state;
    char id[128];
    bool failed = true;
    size_t refused = 0;

    open_all(f);
    tdg_request_t *request = hold_and_progress(f, 0);
    assert_int_equal(client_response(&f->post), 200);
    assert_true(event_field(client_event(&f->post), "id", id, sizeof(id)));
    tdg_request_reply_text(request, "done");
    close_all(f);

    for (size_t n = 1; failed && n < 1000; n++) {
        open_all(f);
        request = hold_and_progress(f, n);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        client_connect(&f->get, f->served.port);
        bool resumed = legacy_get(&f->get, id) == 200;
        tdg_request_reply_text(request, "done");
        if (resumed) {
            expect_answer(&f->get);
        } else {
            refused++;
            assert_int_equal(client_response(&f->post), 200);
            expect_answer(&f->post);
        }
        close_all(f);
    }
    assert_false(failed);
    assert_true(refused > 0);
}

/* ---- In a pipe ---------------------------------------------------------- */

static const char *const lines[] = {
    "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
    "'protocolVersion':'2025-03-26','capabilities':{},"
    "'clientInfo':{'name':'c','version':'1'}}}",
    "{'jsonrpc':'2.0','method':'notifications/initialized'}",
    "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe','params':{'uri':'a:1'}}",
    "[{'jsonrpc':'2.0','id':3,'method':'ping'},{'jsonrpc':'2.0','id':4,'method':'x'}]",
    "{'jsonrpc':'2.0','id':5,'method':'tools/call','params':{'name':'hold'}}",
    "{'jsonrpc':'2.0','id':6,'method':'subscriptions/listen','params':{'_meta':{"
    "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
    "'io.modelcontextprotocol/clientCapabilities':{}},"
    "'notifications':{'resourceSubscriptions':['a:1','t:{x}'],"
    "'toolsListChanged':true}}}",
    "nonsense",
    "{'jsonrpc':'2.0','method':'notifications/cancelled','params':{'requestId':6}}",
};

static void say(int fd, const char *line) {
    char *text = requote(line);

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(write(fd, "\n", 1), 1);
    free(text);
}

/* A pipe that cannot be served any more ends, and with it the server. */
static void pipe_scenario(struct fixture *f, size_t n, int how, bool *ret_failed) {
    int in[2], out[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe2(out, O_NONBLOCK), 0);
    served_create(&f->served, &opts);
    assert_int_equal(tdg_server_pipe(f->served.server, in[0], out[1], false), 0);
    assert_int_equal(tdg_server_attach(f->served.server, &f->loop), 0);
    memory_fail(n, how);
    for (size_t i = 0; i < COUNT(lines); i++) {
        say(in[1], lines[i]);
        uv_run(&f->loop, UV_RUN_NOWAIT);
        if (i == 6) {
            tdg_server_notify_updated(f->served.server, "a:1", NULL);
            tdg_server_remove_tool(f->served.server, "echo");
            uv_run(&f->loop, UV_RUN_NOWAIT);
        }
    }
    for (int i = 0; i < 5; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    for (; f->served.held_count > 0; f->served.held_count--)
        tdg_request_reply_text(f->served.held[f->served.held_count - 1], "done");
    uv_run(&f->loop, UV_RUN_NOWAIT);
    *ret_failed = memory_failed();
    memory_fail(0, MEMORY_ONCE);
    close(in[1]);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0); /* ends by itself */
    served_destroy(&f->served);
    close(in[0]);
    close(out[0]);
    close(out[1]);
}

static void pipe_survives(struct fixture *f, int how) {
    bool failed = true;
    size_t n = 1;

    for (; failed && n < 10000; n++)
        pipe_scenario(f, n, how, &failed);
    assert_false(failed);
    assert_true(n > 150);
}

static void a_pipe_survives_every_allocation_that_fails_once(void **state) {
    pipe_survives(*state, MEMORY_ONCE);
}

static void a_pipe_survives_memory_that_stays_out(void **state) {
    pipe_survives(*state, MEMORY_FROM_THEN_ON);
}

/* A server that cannot start leaves nothing behind. */
static void a_start_that_fails_is_undone(struct fixture *f, int how) {
    bool failed = true;
    size_t n = 1, refused = 0;

    for (; failed && n < 1000; n++) {
        int in[2], out[2];

        assert_int_equal(pipe(in), 0);
        assert_int_equal(pipe2(out, O_NONBLOCK), 0);
        served_create(&f->served, &opts);
        assert_int_equal(tdg_server_pipe(f->served.server, in[0], out[1], false), 0);
        memory_fail(n, how);
        int rv = tdg_server_attach(f->served.server, &f->loop);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        refused += rv < 0;
        close(in[1]);
        assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
        served_destroy(&f->served);
        close(in[0]);
        close(out[0]);
        close(out[1]);
    }
    assert_false(failed);
    assert_true(refused > 10);
}

static void every_start_that_fails_is_undone(void **state) {
    a_start_that_fails_is_undone(*state, MEMORY_ONCE);
    a_start_that_fails_is_undone(*state, MEMORY_FROM_THEN_ON);
}

/* ---- Nothing is lost in silence ----------------------------------------- */

static void open_streams(struct fixture *f) {
    open_all(f);
    client_connect(&f->post, f->served.port);
    legacy_initialize(&f->post, LATEST_LEGACY);
    legacy_join(&f->get, &f->post);
    legacy_subscribe(&f->post, "t:{x}");
    client_connect(&f->get, f->served.port);
    assert_int_equal(legacy_get(&f->get, NULL), 200);
    client_event(&f->get); /* its opening */
    client_connect(&f->listen, f->served.port);
    modern_listen(&f->listen, "{'resourceSubscriptions':['t:{x}']}");
}

/* Told, or cut off so that the client comes back with its cursor. */
static void is_told_or_cut(struct client *client, const char *text) {
    const char *message = client_message(client);

    if (message == NULL)
        assert_true(client->ended || client->eof);
    else
        assert_true(has(message, text));
}

static void a_change_is_never_lost_in_silence(void **state) {
    struct fixture *f = *state;
    bool failed = true;
    size_t n = 1, told = 0;

    for (; failed && n < 1000; n++) {
        open_streams(f);
        memory_fail(n, MEMORY_ONCE);
        int rv = tdg_server_notify_updated(f->served.server, "t:y", NULL);
        if (rv == 0) {
            is_told_or_cut(&f->get, "'uri':'t:y'");
            is_told_or_cut(&f->listen, "'uri':'t:y'");
            told++;
        } else {
            assert_int_equal(rv, TDG_ENOMEM);
            assert_null(client_message_within(&f->get, 1));
        }
        failed = memory_failed();
        close_all(f);
    }
    assert_false(failed);
    assert_true(told > 3);
}

/* While there is no memory nothing is told; afterwards it is, in order. */
static void changes_wait_for_memory(void **state) {
    struct fixture *f = *state;

    for (size_t n = 1; n < 40; n++) {
        open_streams(f);
        assert_int_equal(tdg_server_notify_updated(f->served.server, "t:1", NULL), 0);
        assert_int_equal(tdg_server_notify_updated(f->served.server, "t:2", NULL), 0);
        memory_fail(n, MEMORY_FROM_THEN_ON);
        for (int i = 0; i < 5; i++)
            uv_run(&f->loop, UV_RUN_NOWAIT);
        memory_fail(0, MEMORY_ONCE);
        is_told_or_cut(&f->get, "'uri':'t:1'");
        is_told_or_cut(&f->get, "'uri':'t:2'");
        is_told_or_cut(&f->listen, "'uri':'t:1'");
        is_told_or_cut(&f->listen, "'uri':'t:2'");
        close_all(f);
    }
}

/* Another stream cannot be opened for want of memory: the one that is there goes on, or
 * the session ends. */
static void an_open_stream_is_not_lost_to_one_that_fails(void **state) {
    struct fixture *f = *state;
    bool failed = true;
    size_t n = 1, refused = 0;

    for (; failed && n < 1000; n++) {
        open_streams(f);
        legacy_join(&f->listen, &f->post);
        client_connect(&f->listen, f->served.port);
        memory_fail(n, MEMORY_ONCE);
        int status = legacy_get(&f->listen, "nonsense"); /* goes back to the start */
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(tdg_server_notify_updated(f->served.server, "t:y", NULL), 0);
        is_told_or_cut(status == 200 ? &f->listen : &f->get, "notifications/");
        refused += status != 200;
        close_all(f);
    }
    assert_false(failed);
    assert_true(refused > 2);
}

static int start_later(void *user, tdg_server_t *server, const tdg_target_t *target) {
    int *starts = user;

    (void)server;
    if (strcmp(target->name, "a:2") != 0)
        return 0;
    ++*starts;
    return TDG_WATCH_PENDING;
}

static void stop_later(void *user, tdg_server_t *server, const tdg_target_t *target) {
    int *starts = user;

    (void)server;
    if (strcmp(target->name, "a:2") == 0)
        --*starts;
}

/* Two subscribes of a session wait for one watcher, and memory is out for the second one:
 * the first is answered all the same. */
static void a_subscribe_that_waits_is_answered(void **state) {
    int starts = 0;
    const tdg_server_opts_t watched = {
        .stop_timeout_ms = 200,
        .watcher = &(tdg_watcher_t){start_later, stop_later, &starts}};
    struct fixture *f = *state;
    bool failed = true;

    for (size_t n = 1; failed; n++) {
        starts = 0;
        served_open(&f->served, &watched, &f->loop);
        client_init(&f->listen, &f->loop);
        served_client(&f->served, &f->post);
        served_client(&f->served, &f->get);
        legacy_initialize(&f->post, LATEST_LEGACY);
        legacy_join(&f->get, &f->post);
        legacy_send(&f->post, "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                              "'params':{'uri':'a:2'}}");
        WAIT_UNTIL(&f->post, starts == 1);
        memory_fail(n, MEMORY_ONCE);
        legacy_send(&f->get, "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe',"
                             "'params':{'uri':'a:2'}}");
        turns(f);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:2"), 0), 0);
        assert_int_equal(client_response(&f->post), 200);
        assert_body(&f->post, "'result':{}");
        close_all(f);
    }
}

/* Subscribes to a:2, whose watcher's answer waits for memory when this returns. Unless
 * the server has tried again meanwhile, which it does every second: then false. */
static bool keep_an_answer(struct fixture *f, const int *starts) {
    legacy_send(&f->post, "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                          "'params':{'uri':'a:2','_meta':{"
                          "'dev.tidings/cursor':'0000000000000001-1'}}}");
    WAIT_UNTIL(&f->post, *starts == 1);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:2"), 0), 0);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    turns(f);
    assert_true(memory_failed());
    memory_fail(0, MEMORY_ONCE);
    legacy_unsubscribe(&f->listen, "a:2");
    assert_int_equal(client_response(&f->post), 200);
    WAIT_UNTIL(&f->post, *starts == 0);
    return body_has(&f->post, "unsubscribed before");
}

/* The answer of a watcher waits for memory; meanwhile that watcher stops, and another one
 * starts. The answer is not that of the other. */
static void an_answer_of_a_watcher_is_not_that_of_the_next(void **state) {
    int starts = 0;
    const tdg_server_opts_t watched = {
        .linger_ms = 1,
        .stop_timeout_ms = 200,
        .watcher = &(tdg_watcher_t){start_later, stop_later, &starts}};
    struct fixture *f = *state;

    served_open(&f->served, &watched, &f->loop);
    served_client(&f->served, &f->post);
    served_client(&f->served, &f->get);
    served_client(&f->served, &f->listen);
    legacy_initialize(&f->post, LATEST_LEGACY);
    legacy_join(&f->get, &f->post);
    legacy_join(&f->listen, &f->post);
    legacy_subscribe(&f->post, "a:1");
    while (!keep_an_answer(f, &starts))
        ;
    assert_int_equal(legacy_get(&f->get, NULL), 200);
    legacy_send(&f->post, "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe',"
                          "'params':{'uri':'a:2'}}");
    WAIT_UNTIL(&f->post, starts == 1);
    served_change(&f->served, "a:1"); /* the fence */
    client_expect(&f->get, "'uri':'a:1'");
    assert_int_equal(client_response_within(&f->post, 50), -1);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:2"), 0), 0);
    assert_int_equal(client_response(&f->post), 200);
    assert_body(&f->post, "'result':{}");
    close_all(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(survives_every_allocation_that_fails_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(survives_memory_that_stays_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_that_could_not_begin_is_not_resumed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_survives_every_allocation_that_fails_once,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_survives_memory_that_stays_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(every_start_that_fails_is_undone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_change_is_never_lost_in_silence, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(changes_wait_for_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(a_subscribe_that_waits_is_answered, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_answer_of_a_watcher_is_not_that_of_the_next,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(an_open_stream_is_not_lost_to_one_that_fails,
                                        setup, teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("server_oom", tests, NULL, NULL);
}
