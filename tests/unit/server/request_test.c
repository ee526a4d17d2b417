/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>

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

/* ---- What answers look like --------------------------------------------- */

static void errors_carry_what_they_were_given(void **state) {
    struct fake *f = *state;
    static const struct {
        const char *message, *expected;
    } rows[] = {
        {"Some \"text\"", "{'code':5, 'message':'Some \\'text\\''}"},
        {NULL, "{'code':5, 'message':'Internal error'}"},
        {"\xff", "{'code':5, 'message':'Internal error'}"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[200];

        snprintf(expected, sizeof(expected), ERROR("7", "%s"), rows[i].expected);
        tdg_request_fail(fake_begin(f, &fake_read), 5, rows[i].message, NULL);
        assert_said(f, i, SAID_ANSWER, 5, expected);
    }
}

#define BLOCK "{'type':'text', 'text':'t'}"

static void texts_answer_in_the_form_of_their_method(void **state) {
    struct fake *f = *state;
    static const struct {
        tdg__method_t method;
        const char *expected; /* NULL: an error */
    } rows[] = {
        {TDG__M_READ, "{'contents':[{'uri':'clock://now', 'text':'t'}]}"},
        {TDG__M_CALL, "{'content':[" BLOCK "]}"},
        {TDG__M_PROMPT, "{'messages':[{'role':'user', 'content':" BLOCK "}]}"},
        {TDG__M_COMPLETE, NULL},
        {TDG__M_RESOURCES, NULL},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[200];

        snprintf(expected, sizeof(expected), RESULT("7", "%s"), rows[i].expected);
        tdg_request_reply_text(fake_begin_method(f, rows[i].method, TDG__V2025_06_18),
                               "t");
        assert_said(f, i, SAID_ANSWER, rows[i].expected != NULL ? 0 : -32603,
                    rows[i].expected != NULL ? expected : NULL);
    }
}

static void texts_must_be_utf8(void **state) {
    struct fake *f = *state;
    static const char *const texts[] = {"\xc3", NULL};

    for (size_t i = 0; i < COUNT(texts); i++) {
        tdg_request_reply_text(fake_begin(f, &fake_read), texts[i]);
        tdg_request_reply_tool_error(fake_begin_method(f, TDG__M_CALL, TDG__V2025_03_26),
                                     texts[i]);
    }
    for (size_t i = 0; i < 4; i++)
        assert_said(f, i, SAID_ANSWER, -32603,
                    ERROR("7", "{'code':-32603,"
                               "'message':'The response cannot be encoded'}"));
}

/* On the worker's thread the pool encodes what is large; the answer is the same. */
static void large_reads_are_encoded_elsewhere(void **state) {
    struct fake *f = *state;
    size_t len = 100000;
    char *text = malloc(len + 1);
    json_t *answer;

    assert_non_null(text);
    memset(text, 'x', len);
    text[len] = '\0';
    text[7] = '"';
    tdg_request_reply_text(fake_begin(f, &fake_read), text);
    assert_int_equal(f->server.jobs, 1);
    answer = json_loads(f->said[0].text, 0, NULL);
    assert_string_equal(
        json_string_value(json_object_get(
            json_array_get(json_object_get(json_object_get(answer, "result"), "contents"),
                           0),
            "text")),
        text);
    json_decref(answer);

    tdg_request_reply_blob(fake_begin(f, &fake_read), text, len);
    assert_int_equal(f->server.jobs, 2);
    assert_non_null(strstr(f->said[1].text, "\"blob\":\"eHh4"));
    text[8] = '\xff';
    tdg_request_reply_text(fake_begin(f, &fake_read), text);
    assert_int_equal(f->said[2].code, -32603);
    tdg_request_reply_text(fake_begin(f, &fake_read), "small");
    assert_int_equal(f->server.jobs, 3);

    assert_true(tdg__budget_take(f->server.shared.answers, FAKE_ANSWERS));
    tdg_request_reply_blob(fake_begin(f, &fake_read), text, len);
    assert_non_null(strstr(f->said[4].text, "\"busy\""));
    assert_int_equal(f->server.jobs, 3); /* what waits for a thread counts already */
    tdg__budget_give(f->server.shared.answers, FAKE_ANSWERS);
    assert_int_equal(tdg__budget_used(f->server.shared.answers), 0);
    free(text);
}

static void blobs_answer_reads_only(void **state) {
    struct fake *f = *state;

    tdg_request_reply_blob(fake_begin(f, &fake_read), "\0\xff", 2);
    tdg_request_reply_blob(fake_begin(f, &fake_read), NULL, 0);
    tdg_request_reply_blob(fake_begin_method(f, TDG__M_CALL, TDG__V2024_11_05), "x", 1);
    assert_said(f, 0, SAID_ANSWER, 0,
                RESULT("7", "{'contents':[{'uri':'clock://now', 'blob':'AP8='}]}"));
    assert_said(f, 1, SAID_ANSWER, 0,
                RESULT("7", "{'contents':[{'uri':'clock://now', 'blob':''}]}"));
    assert_said(f, 2, SAID_ANSWER, -32603, NULL);
}

static void tools_that_fail_answer_all_the_same(void **state) {
    struct fake *f = *state;

    tdg_request_reply_tool_error(fake_begin_method(f, TDG__M_CALL, TDG__V2025_03_26),
                                 "w");
    tdg_request_reply_tool_error(fake_begin(f, &fake_read), "why");
    assert_said(f, 0, SAID_ANSWER, 0,
                RESULT("7", "{'isError':true, 'content':[{'type':'text', 'text':'w'}]}"));
    assert_said(f, 1, SAID_ANSWER, -32603,
                ERROR("7", "{'code':-32603, 'message':'why'}"));
}

static json_t *numbered(size_t count) {
    json_t *values = json_array();
    char text[32];

    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "v%zu", i);
        assert_int_equal(json_array_append_new(values, json_string(text)), 0);
    }
    return values;
}

static void completions_are_cut_at_a_hundred(void **state) {
    struct fake *f = *state;
    static const struct {
        size_t count;
        uint32_t total;
        bool has_more;
        int expected_total; /* 0: not said */
        bool expected_more;
    } rows[] = {
        {0, 0, false, 0, false},     {2, 0, false, 0, false},
        {2, 2, false, 2, false},     {2, 9, true, 9, true},
        {100, 0, false, 0, false},   {101, 0, false, 101, true},
        {101, 500, true, 500, true}, {101, 50, false, 101, true},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        tdg__call_t *call = fake_begin_method(f, TDG__M_COMPLETE, TDG__V2025_11_25);
        json_t *values = numbered(rows[i].count), *answer, *completion;

        tdg_request_reply_completion(call, json_incref(values), rows[i].total,
                                     rows[i].has_more);
        assert_int_equal(json_array_size(values), rows[i].count); /* as it was */
        json_decref(values);

        assert_said(f, i, SAID_ANSWER, 0, NULL);
        answer = json_loads(f->said[i].text, 0, NULL);
        completion = json_object_get(json_object_get(answer, "result"), "completion");
        assert_int_equal(json_array_size(json_object_get(completion, "values")),
                         rows[i].count < 100 ? rows[i].count : 100);
        assert_int_equal(json_integer_value(json_object_get(completion, "total")),
                         rows[i].expected_total);
        assert_int_equal(json_object_get(completion, "total") != NULL,
                         rows[i].expected_total != 0);
        assert_int_equal(json_is_true(json_object_get(completion, "hasMore")),
                         rows[i].expected_more);
        assert_true(json_is_boolean(json_object_get(completion, "hasMore")));
        json_decref(answer);
    }
}

static void completions_that_are_none_fail(void **state) {
    struct fake *f = *state;

    tdg_request_reply_completion(fake_begin_method(f, TDG__M_COMPLETE, TDG__V2025_11_25),
                                 json_from("['a', 1]"), 0, false);
    tdg_request_reply_completion(fake_begin_method(f, TDG__M_COMPLETE, TDG__V2025_11_25),
                                 json_object(), 0, false);
    tdg_request_reply_completion(fake_begin(f, &fake_read), json_array(), 0, false);
    tdg_request_reply_completion(fake_begin_method(f, TDG__M_COMPLETE, TDG__V2025_11_25),
                                 NULL, 0, false);
    for (size_t i = 0; i < 4; i++)
        assert_said(f, i, SAID_ANSWER, -32603, NULL);
    assert_said(f, 3, SAID_ANSWER, -32603, OUT_OF_MEMORY);
}

#define NO_RESOURCE                                                                      \
    "{'code':%d, 'message':'Resource not found', 'data':{'uri':'clock://now'}}"
#define UNKNOWN "{'code':%d, 'message':'Unknown %s: clock://now'}"

static void not_found_is_said_as_method_era_and_dialect_have_it(void **state) {
    struct fake *f = *state;
    static const struct {
        tdg__method_t method;
        tdg__version_t version;
        bool erlmcp;
        int code;
        const char *what; /* is unknown; NULL: a resource */
    } rows[] = {
        {TDG__M_READ, TDG__V2024_11_05, false, -32002, NULL},
        {TDG__M_READ, TDG__V2025_11_25, false, -32002, NULL},
        {TDG__M_READ, TDG__V2026_07_28, false, -32602, NULL},
        {TDG__M_READ, TDG__V2025_11_25, true, -32001, NULL},
        {TDG__M_CALL, TDG__V2025_11_25, false, -32602, "tool"},
        {TDG__M_PROMPT, TDG__V2026_07_28, false, -32602, "prompt"},
        {TDG__M_COMPLETE, TDG__V2026_07_28, true, -32602, "reference"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[200];

        f->channel.erlmcp = rows[i].erlmcp;
        if (rows[i].what == NULL)
            snprintf(expected, sizeof(expected), ERROR("7", NO_RESOURCE), rows[i].code);
        else
            snprintf(expected, sizeof(expected), ERROR("7", UNKNOWN), rows[i].code,
                     rows[i].what);
        tdg_request_fail_not_found(fake_begin_method(f, rows[i].method, rows[i].version));
        assert_said(f, i, SAID_ANSWER, rows[i].code, expected);
    }
}

/* ---- Progress, log, release --------------------------------------------- */

static tdg__call_t *begin_with_token(struct fake *f, json_t *token) {
    tdg__mcp_request_t request = fake_read;
    tdg__call_t *call;

    request.progress_token = token;
    call = fake_begin(f, &request);
    json_decref(token);
    return call;
}

static void progress_needs_a_token(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = fake_begin(f, &fake_read);

    tdg_request_progress(call, 1, 2, "m");
    assert_int_equal(f->count, 0);
    tdg_request_reply(call, json_object());
}

static void progress_only_grows(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = begin_with_token(f, json_integer(3));

    tdg_request_progress(call, 0, 0, NULL);
    tdg_request_progress(call, 0, 0, "again");
    tdg_request_progress(call, 2.5, 10, "m");
    tdg_request_progress(call, 1, 10, "back");
    tdg_request_progress(call, (double)NAN, 10, NULL);
    tdg_request_progress(call, (double)INFINITY, 10, NULL);
    tdg_request_progress(call, 4, 10, "\xff");
    tdg_request_progress(call, 3, (double)NAN, NULL);
    tdg_request_reply(call, json_object());

    assert_int_equal(f->count, 4);
    assert_said(f, 0, SAID_NOTIFY, 0,
                "{'jsonrpc':'2.0', 'method':'notifications/progress',"
                "'params':{'progressToken':3, 'progress':0}}");
    assert_said(f, 1, SAID_NOTIFY, 0,
                "{'jsonrpc':'2.0', 'method':'notifications/progress', 'params':"
                "{'progressToken':3, 'progress':2.5, 'total':10, 'message':'m'}}");
    assert_said(f, 2, SAID_NOTIFY, 0,
                "{'jsonrpc':'2.0', 'method':'notifications/progress',"
                "'params':{'progressToken':3, 'progress':3}}");
    assert_said(f, 3, SAID_ANSWER, 0, NULL);
}

static void logs_are_sent_from_the_level_that_is_wanted(void **state) {
    struct fake *f = *state;
    static const struct {
        tdg__version_t version;
        unsigned flags;
        int channel, request; /* levels; -1: nothing was said */
        int from;             /* the first level that is sent; 8: none */
    } rows[] = {
        {TDG__V2025_11_25, 0, -1, -1, 1},
        {TDG__V2025_11_25, 0, -1, 4, 1},
        {TDG__V2024_11_05, 0, 0, -1, 0},
        {TDG__V2025_06_18, 0, 7, -1, 7},
        {TDG__V2025_06_18, TDG_NO_LOGGING, 0, -1, 8},
        {TDG__V2026_07_28, 0, 0, -1, 8},
        {TDG__V2026_07_28, 0, 7, 0, 0},
        {TDG__V2026_07_28, 0, -1, 4, 4},
        {TDG__V2026_07_28, TDG_NO_LOGGING, -1, 0, 8},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        tdg__mcp_request_t request = fake_read;
        tdg__call_t *call;

        f->server.shared.opts.flags = rows[i].flags;
        f->channel.log_level = rows[i].channel;
        request.version = rows[i].version;
        request.log_level = rows[i].request;
        call = fake_begin(f, &request);
        for (int level = TDG_LOG_DEBUG; level <= TDG_LOG_EMERGENCY; level++)
            tdg_request_log(call, (tdg_log_level_t)level, NULL, json_integer(level));
        assert_int_equal(f->count, 8 - rows[i].from);
        tdg_request_reply(call, json_object());
        fake_forget(f);
    }
}

static void a_level_may_change_while_a_legacy_call_runs(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = fake_begin(f, &fake_read);

    tdg_request_log(call, TDG_LOG_DEBUG, NULL, json_true());
    assert_int_equal(f->count, 0);
    f->channel.log_level = TDG_LOG_DEBUG;
    tdg_request_log(call, TDG_LOG_DEBUG, "l", json_from("{'a':1}"));
    assert_int_equal(f->count, 1);
    assert_said(f, 0, SAID_NOTIFY, 0,
                "{'jsonrpc':'2.0', 'method':'notifications/message', 'params':"
                "{'level':'debug', 'logger':'l', 'data':{'a':1}}}");
    tdg_request_reply(call, json_object());
}

static void logs_that_cannot_be_sent_are_dropped(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = fake_begin(f, &fake_read);

    tdg_request_log(call, TDG_LOG_ERROR, NULL, NULL);
    tdg_request_log(call, TDG_LOG_ERROR, "\xff", json_true());
    tdg_request_log(call, (tdg_log_level_t)8, NULL, json_true());
    tdg_request_log(call, (tdg_log_level_t)-1, NULL, json_true());
    assert_int_equal(f->count, 0);
    tdg_request_reply(call, json_object());
}

static void say_everything(void *user) {
    tdg_request_progress(user, 1, 0, NULL);
    tdg_request_log(user, TDG_LOG_INFO, NULL, json_true());
    tdg_request_log(user, TDG_LOG_DEBUG, NULL, json_true()); /* not wanted */
    tdg_request_progress(user, 1, 0, NULL);                  /* has not grown */
    tdg_request_release_connection(user);
    tdg_request_progress(user, 2, 0, NULL);
}

static void say_everything_and_answer(void *user) {
    say_everything(user);
    fake_reply(user);
}

static void expect_everything(struct fake *f) {
    static const int kinds[] = {SAID_NOTIFY, SAID_NOTIFY, SAID_RELEASE, SAID_NOTIFY,
                                SAID_ANSWER};

    assert_int_equal(f->count, COUNT(kinds));
    for (size_t i = 0; i < COUNT(kinds); i++)
        assert_said(f, i, kinds[i], 0, NULL);
    assert_non_null(strstr(f->said[0].text, "\"progress\":1"));
    assert_non_null(strstr(f->said[1].text, "notifications/message"));
    assert_non_null(strstr(f->said[3].text, "\"progress\":2"));
    assert_null(tdg__channel_newest(&f->channel));
}

static void everything_comes_in_order_before_the_answer(void **state) {
    struct fake *f = *state;

    say_everything_and_answer(begin_with_token(f, json_string("p")));
    expect_everything(f);
    fake_forget(f);

    elsewhere(say_everything_and_answer, begin_with_token(f, json_string("p")));
    assert_int_equal(f->count, 0);
    assert_int_equal(fake_turn(f), 7);
    expect_everything(f);
}

static void an_answer_overtakes_nothing_that_waits(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = begin_with_token(f, json_string("p"));

    elsewhere(say_everything, call);
    fake_reply(call); /* here, where it could be given at once */
    assert_int_equal(f->count, 0);
    assert_int_equal(fake_turn(f), 7);
    expect_everything(f);
}

static void notes_go_nowhere_when_nobody_waits(void **state) {
    for (int ending = CHANNEL_GOES; ending <= WORKER_GOES; ending++) {
        for (int before = 0; before <= 1; before++) {
            struct fake *f = *state;
            tdg__call_t *call = begin_with_token(f, json_string("p"));

            if (before)
                elsewhere(say_everything, call);
            fake_end_call(f, call, (enum ending)ending);
            say_everything(call);
            elsewhere(say_everything, call);
            fake_turn(f);
            fake_reply(call);
            fake_turn(f);
            assert_int_equal(f->count, 0);
            teardown(state);
            setup(state);
        }
    }
}

static void the_channel_may_go_while_it_takes_a_note(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = begin_with_token(f, json_string("p"));

    f->goes_on_notify = true;
    say_everything_and_answer(call);
    assert_int_equal(f->count, 1);
}

static void say_too_much(void *user) {
    for (int i = 1; i <= 5000; i++)
        tdg_request_progress(user, i, 0, NULL);
    fake_reply(user);
}

static void notes_that_wait_are_bounded(void **state) {
    struct fake *f = *state;

    elsewhere(say_too_much, begin_with_token(f, json_integer(1)));
    assert_int_equal(fake_turn(f), 257);
    assert_int_equal(f->count, 257);
    assert_said(f, 256, SAID_ANSWER, 0, RESULT("7", "{'a':1}"));
}

static void connections_are_released_where_the_channel_can(void **state) {
    struct fake *f = *state;
    tdg__channel_ops_t ops = *f->channel.ops;
    tdg__call_t *call = fake_begin(f, &fake_read);

    tdg_request_release_connection(call);
    assert_int_equal(f->count, 1);
    ops.release = NULL;
    f->channel.ops = &ops;
    tdg_request_release_connection(call);
    assert_int_equal(f->count, 1);
    tdg_request_reply(call, json_object());
}

static void a_request_knows_its_server(void **state) {
    struct fake *f = *state;
    tdg__call_t *call = fake_begin(f, &fake_read);

    assert_ptr_equal(tdg_request_server(call), &f->server.shared);
    assert_int_equal(tdg_request_notify_updated(call, "a:b", json_object()), TDG_EAGAIN);
    assert_string_equal(f->server.updated, "a:b");
    tdg_request_reply(call, json_object());
}

/* ---- Without memory ----------------------------------------------------- */

static void give_result(tdg__call_t *call) {
    tdg_request_reply(call, json_pack("{s:s}", "a", "b"));
}

static void give_text(tdg__call_t *call) {
    tdg_request_reply_text(call, "t");
}

static void give_blob(tdg__call_t *call) {
    tdg_request_reply_blob(call, "t", 1);
}

static void give_tool_error(tdg__call_t *call) {
    tdg_request_reply_tool_error(call, "t");
}

static void give_completion(tdg__call_t *call) {
    tdg_request_reply_completion(call, json_pack("[s, s]", "a", "b"), 7, true);
}

static void give_error(tdg__call_t *call) {
    tdg_request_fail(call, -32000, "m", json_pack("{s:s}", "a", "b"));
}

static void give_not_found(tdg__call_t *call) {
    tdg_request_fail_not_found(call);
}

static void give_all(tdg__call_t *call) {
    say_everything_and_answer(call);
}

static const struct {
    tdg__method_t method;
    void (*give)(tdg__call_t *call);
} ways[] = {
    {TDG__M_READ, give_result},
    {TDG__M_READ, give_text},
    {TDG__M_CALL, give_text},
    {TDG__M_PROMPT, give_text},
    {TDG__M_READ, give_blob},
    {TDG__M_CALL, give_tool_error},
    {TDG__M_COMPLETE, give_completion},
    {TDG__M_READ, give_error},
    {TDG__M_CALL, give_not_found},
    {TDG__M_READ, give_not_found},
    {TDG__M_READ, give_all},
};

enum { MODERN = 1 << 0, APART = 1 << 1, FOR_GOOD = 1 << 2, ALL_FLAGS = 1 << 3 };

/* One call whose n-th allocation fails; `apart` answers it as if on another thread (which
 * it is not, because memory is counted on one only). Stores the answer in *ret, for
 * free(). Returns whether an allocation has failed. */
static bool answer_without_memory(struct fake *f, size_t way, int flags, size_t nth,
                                  char **ret) {
    json_t *token = json_integer(1);
    tdg__mcp_request_t request = fake_read;
    tdg__call_t *call;
    bool failed;

    request.method = ways[way].method;
    request.version = flags & MODERN ? TDG__V2026_07_28 : TDG__V2025_11_25;
    request.progress_token = token;
    call = fake_begin(f, &request);
    json_decref(token);

    fake_on_thread(f, !(flags & APART));
    memory_fail(nth, flags & FOR_GOOD ? MEMORY_FROM_THEN_ON : MEMORY_ONCE);
    ways[way].give(call);
    fake_on_thread(f, true);
    fake_turn(f);
    failed = memory_failed();
    memory_fail(0, MEMORY_ONCE);

    assert_null(tdg__channel_newest(&f->channel));
    assert_true(f->count > 0);
    for (size_t i = 0; i < f->count; i++)
        assert_int_equal(f->said[i].kind == SAID_ANSWER, i == f->count - 1);
    *ret = f->said[f->count - 1].text;
    f->said[f->count - 1].text = NULL;
    fake_forget(f);
    return failed;
}

/* Fails unless the answer is whole or an error: nothing in between. */
static void expect_whole(char *text, const char *usual) {
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    if (json_object_get(json, "error") == NULL)
        assert_string_equal(text, usual);
    json_decref(json);
    free(text);
}

static void every_call_is_answered_once_when_memory_is_out(void **state) {
    size_t tries = 0;

    for (size_t i = 0; i < COUNT(ways) * ALL_FLAGS; i++) {
        int flags = (int)(i % ALL_FLAGS);
        size_t way = i / ALL_FLAGS, nth = 0;
        char *usual = NULL, *text;

        for (bool failed = true; failed; nth++) {
            failed = answer_without_memory(*state, way, flags, nth, &text) || nth == 0;
            assert_true(nth < 200);
            if (nth == 0)
                usual = text;
            else
                expect_whole(text, usual);
        }
        tries += nth;
        free(usual);
    }
    assert_true(tries > 500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(errors_carry_what_they_were_given),
        TEST(texts_answer_in_the_form_of_their_method),
        TEST(texts_must_be_utf8),
        TEST(large_reads_are_encoded_elsewhere),
        TEST(blobs_answer_reads_only),
        TEST(tools_that_fail_answer_all_the_same),
        TEST(completions_are_cut_at_a_hundred),
        TEST(completions_that_are_none_fail),
        TEST(not_found_is_said_as_method_era_and_dialect_have_it),
        TEST(progress_needs_a_token),
        TEST(progress_only_grows),
        TEST(logs_are_sent_from_the_level_that_is_wanted),
        TEST(a_level_may_change_while_a_legacy_call_runs),
        TEST(logs_that_cannot_be_sent_are_dropped),
        TEST(everything_comes_in_order_before_the_answer),
        TEST(an_answer_overtakes_nothing_that_waits),
        TEST(notes_go_nowhere_when_nobody_waits),
        TEST(the_channel_may_go_while_it_takes_a_note),
        TEST(notes_that_wait_are_bounded),
        TEST(connections_are_released_where_the_channel_can),
        TEST(a_request_knows_its_server),
        TEST(every_call_is_answered_once_when_memory_is_out),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
