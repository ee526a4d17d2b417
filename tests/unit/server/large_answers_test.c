/* SPDX-License-Identifier: MIT
 *
 * Answers of megabytes: what waits for readers that do not read is bounded, a request
 * beyond that is refused with a hint when to retry, and small ones go on. */
#include <stdio.h>

#include "served.h"
#include "server/limits.h"
#include "server/worker.h"

enum { LARGE = 8 << 20, CROWD = 20 };

struct fixture {
    struct served served;
    struct client crowd[CROWD], other;
    char *text; /* LARGE bytes */
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->text = malloc(LARGE + 1);
    assert_non_null(f->text);
    memset(f->text, 'x', LARGE);
    f->text[LARGE] = '\0';
    served_open(&f->served, NULL, NULL);
    for (size_t i = 0; i < CROWD; i++)
        served_client(&f->served, &f->crowd[i]);
    served_client(&f->served, &f->other);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < CROWD; i++)
        client_done(&f->crowd[i]);
    client_done(&f->other);
    served_close(&f->served);
    free(f->text);
    free(f);
    return 0;
}

static size_t used(struct fixture *f) {
    return tdg__budget_used(tdg__server_answers(f->served.server));
}

static void ask(struct fixture *f, struct client *client) {
    modern_send(client, "tools/call", "hold", "'name':'hold'");
    tdg_request_reply_text(served_take(&f->served, client), f->text);
}

/* All ask, and none reads. */
static void crowd_in(struct fixture *f) {
    for (size_t i = 0; i < CROWD; i++) {
        ask(f, &f->crowd[i]);
        assert_true(used(f) <= TDG__ANSWERS_MAX);
    }
    assert_int_equal(modern_post(&f->other, "resources/read", "a:1", "'uri':'a:1'"), 200);
    assert_body(&f->other, "'text':'a:1'");
    assert_true(used(f) > TDG__ANSWERS_MAX - LARGE - 4096);
    assert_true(used(f) <= TDG__ANSWERS_MAX);
}

static void what_waits_for_readers_is_bounded(void **state) {
    struct fixture *f = *state;

    crowd_in(f);
    ask(f, &f->other);
    assert_int_equal(client_response(&f->other), 200);
    assert_body(&f->other, "'error_type':'busy'");
    assert_body(&f->other, "'retryAfterMs':2000");
}

static void there_is_room_again_when_they_leave(void **state) {
    struct fixture *f = *state;

    crowd_in(f);
    for (size_t i = 0; i < CROWD; i++)
        client_done(&f->crowd[i]);
    WAIT_UNTIL(&f->other, used(f) == 0);
    ask(f, &f->other);
    assert_int_equal(client_response(&f->other), 200);
    assert_true(f->other.body_len > LARGE);
    assert_body(&f->other, "'resultType':'complete'");
    WAIT_UNTIL(&f->other, used(f) == 0);
}

static void large_answers_arrive_whole_on_streams_and_in_batches(void **state) {
    struct fixture *f = *state;
    struct client *client = &f->other;
    tdg_request_t *requests[2];
    json_t *answers;

    legacy_initialize(client, "2025-03-26");
    legacy_send(client, "[{'jsonrpc':'2.0','id':1,'method':'tools/call','params':"
                        "{'name':'hold'}},{'jsonrpc':'2.0','id':2,'method':'tools/call',"
                        "'params':{'name':'hold'}}]");
    for (size_t i = 0; i < 2; i++)
        requests[i] = served_take(&f->served, client);
    tdg_request_reply_text(requests[0], f->text);
    tdg_request_reply_text(requests[1], "small");
    assert_int_equal(client_response(client), 200);
    answers = json_loadb(client->body, client->body_len, 0, NULL);
    assert_int_equal(json_array_size(answers), 2);
    json_decref(answers);
    assert_true(client->body_len > LARGE);
    assert_body(client, "'text':'small'");

    legacy_send(client, "{'jsonrpc':'2.0','id':3,'method':'tools/call','params':"
                        "{'name':'hold','_meta':{'progressToken':1}}}");
    requests[0] = served_take(&f->served, client);
    tdg_request_progress(requests[0], 1, 0, NULL);
    f->text[100000] =
        '\0'; /* as much as the client takes as one event, and no longer small */
    tdg_request_reply_text(requests[0], f->text + 90000);
    assert_int_equal(client_response(client), 200);
    client_expect(client, "'progress':1");
    client_expect(client, "'id':3");
    client_expect_end(client);
    WAIT_UNTIL(client, used(f) == 0);
}

static void read_large(void *user, tdg_request_t *request, const char *uri) {
    (void)uri;
    tdg_request_reply_text(request, user);
}

/* Answered from inside its callback, on the worker's thread. The server may stop while a
 * thread encodes it. */
static void a_large_read_is_encoded_in_a_thread(void **state) {
    struct fixture *f = *state;
    tdg_resource_t resource = {
        .uri = "large:1", .name = "large", .read = read_large, .user = f->text};

    assert_int_equal(tdg_server_add_resource(f->served.server, &resource), 0);
    assert_int_equal(
        modern_post(&f->other, "resources/read", "large:1", "'uri':'large:1'"), 200);
    assert_true(f->other.body_len > LARGE);
    assert_body(&f->other, "'resultType':'complete'");
    WAIT_UNTIL(&f->other, used(f) == 0);
    for (size_t i = 0; i < 4; i++)
        modern_send(&f->crowd[i], "resources/read", "large:1", "'uri':'large:1'");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    /* clang-format off: version 14 crashes on a table with a macro in it */
    const struct CMUnitTest tests[] = {
        CASE(what_waits_for_readers_is_bounded),
        CASE(there_is_room_again_when_they_leave),
        CASE(large_answers_arrive_whole_on_streams_and_in_batches),
        CASE(a_large_read_is_encoded_in_a_thread),
    };
    /* clang-format on */

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("large_answers", tests, NULL, NULL);
}
