/* SPDX-License-Identifier: MIT
 *
 * Answers of megabytes whose readers do not read. What a tool has done is answered,
 * whatever that costs; a tool that would come on top is refused before it runs. A read,
 * which can be repeated, is refused when there is no room for its answer. Both say when
 * to retry, and small reads go on. A tool that does not answer keeps no read away. */
#include <stdio.h>

#include "served.h"
#include "server/context/context.h"
#include "server/context/limits.h"

/* An answer is larger than what the kernel buffers for a client. All room but that of
 * three is taken, so that a few of them fill it. */
enum {
    LARGE = 8 << 20,
    ROOM = 3 * LARGE,
    TAKEN = TDG__ANSWERS_MAX - ROOM,
    CROWD = 4,
    FIT = ROOM / LARGE - 1, /* so often, as an answer is some more */
};

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
    assert_true(tdg__budget_take(f->served.server->answers, TAKEN));
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
    tdg__budget_give(f->served.server->answers, TAKEN);
    served_close(&f->served);
    free(f->text);
    free(f);
    return 0;
}

static size_t used(struct fixture *f) {
    return tdg__budget_used(f->served.server->answers) - TAKEN;
}

static size_t reserved(struct fixture *f) {
    return tdg__budget_reserved(f->served.server->answers);
}

static void call_hold(struct client *client) {
    modern_send(client, "tools/call", "hold", "'name':'hold'");
}

static void call_large(struct fixture *f, struct client *client) {
    call_hold(client);
    tdg_request_reply_text(served_take(&f->served, client), f->text);
}

/* Whoever calls learns how large the answers of the tool are. */
static void learn_the_size(struct fixture *f) {
    call_large(f, &f->other);
    assert_int_equal(client_response(&f->other), 200);
    assert_true(f->other.body_len > LARGE);
    WAIT_UNTIL(&f->other, used(f) == 0);
}

/* All call the tool before the first of them is answered, and none reads. */
static void crowd_in(struct fixture *f) {
    for (size_t i = 0; i < CROWD; i++)
        call_hold(&f->crowd[i]);
    WAIT_UNTIL(&f->other, served_held(&f->served) == CROWD);
    for (size_t i = 0; i < CROWD; i++)
        tdg_request_reply_text(served_take(&f->served, &f->other), f->text);
    WAIT_UNTIL(&f->other, used(f) >= (size_t)CROWD * LARGE);
}

static void assert_busy(struct client *client) {
    assert_body(client, "'error_type':'busy'");
    assert_body(client, "'retryAfterMs':2000");
}

static void what_a_tool_has_done_is_answered_beyond_the_limit(void **state) {
    struct fixture *f = *state;

    crowd_in(f);
    assert_true(used(f) > ROOM);
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(client_response(&f->crowd[i]), 200);
        assert_true(f->crowd[i].body_len > LARGE);
        assert_body(&f->crowd[i], "'resultType':'complete'");
    }
    WAIT_UNTIL(&f->other, used(f) == 0);
}

static void no_tool_runs_where_there_is_no_room_for_its_answer(void **state) {
    struct fixture *f = *state;

    crowd_in(f);
    assert_int_equal(modern_post(&f->other, "tools/call", "hold", "'name':'hold'"), 200);
    assert_busy(&f->other);
    assert_body(&f->other, "'name':'hold'");
    assert_null(strstr(f->other.body, "\"uri\""));
    assert_int_equal(served_held(&f->served), 0);

    assert_int_equal(modern_post(&f->other, "prompts/get", "p", "'name':'p'"), 200);
    assert_busy(&f->other);
    assert_body(&f->other, "'name':'p'");
}

static void small_reads_and_lists_go_on_meanwhile(void **state) {
    struct fixture *f = *state;

    crowd_in(f);
    assert_int_equal(modern_post(&f->other, "resources/read", "a:1", "'uri':'a:1'"), 200);
    assert_body(&f->other, "'text':'a:1'");
    assert_int_equal(modern_post(&f->other, "tools/list", NULL, NULL), 200);
    assert_body(&f->other, "'name':'hold'");
}

static void tools_run_again_when_the_others_have_left(void **state) {
    struct fixture *f = *state;

    crowd_in(f);
    for (size_t i = 0; i < CROWD; i++)
        client_done(&f->crowd[i]);
    WAIT_UNTIL(&f->other, used(f) == 0);
    learn_the_size(f);
}

/* As many call the tool as room can be reserved for. */
static void hang(struct fixture *f) {
    learn_the_size(f);
    for (size_t i = 0; i < FIT; i++) {
        call_hold(&f->crowd[i]);
        WAIT_UNTIL(&f->other, served_held(&f->served) == i + 1);
    }
}

static void answer_those_that_hang(struct fixture *f) {
    for (size_t i = 0; i < FIT; i++)
        tdg_request_reply_text(served_take(&f->served, &f->other), f->text);
    for (size_t i = 0; i < FIT; i++) {
        assert_int_equal(client_response(&f->crowd[i]), 200);
        assert_true(f->crowd[i].body_len > LARGE);
    }
    WAIT_UNTIL(&f->other, reserved(f) == 0);
}

/* So a crowd does not go beyond the limit once more. */
static void room_is_reserved_for_as_much_as_was_answered_before(void **state) {
    struct fixture *f = *state;

    hang(f);
    for (size_t i = FIT; i < CROWD; i++) {
        call_hold(&f->crowd[i]);
        assert_int_equal(client_response(&f->crowd[i]), 200);
        assert_busy(&f->crowd[i]);
    }
    assert_int_equal(served_held(&f->served), FIT);
    assert_true(used(f) + reserved(f) <= ROOM);
    answer_those_that_hang(f);
    WAIT_UNTIL(&f->other, used(f) == 0);
}

static void room_that_was_not_needed_is_given_back_and_not_taken_again(void **state) {
    struct fixture *f = *state;
    tdg_request_t *request;

    learn_the_size(f);
    for (int i = 0; i < 9; i++) { /* half as much is expected each time */
        call_hold(&f->other);
        request = served_take(&f->served, &f->other);
        assert_int_equal(reserved(f) > 0, i < 8);
        tdg_request_reply_text(request, "small");
        assert_int_equal(client_response(&f->other), 200);
        WAIT_UNTIL(&f->other, reserved(f) == 0);
    }
}

static void room_of_a_call_that_was_given_up_is_given_back(void **state) {
    struct fixture *f = *state;
    tdg_request_t *request;

    learn_the_size(f);
    call_hold(&f->crowd[0]);
    request = served_take(&f->served, &f->crowd[0]);
    assert_true(reserved(f) > 0);
    client_done(&f->crowd[0]);
    WAIT_UNTIL(&f->other, tdg_request_cancelled(request));
    tdg_request_reply_text(request, f->text);
    WAIT_UNTIL(&f->other, reserved(f) == 0);
    assert_int_equal(used(f), 0);
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

static void add_large_resource(struct fixture *f) {
    tdg_resource_t resource = {
        .uri = "large:1", .name = "large", .read = read_large, .user = f->text};

    assert_int_equal(tdg_server_add_resource(f->served.server, &resource), 0);
}

/* Answered from inside its callback, on the worker's thread. The server may stop while a
 * thread encodes it. */
static void a_large_read_is_encoded_in_a_thread(void **state) {
    struct fixture *f = *state;

    add_large_resource(f);
    assert_int_equal(
        modern_post(&f->other, "resources/read", "large:1", "'uri':'large:1'"), 200);
    assert_true(f->other.body_len > LARGE);
    assert_body(&f->other, "'resultType':'complete'");
    WAIT_UNTIL(&f->other, used(f) == 0);
    for (size_t i = 0; i < 4; i++)
        modern_send(&f->crowd[i], "resources/read", "large:1", "'uri':'large:1'");
}

static void a_large_read_is_refused_where_there_is_no_room(void **state) {
    struct fixture *f = *state;

    add_large_resource(f);
    crowd_in(f);
    assert_int_equal(
        modern_post(&f->other, "resources/read", "large:1", "'uri':'large:1'"), 200);
    assert_busy(&f->other);
    assert_body(&f->other, "'uri':'large:1'");
}

static void calls_that_hang_leave_the_room_to_reads(void **state) {
    struct fixture *f = *state;

    add_large_resource(f);
    hang(f);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            modern_post(&f->other, "resources/read", "large:1", "'uri':'large:1'"), 200);
        assert_true(f->other.body_len > LARGE);
    }
    answer_those_that_hang(f);
    WAIT_UNTIL(&f->other, used(f) == 0);
}

static void calls_that_hang_keep_no_small_tool_away(void **state) {
    struct fixture *f = *state;

    add_large_resource(f);
    hang(f);
    modern_send(&f->crowd[FIT], "resources/read", "large:1", "'uri':'large:1'");
    WAIT_UNTIL(&f->other, used(f) + reserved(f) > ROOM);
    assert_int_equal(modern_post(&f->other, "tools/call", "echo", "'name':'echo'"), 200);
    assert_body(&f->other, "'text':'nothing'");
    assert_int_equal(client_response(&f->crowd[FIT]), 200);
    answer_those_that_hang(f);
    WAIT_UNTIL(&f->other, used(f) == 0);
}

/* Asks for a:1 and for URIs that nobody has, of 300 KB together: the acknowledgement
 * repeats them. */
static void listen_to_many(struct client *client) {
    enum { URIS = 100, URI_LEN = 3000 };
    char *body = malloc((URIS + 1) * (URI_LEN + 20));
    size_t len;

    assert_non_null(body);
    len = (size_t)sprintf(
        body, "{'jsonrpc':'2.0','id':'m','method':'subscriptions/listen','params':{"
              "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
              "'io.modelcontextprotocol/clientInfo':{'name':'test','version':'1'},"
              "'io.modelcontextprotocol/clientCapabilities':{}},"
              "'notifications':{'resourceSubscriptions':['a:1'");
    for (int i = 0; i < URIS; i++)
        len += (size_t)sprintf(body + len, ",'none:%0*d'", URI_LEN, i);
    strcpy(body + len, "]}}}");
    client_request(client, "POST", "/mcp",
                   "MCP-Protocol-Version: 2026-07-28\r\n"
                   "Mcp-Method: subscriptions/listen\r\n",
                   body);
    free(body);
}

static void a_large_acknowledgement_is_refused_where_there_is_no_room(void **state) {
    struct fixture *f = *state;
    tdg__budget_t *answers = f->served.server->answers;

    assert_true(tdg__budget_take(answers, ROOM));
    listen_to_many(&f->other);
    int status = client_response(&f->other);
    bool nothing_was_taken = used(f) == ROOM;
    tdg__budget_give(answers, ROOM);
    assert_int_equal(status, 200);
    assert_busy(&f->other);
    assert_true(nothing_was_taken);

    listen_to_many(&f->other);
    assert_int_equal(client_response(&f->other), 200);
    client_expect(&f->other, "'resourceSubscriptions':['a:1']");
    WAIT_UNTIL(&f->other, used(f) == 0);
    assert_int_equal(tdg_server_notify_updated(f->served.server, "a:1", NULL), 0);
    client_expect(&f->other, "'uri':'a:1'");
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    /* clang-format off: version 14 crashes on a table with a macro in it */
    const struct CMUnitTest tests[] = {
        CASE(what_a_tool_has_done_is_answered_beyond_the_limit),
        CASE(no_tool_runs_where_there_is_no_room_for_its_answer),
        CASE(small_reads_and_lists_go_on_meanwhile),
        CASE(tools_run_again_when_the_others_have_left),
        CASE(room_is_reserved_for_as_much_as_was_answered_before),
        CASE(room_that_was_not_needed_is_given_back_and_not_taken_again),
        CASE(room_of_a_call_that_was_given_up_is_given_back),
        CASE(large_answers_arrive_whole_on_streams_and_in_batches),
        CASE(a_large_read_is_encoded_in_a_thread),
        CASE(a_large_read_is_refused_where_there_is_no_room),
        CASE(calls_that_hang_leave_the_room_to_reads),
        CASE(calls_that_hang_keep_no_small_tool_away),
        CASE(a_large_acknowledgement_is_refused_where_there_is_no_room),
    };
    /* clang-format on */

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("large_answers", tests, NULL, NULL);
}
