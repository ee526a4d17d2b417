/* SPDX-License-Identifier: MIT
 *
 * Requests and their answers: time-outs, repetition, order, limits, what is told to whom.
 */
#include "unit/client/fake.h"

static struct fake_note *request(struct fake *f, const char *method) {
    struct fake_note *note = fake_note(f);

    tdg__core_request(f->core, method, NULL, 0, fake_done, note);
    assert_int_equal(note->calls, 0);
    fake_run(f);
    return note;
}

/* Up, and from now on nobody answers by himself. */
static void up(struct fake *f, tdg_era_t era) {
    fake_up(f, era);
    f->answer = NULL;
}

/* ---- Answers ------------------------------------------------------------ */

static void a_result_reaches_who_request(void **state) {
    struct fake *f = *state;
    struct fake_note *first, *second;

    up(f, TDG_ERA_MODERN);
    first = request(f, "prompts/list");
    second = request(f, "tools/list");
    fake_result(f, fake_find(f, "tools/list"), "{'tools':[]}");
    assert_int_equal(first->calls, 0);
    assert_int_equal(fake_code(second), 0);
    assert_string_equal(second->result, "{\"tools\":[]}");
    fake_result(f, fake_find(f, "prompts/list"), "{'prompts':[]}");
    assert_int_equal(fake_code(first), 0);
}

static void errors_become_codes(void **state) {
    static const struct {
        const char *method;
        int rpc_code;
        const char *data;
        int code;
    } cases[] = {
        {"resources/read", -32002, NULL, TDG_ENOTFOUND},
        {"resources/read", -32602, "{'uri':'a:b'}", TDG_ENOTFOUND},
        {"resources/read", -32001, "{'uri':'a:b'}", TDG_ENOTFOUND},
        {"resources/read", -32602, NULL, TDG_EREFUSED},
        {"tools/call", -32602, "{'uri':'a:b'}", TDG_EREFUSED},
        {"tools/call", -32001, NULL, TDG_EREFUSED},
        {"resources/subscribe", -32004, NULL, TDG_ENOTSUP},
        {"resources/subscribe", -32602, "{'error_type':'not_subscribable','uri':'a:b'}",
         TDG_ENOTSUP},
        {"resources/subscribe", -32602, "{'error_type':'invalid_uri_format','uri':'a'}",
         TDG_EURI},
        {"resources/subscribe", -32022, "{'error_type':'invalid_uri_format','uri':'a'}",
         TDG_EURI},
        {"resources/subscribe", -32602, "{'error_type':'other','uri':'a:b'}",
         TDG_EREFUSED},
        {"prompts/list", -32601, NULL, TDG_ENOTSUP},
        {"prompts/list", -32603, NULL, TDG_EREFUSED},
        {"prompts/list", 12345, NULL, TDG_EREFUSED},
    };
    struct fake *f = *state;

    up(f, TDG_ERA_LEGACY);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fake_note *note = request(f, cases[i].method);

        fake_error(f, fake_find(f, cases[i].method), cases[i].rpc_code, "oh\\u000ano",
                   cases[i].data);
        assert_int_equal(fake_code(note), cases[i].code);
        assert_int_equal(note->rpc_code, cases[i].rpc_code);
        assert_non_null(strstr(note->message, "oh?no"));
    }
}

static void ends_of_the_transport_become_codes(void **state) {
    static const struct {
        tdg__delivery_end_t end;
        int code;
    } cases[] = {
        {TDG__DELIVERY_DONE, TDG_EUNREACHABLE}, {TDG__DELIVERY_BROKEN, TDG_EUNREACHABLE},
        {TDG__DELIVERY_AWAY, TDG_EUNREACHABLE}, {TDG__DELIVERY_TIMEOUT, TDG_ETIMEDOUT},
        {TDG__DELIVERY_NONSENSE, TDG_EJSON},    {TDG__DELIVERY_REFUSED, TDG_EREFUSED},
        {TDG__DELIVERY_NO_MEMORY, TDG_ENOMEM},
    };
    struct fake *f = *state;

    up(f, TDG_ERA_MODERN);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fake_note *note = request(f, "tools/call");

        fake_broken(f, fake_find(f, "tools/call"), cases[i].end, true);
        assert_int_equal(fake_code(note), cases[i].code);
        assert_null(fake_seek(f, "tools/call"));
    }
}

static void statuses_become_codes(void **state) {
    static const struct {
        int status;
        const char *body;
        int code;
    } cases[] = {
        {404, "{'code':-32601,'message':'x'}", TDG_ENOTSUP},
        {400, "{'code':-32602,'message':'x'}", TDG_EREFUSED},
        {403, NULL, TDG_EREFUSED},
        {429, NULL, TDG_EUNREACHABLE},
        {502, NULL, TDG_EUNREACHABLE},
    };
    struct fake *f = *state;

    up(f, TDG_ERA_MODERN);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fake_note *note = request(f, "tools/call");

        fake_status(f, fake_find(f, "tools/call"), cases[i].status, cases[i].body);
        assert_int_equal(fake_code(note), cases[i].code);
        assert_int_equal(note->http_status, cases[i].status);
    }
    assert_int_equal(f->core->state, TDG__CORE_UP);
}

static void ids_are_never_used_twice(void **state) {
    struct fake *f = *state;

    up(f, TDG_ERA_MODERN);
    for (int i = 0; i < 50; i++)
        request(f, "prompts/list");
    for (size_t i = 0; i < f->sent_count; i++) {
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(f->sent[i]->id, f->sent[j]->id);
    }
}

static void answers_to_nothing_are_ignored(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    struct fake_sent *sent;

    up(f, TDG_ERA_LEGACY);
    note = request(f, "prompts/list");
    sent = fake_find(f, "prompts/list");
    fake_says(f, sent, "{'jsonrpc':'2.0','id':999,'result':{}}");
    fake_says(f, sent, "{'jsonrpc':'2.0','id':'1','result':{}}");
    assert_int_equal(note->calls, 0);
    assert_true(fake_logged(f, "a response without a request"));
    fake_result(f, sent, "{'prompts':[]}");
    assert_int_equal(fake_code(note), 0);
}

static void a_second_answer_is_ignored(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    struct fake_sent *sent;
    char text[100];

    up(f, TDG_ERA_MODERN);
    note = request(f, "prompts/list");
    sent = fake_find(f, "prompts/list");
    snprintf(text, sizeof(text), "{'jsonrpc':'2.0','id':%s,'result':{'prompts':[]}}",
             sent->id);
    fake_says(f, sent, text);
    assert_int_equal(fake_code(note), 0);
    fake_says(f, sent, text);
    assert_int_equal(fake_code(note), 0);
    fake_pass(f, 5000); /* a stream that the server does not close is closed by us */
    assert_true(sent->cancelled);
}

/* An answer may come on the session's own stream. */
static void an_answer_is_found_by_its_id(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    char text[100];

    up(f, TDG_ERA_LEGACY);
    note = request(f, "prompts/list");
    snprintf(text, sizeof(text), "{'jsonrpc':'2.0','id':%s,'result':{'prompts':[]}}",
             fake_find(f, "prompts/list")->id);
    fake_tells(f, text);
    assert_int_equal(fake_code(note), 0);
    fake_broken(f, fake_find(f, "prompts/list"), TDG__DELIVERY_DONE, true);
    assert_int_equal(note->calls, 1);
}

static void an_error_without_an_id_is_about_what_it_came_with(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = request(f, "prompts/list");
    fake_says(f, fake_find(f, "prompts/list"),
              "{'jsonrpc':'2.0','id':null,'error':{'code':-32700,'message':'x'}}");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
}

static void an_unknown_type_of_result_is_nonsense(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = request(f, "prompts/list");
    fake_result(f, fake_find(f, "prompts/list"), "{'resultType':'later'}");
    assert_int_equal(fake_code(note), TDG_EJSON);
}

/* ---- Time-outs ---------------------------------------------------------- */

static void over_http_a_time_out_closes_the_request(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    struct fake_sent *sent;

    up(f, TDG_ERA_MODERN);
    note = request(f, "tools/call");
    sent = fake_find(f, "tools/call");
    fake_pass(f, 59999);
    assert_int_equal(note->calls, 0);
    fake_pass(f, 1);
    assert_int_equal(fake_code(note), TDG_ETIMEDOUT);
    assert_true(sent->cancelled);
    assert_int_equal(fake_count(f, "notifications/cancelled"), 0);
}

static void check_cancel_is_told(struct fake *f) {
    struct fake_note *note = request(f, "tools/call");
    struct fake_sent *sent = fake_find(f, "tools/call");
    json_t *params;
    char want[100];

    fake_pass(f, 60000);
    assert_int_equal(fake_code(note), TDG_ETIMEDOUT);
    assert_true(sent->cancelled);
    assert_int_equal(fake_count(f, "notifications/cancelled"), 1);
    params = fake_params(fake_last(f));
    snprintf(want, sizeof(want), "{'requestId':%s,'reason':'timed out'}", sent->id);
    assert_json_equal(params, want);
    json_decref(params);
}

static void over_stdio_a_time_out_is_told(void **state) {
    up(*state, TDG_ERA_MODERN);
    check_cancel_is_told(*state);
}

static void in_a_legacy_session_a_time_out_is_told(void **state) {
    up(*state, TDG_ERA_LEGACY);
    check_cancel_is_told(*state);
}

static void a_request_has_its_own_time(void **state) {
    struct fake *f = *state;
    struct fake_note *note = fake_note(f);

    up(f, TDG_ERA_MODERN);
    tdg__core_request(f->core, "tools/call", NULL, 50, fake_done, note);
    fake_pass(f, 49);
    assert_int_equal(note->calls, 0);
    fake_pass(f, 1);
    assert_int_equal(fake_code(note), TDG_ETIMEDOUT);
}

/* ---- Losses ------------------------------------------------------------- */

static void a_forgotten_session_is_begun_anew(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_LEGACY);
    note = request(f, "tools/call");
    fake_broken(f, fake_find(f, "tools/call"), TDG__DELIVERY_NO_SESSION, true);
    assert_int_equal(f->core->state, TDG__CORE_WAITING);
    assert_int_equal(note->calls, 0);
    f->answer = fake_legacy_server;
    fake_pass(f, 2000);
    assert_int_equal(f->core->counts.sessions, 2);
    assert_int_equal(fake_count(f, "tools/call"), 2);
    fake_result(f, fake_find(f, "tools/call"), "{'content':[]}");
    assert_int_equal(fake_code(note), 0);
}

static void a_session_that_is_always_forgotten_fails_the_request(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_LEGACY);
    note = request(f, "tools/call");
    fake_broken(f, fake_find(f, "tools/call"), TDG__DELIVERY_NO_SESSION, true);
    f->answer = fake_legacy_server;
    fake_pass(f, 2000);
    fake_broken(f, fake_find(f, "tools/call"), TDG__DELIVERY_NO_SESSION, true);
    assert_int_equal(fake_code(note), TDG_EUNREACHABLE);
    assert_int_equal(fake_count(f, "tools/call"), 2);
}

static void what_does_no_harm_is_repeated_once(void **state) {
    static const char *const methods[] = {"resources/read", "resources/list",
                                          "tools/list", "ping", "resources/subscribe"};
    struct fake *f = *state;

    up(f, TDG_ERA_LEGACY);
    for (size_t i = 0; i < COUNT(methods); i++) {
        struct fake_note *note = request(f, methods[i]);

        fake_broken(f, fake_find(f, methods[i]), TDG__DELIVERY_BROKEN, true);
        assert_int_equal(note->calls, 0);
        fake_broken(f, fake_find(f, methods[i]), TDG__DELIVERY_BROKEN, true);
        assert_int_equal(fake_code(note), TDG_EUNREACHABLE);
        assert_int_equal(fake_count(f, methods[i]), 2);
    }
}

static void a_tool_is_not_called_twice(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = request(f, "tools/call");
    fake_broken(f, fake_find(f, "tools/call"), TDG__DELIVERY_BROKEN, true);
    assert_int_equal(fake_code(note), TDG_EUNREACHABLE);
    assert_int_equal(fake_count(f, "tools/call"), 1);
}

static void what_was_never_sent_is_sent_again(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = request(f, "tools/call");
    fake_broken(f, fake_find(f, "tools/call"), TDG__DELIVERY_BROKEN, false);
    fake_result(f, fake_find(f, "tools/call"), "{}");
    assert_int_equal(fake_code(note), 0);
}

static void a_lost_program_fails_its_calls_and_repeats_its_reads(void **state) {
    struct fake *f = *state;
    struct fake_note *call, *read;

    up(f, TDG_ERA_LEGACY);
    call = request(f, "tools/call");
    read = request(f, "resources/read");
    fake_lost(f, "it has exited");
    assert_int_equal(fake_code(call), TDG_EUNREACHABLE);
    assert_int_equal(read->calls, 0);
    f->answer = fake_legacy_server;
    fake_pass(f, 2000);
    fake_result(f, fake_find(f, "resources/read"), "{'contents':[]}");
    assert_int_equal(fake_code(read), 0);
}

static void a_token_is_renewed_for_a_request(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    f->token = true;
    up(f, TDG_ERA_MODERN);
    note = request(f, "tools/call");
    fake_status(f, fake_find(f, "tools/call"), 401, NULL);
    assert_int_equal(f->renewed, 1);
    fake_status(f, fake_find(f, "tools/call"), 401, NULL);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(f->renewed, 1);
    assert_int_equal(f->core->state, TDG__CORE_UP);
}

/* ---- Waiting ------------------------------------------------------------ */

static void requests_wait_for_the_connection(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_start(f);
    note = request(f, "prompts/list");
    assert_int_equal(fake_count(f, "prompts/list"), 0);
    fake_modern_server(f, fake_find(f, "server/discover"));
    fake_result(f, fake_find(f, "prompts/list"), "{}");
    assert_int_equal(fake_code(note), 0);
}

static void waiting_counts_as_time(void **state) {
    struct fake *f = *state;
    struct fake_note *note = fake_note(f);

    fake_start(f);
    tdg__core_request(f->core, "prompts/list", NULL, 100, fake_done, note);
    fake_pass(f, 100);
    assert_int_equal(fake_code(note), TDG_ETIMEDOUT);
    assert_int_equal(fake_count(f, "prompts/list"), 0);
}

static void those_that_wait_fail_with_the_connection(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_start(f);
    note = request(f, "prompts/list");
    fake_broken(f, fake_find(f, "server/discover"), TDG__DELIVERY_AWAY, false);
    assert_int_equal(fake_code(note), TDG_EUNREACHABLE);
}

static void there_is_a_limit_to_what_waits(void **state) {
    struct fake *f = *state;
    struct fake_note *note = fake_note(f);

    fake_start(f);
    for (int i = 1; i < TDG__REQUESTS_MAX; i++)
        tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, fake_note(f));
    tdg__core_request(f->core, "prompts/list", json_object(), 0, fake_done, note);
    assert_int_equal(fake_code(note), TDG_EAGAIN);
}

static void a_transport_without_memory_fails_the_request(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    f->send_code = TDG_ENOMEM;
    note = request(f, "prompts/list");
    assert_int_equal(fake_code(note), TDG_ENOMEM);
}

/* ---- Streams ------------------------------------------------------------ */

struct stream {
    struct fake_note *note;
    int messages, alive;
    uint32_t retry;
};

static void stream_message(void *user, const tdg__rpc_message_t *message) {
    (void)message;
    ((struct stream *)((struct fake_note *)user)->own)->messages++;
}

static void stream_alive(void *user) {
    ((struct stream *)((struct fake_note *)user)->own)->alive++;
}

static void stream_retry(void *user, uint32_t ms) {
    ((struct stream *)((struct fake_note *)user)->own)->retry = ms;
}

static tdg__client_request_t *begin_stream(struct fake *f, struct stream *stream) {
    static const tdg__stream_calls_t calls = {stream_message, stream_alive, stream_retry};
    const tdg__client_request_opts_t wanted = {.method = "subscriptions/listen",
                                               .stream = &calls};
    tdg__client_request_t *request;

    *stream = (struct stream){.note = fake_note(f)};
    stream->note->own = stream;
    assert_int_equal(
        tdg__client_request_begin(f->core, &wanted, fake_asked, stream->note, &request),
        0);
    fake_run(f);
    return request;
}

static void a_stream_stays_open(void **state) {
    struct fake *f = *state;
    struct stream stream;
    struct fake_sent *sent;

    up(f, TDG_ERA_MODERN);
    begin_stream(f, &stream);
    sent = fake_find(f, "subscriptions/listen");
    assert_true(sent->stream);
    fake_opened(f, sent);
    fake_pass(f, 3600000);
    fake_says(f, sent, "{'jsonrpc':'2.0','method':'notifications/x'}");
    fake_alive(f, sent);
    fake_retry(f, sent, 77);
    assert_int_equal(stream.messages, 1);
    assert_int_equal(stream.alive, 2);
    assert_int_equal(stream.retry, 77);
    fake_broken(f, sent, TDG__DELIVERY_BROKEN, true);
    assert_int_equal(fake_code(stream.note), TDG_EUNREACHABLE);
    assert_int_equal(fake_count(f, "subscriptions/listen"), 1);
}

static void a_stream_that_does_not_open_times_out(void **state) {
    struct fake *f = *state;
    struct stream stream;

    up(f, TDG_ERA_MODERN);
    begin_stream(f, &stream);
    fake_pass(f, 60000);
    assert_int_equal(fake_code(stream.note), TDG_ETIMEDOUT);
}

static void on_a_shared_channel_the_id_says_whose_it_is(void **state) {
    struct fake *f = *state;
    struct stream first, second;
    char text[200];
    tdg__client_request_t *request;

    up(f, TDG_ERA_MODERN);
    begin_stream(f, &first);
    request = begin_stream(f, &second);
    snprintf(text, sizeof(text),
             "{'jsonrpc':'2.0','method':'notifications/x','params':{'_meta':"
             "{'io.modelcontextprotocol/subscriptionId':%s}}}",
             tdg__client_request_id(request));
    fake_tells(f, text);
    assert_int_equal(first.messages, 0);
    assert_int_equal(second.messages, 1);
    fake_result(f, f->sent[1], "{}");
    fake_result(f, f->sent[2], "{}");
}

static void what_is_dropped_is_not_told_about(void **state) {
    struct fake *f = *state;
    struct stream stream;
    struct fake_sent *sent;

    up(f, TDG_ERA_MODERN);
    tdg__client_request_drop(begin_stream(f, &stream));
    sent = f->sent[1];
    assert_true(sent->cancelled);
    fake_run(f);
    assert_int_equal(fake_count(f, "notifications/cancelled"), 1);
    assert_int_equal(stream.note->calls, 0);
    stream.note->calls = 1; /* fake_end() wants one call of all */
}

static void what_is_request_for_a_sign_of_life_depends_on_the_era(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    tdg__core_request(f->core, "ping", NULL, 0, fake_done, fake_note(f));
    fake_run(f);
    assert_int_equal(fake_count(f, "ping"), 0);
    assert_int_equal(fake_count(f, "server/discover"), 2); /* the first connected */
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
#define STDIO(name) cmocka_unit_test_setup_teardown(name, fake_setup_stdio, fake_teardown)
        HTTP(what_is_request_for_a_sign_of_life_depends_on_the_era),
        HTTP(a_result_reaches_who_request),
        HTTP(errors_become_codes),
        HTTP(ends_of_the_transport_become_codes),
        HTTP(statuses_become_codes),
        HTTP(ids_are_never_used_twice),
        STDIO(answers_to_nothing_are_ignored),
        HTTP(a_second_answer_is_ignored),
        HTTP(an_answer_is_found_by_its_id),
        HTTP(an_error_without_an_id_is_about_what_it_came_with),
        HTTP(an_unknown_type_of_result_is_nonsense),
        HTTP(over_http_a_time_out_closes_the_request),
        STDIO(over_stdio_a_time_out_is_told),
        HTTP(in_a_legacy_session_a_time_out_is_told),
        HTTP(a_request_has_its_own_time),
        HTTP(a_forgotten_session_is_begun_anew),
        HTTP(a_session_that_is_always_forgotten_fails_the_request),
        HTTP(what_does_no_harm_is_repeated_once),
        HTTP(a_tool_is_not_called_twice),
        HTTP(what_was_never_sent_is_sent_again),
        STDIO(a_lost_program_fails_its_calls_and_repeats_its_reads),
        HTTP(a_token_is_renewed_for_a_request),
        HTTP(requests_wait_for_the_connection),
        HTTP(waiting_counts_as_time),
        HTTP(those_that_wait_fail_with_the_connection),
        HTTP(there_is_a_limit_to_what_waits),
        HTTP(a_transport_without_memory_fails_the_request),
        HTTP(a_stream_stays_open),
        HTTP(a_stream_that_does_not_open_times_out),
        STDIO(on_a_shared_channel_the_id_says_whose_it_is),
        STDIO(what_is_dropped_is_not_told_about),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client/calls", tests, NULL, NULL);
}
