/* SPDX-License-Identifier: MIT
 *
 * Legacy sessions whose streams break: what was written and may not have arrived is told
 * again, on whatever stream is left or comes, and the session ends only where that cannot
 * be done. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "served.h"
#include "unit/targets.h"

struct fixture {
    struct served served;
    struct client post, get, other;
    atomic_int starts; /* of watchers that take their time */
};

/* Watchers of templates take their time, until the test answers for them; so does a:2. */
static int start(void *user, tdg_server_t *server, const tdg_target_t *target) {
    struct fixture *f = user;

    (void)server;
    if (target->kind != TDG_TARGET_TEMPLATE && strcmp(target->name, "a:2") != 0)
        return 0;
    atomic_fetch_add(&f->starts, 1);
    return TDG_WATCH_PENDING;
}

static int start_at_once(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server, (void)target;
    return 0;
}

static void stop(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server, (void)target;
}

static struct fixture *open_with(void **state, const tdg_server_opts_t *opts,
                                 const char *version) {
    struct fixture *f = *state;

    served_open(&f->served, opts, NULL);
    served_client(&f->served, &f->post);
    served_client(&f->served, &f->get);
    served_client(&f->served, &f->other);
    legacy_initialize(&f->post, version);
    legacy_join(&f->get, &f->post);
    legacy_join(&f->other, &f->post);
    return f;
}

static int setup(void **state) {
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->post);
    client_done(&f->get);
    client_done(&f->other);
    served_close(&f->served);
    free(f);
    return 0;
}

static void open_get(struct client *client, const char *last_event_id) {
    assert_int_equal(legacy_get(client, last_event_id), 200);
    client_event(client); /* its opening */
}

/* Its server has noticed when this returns. */
static void break_off(struct fixture *f, struct client *client) {
    uint64_t before = served_counters(&f->served).connections;

    client_reset(client);
    WAIT_COUNTER(&f->served, &f->post, connections, before - 1);
}

/* Changes something, and waits until that has left on the newest stream, whether anybody
 * reads it or not. Counters come a little after what they count: nothing else may have
 * been told since the last call. */
static void tell(struct fixture *f, const char *uri) {
    uint64_t before = served_counters(&f->served).delivered;

    served_change(&f->served, uri);
    WAIT_COUNTER(&f->served, &f->post, delivered, before + 1);
}

static int ping(struct client *client) {
    return legacy_post(client, "{'jsonrpc':'2.0','id':1,'method':'ping'}");
}

static void send_subscribe(struct client *client, const char *uri) {
    char message[256];

    snprintf(message, sizeof(message),
             "{'jsonrpc':'2.0','id':9,'method':'resources/subscribe',"
             "'params':{'uri':'%s'}}",
             uri);
    legacy_send(client, message);
}

/* ---- Several streams ---------------------------------------------------- */

static void what_the_newest_stream_lost_comes_on_the_older_one(void **state) {
    struct fixture *f = open_with(state, NULL, "2025-03-26");

    legacy_subscribe(&f->post, "a:1");
    legacy_subscribe(&f->post, "a:2");
    open_get(&f->get, NULL);
    open_get(&f->other, NULL);
    tell(f, "a:1");
    break_off(f, &f->other); /* it has not read that */
    client_expect(&f->get, "'uri':'a:1'");
    served_change(&f->served, "a:2"); /* the fence: told once */
    client_expect(&f->get, "'uri':'a:2'");
}

static void a_stream_that_carried_nothing_has_lost_nothing(void **state) {
    struct fixture *f = open_with(state, NULL, "2025-03-26");

    legacy_subscribe(&f->post, "a:1");
    legacy_subscribe(&f->post, "a:2");
    open_get(&f->get, NULL);
    tell(f, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    open_get(&f->other, NULL);
    break_off(f, &f->other);
    served_change(&f->served, "a:2");
    client_expect(&f->get, "'uri':'a:2'");
}

/* A client that has got nothing yet cannot name an id, and its server has not noticed
 * that the old stream is dead. */
static void what_an_older_stream_lost_comes_on_the_newest(void **state) {
    struct fixture *f = open_with(state, NULL, "2025-03-26");

    legacy_subscribe(&f->post, "a:1");
    open_get(&f->get, NULL);
    tell(f, "a:1");
    open_get(&f->other, NULL);
    break_off(f, &f->get);
    client_expect(&f->other, "'uri':'a:1'");
}

static void an_older_stream_whose_client_said_where_it_is_has_lost_nothing(void **state) {
    struct fixture *f = open_with(state, NULL, "2025-03-26");
    char id[128];

    legacy_subscribe(&f->post, "a:1");
    legacy_subscribe(&f->post, "a:2");
    open_get(&f->get, NULL);
    tell(f, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    assert_true(event_field(f->get.event, "id", id, sizeof(id)));
    open_get(&f->other, id);
    break_off(f, &f->get);
    served_change(&f->served, "a:2");
    client_expect(&f->other, "'uri':'a:2'");
}

/* Breaks a stream off and waits until what it may have lost has left on another one. */
static void break_off_and_repeat(struct fixture *f, struct client *client,
                                 unsigned repeated) {
    uint64_t before = served_counters(&f->served).delivered;

    break_off(f, client);
    WAIT_COUNTER(&f->served, &f->post, delivered, before + repeated);
}

static void reconnect(struct fixture *f, struct client *client) {
    client_connect(client, f->served.port);
    legacy_join(client, &f->post);
}

static void what_two_streams_lost_comes_on_the_third(void **state) {
    struct fixture *f = open_with(state, NULL, "2025-03-26");

    legacy_subscribe(&f->post, "a:1");
    open_get(&f->get, NULL);
    tell(f, "a:1");
    open_get(&f->other, NULL); /* begins after that, and is to carry it */
    break_off_and_repeat(f, &f->get, 1);
    break_off(f, &f->other);
    reconnect(f, &f->get);
    open_get(&f->get, NULL);
    client_expect(&f->get, "'uri':'a:1'");
}

static void an_id_from_before_a_catch_up_does_not_stand_for_it(void **state) {
    struct fixture *f = open_with(state, NULL, "2025-03-26");
    char id[128];

    legacy_subscribe(&f->post, "a:1");
    legacy_subscribe(&f->post, "a:2");
    open_get(&f->get, NULL);
    tell(f, "a:1");
    open_get(&f->other, NULL);
    tell(f, "a:2");
    client_expect(&f->other, "'uri':'a:2'");
    assert_true(event_field(f->other.event, "id", id, sizeof(id)));
    break_off_and_repeat(f, &f->get, 2);
    break_off(f, &f->other);
    reconnect(f, &f->get);
    open_get(&f->get, id);
    client_expect(&f->get, "'uri':'a:1'");
}

static void a_loss_that_cannot_be_named_ends_the_session(void **state) {
    const tdg_server_opts_t opts = {.max_history = 4};
    struct fixture *f = open_with(state, &opts, "2025-03-26");
    char uri[16];

    legacy_subscribe(&f->post, "t:{x}");
    open_get(&f->get, NULL);
    open_get(&f->other, NULL);
    for (int i = 0; i < 6; i++) {
        snprintf(uri, sizeof(uri), "t:%d", i);
        tell(f, uri);
    }
    break_off(f, &f->other);
    client_expect_end(&f->get);
    assert_int_equal(ping(&f->post), 404);
    WAIT_COUNTER(&f->served, &f->post, sessions, 0);
}

/* One tick visits all connections: it ends one stream, the session ends with that, and so
 * does the connection that the tick would have visited next. */
static void a_lifetime_that_ends_the_session_ends_its_requests(void **state) {
    enum { LIFETIME_MS = 600000 };
    const tdg_server_opts_t opts = {
        .workers = 1, .max_history = 4, .stream_lifetime_ms = LIFETIME_MS};
    struct fixture *f = open_with(state, &opts, "2025-03-26");
    char fields[128], uri[16];

    legacy_subscribe(&f->post, "t:{x}");
    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\nConnection: close\r\n",
             f->post.session);
    client_request(&f->post, "POST", "/mcp", fields, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->other);
    open_get(&f->get, NULL);
    tell(f, "t:0");
    clock_pass(LIFETIME_MS / 2);
    open_get(&f->other, NULL);
    for (int i = 1; i < 6; i++) {
        snprintf(uri, sizeof(uri), "t:%d", i);
        tell(f, uri);
    }
    clock_pass(LIFETIME_MS / 2);
    assert_int_equal(client_response(&f->post), 404);
    tdg_request_reply_text(request, "to nobody");
    reconnect(f, &f->other);
    assert_int_equal(ping(&f->other), 404);
    WAIT_COUNTER(&f->served, &f->other, sessions, 0);
}

/* ---- Watchers ----------------------------------------------------------- */

/* The id is from before the template was watched, and nothing is lost by that. */
static void an_id_from_before_the_watcher_loses_nothing(void **state) {
    const tdg_server_opts_t opts = {.watcher =
                                        &(tdg_watcher_t){start_at_once, stop, NULL}};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);
    char id[128];

    assert_int_equal(legacy_get(&f->get, NULL), 200);
    assert_true(event_field(client_event(&f->get), "id", id, sizeof(id)));
    legacy_subscribe(&f->post, "t:{x}");
    legacy_subscribe(&f->post, "a:1");
    tell(f, "t:z");
    break_off(f, &f->get);
    open_get(&f->other, id);
    client_expect(&f->other, "'uri':'t:z'");
    served_change(&f->served, "a:1"); /* the fence: arming its watcher is no change */
    client_expect(&f->other, "'uri':'a:1'");
}

static void no_id_from_before_the_watcher_loses_nothing(void **state) {
    const tdg_server_opts_t opts = {.watcher =
                                        &(tdg_watcher_t){start_at_once, stop, NULL}};
    struct fixture *f = open_with(state, &opts, "2025-03-26");

    open_get(&f->get, NULL);
    legacy_subscribe(&f->post, "t:{x}");
    tell(f, "t:z");
    break_off(f, &f->get);
    open_get(&f->other, NULL);
    client_expect(&f->other, "'uri':'t:z'");
}

/* What it keeps for the acknowledgement is more than the history remembers. */
static void a_watcher_that_is_being_armed_loses_nothing(void **state) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {.max_history = 4,
                                    .watcher = &(tdg_watcher_t){start, stop, f}};
    bool seen[6] = {false};
    char uri[16];

    open_with(state, &opts, "2025-03-26");
    legacy_subscribe(&f->post, "a:1");
    open_get(&f->get, NULL);
    send_subscribe(&f->post, "t:{x}");
    WAIT_UNTIL(&f->other, f->starts == 1);
    for (int i = 0; i < 6; i++) {
        snprintf(uri, sizeof(uri), "t:%d", i);
        served_change(&f->served, uri);
    }
    tell(f, "a:1");
    break_off(f, &f->get);
    open_get(&f->other, NULL);
    client_expect(&f->other, "'uri':'a:1'");
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_TEMPLATE("t:{x}"), 0),
                     0);
    assert_int_equal(client_response(&f->post), 200);
    assert_body(&f->post, "'result':{}");
    for (int i = 0; i < 6; i++) {
        const char *message = client_message(&f->other);

        assert_non_null(message);
        for (int k = 0; k < 6; k++) {
            snprintf(uri, sizeof(uri), "'uri':'t:%d'", k);
            seen[k] |= has(message, uri);
        }
    }
    for (int k = 0; k < 6; k++)
        assert_true(seen[k]);
}

/* Acknowledged after ten seconds, its watcher not armed: going back is no loss, and when
 * the watcher fails in the end the client learns that by 404. */
static void a_late_watcher_loses_nothing_until_it_fails(void **state) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {.watcher = &(tdg_watcher_t){start, stop, f}};

    open_with(state, &opts, "2025-03-26");
    open_get(&f->get, NULL);
    send_subscribe(&f->post, "t:{x}");
    WAIT_UNTIL(&f->get, f->starts == 1);
    clock_pass(10000);
    assert_int_equal(client_response(&f->post), 200);
    assert_body(&f->post, "'result':{}");
    tell(f, "t:z");
    break_off(f, &f->get);
    open_get(&f->other, NULL);
    client_expect(&f->other, "'uri':'t:z'");

    assert_int_equal(
        tdg_server_watch_done(f->served.server, FOR_TEMPLATE("t:{x}"), TDG_EENDED), 0);
    client_expect_end(&f->other);
    assert_int_equal(ping(&f->post), 404);
}

/* ---- An end that nobody is told of -------------------------------------- */

/* Too much waits for a session without a stream: a subscribe that waits for its watcher
 * is answered all the same. */
static void a_subscribe_of_a_session_that_has_ended_is_answered(void **state) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {.max_pending = 2,
                                    .keepalive_ms = 40,
                                    .watcher = &(tdg_watcher_t){start, stop, f}};

    open_with(state, &opts, LATEST_LEGACY);
    send_subscribe(&f->other, "t:{x}");
    WAIT_UNTIL(&f->post, f->starts == 1);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_TEMPLATE("t:{x}"), 0),
                     0);
    assert_int_equal(client_response(&f->other), 200);
    if (f->other.chunked) { /* it took longer than a keep-alive */
        client_expect(&f->other, "'result'");
        client_expect_end(&f->other);
    }
    send_subscribe(&f->other, "a:2");
    WAIT_UNTIL(&f->post, f->starts == 2);
    served_change(&f->served, "t:1");
    served_change(&f->served, "t:2");
    served_change(&f->served, "t:3");
    WAIT_COUNTER(&f->served, &f->post, ended, 1);
    assert_int_equal(client_response(&f->other), 200);
    if (f->other.chunked)
        client_expect(&f->other, "-32006");
    else
        assert_body(&f->other, "-32006");
    assert_int_equal(ping(&f->post), 404);
}

/* ---- A pipe ------------------------------------------------------------- */

static void say(int fd, const char *text) {
    char line[512];
    size_t len = 0;

    for (; text[len] != '\0'; len++)
        line[len] = text[len] == '\'' ? '"' : text[len];
    line[len++] = '\n';
    assert_int_equal(write(fd, line, len), (ssize_t)len);
}

static void hear(struct fixture *f, int fd, char *text, size_t size, const char *what) {
    size_t len = strlen(text);
    uint64_t deadline = now_ms() + 2 * CLIENT_PATIENCE_MS;

    while (!has(text, what)) {
        if (now_ms() > deadline)
            fail_msg("%s is not in %s", what, text);
        uv_run(f->served.loop, UV_RUN_NOWAIT);
        ssize_t n = read(fd, text + len, size - len - 1);
        if (n > 0)
            len += (size_t)n;
        else
            usleep(1000);
        text[len] = '\0';
    }
}

/* Nothing in a pipe says 404: the log says that a subscription is over. */
static void on_a_pipe_the_log_tells_of_a_watcher_that_fails_late(void **state) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {.watcher = &(tdg_watcher_t){start, stop, f}};
    char text[8192] = "";
    uv_loop_t loop;
    int in[2], out[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe2(out, O_NONBLOCK), 0);
    assert_int_equal(uv_loop_init(&loop), 0);
    served_create(&f->served, &opts);
    f->served.loop = &loop;
    assert_int_equal(tdg_server_pipe(f->served.server, in[0], out[1], false), 0);
    assert_int_equal(tdg_server_attach(f->served.server, &loop), 0);
    say(in[1], "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
               "'protocolVersion':'2025-11-25','capabilities':{},"
               "'clientInfo':{'name':'c','version':'1'}}}");
    say(in[1], "{'jsonrpc':'2.0','method':'notifications/initialized'}");
    say(in[1], "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe',"
               "'params':{'uri':'a:2'}}");
    while (f->starts == 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_false(has(text, "'id':2"));
    clock_pass(10000);
    hear(f, out[0], text, sizeof(text), "'id':2,'result':{}");
    assert_false(has(text, "notifications/message"));
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:2"), TDG_EENDED),
                     0);
    hear(f, out[0], text, sizeof(text), "'data':{'uri':'a:2','error':");
    assert_true(has(text, "'level':'error'"));

    close(in[1]);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    close(in[0]);
    close(out[0]);
    close(out[1]);
    served_destroy(&f->served);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static int teardown_pipe(void **state) {
    free(*state);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(what_the_newest_stream_lost_comes_on_the_older_one),
        CASE(a_stream_that_carried_nothing_has_lost_nothing),
        CASE(what_an_older_stream_lost_comes_on_the_newest),
        CASE(an_older_stream_whose_client_said_where_it_is_has_lost_nothing),
        CASE(what_two_streams_lost_comes_on_the_third),
        CASE(an_id_from_before_a_catch_up_does_not_stand_for_it),
        CASE(a_loss_that_cannot_be_named_ends_the_session),
        CASE(a_lifetime_that_ends_the_session_ends_its_requests),
        CASE(an_id_from_before_the_watcher_loses_nothing),
        CASE(no_id_from_before_the_watcher_loses_nothing),
        CASE(a_watcher_that_is_being_armed_loses_nothing),
        CASE(a_late_watcher_loses_nothing_until_it_fails),
        CASE(a_subscribe_of_a_session_that_has_ended_is_answered),
        cmocka_unit_test_setup_teardown(
            on_a_pipe_the_log_tells_of_a_watcher_that_fails_late, setup, teardown_pipe),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("session_rewind", tests, NULL, NULL);
}
