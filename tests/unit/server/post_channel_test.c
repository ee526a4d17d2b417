/* SPDX-License-Identifier: MIT
 *
 * Requests by POST: answers as JSON and as streams, connections that are let go, and
 * clients that come back for the rest. */
#include <stdio.h>

#include "served.h"
#include "unit/targets.h"

struct fixture {
    struct served served;
    struct client post, other;
};

static struct fixture *open_with(void **state, const tdg_server_opts_t *opts) {
    struct fixture *f = *state;

    served_open(&f->served, opts, NULL);
    served_client(&f->served, &f->post);
    served_client(&f->served, &f->other);
    legacy_initialize(&f->post, LATEST_LEGACY);
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
    client_done(&f->other);
    served_close(&f->served);
    free(f);
    return 0;
}

static void hold_with_progress(struct client *client, int id) {
    char body[256];

    snprintf(body, sizeof(body),
             "{'jsonrpc':'2.0','id':%d,'method':'tools/call','params':{'name':'hold',"
             "'_meta':{'progressToken':1}}}",
             id);
    legacy_send(client, body);
}

/* After keepalive_ms there are signs of life, which need a stream. */
static void a_slow_answer_becomes_a_stream(void **state) {
    const tdg_server_opts_t opts = {.keepalive_ms = 40};
    struct fixture *f = open_with(state, &opts);

    legacy_send(&f->post, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    assert_int_equal(client_response(&f->post), 200);
    assert_true(f->post.chunked);
    client_event(&f->post);                             /* its opening */
    assert_string_equal(client_event(&f->post), ":\n"); /* a sign of life */
    tdg_request_reply_text(request, "at last");
    client_expect(&f->post, "at last");
    client_expect_end(&f->post);

    modern_send(&f->other, "tools/call", "hold", "'name':'hold'");
    request = served_take(&f->served, &f->other);
    assert_int_equal(client_response(&f->other), 200);
    assert_true(f->other.chunked);
    tdg_request_reply_text(request, "modern");
    client_expect(&f->other, "modern");
    client_expect_end(&f->other);
}

static void a_slow_answer_stays_json_where_no_stream_is_accepted(void **state) {
    const tdg_server_opts_t opts = {.keepalive_ms = 40};
    struct fixture *f = open_with(state, &opts);
    char text[512];
    char *body = requote(HOLD);

    snprintf(text, sizeof(text),
             "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n"
             "Content-Type: application/json\r\nMcp-Session-Id: %s\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             f->post.session, strlen(body), body);
    free(body);
    client_send(&f->post, text);
    tdg_request_t *request = served_take(&f->served, &f->post);
    assert_int_equal(client_response_within(&f->post, 150), -1);
    tdg_request_reply_text(request, "at last");
    assert_int_equal(client_response(&f->post), 200);
    assert_false(f->post.chunked);
    assert_body(&f->post, "at last");
}

static void progress_and_logs_come_before_the_answer(void **state) {
    struct fixture *f = open_with(state, NULL);

    assert_int_equal(legacy_post(&f->post, "{'jsonrpc':'2.0','id':1,'method':"
                                           "'logging/setLevel','params':{'level':"
                                           "'warning'}}"),
                     200);
    hold_with_progress(&f->post, 2);
    tdg_request_t *request = served_take(&f->served, &f->post);
    tdg_request_progress(request, 1, 2, "half");
    tdg_request_log(request, TDG_LOG_INFO, NULL, json_string("too quiet"));
    tdg_request_log(request, TDG_LOG_ERROR, "l", json_string("loud"));
    tdg_request_reply_text(request, "done");
    assert_int_equal(client_response(&f->post), 200);
    client_expect(&f->post, "'progress':1");
    client_expect(&f->post, "'data':'loud'");
    client_expect(&f->post, "done");
    client_expect_end(&f->post);
}

/* What a batch has gathered leaves with the first event; then it counts as acknowledged,
 * though another call of the batch goes on. */
static void a_batch_that_becomes_a_stream_loses_nothing(void **state) {
    struct fixture *f = open_with(state, NULL);
    struct client old, get;

    served_client(&f->served, &old);
    served_client(&f->served, &get);
    legacy_initialize(&old, "2025-03-26");
    strcpy(get.session, old.session);
    assert_int_equal(legacy_get(&get, NULL), 200);
    legacy_send(&old, "[{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                      "'params':{'uri':'a:1'}},"
                      "{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{"
                      "'name':'hold','_meta':{'progressToken':1}}}]");
    tdg_request_t *request = served_take(&f->served, &old);
    tdg_request_progress(request, 1, 2, "half");
    assert_int_equal(client_response(&old), 200);
    client_expect(&old, "'id':1");
    client_expect(&old, "'progress':1");
    served_change(&f->served, "a:1");
    client_expect(&get, "'uri':'a:1'");
    tdg_request_reply_text(request, "done");
    client_expect(&old, "done");
    client_expect_end(&old);
    client_done(&old);
    client_done(&get);
}

/* The same where it becomes a stream only because an answer takes its time. */
static void a_late_batch_acknowledges_what_it_has_answered(void **state) {
    const tdg_server_opts_t opts = {.keepalive_ms = 40};
    struct fixture *f = open_with(state, &opts);
    struct client old, get;

    served_client(&f->served, &old);
    served_client(&f->served, &get);
    legacy_initialize(&old, "2025-03-26");
    strcpy(get.session, old.session);
    assert_int_equal(legacy_get(&get, NULL), 200);
    legacy_send(&old, "[{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                      "'params':{'uri':'a:1'}}," HOLD "]");
    tdg_request_t *request = served_take(&f->served, &old);
    assert_int_equal(client_response(&old), 200);
    client_expect(&old, "'id':1");
    served_change(&f->served, "a:1");
    client_expect(&get, "'uri':'a:1'");
    tdg_request_reply_text(request, "done");
    client_expect(&old, "done");
    client_expect_end(&old);
    client_done(&old);
    client_done(&get);
}

static void send_subscribe_and_hold(struct client *client, int id) {
    char body[512];

    snprintf(body, sizeof(body),
             "[{'jsonrpc':'2.0','id':%d,'method':'resources/subscribe','params':{"
             "'uri':'a:1'}},{'jsonrpc':'2.0','id':%d,'method':'tools/call','params':{"
             "'name':'hold'}}]",
             id, id + 1);
    legacy_send(client, body);
}

/* The client has unsubscribed in between. */
static void an_old_answer_does_not_acknowledge_a_new_subscription(void **state) {
    struct fixture *f = open_with(state, NULL);
    struct client old, third, get;

    served_client(&f->served, &old);
    served_client(&f->served, &third);
    served_client(&f->served, &get);
    legacy_initialize(&old, "2025-03-26");
    legacy_join(&third, &old);
    legacy_join(&get, &old);
    legacy_join(&f->other, &old);
    assert_int_equal(legacy_get(&get, NULL), 200);
    legacy_subscribe(&f->other, "a:2");
    send_subscribe_and_hold(&old, 1);
    tdg_request_t *first = served_take(&f->served, &f->post);
    legacy_unsubscribe(&f->other, "a:1");
    send_subscribe_and_hold(&third, 3);
    tdg_request_t *second = served_take(&f->served, &f->post);

    tdg_request_reply_text(first, "done");
    assert_int_equal(client_response(&old), 200);
    assert_int_equal(legacy_post(&old, "{'jsonrpc':'2.0','id':9,'method':'ping'}"), 200);
    served_change(&f->served, "a:1");
    served_change(&f->served, "a:2");
    client_expect(&get, "'uri':'a:2'");
    tdg_request_reply_text(second, "done");
    assert_int_equal(client_response(&third), 200);
    client_expect(&get, "'uri':'a:1'");
    client_done(&old);
    client_done(&third);
    client_done(&get);
}

/* ---- Coming back -------------------------------------------------------- */

static void a_released_client_comes_back_for_the_answer(void **state) {
    const tdg_server_opts_t opts = {.retry_ms = 77};
    struct fixture *f = open_with(state, &opts);
    char id[128], retry[16];

    legacy_send(&f->post, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    tdg_request_release_connection(request);
    assert_int_equal(client_response(&f->post), 200);
    const char *opening = client_event(&f->post);
    assert_true(event_field(opening, "id", id, sizeof(id)));
    assert_true(event_field(opening, "retry", retry, sizeof(retry)));
    assert_string_equal(retry, "77");
    client_expect_end(&f->post);

    assert_int_equal(legacy_get(&f->other, id), 200);
    tdg_request_reply_text(request, "while it waits");
    client_expect(&f->other, "while it waits");
    client_expect_end(&f->other);
}

static void what_was_said_meanwhile_is_kept(void **state) {
    struct fixture *f = open_with(state, NULL);
    char id[128];

    hold_with_progress(&f->post, 2);
    tdg_request_t *request = served_take(&f->served, &f->post);
    tdg_request_progress(request, 1, 3, "one");
    assert_int_equal(client_response(&f->post), 200);
    client_expect(&f->post, "'message':'one'");
    assert_true(event_field(f->post.event, "id", id, sizeof(id)));
    client_reset(&f->post);
    WAIT_COUNTER(&f->served, &f->other, connections, 1);
    tdg_request_progress(request, 2, 3, "two");
    tdg_request_reply_text(request, "three");
    for (int i = 0; i < 2; i++) { /* the first stream may break as well */
        assert_int_equal(legacy_get(&f->other, id), 200);
        client_expect(&f->other, "'message':'two'");
        client_expect(&f->other, "three");
        client_expect_end(&f->other);
    }
}

static int start_slowly(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server;
    return strcmp(target->name, "a:1") == 0 ? TDG_WATCH_PENDING : 0;
}

static void stop_nothing(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server, (void)target;
}

static bool is_armed(struct served *served) {
    json_t *list = served_subscriptions(
        served, &(tdg_subscription_query_t){.target = FOR_URI("a:1")});
    char *text = list != NULL ? json_dumps(list, JSON_COMPACT) : NULL;
    bool armed = text != NULL && has(text, "'armed'");

    free(text);
    json_decref(list);
    return armed;
}

/* A subscribe of a batch is answered while nobody is there: its updates come when the
 * client has resumed, though another call of the batch goes on. */
static void a_resumed_batch_acknowledges_what_it_has_answered(void **state) {
    const tdg_server_opts_t opts = {
        .watcher = &(tdg_watcher_t){start_slowly, stop_nothing, NULL}};
    struct fixture *f = open_with(state, &opts);
    struct client old, get;
    char id[128];

    served_client(&f->served, &old);
    served_client(&f->served, &get);
    legacy_initialize(&old, "2025-03-26");
    strcpy(get.session, old.session);
    strcpy(f->other.session, old.session);
    assert_int_equal(legacy_get(&get, NULL), 200);
    legacy_send(&old, "[{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                      "'params':{'uri':'a:1'}},"
                      "{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{"
                      "'name':'hold','_meta':{'progressToken':1}}}]");
    tdg_request_t *request = served_take(&f->served, &old);
    tdg_request_progress(request, 1, 2, "half");
    assert_int_equal(client_response(&old), 200);
    client_expect(&old, "'progress':1");
    assert_true(event_field(old.event, "id", id, sizeof(id)));
    client_reset(&old);
    WAIT_COUNTER(&f->served, &f->other, connections, 3);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:1"), 0), 0);
    WAIT_UNTIL(&f->other, is_armed(&f->served));
    assert_int_equal(legacy_get(&f->other, id), 200);
    client_expect(&f->other, "'id':1");
    served_change(&f->served, "a:1");
    client_expect(&get, "'uri':'a:1'");
    tdg_request_reply_text(request, "done");
    client_expect(&f->other, "done");
    client_expect_end(&f->other);
    client_done(&old);
    client_done(&get);
}

static void older_clients_are_not_released(void **state) {
    struct fixture *f = open_with(state, NULL);
    struct client old;

    served_client(&f->served, &old);
    legacy_initialize(&old, "2025-06-18");
    legacy_send(&old, HOLD);
    tdg_request_t *request = served_take(&f->served, &old);
    tdg_request_release_connection(request);
    tdg_request_reply_text(request, "here");
    assert_int_equal(client_response(&old), 200);
    assert_body(&old, "here");
    client_done(&old);
}

/* Calls a tool whose answer its client has to come back for, with the id. */
static tdg_request_t *hold_released(struct fixture *f, int number, char id[128]) {
    hold_with_progress(&f->post, number);
    tdg_request_t *request = served_take(&f->served, &f->post);

    tdg_request_release_connection(request);
    assert_int_equal(client_response(&f->post), 200);
    assert_true(event_field(client_event(&f->post), "id", id, 128));
    client_expect_end(&f->post);
    return request;
}

/* The answer to a POST is none of the streams that max_streams is about. */
static void an_answer_is_resumed_beside_all_streams(void **state) {
    const tdg_server_opts_t opts = {.max_streams = 1};
    struct fixture *f = open_with(state, &opts);
    char id[128];

    assert_int_equal(legacy_get(&f->other, NULL), 200);
    tdg_request_t *request = hold_released(f, 2, id);
    assert_int_equal(legacy_get(&f->post, NULL), 409);
    assert_int_equal(legacy_get(&f->post, id), 200);
    tdg_request_reply_text(request, "resumed");
    client_expect(&f->post, "resumed");
    client_expect_end(&f->post);
}

/* At most 16 answers of a session wait for a client that does not come. */
static void kept_answers_are_bounded(void **state) {
    enum { MANY = 40 };
    struct fixture *f = open_with(state, NULL);
    char ids[MANY][128];
    int kept = 0;

    for (int i = 0; i < MANY; i++)
        tdg_request_reply_text(hold_released(f, i, ids[i]), "kept");
    for (int i = 0; i < MANY; i++) {
        int status = legacy_get(&f->other, ids[i]);

        if (status == 200) {
            client_expect(&f->other, "kept");
            client_expect_end(&f->other);
            kept++;
        } else {
            assert_int_equal(status, 400);
        }
    }
    assert_in_range(kept, 1, 17);
}

/* The bound drops the answer that has waited longest, not the call that came first. */
static void the_newest_answer_is_kept(void **state) {
    enum { MANY = 20 };
    struct fixture *f = open_with(state, NULL);
    char first[128], id[128];

    tdg_request_t *request = hold_released(f, MANY, first);
    for (int i = 0; i < MANY; i++)
        tdg_request_reply_text(hold_released(f, i, id), "quick");
    tdg_request_reply_text(request, "slow");
    assert_int_equal(legacy_get(&f->other, first), 200);
    client_expect(&f->other, "slow");
    client_expect_end(&f->other);
    assert_int_equal(legacy_get(&f->other, id), 200);
    client_expect(&f->other, "quick");
    client_expect_end(&f->other);
}

/* ---- Cancelling --------------------------------------------------------- */

static void a_cancelled_call_gets_no_answer(void **state) {
    struct fixture *f = open_with(state, NULL);

    legacy_send(&f->post, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    assert_int_equal(legacy_post(&f->other,
                                 "{'jsonrpc':'2.0','method':'notifications/cancelled',"
                                 "'params':{'requestId':7}}"),
                     202);
    assert_true(tdg_request_cancelled(request));
    assert_int_equal(client_response(&f->post), 202);
    tdg_request_reply_text(request, "to nobody");
    assert_int_equal(legacy_post(&f->post, "{'jsonrpc':'2.0','id':8,'method':'ping'}"),
                     200);
    assert_body(&f->post, "'id':8");
}

static void a_modern_client_cancels_by_leaving(void **state) {
    struct fixture *f = open_with(state, NULL);

    modern_send(&f->other, "tools/call", "hold", "'name':'hold'");
    tdg_request_t *request = served_take(&f->served, &f->other);
    client_reset(&f->other);
    WAIT_UNTIL(&f->post, tdg_request_cancelled(request));
    tdg_request_reply_text(request, "to nobody");
}

static void an_id_in_flight_is_refused(void **state) {
    struct fixture *f = open_with(state, NULL);

    legacy_send(&f->post, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    assert_int_equal(legacy_post(&f->other, HOLD), 200);
    assert_body(&f->other, "-32600");
    tdg_request_reply_text(request, "done");
    assert_int_equal(client_response(&f->post), 200);
    assert_body(&f->post, "done");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_slow_answer_becomes_a_stream),
        CASE(a_slow_answer_stays_json_where_no_stream_is_accepted),
        CASE(progress_and_logs_come_before_the_answer),
        CASE(a_released_client_comes_back_for_the_answer),
        CASE(a_batch_that_becomes_a_stream_loses_nothing),
        CASE(a_late_batch_acknowledges_what_it_has_answered),
        CASE(an_old_answer_does_not_acknowledge_a_new_subscription),
        CASE(what_was_said_meanwhile_is_kept),
        CASE(a_resumed_batch_acknowledges_what_it_has_answered),
        CASE(older_clients_are_not_released),
        CASE(an_answer_is_resumed_beside_all_streams),
        CASE(kept_answers_are_bounded),
        CASE(the_newest_answer_is_kept),
        CASE(a_cancelled_call_gets_no_answer),
        CASE(a_modern_client_cancels_by_leaving),
        CASE(an_id_in_flight_is_refused),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("post_channel", tests, NULL, NULL);
}
