/* SPDX-License-Identifier: MIT
 *
 * What a server wants to know: by requests of its own, and by rounds. */
#include "unit/client/fake.h"

/* ---- Requests of the server --------------------------------------------- */

static void legacy_up(struct fake *f) {
    fake_up(f, TDG_ERA_LEGACY);
    f->answer = NULL;
}

static void check_answer(struct fake *f, const char *request, const char *answer) {
    json_t *message;

    fake_tells(f, request);
    assert_string_equal(fake_last(f)->method, "");
    assert_null(fake_last(f)->id);
    message = fake_message(fake_last(f));
    assert_json_equal(message, answer);
    json_decref(message);
}

static void a_ping_is_answered(void **state) {
    struct fake *f = *state;

    legacy_up(f);
    check_answer(f, "{'jsonrpc':'2.0','id':'p-1','method':'ping'}",
                 "{'jsonrpc':'2.0','id':'p-1','result':{}}");
}

static void without_anybody_to_ask_it_is_refused(void **state) {
    static const char *const methods[] = {"elicitation/create", "sampling/createMessage",
                                          "roots/list", "what/ever"};
    struct fake *f = *state;

    legacy_up(f);
    for (size_t i = 0; i < COUNT(methods); i++) {
        char request[100];

        snprintf(request, sizeof(request), "{'jsonrpc':'2.0','id':3,'method':'%s'}",
                 methods[i]);
        check_answer(f, request,
                     "{'jsonrpc':'2.0','id':3,'error':"
                     "{'code':-32601,'message':'Method not found'}}");
    }
}

static void somebody_answers(void **state) {
    struct fake *f = *state;

    f->inputs = true;
    f->input_result = "{'action':'accept','content':{'x':1}}";
    legacy_up(f);
    check_answer(
        f,
        "{'jsonrpc':'2.0','id':3,'method':'elicitation/create',"
        "'params':{'message':'who?'}}",
        "{'jsonrpc':'2.0','id':3,'result':{'action':'accept','content':{'x':1}}}");
    assert_string_equal(f->input_asked, "elicitation/create {\"message\":\"who?\"}\n");
}

static void declining_is_polite_or_an_error(void **state) {
    struct fake *f = *state;

    f->inputs = true;
    legacy_up(f);
    check_answer(f, "{'jsonrpc':'2.0','id':3,'method':'elicitation/create'}",
                 "{'jsonrpc':'2.0','id':3,'result':{'action':'decline'}}");
    check_answer(f, "{'jsonrpc':'2.0','id':4,'method':'sampling/createMessage'}",
                 "{'jsonrpc':'2.0','id':4,'error':{'code':-1,'message':'declined'}}");
    check_answer(f, "{'jsonrpc':'2.0','id':5,'method':'roots/list'}",
                 "{'jsonrpc':'2.0','id':5,'error':{'code':-1,'message':'declined'}}");
}

static void a_question_may_come_with_an_answer(void **state) {
    struct fake *f = *state;
    struct fake_note *note = fake_note(f);
    struct fake_sent *sent;

    f->inputs = true;
    legacy_up(f);
    tdg__core_request(f->core, "tools/call", NULL, 0, fake_done, note);
    fake_opened(f, fake_find(f, "GET"));
    sent = fake_find(f, "tools/call");
    fake_says(f, sent, "{'jsonrpc':'2.0','id':3,'method':'elicitation/create'}");
    assert_string_equal(fake_last(f)->method, "");
    fake_result(f, sent, "{'content':[]}");
    assert_int_equal(fake_code(note), 0);
}

static void a_flood_of_questions_is_not_answered_without_end(void **state) {
    struct fake *f = *state;
    size_t before;

    legacy_up(f);
    f->hold_notifications = true;
    before = f->sent_count;
    for (int i = 0; i < 1000; i++)
        fake_tells(f, "{'jsonrpc':'2.0','id':3,'method':'ping'}");
    assert_int_equal(f->sent_count - before, TDG__REQUESTS_MAX_LOOSE);
}

/* ---- Rounds ------------------------------------------------------------- */

#define ASKS                                                                             \
    "{'resultType':'input_required','inputRequests':{'who':{'method':"                   \
    "'elicitation/create','params':{'message':'?'}}},'requestState':'opaque'}"

static struct fake_note *call(struct fake *f, bool inputs, const char *result) {
    struct fake_note *note = fake_note(f);

    f->inputs = inputs;
    f->input_result = result;
    fake_up(f, TDG_ERA_MODERN);
    f->answer = NULL;
    tdg__core_request(f->core, "tools/call",
                      json_from("{'name':'t','arguments':{'a':1}}"), 0, fake_done, note);
    fake_run(f);
    return note;
}

static void a_round_brings_the_answers(void **state) {
    struct fake *f = *state;
    struct fake_note *note = call(f, true, "{'action':'accept'}");
    struct fake_sent *first = fake_find(f, "tools/call"), *second;
    json_t *params;

    fake_result(f, first, ASKS);
    assert_int_equal(note->calls, 0);
    second = fake_find(f, "tools/call");
    assert_string_not_equal(first->id, second->id);
    params = fake_params(second);
    assert_int_equal(json_object_del(params, "_meta"), 0);
    assert_json_equal(params, "{'name':'t','arguments':{'a':1},'requestState':'opaque',"
                              "'inputResponses':{'who':{'action':'accept'}}}");
    json_decref(params);
    assert_string_equal(second->name, "t");
    fake_result(f, second, "{'resultType':'complete','content':[]}");
    assert_int_equal(fake_code(note), 0);
}

static void a_state_that_is_not_given_any_more_is_not_sent(void **state) {
    struct fake *f = *state;
    struct fake_note *note = call(f, true, "{'action':'accept'}");
    json_t *params;

    fake_result(f, fake_find(f, "tools/call"), ASKS);
    fake_result(f, fake_find(f, "tools/call"),
                "{'resultType':'input_required','inputRequests':{'more':{'method':"
                "'roots/list'}}}");
    params = fake_params(fake_find(f, "tools/call"));
    assert_null(json_object_get(params, "requestState"));
    assert_json_equal(json_object_get(params, "inputResponses"),
                      "{'more':{'action':'accept'}}");
    json_decref(params);
    fake_result(f, fake_find(f, "tools/call"), "{}");
    assert_int_equal(fake_code(note), 0);
}

static void a_state_alone_is_echoed(void **state) {
    struct fake *f = *state;
    struct fake_note *note = call(f, false, NULL);
    json_t *params;

    fake_result(f, fake_find(f, "tools/call"),
                "{'resultType':'input_required','requestState':'s'}");
    params = fake_params(fake_find(f, "tools/call"));
    assert_json_equal(json_object_get(params, "requestState"), "'s'");
    assert_null(json_object_get(params, "inputResponses"));
    json_decref(params);
    fake_result(f, fake_find(f, "tools/call"), "{}");
    assert_int_equal(fake_code(note), 0);
}

static void eight_rounds_are_enough(void **state) {
    struct fake *f = *state;
    struct fake_note *note = call(f, true, "{'action':'accept'}");

    for (int round = 0; round < 8; round++) {
        fake_result(f, fake_find(f, "tools/call"), ASKS);
        assert_int_equal(note->calls, 0);
    }
    fake_result(f, fake_find(f, "tools/call"), ASKS);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(fake_count(f, "tools/call"), 9);
}

static void nobody_to_ask_fails_the_request(void **state) {
    struct fake *f = *state;
    struct fake_note *note = call(f, false, NULL);

    fake_result(f, fake_find(f, "tools/call"), ASKS);
    assert_int_equal(fake_code(note), TDG_ENOTSUP);
}

static void declining_an_elicitation_is_an_answer(void **state) {
    struct fake *f = *state;
    struct fake_note *note = call(f, true, NULL);
    json_t *params;

    fake_result(f, fake_find(f, "tools/call"), ASKS);
    params = fake_params(fake_find(f, "tools/call"));
    assert_json_equal(json_object_get(params, "inputResponses"),
                      "{'who':{'action':'decline'}}");
    json_decref(params);
    fake_result(f, fake_find(f, "tools/call"), "{}");
    assert_int_equal(fake_code(note), 0);
}

static void declining_anything_else_fails_the_request(void **state) {
    struct fake *f = *state;
    struct fake_note *note = call(f, true, NULL);

    fake_result(f, fake_find(f, "tools/call"),
                "{'resultType':'input_required','inputRequests':{'r':{'method':"
                "'sampling/createMessage'}}}");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
}

static void malformed_rounds_are_refused(void **state) {
    static const struct {
        const char *result;
        int code;
    } cases[] = {
        {"{'resultType':'input_required'}", TDG_EJSON},
        {"{'resultType':'input_required','inputRequests':[]}", TDG_EJSON},
        {"{'resultType':'input_required','inputRequests':{'a':7}}", TDG_ENOTSUP},
        {"{'resultType':'input_required','inputRequests':{'a':{'method':'x'}}}",
         TDG_ENOTSUP},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fake *f;
        struct fake_note *note;
        void *own;

        fake_init(state_create(&own, sizeof(*f)), TDG__TRANSPORT_HTTP);
        f = own;
        note = call(f, true, "{}");
        fake_result(f, fake_find(f, "tools/call"), cases[i].result);
        assert_int_equal(fake_code(note), cases[i].code);
        fake_end(f);
        state_destroy(&own);
    }
}

static void a_legacy_result_is_not_looked_into(void **state) {
    struct fake *f = *state;
    struct fake_note *note = fake_note(f);

    legacy_up(f);
    tdg__core_request(f->core, "tools/call", NULL, 0, fake_done, note);
    fake_run(f);
    fake_result(f, fake_find(f, "tools/call"), ASKS);
    assert_int_equal(fake_code(note), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
#define STDIO(name) cmocka_unit_test_setup_teardown(name, fake_setup_stdio, fake_teardown)
        STDIO(a_ping_is_answered),
        STDIO(without_anybody_to_ask_it_is_refused),
        STDIO(somebody_answers),
        STDIO(declining_is_polite_or_an_error),
        HTTP(a_question_may_come_with_an_answer),
        STDIO(a_flood_of_questions_is_not_answered_without_end),
        HTTP(a_round_brings_the_answers),
        HTTP(a_state_that_is_not_given_any_more_is_not_sent),
        HTTP(a_state_alone_is_echoed),
        STDIO(eight_rounds_are_enough),
        HTTP(nobody_to_ask_fails_the_request),
        HTTP(declining_an_elicitation_is_an_answer),
        HTTP(declining_anything_else_fails_the_request),
        cmocka_unit_test(malformed_rounds_are_refused),
        HTTP(a_legacy_result_is_not_looked_into),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client/input", tests, NULL, NULL);
}
