/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_worker.h"

static int setup(void **state) {
    struct fake *fake = state_create(state, sizeof(*fake));

    fake_start(fake);
    return 0;
}

static int teardown(void **state) {
    fake_stop(*state);
    return state_destroy(state);
}

/* ---- Channels ----------------------------------------------------------- */

static void a_channel_knows_its_unanswered_calls(void **state) {
    struct fake *f = *state;
    tdg__mcp_request_t text_id = fake_read;
    tdg__call_t *number, *text;

    text_id.id = "\"7\"";
    number = fake_begin(f, &fake_read);
    text = fake_begin(f, &text_id);

    assert_int_equal(f->channel.call_count, 2);
    assert_ptr_equal(tdg__channel_newest(&f->channel), text);
    assert_ptr_equal(tdg__channel_find(&f->channel, "7"), number);
    assert_ptr_equal(tdg__channel_find(&f->channel, "\"7\""), text);
    assert_null(tdg__channel_find(&f->channel, "8"));
    assert_string_equal(text->id, "\"7\"");
    assert_int_equal(text->method, TDG__M_READ);
    assert_int_equal(text->version, TDG__V2025_11_25);
    assert_ptr_equal(text->channel, &f->channel);

    tdg_request_reply(number, json_object());
    assert_int_equal(f->channel.call_count, 1);
    assert_null(tdg__channel_find(&f->channel, "7"));
    tdg_request_reply(text, json_object());
    assert_null(tdg__channel_newest(&f->channel));
    assert_said(f, 1, SAID_ANSWER, 0, RESULT("'7'", "{}"));
}

static uint64_t client_of(struct fake *f, tdg__channel_t *channel, json_t *info) {
    tdg__mcp_request_t request = fake_read;

    request.client_info = info;

    tdg__call_t *call = tdg__call_create(channel, &request);
    uint64_t client = tdg__request_client(call);

    (void)f;
    tdg__call_cancel(call);
    tdg_request_reply(call, NULL);
    json_decref(info);
    return client;
}

/* For turns: what asks much, and under which name. */
static void requests_of_one_client_are_known_as_such(void **state) {
    struct fake *f = *state;
    tdg__channel_t other = f->channel, same = f->channel;
    uint64_t one = client_of(f, &f->channel, json_pack("{s:s}", "name", "one"));

    other.client++;
    tdg__queue_init(&same.calls);
    tdg__queue_init(&other.calls);
    assert_true(one != 0);
    assert_true(client_of(f, &same, json_pack("{s:s}", "name", "one")) == one);
    assert_true(client_of(f, &same, json_pack("{s:s}", "name", "two")) != one);
    assert_true(client_of(f, &other, json_pack("{s:s}", "name", "one")) != one);
    assert_true(client_of(f, &f->channel, NULL) != one);
}

static void a_call_leaves_from_anywhere_in_the_list(void **state) {
    struct fake *f = *state;
    static const int orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};

    for (size_t i = 0; i < COUNT(orders); i++) {
        tdg__call_t *calls[3];

        for (size_t j = 0; j < 3; j++)
            calls[j] = fake_begin(f, &fake_read);
        for (size_t j = 0; j < 3; j++) {
            assert_int_equal(f->channel.call_count, 3 - j);
            tdg_request_reply(calls[orders[i][j]], json_object());
        }
        assert_null(tdg__channel_newest(&f->channel));
    }
    assert_int_equal(f->count, 12);
}

static void a_call_carries_the_mark_of_its_channel(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = fake_begin(f, &fake_read);

    assert_non_null(f->channel.mark);
    assert_ptr_equal(call->mark, f->channel.mark);
    tdg_request_reply(call, json_object());
}

static void a_call_copies_what_it_needs(void **state) {
    struct fake *f = *state;
    char id[] = "1", uri[] = "a:b";
    tdg__mcp_request_t request = fake_read;
    tdg__call_t *call;

    request.id = id;
    request.uri = uri;
    request.progress_token = json_from("'p'");
    call = fake_begin(f, &request);
    json_decref((json_t *)(uintptr_t)request.progress_token);
    id[0] = uri[0] = 'x';

    tdg_request_progress(call, 1, 0, NULL);
    tdg_request_reply_text(call, "t");
    assert_said(f, 0, SAID_NOTIFY, 0,
                "{'jsonrpc':'2.0', 'method':'notifications/progress',"
                "'params':{'progressToken':'p', 'progress':1}}");
    assert_said(f, 1, SAID_ANSWER, 0,
                RESULT("1", "{'contents':[{'uri':'a:b', 'text':'t'}]}"));
}

static void a_call_that_was_created_without_memory_is_none(void **state) {
    struct fake *f = *state;
    tdg__mcp_request_t request = fake_read;
    json_t *token = json_string("p");

    request.progress_token = token;
    for (size_t nth = 1; nth <= 2; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        assert_null(tdg__call_create(&f->channel, &request));
        assert_int_equal(f->channel.call_count, 0);
    }
    memory_fail(0, MEMORY_ONCE);
    json_decref(token);
}

/* ---- When and where answers come ---------------------------------------- */

static void answers_at_once(void **state) {
    struct fake *f = *state;

    tdg_request_reply(fake_begin(f, &fake_read), json_from("{'a':1}"));
    assert_int_equal(f->count, 1);
    assert_said(f, 0, SAID_ANSWER, 0, RESULT("7", "{'a':1}"));
    assert_int_equal(fake_turn(f), 0);
}

static void fail_one(void *user) {
    tdg_request_fail(user, -32001, "No luck", json_pack("[i]", 5));
}

static void answers_from_another_thread(void **state) {
    struct fake *f = *state;
    tdg__call_t *first = fake_begin(f, &fake_read), *second = fake_begin(f, &fake_read);

    elsewhere(fake_reply, first);
    elsewhere(fail_one, second);
    assert_int_equal(f->count, 0);
    assert_int_equal(f->channel.call_count, 2);

    assert_int_equal(fake_turn(f), 2);
    assert_int_equal(f->count, 2);
    assert_said(f, 0, SAID_ANSWER, 0, RESULT("7", "{'a':1}"));
    assert_said(f, 1, SAID_ANSWER, -32001,
                ERROR("7", "{'code':-32001, 'message':'No luck', 'data':[5]}"));
}

static void answers_to_nobody(void **state) {
    for (int ending = CHANNEL_GOES; ending <= WORKER_GOES; ending++) {
        for (int posted = 0; posted <= 2; posted++) {
            struct fake *f = *state;
            tdg__call_t *call = fake_begin(f, &fake_read);

            assert_false(tdg_request_cancelled(call));
            if (posted == 2) /* on its way already */
                elsewhere(fake_reply, call);
            fake_end_call(f, call, (enum ending)ending);
            if (posted != 2) {
                assert_true(tdg_request_cancelled(call));
                assert_int_equal(f->channel.call_count, 0);
            }
            if (posted == 1)
                elsewhere(fail_one, call);
            else if (posted == 0)
                tdg_request_reply_text(call, "x");

            fake_turn(f);
            assert_int_equal(f->count, 0);
            teardown(state);
            setup(state);
        }
    }
}

static void the_channel_may_go_while_it_takes_an_answer(void **state) {
    struct fake *f = *state;
    tdg__call_t *first = fake_begin(f, &fake_read), *second = fake_begin(f, &fake_read);

    f->goes_on_answer = true;
    tdg_request_reply(first, json_object());
    assert_int_equal(f->count, 1);
    assert_true(tdg_request_cancelled(second));
    tdg_request_reply(second, json_object());
    assert_int_equal(f->count, 1);
}

static void answers_by_the_worker_itself(void **state) {
    struct fake *f = *state;
    tdg__rpc_error_t error;

    tdg__call_answer(fake_begin(f, &fake_read), json_object());
    tdg__rpc_error_set(&error, -32602, json_object(), "Bad");
    tdg__call_refuse(fake_begin(f, &fake_read), &error);
    tdg__call_answer(fake_begin(f, &fake_read), NULL);

    assert_null(error.data);
    assert_said(f, 0, SAID_ANSWER, 0, RESULT("7", "{}"));
    assert_said(f, 1, SAID_ANSWER, -32602,
                ERROR("7", "{'code':-32602, 'message':'Bad', 'data':{}}"));
    assert_said(f, 2, SAID_ANSWER, -32603, OUT_OF_MEMORY);
}

static void reply_two_times(void *user) {
    fake_reply(user);
    fake_reply(user);
}

static void answering_twice_is_caught(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = fake_begin(f, &fake_read);
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        assert_non_null(freopen("/dev/null", "w", stderr));
        fake_on_thread(f, false);
        reply_two_times(call);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    tdg_request_reply(call, json_object());
}

/* ---- What becomes of results -------------------------------------------- */

static void modern_results_are_finished(void **state) {
    struct fake *f = *state;
    json_t *mine = json_from("{'contents':[], '_meta':{'a':1}}");

    tdg_request_reply(fake_begin_method(f, TDG__M_READ, TDG__V2026_07_28),
                      json_incref(mine));
    assert_said(f, 0, SAID_ANSWER, 0,
                RESULT("7", "{'contents':[], 'resultType':'complete', 'ttlMs':0,"
                            "'cacheScope':'public', '_meta':{'a':1,"
                            "'io.modelcontextprotocol/serverInfo':"
                            "{'name':'fake', 'version':'1'}}}"));
    assert_json_equal(mine, "{'contents':[], '_meta':{'a':1}}"); /* as it was */
    json_decref(mine);

    tdg_request_reply(fake_begin_method(f, TDG__M_CALL, TDG__V2026_07_28), json_object());
    assert_said(f, 1, SAID_ANSWER, 0,
                RESULT("7", "{'resultType':'complete', '_meta':{"
                            "'io.modelcontextprotocol/serverInfo':"
                            "{'name':'fake', 'version':'1'}}}"));
}

static void a_result_must_be_an_object(void **state) {
    struct fake *f = *state;

    tdg_request_reply(fake_begin(f, &fake_read), json_array());
    assert_said(f, 0, SAID_ANSWER, -32603,
                ERROR("7", "{'code':-32603, 'message':'The result is not an object'}"));
    tdg_request_reply(fake_begin(f, &fake_read), NULL);
    assert_said(f, 1, SAID_ANSWER, -32603, OUT_OF_MEMORY);
}

static void a_result_beyond_the_bound_is_an_error(void **state) {
    struct fake *f = *state;
    size_t len = (64 << 20) + 1;
    char *text = malloc(len + 1);

    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    tdg_request_reply_text(fake_begin(f, &fake_read), text);
    free(text);
    assert_said(f, 0, SAID_ANSWER, -32603,
                ERROR("7", "{'code':-32603, 'message':'The response is too large'}"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_channel_knows_its_unanswered_calls),
        TEST(requests_of_one_client_are_known_as_such),
        TEST(a_call_leaves_from_anywhere_in_the_list),
        TEST(a_call_carries_the_mark_of_its_channel),
        TEST(a_call_copies_what_it_needs),
        TEST(a_call_that_was_created_without_memory_is_none),
        TEST(answers_at_once),
        TEST(answers_from_another_thread),
        TEST(answers_to_nobody),
        TEST(the_channel_may_go_while_it_takes_an_answer),
        TEST(answers_by_the_worker_itself),
        TEST(answering_twice_is_caught),
        TEST(modern_results_are_finished),
        TEST(a_result_must_be_an_object),
        TEST(a_result_beyond_the_bound_is_an_error),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("call", tests, NULL, NULL);
}
