/* SPDX-License-Identifier: MIT
 *
 * Legacy sessions over HTTP: their streams, what is missed and resumed, how they end. */
#include <stdio.h>

#include "clock.h"
#include "served.h"
#include "server/mcp/session.h"

struct fixture {
    struct served served;
    struct client post, get, other;
};

static struct fixture *open_with(void **state, const tdg_server_opts_t *opts) {
    struct fixture *f = *state;

    served_open(&f->served, opts, NULL);
    served_client(&f->served, &f->post);
    served_client(&f->served, &f->get);
    served_client(&f->served, &f->other);
    legacy_initialize(&f->post, LATEST_LEGACY);
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

/* In steps: after each of them the worker has looked at its timers,
 * because it answers. */
static void time_passes(struct fixture *f, uint32_t ms) {
    struct client stranger;

    served_client(&f->served, &stranger);
    for (uint32_t passed = 0; passed < ms; passed += 1000) {
        clock_pass(1000);
        client_request(&stranger, "GET", "/nothing", NULL, NULL);
        assert_int_equal(client_response(&stranger), 404);
    }
    client_done(&stranger);
}

/* ---- Ids ---------------------------------------------------------------- */

static void an_id_names_its_worker(void **state) {
    (void)state;
    assert_int_equal(tdg__session_worker("00000000000000000000000000000000ff"), 0);
    assert_int_equal(tdg__session_worker("3f000000000000000000000000000000ff"), 63);
    assert_int_equal(tdg__session_worker("00000000000000000000000000000000fg"), -1);
    assert_int_equal(tdg__session_worker("0F000000000000000000000000000000ff"), -1);
    assert_int_equal(tdg__session_worker("00000000000000000000000000000000f"), -1);
    assert_int_equal(tdg__session_worker("00000000000000000000000000000000fff"), -1);
    assert_int_equal(tdg__session_worker(""), -1);
}

static void unknown_sessions_are_not_found(void **state) {
    static const char *const ids[] = {
        "00000000000000000000000000000000ff", "3f000000000000000000000000000000ff",
        "ff000000000000000000000000000000ff", "nonsense", "'"};
    struct fixture *f = open_with(state, NULL);

    for (size_t i = 0; i < COUNT(ids); i++) {
        snprintf(f->post.session, sizeof(f->post.session), "%s", ids[i]);
        assert_int_equal(
            legacy_post(&f->post, "{'jsonrpc':'2.0','id':1,'method':'ping'}"), 404);
        assert_int_equal(legacy_get(&f->post, NULL), 404);
    }
}

static void delete_ends_a_session_and_its_streams(void **state) {
    struct fixture *f = open_with(state, NULL);
    char fields[128];

    open_get(&f->get, NULL);
    legacy_subscribe(&f->post, "a:1");
    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\n", f->post.session);
    client_request(&f->post, "DELETE", "/mcp", fields, NULL);
    assert_int_equal(client_response(&f->post), 204);
    client_expect_end(&f->get);
    assert_int_equal(legacy_post(&f->post, "{'jsonrpc':'2.0','id':1,'method':'ping'}"),
                     404);
    WAIT_COUNTER(&f->served, &f->post, sessions, 0);
    WAIT_COUNTER(&f->served, &f->post, subscriptions, 0);
}

/* The call is cancelled, and answered to nobody; other sessions live on. */
static void delete_ends_a_session_with_calls_under_way(void **state) {
    struct fixture *f = open_with(state, NULL);
    struct client another;
    char fields[128];

    served_client(&f->served, &another);
    legacy_initialize(&another, LATEST_LEGACY);
    legacy_send(&f->other, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->other);
    client_reset(&f->other); /* its post is kept */
    WAIT_COUNTER(&f->served, &f->post, connections, 3);
    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\n", f->post.session);
    client_request(&f->post, "DELETE", "/mcp", fields, NULL);
    assert_int_equal(client_response(&f->post), 204);
    assert_true(tdg_request_cancelled(request));
    tdg_request_reply_text(request, "late");
    legacy_subscribe(&another, "a:1");
    legacy_initialize(&f->post, LATEST_LEGACY); /* takes the place of the old one */
    WAIT_COUNTER(&f->served, &another, sessions, 2);
    client_done(&another);
}

/* ---- Streams ------------------------------------------------------------ */

static void the_newest_stream_gets_the_messages(void **state) {
    struct fixture *f = open_with(state, NULL);

    legacy_subscribe(&f->post, "a:1");
    open_get(&f->get, NULL);
    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    open_get(&f->other, NULL);
    served_change(&f->served, "a:1");
    client_expect(&f->other, "'uri':'a:1'");
    assert_null(client_event_within(&f->get, 50));

    /* It goes; the older one is the newest again. */
    client_reset(&f->other);
    WAIT_COUNTER(&f->served, &f->post, connections, 2);
    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
}

static void streams_have_a_limit(void **state) {
    const tdg_server_opts_t opts = {.max_streams = 1};
    struct fixture *f = open_with(state, &opts);

    open_get(&f->get, NULL);
    assert_int_equal(legacy_get(&f->other, NULL), 409);
    client_reset(&f->get);
    WAIT_COUNTER(&f->served, &f->post, connections, 2);
    assert_int_equal(legacy_get(&f->other, NULL), 200);
}

/* What the broken stream carried may not have arrived. */
static void a_stream_without_an_id_repeats_what_the_broken_one_carried(void **state) {
    struct fixture *f = open_with(state, NULL);

    legacy_subscribe(&f->post, "a:1");
    legacy_subscribe(&f->post, "a:2");
    open_get(&f->get, NULL);
    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    client_reset(&f->get);
    WAIT_COUNTER(&f->served, &f->post, connections, 2);
    open_get(&f->other, NULL);
    client_expect(&f->other, "'uri':'a:1'");
    served_change(&f->served, "a:2"); /* the fence: a:2 had not changed before */
    client_expect(&f->other, "'uri':'a:2'");
}

static void a_stream_with_an_id_gives_exactly_what_was_missed(void **state) {
    struct fixture *f = open_with(state, NULL);
    char id[128];

    legacy_subscribe(&f->post, "a:1");
    legacy_subscribe(&f->post, "a:2");
    legacy_subscribe(&f->post, "t:{x}");
    open_get(&f->get, NULL);
    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    assert_true(event_field(f->get.event, "id", id, sizeof(id)));
    client_reset(&f->get);
    WAIT_COUNTER(&f->served, &f->post, connections, 2);
    served_change(&f->served, "a:2");
    served_change(&f->served, "t:z");
    open_get(&f->other, id);
    const char *first = client_message(&f->other);
    bool a2 = has(first, "'uri':'a:2'");
    assert_true(a2 || has(first, "'uri':'t:z'"));
    client_expect(&f->other, a2 ? "'uri':'t:z'" : "'uri':'a:2'");
    served_change(&f->served, "a:1"); /* the fence: not repeated before */
    client_expect(&f->other, "'uri':'a:1'");
}

static void an_id_of_the_last_event_repeats_nothing(void **state) {
    struct fixture *f = open_with(state, NULL);
    char id[128];

    legacy_subscribe(&f->post, "a:1");
    legacy_subscribe(&f->post, "a:2");
    open_get(&f->get, NULL);
    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    assert_true(event_field(f->get.event, "id", id, sizeof(id)));
    client_reset(&f->get);
    WAIT_COUNTER(&f->served, &f->post, connections, 2);
    open_get(&f->other, id);
    served_change(&f->served, "a:2");
    client_expect(&f->other, "'uri':'a:2'");
}

/* Who cannot say where it was is told of everything. */
static void an_unreadable_id_counts_everything_as_changed(void **state) {
    struct fixture *f = open_with(state, NULL);

    legacy_subscribe(&f->post, "a:1");
    open_get(&f->get, "nonsense");
    client_expect(&f->get, "'method':'notifications/");
    while (!has(f->get.event, "'uri':'a:1'"))
        client_expect(&f->get, "'method':'notifications/");
}

/* ---- Subscribing again -------------------------------------------------- */

/* Subscribes to a:1 with members for `_meta`. */
static void subscribe_meta(struct client *client, const char *meta) {
    char request[512];

    snprintf(request, sizeof(request),
             "{'jsonrpc':'2.0','id':5,'method':'resources/subscribe',"
             "'params':{'uri':'a:1','_meta':{%s}}}",
             meta);
    assert_int_equal(legacy_post(client, request), 200);
}

/* The number of an id that was given out, raised. */
static void an_id_that_was_never_given_out_counts_everything_as_changed(void **state) {
    struct fixture *f = open_with(state, NULL);
    char id[128];

    legacy_subscribe(&f->post, "a:1");
    legacy_subscribe(&f->post, "a:2");
    open_get(&f->get, NULL);
    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    assert_true(event_field(f->get.event, "id", id, sizeof(id) - 3));
    id[1] = '7'; /* of a stream that is not the last */
    strcat(id, "00");
    client_reset(&f->get);
    WAIT_COUNTER(&f->served, &f->post, connections, 2);
    open_get(&f->other, id);
    client_expect(&f->other, "'method':'notifications/");
    while (!has(f->other.event, "'uri':'a:2'"))
        client_expect(&f->other, "'method':'notifications/");
}

static void subscribing_again_with_a_cursor_notifies_what_changed_since(void **state) {
    struct fixture *f = open_with(state, NULL);
    char cursor[128], since[160];
    const char *at;

    open_get(&f->get, NULL);
    subscribe_meta(&f->post, "'dev.tidings/sinceMs':1");
    at = strstr(f->post.body, "dev.tidings/cursor\":\"");
    assert_non_null(at);
    at += strlen("dev.tidings/cursor\":\"");
    snprintf(cursor, sizeof(cursor), "%.*s", (int)strcspn(at, "\""), at);

    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    snprintf(since, sizeof(since), "'dev.tidings/cursor':'%s'", cursor);
    subscribe_meta(&f->post, since);
    assert_body(&f->post, "'dev.tidings/resumed':true");
    client_expect(&f->get, "'uri':'a:1'");

    snprintf(since, sizeof(since), "'dev.tidings/cursor':'%s000'", cursor);
    subscribe_meta(&f->post, since); /* never given out */
    assert_body(&f->post, "'dev.tidings/resumed':false");
    client_expect(&f->get, "'uri':'a:1'");

    subscribe_meta(&f->post, "'dev.tidings/cursor':'0000000000000001-5'");
    assert_body(&f->post, "'dev.tidings/resumed':false");
    client_expect(&f->get, "'uri':'a:1'");
}

/* ---- Ends --------------------------------------------------------------- */

static void an_idle_session_ends(void **state) {
    const tdg_server_opts_t opts = {.session_idle_ms = 20000};
    struct fixture *f = open_with(state, &opts);

    clock_pass(20000);
    WAIT_COUNTER(&f->served, &f->post, sessions, 0);
    assert_int_equal(legacy_post(&f->post, "{'jsonrpc':'2.0','id':1,'method':'ping'}"),
                     404);
}

static void a_session_with_a_stream_or_a_call_is_not_idle(void **state) {
    const tdg_server_opts_t opts = {.session_idle_ms = 20000};
    struct fixture *f = open_with(state, &opts);
    struct client another;

    open_get(&f->get, NULL);
    served_client(&f->served, &another);
    legacy_initialize(&another, LATEST_LEGACY);
    legacy_send(&another, HOLD);
    tdg_request_t *request = served_take(&f->served, &another);
    time_passes(f, 47000);
    assert_null(client_event_within(&f->get, 10));
    assert_int_equal(served_counters(&f->served).sessions, 2);
    tdg_request_reply_text(request, "done");
    assert_int_equal(client_response(&another), 200);
    time_passes(f, 21000); /* now it is idle */
    WAIT_COUNTER(&f->served, &f->post, sessions, 1);
    client_done(&another);
}

/* Too much waits while it has no stream on which it could be told that it has ended. */
static void a_session_that_the_engine_ended_is_gone(void **state) {
    const tdg_server_opts_t opts = {.max_pending = 2};
    struct fixture *f = open_with(state, &opts);

    legacy_subscribe(&f->post, "t:{x}");
    for (int i = 0; i < 4; i++) {
        char uri[16];

        snprintf(uri, sizeof(uri), "t:%d", i);
        served_change(&f->served, uri);
    }
    WAIT_COUNTER(&f->served, &f->post, ended, 1);
    assert_int_equal(legacy_get(&f->get, NULL), 404);
    assert_int_equal(legacy_post(&f->post, "{'jsonrpc':'2.0','id':1,'method':'ping'}"),
                     404);
    WAIT_COUNTER(&f->served, &f->post, sessions, 0);
}

#define PING "{'jsonrpc':'2.0','id':1,'method':'ping'}"

#define INITIALIZE                                                                       \
    "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"                           \
    "'protocolVersion':'2025-11-25','capabilities':{},"                                  \
    "'clientInfo':{'name':'c','version':'1'}}}"

/* Sends initialize and nothing more; returns the status. */
static int only_initialize(struct client *client) {
    client_request(client, "POST", "/mcp", NULL, INITIALIZE);
    return client_response(client);
}

/* Requests of this client are of the session that it has begun. */
static void take_session(struct client *client) {
    char id[256];

    client_header(client, "Mcp-Session-Id", id);
    snprintf(client->session, sizeof(client->session), "%.63s", id);
}

static void sessions_have_a_limit(void **state) {
    const tdg_server_opts_t opts = {.max_sessions = 1, .workers = 2};
    struct fixture *f = open_with(state, &opts);
    char fields[128];

    assert_int_equal(legacy_post(&f->post, PING), 200); /* it has come to stay */
    assert_int_equal(only_initialize(&f->other), 503);
    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\n", f->post.session);
    client_request(&f->post, "DELETE", "/mcp", fields, NULL);
    assert_int_equal(client_response(&f->post), 204);
    legacy_initialize(&f->other, LATEST_LEGACY);
}

static void an_address_has_a_limit_of_its_own(void **state) {
    const tdg_server_opts_t opts = {.max_sessions = 4, .workers = 2}; /* half of them */
    struct fixture *f = open_with(state, &opts);

    assert_int_equal(legacy_post(&f->post, PING), 200);
    legacy_initialize(&f->other, LATEST_LEGACY);
    assert_int_equal(legacy_post(&f->other, PING), 200);
    assert_int_equal(only_initialize(&f->get), 503);
}

/* Who only introduces itself does not keep others out, on whichever worker. */
static void sessions_that_nobody_came_back_to_give_way(void **state) {
    const tdg_server_opts_t opts = {.max_sessions = 20, .workers = 3};
    struct fixture *f = open_with(state, &opts);
    struct client flood;

    assert_int_equal(legacy_post(&f->post, PING), 200);
    open_get(&f->get, NULL);
    for (int i = 0; i < 200; i++) { /* on one connection: all with one worker */
        if (i == 0)
            served_client(&f->served, &flood);
        assert_int_equal(only_initialize(&flood), 200);
    }
    for (int i = 0; i < 8; i++) {
        struct client late;

        served_client(&f->served, &late);
        legacy_initialize(&late, LATEST_LEGACY);
        assert_int_equal(legacy_post(&late, PING), 200);
        client_done(&late);
    }
    assert_int_equal(legacy_post(&f->post, PING), 200);
    WAIT_UNTIL(&f->post, served_counters(&f->served).sessions <= 10);
    client_done(&flood);
}

static void who_is_not_initialised_gives_way_first(void **state) {
    const tdg_server_opts_t opts = {.max_sessions = 2, .max_sessions_per_address = 2};
    struct fixture *f = open_with(state, &opts); /* with one that is initialised */

    for (int i = 0; i < 5; i++)
        assert_int_equal(only_initialize(&f->other), 200);
    assert_int_equal(legacy_post(&f->post, PING), 200);
}

/* Of the old endpoints a stream without initialize is as little. */
static void an_old_stream_that_says_nothing_gives_way(void **state) {
    const tdg_server_opts_t opts = {.max_sessions = 2, .max_sessions_per_address = 2};
    struct fixture *f = open_with(state, &opts);
    struct client old;

    assert_int_equal(legacy_post(&f->post, PING), 200);
    served_client(&f->served, &old);
    client_request(&old, "GET", "/sse", NULL, NULL);
    assert_int_equal(client_response(&old), 200);
    client_event(&old);
    legacy_initialize(&f->other, LATEST_LEGACY);
    client_event(&old); /* when to come back */
    client_expect_end(&old);
    client_done(&old);
}

/* It has a stream from its beginning: once it is initialised, that is in use. */
static void an_old_stream_that_is_initialised_stays(void **state) {
    const tdg_server_opts_t opts = {.max_sessions = 2, .max_sessions_per_address = 2};
    struct fixture *f = open_with(state, &opts);
    char endpoint[128];
    struct client old;

    assert_int_equal(legacy_post(&f->post, PING), 200);
    served_client(&f->served, &old);
    client_request(&old, "GET", "/sse", NULL, NULL);
    assert_int_equal(client_response(&old), 200);
    assert_true(event_field(client_event(&old), "data", endpoint, sizeof(endpoint)));
    client_request(&f->get, "POST", endpoint, NULL, INITIALIZE);
    assert_int_equal(client_response(&f->get), 202);
    client_expect(&old, "'protocolVersion'");
    client_request(&f->get, "POST", endpoint, NULL,
                   "{'jsonrpc':'2.0','method':'notifications/initialized'}");
    assert_int_equal(client_response(&f->get), 202);
    assert_int_equal(only_initialize(&f->other), 503);
    client_done(&old);
}

enum { BLOCKERS = 80 };

/* Initialises, does not say so, and opens a stream. */
static void block(struct served *served, struct client *client) {
    served_client(served, client);
    assert_int_equal(only_initialize(client), 200);
    take_session(client);
    assert_int_equal(legacy_get(client, NULL), 200);
}

/* However many hold a stream without having finished their handshake. */
static void streams_before_initialized_keep_nobody_out(void **state) {
    const tdg_server_opts_t opts = {.max_sessions = 100, .max_sessions_per_address = 100};
    struct fixture *f = open_with(state, &opts);
    struct client blockers[BLOCKERS];

    assert_int_equal(legacy_post(&f->post, PING), 200);
    for (int i = 0; i < BLOCKERS; i++)
        block(&f->served, &blockers[i]);
    for (int i = 0; i < 300; i++)
        assert_int_equal(only_initialize(&f->other), 200);
    legacy_initialize(&f->other, LATEST_LEGACY);
    assert_int_equal(legacy_post(&f->other, PING), 200);
    assert_int_equal(legacy_post(&f->post, PING), 200);
    client_event(&blockers[0]); /* its opening */
    client_event(&blockers[0]); /* when to reconnect */
    client_expect_end(&blockers[0]);
    for (int i = 0; i < BLOCKERS; i++)
        client_done(&blockers[i]);
}

static void an_address_makes_room_behind_any_number_of_others(void **state) {
    static const char *const proxies[] = {"127.0.0.1", NULL};
    const tdg_server_opts_t opts = {.max_sessions = 200};
    const tdg_listen_opts_t http = {.trusted_proxies = proxies};
    struct fixture *f = *state;

    served_open_at(&f->served, &opts, &http);
    served_client(&f->served, &f->post);
    served_client(&f->served, &f->get);
    served_client(&f->served, &f->other);
    f->post.via = "203.0.113.1";
    f->other.via = "203.0.113.2";
    for (int i = 0; i < 70; i++)
        assert_int_equal(only_initialize(&f->post), 200);
    for (int i = 0; i < 120; i++)
        assert_int_equal(only_initialize(&f->other), 200);
    assert_int_equal(served_counters(&f->served).sessions, 170);
}

/* The limit is exceeded only until the other workers have had their turn. */
static void the_limit_holds_with_several_workers(void **state) {
    const tdg_server_opts_t opts = {
        .max_sessions = 20, .max_sessions_per_address = 20, .workers = 3};
    struct fixture *f = open_with(state, &opts);
    struct client blockers[BLOCKERS];

    for (int i = 0; i < BLOCKERS; i++) {
        served_client(&f->served, &blockers[i]);
        if (only_initialize(&blockers[i]) == 200) {
            take_session(&blockers[i]);
            legacy_get(&blockers[i], NULL); /* 404 where it gave way already */
        }
    }
    WAIT_UNTIL(&f->post, served_counters(&f->served).sessions <= 20);
    for (int i = 0; i < BLOCKERS; i++)
        client_done(&blockers[i]);
}

static void a_handshake_that_is_not_finished_ends_soon(void **state) {
    const tdg_server_opts_t opts = {.handshake_timeout_ms = 20000};
    struct fixture *f = open_with(state, &opts);

    for (int i = 0; i < 10; i++)
        assert_int_equal(only_initialize(&f->other), 200);
    time_passes(f, 21000);
    WAIT_COUNTER(&f->served, &f->other, sessions, 1);
    assert_int_equal(legacy_post(&f->post, PING), 200);
}

/* Not all clients finish it. Those that are there are served, until somebody needs their
 * place. */
static void a_handshake_that_is_not_finished_ends_when_the_stream_does(void **state) {
    const tdg_server_opts_t opts = {.handshake_timeout_ms = 20000};
    struct fixture *f = open_with(state, &opts);
    struct client sloppy;
    uint64_t connections;

    block(&f->served, &sloppy);
    for (int i = 0; i < 47; i++) {
        clock_pass(1000);
        assert_int_equal(legacy_post(&f->post, PING), 200);
    }
    assert_int_equal(served_counters(&f->served).sessions, 2);
    connections = served_counters(&f->served).connections;
    client_done(&sloppy);
    WAIT_COUNTER(&f->served, &f->other, connections, connections - 1);
    time_passes(f, 41000); /* it is looked at once per time-out */
    WAIT_COUNTER(&f->served, &f->other, sessions, 1);
}

static void calls_have_a_limit(void **state) {
    const tdg_server_opts_t opts = {.max_calls = 1};
    struct fixture *f = open_with(state, &opts);

    legacy_send(&f->post, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    assert_int_equal(legacy_post(&f->other, "{'jsonrpc':'2.0','id':9,'method':'ping'}"),
                     200);
    assert_body(&f->other, "Too many");
    tdg_request_reply_text(request, "done");
    assert_int_equal(client_response(&f->post), 200);
    assert_int_equal(legacy_post(&f->other, "{'jsonrpc':'2.0','id':9,'method':'ping'}"),
                     200);
    assert_body(&f->other, "'result':{}");
}

/* Requests of a session reach its worker wherever they arrive. */
static void a_session_is_served_by_any_worker(void **state) {
    const tdg_server_opts_t opts = {.workers = 4};
    struct fixture *f = open_with(state, &opts);
    struct client more;

    open_get(&f->get, NULL);
    for (int i = 0; i < 24; i++) {
        char uri[16];

        served_client(&f->served, &more);
        legacy_join(&more, &f->post);
        snprintf(uri, sizeof(uri), "t:%d", i);
        legacy_subscribe(&more, uri);
        served_change(&f->served, uri);
        client_expect(&f->get, uri);
        legacy_unsubscribe(&more, uri);
        client_done(&more);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_names_its_worker),
        CASE(unknown_sessions_are_not_found),
        CASE(delete_ends_a_session_and_its_streams),
        CASE(delete_ends_a_session_with_calls_under_way),
        CASE(the_newest_stream_gets_the_messages),
        CASE(streams_have_a_limit),
        CASE(a_stream_without_an_id_repeats_what_the_broken_one_carried),
        CASE(a_stream_with_an_id_gives_exactly_what_was_missed),
        CASE(an_id_of_the_last_event_repeats_nothing),
        CASE(an_unreadable_id_counts_everything_as_changed),
        CASE(an_id_that_was_never_given_out_counts_everything_as_changed),
        CASE(subscribing_again_with_a_cursor_notifies_what_changed_since),
        CASE(an_idle_session_ends),
        CASE(a_session_with_a_stream_or_a_call_is_not_idle),
        CASE(a_session_that_the_engine_ended_is_gone),
        CASE(sessions_have_a_limit),
        CASE(an_address_has_a_limit_of_its_own),
        CASE(sessions_that_nobody_came_back_to_give_way),
        CASE(who_is_not_initialised_gives_way_first),
        CASE(an_old_stream_that_says_nothing_gives_way),
        CASE(an_old_stream_that_is_initialised_stays),
        CASE(streams_before_initialized_keep_nobody_out),
        CASE(an_address_makes_room_behind_any_number_of_others),
        CASE(the_limit_holds_with_several_workers),
        CASE(a_handshake_that_is_not_finished_ends_soon),
        CASE(a_handshake_that_is_not_finished_ends_when_the_stream_does),
        CASE(calls_have_a_limit),
        CASE(a_session_is_served_by_any_worker),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
