/* SPDX-License-Identifier: MIT */
#include "mcp/rpc.h"
#include "support.h"

/* ---- Reading ------------------------------------------------------------ */

static int read_text(const char *text, tdg__rpc_message_t *ret, tdg__rpc_error_t *error) {
    json_t *json = json_from(text);
    int rv;

    *error = (tdg__rpc_error_t){0};
    rv = tdg__rpc_read(json, ret, error);
    json_decref(json);
    return rv;
}

static void expect_message(const char *text, tdg__rpc_kind_t kind, const char *id,
                           const char *method, bool has_params) {
    tdg__rpc_message_t message;
    tdg__rpc_error_t error;

    assert_int_equal(read_text(text, &message, &error), 0);
    assert_int_equal(message.kind, kind);
    assert_string_equal(message.id, id);
    if (method == NULL)
        assert_null(message.method);
    else
        assert_string_equal(message.method, method);
    assert_int_equal(message.params != NULL, has_params);
    tdg__rpc_message_done(&message);
}

static void tells_the_kinds_of_messages_apart(void **state) {
    (void)state;
    expect_message("{'jsonrpc':'2.0','id':1,'method':'ping'}", TDG__RPC_REQUEST, "1",
                   "ping", false);
    expect_message("{'jsonrpc':'2.0','id':'1','method':'ping'}", TDG__RPC_REQUEST,
                   "\"1\"", "ping", false);
    expect_message("{'jsonrpc':'2.0','id':1,'method':'m','params':{}}", TDG__RPC_REQUEST,
                   "1", "m", true);
    expect_message("{'jsonrpc':'2.0','method':'n','params':{'a':1}}",
                   TDG__RPC_NOTIFICATION, "", "n", true);
    expect_message("{'jsonrpc':'2.0','method':''}", TDG__RPC_NOTIFICATION, "", "", false);
    expect_message("{'jsonrpc':'2.0','id':7,'result':{}}", TDG__RPC_RESPONSE, "7", NULL,
                   false);
    expect_message("{'jsonrpc':'2.0','id':7,'error':{'code':1}}", TDG__RPC_RESPONSE, "7",
                   NULL, false);
    expect_message("{'jsonrpc':'2.0','error':{'code':1}}", TDG__RPC_RESPONSE, "", NULL,
                   false);
    expect_message("{'jsonrpc':'2.0','id':null,'error':{'code':1}}", TDG__RPC_RESPONSE,
                   "", NULL, false);
    expect_message("{'jsonrpc':'2.0','id':1,'method':'m','more':[1,2,3]}",
                   TDG__RPC_REQUEST, "1", "m", false);
}

static void keeps_ids_as_they_came(void **state) {
    static const char *const ids[] = {
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "\"\"",
        "\"a\\\"b\\\\c\\n\\u0001\"",
        "\"\xc3\xa9\"",
    };
    char text[200];

    (void)state;
    for (size_t i = 0; i < COUNT(ids); i++) {
        tdg__rpc_message_t message;
        tdg__rpc_error_t error;
        json_t *json;

        snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"m\"}",
                 ids[i]);
        json = json_loads(text, 0, NULL);
        assert_non_null(json);
        assert_int_equal(tdg__rpc_read(json, &message, &error), 0);
        assert_int_equal(message.kind, TDG__RPC_REQUEST);
        assert_string_equal(message.id, ids[i]);
        tdg__rpc_message_done(&message);
        json_decref(json);
    }
}

/* The id is known even so, where there is a good one. */
static void expect_refused(const char *text, const char *id, const char *says) {
    tdg__rpc_message_t message;
    tdg__rpc_error_t error;

    if (read_text(text, &message, &error) != TDG_EINVAL)
        fail_msg("%s was taken", text);
    assert_int_equal(error.code, TDG__RPC_INVALID_REQUEST);
    assert_string_equal(error.message + strlen("Invalid request: "), says);
    assert_string_equal(message.id, id);
    assert_null(message.method);
    assert_null(message.params);
    tdg__rpc_message_done(&message);
    tdg__rpc_error_done(&error);
}

static void refuses_what_is_no_message(void **state) {
    (void)state;
    expect_refused("[]", "", "a message must be an object");
    expect_refused("'x'", "", "a message must be an object");
    expect_refused("null", "", "a message must be an object");
    expect_refused("{}", "", "jsonrpc must be \"2.0\"");
    expect_refused("{'id':3,'method':'m'}", "3", "jsonrpc must be \"2.0\"");
    expect_refused("{'jsonrpc':'1.0','id':3,'method':'m'}", "3",
                   "jsonrpc must be \"2.0\"");
    expect_refused("{'jsonrpc':2.0,'id':'x','method':'m'}", "\"x\"",
                   "jsonrpc must be \"2.0\"");
    expect_refused("{'jsonrpc':'2.0','id':null,'method':'m'}", "",
                   "the id must be a string or a whole number");
    expect_refused("{'jsonrpc':'2.0','id':1.5,'method':'m'}", "",
                   "the id must be a string or a whole number");
    expect_refused("{'jsonrpc':'2.0','id':1.0,'method':'m'}", "",
                   "the id must be a string or a whole number");
    expect_refused("{'jsonrpc':'2.0','id':true,'method':'m'}", "",
                   "the id must be a string or a whole number");
    expect_refused("{'jsonrpc':'2.0','id':[1],'method':'m'}", "",
                   "the id must be a string or a whole number");
    expect_refused("{'jsonrpc':'2.0','id':{},'result':{}}", "",
                   "the id must be a string or a whole number");
    expect_refused("{'jsonrpc':'2.0','id':1}", "1", "the method is missing");
    expect_refused("{'jsonrpc':'2.0'}", "", "the method is missing");
    expect_refused("{'jsonrpc':'2.0','id':1,'method':5}", "1",
                   "the method must be a string");
    expect_refused("{'jsonrpc':'2.0','id':1,'method':null}", "1",
                   "the method must be a string");
    expect_refused("{'jsonrpc':'2.0','id':1,'method':'m','params':[]}", "1",
                   "params must be an object");
    expect_refused("{'jsonrpc':'2.0','id':1,'method':'m','params':null}", "1",
                   "params must be an object");
    expect_refused("{'jsonrpc':'2.0','id':1,'method':'m','result':{}}", "1",
                   "a message with a method has neither result nor error");
    expect_refused("{'jsonrpc':'2.0','id':1,'method':'m','error':{}}", "1",
                   "a message with a method has neither result nor error");
    expect_refused("{'jsonrpc':'2.0','id':1,'result':{},'error':{'code':1}}", "1",
                   "a response has either a result or an error");
    expect_refused("{'jsonrpc':'2.0','result':{}}", "", "a result needs an id");
    expect_refused("{'jsonrpc':'2.0','id':null,'result':{}}", "", "a result needs an id");
}

/* Of all lengths around the limit; a quote takes two bytes. */
static void limits_the_length_of_ids(void **state) {
    char id[TDG__RPC_MAX_ID + 10];

    (void)state;
    for (size_t len = TDG__RPC_MAX_ID - 6; len < TDG__RPC_MAX_ID + 6; len++) {
        json_t *json;
        tdg__rpc_message_t message;
        tdg__rpc_error_t error = {0};
        bool fits = len + 3 <= TDG__RPC_MAX_ID;

        memset(id, 'x', len);
        id[len / 2] = '"';
        id[len] = '\0';
        json = json_pack("{s:s,s:s,s:s}", "jsonrpc", "2.0", "id", id, "method", "m");
        assert_non_null(json);
        assert_int_equal(tdg__rpc_read(json, &message, &error), fits ? 0 : TDG_EINVAL);
        assert_int_equal(strlen(message.id), fits ? len + 3 : 0);
        tdg__rpc_message_done(&message);
        json_decref(json);
    }
}

static void holds_the_message_until_it_is_done(void **state) {
    json_t *json = json_from("{'jsonrpc':'2.0','id':1,'method':'m','params':{'a':2}}");
    tdg__rpc_message_t message;
    tdg__rpc_error_t error;

    (void)state;
    assert_int_equal(tdg__rpc_read(json, &message, &error), 0);
    json_decref(json);
    assert_string_equal(message.method, "m");
    assert_json_equal(message.params, "{'a':2}");
    tdg__rpc_message_done(&message);
    assert_null(message.root);
    tdg__rpc_message_done(&message); /* again does no harm */
}

static void reads_without_memory(void **state) {
    json_t *json =
        json_from("{'jsonrpc':'2.0','id':'a long id, longer than most of them',"
                  "'method':'m','params':{}}");
    tdg__rpc_message_t message;
    tdg__rpc_error_t error;

    (void)state;
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_int_equal(tdg__rpc_read(json, &message, &error), 0);
    assert_false(memory_failed());
    memory_fail(0, MEMORY_ONCE);
    tdg__rpc_message_done(&message);
    json_decref(json);
}

/* ---- Errors ------------------------------------------------------------- */

static void says_code_message_and_data(void **state) {
    tdg__rpc_error_t error;

    (void)state;
    tdg__rpc_error_set(&error, -32002, json_pack("{s:s}", "uri", "x:y"), "no %s %d",
                       "resource", 7);
    assert_int_equal(error.code, -32002);
    assert_string_equal(error.message, "no resource 7");
    assert_json_equal(error.data, "{'uri':'x:y'}");
    tdg__rpc_error_done(&error);
    assert_null(error.data);
    tdg__rpc_error_done(&error);
}

/* Characters of one to four bytes, shifted so that the cut falls on each of their bytes:
 * what remains is UTF-8, and at most three bytes shorter than there is room. */
static void cuts_a_message_between_characters(void **state) {
    static const char *const characters[] = {"x", "é", "€", "😀"};
    tdg__rpc_error_t error;
    char text[1000];

    (void)state;
    for (size_t c = 0; c < COUNT(characters); c++) {
        for (size_t shift = 0; shift < 5; shift++) {
            memset(text, '.', shift);
            text[shift] = '\0';
            while (strlen(text) < 500)
                strcat(text, characters[c]);
            tdg__rpc_error_set(&error, 1, NULL, "%s", text);
            assert_true(tdg__utf8_is_valid(error.message, strlen(error.message)));
            assert_in_range(strlen(error.message), sizeof(error.message) - 4,
                            sizeof(error.message) - 1);
            assert_memory_equal(error.message, text, strlen(error.message));
        }
    }
}

static void keeps_a_message_that_fits_exactly(void **state) {
    tdg__rpc_error_t error;
    char text[sizeof(error.message)];

    (void)state;
    memset(text, 'a', sizeof(text) - 3);
    strcpy(text + sizeof(text) - 3, "é");
    tdg__rpc_error_set(&error, 1, NULL, "%s", text);
    assert_string_equal(error.message, text);
}

/* ---- Writing ------------------------------------------------------------ */

static void writes_results(void **state) {
    json_t *result = json_from("{'a':[1]}");
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 1000);
    tdg__rpc_put_result(&text, "\"x\"", result);
    assert_string_equal(text.data,
                        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"a\":[1]}}");
    tdg__text_done(&text);
    json_decref(result);
}

static void writes_errors_with_and_without_id_and_data(void **state) {
    tdg__rpc_error_t error;
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 1000);
    tdg__rpc_error_set(&error, -32700, NULL, "not \"JSON\"");
    tdg__rpc_put_error(&text, "", &error);
    assert_string_equal(text.data, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,"
                                   "\"message\":\"not \\\"JSON\\\"\"}}");

    tdg__text_clear(&text);
    tdg__rpc_put_error(&text, NULL, &error);
    assert_string_equal(text.data, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,"
                                   "\"message\":\"not \\\"JSON\\\"\"}}");

    tdg__text_clear(&text);
    tdg__rpc_error_set(&error, -32602, json_pack("{s:i}", "a", 1), "x");
    tdg__rpc_put_error(&text, "5", &error);
    assert_string_equal(text.data,
                        "{\"jsonrpc\":\"2.0\",\"id\":5,\"error\":{\"code\":-32602,"
                        "\"message\":\"x\",\"data\":{\"a\":1}}}");
    tdg__rpc_error_done(&error);
    tdg__text_done(&text);
}

static void writes_notifications(void **state) {
    json_t *params = json_from("{'a':1}");
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 1000);
    tdg__rpc_put_notification(&text, "notifications/x", NULL);
    assert_string_equal(text.data,
                        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}");

    tdg__text_clear(&text);
    tdg__rpc_put_notification(&text, "n", params);
    assert_string_equal(text.data,
                        "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{\"a\":1}}");
    tdg__text_done(&text);
    json_decref(params);
}

static void fails_cleanly_when_writing_finds_no_memory(void **state) {
    json_t *result = json_from("{'a':[1,{'b':'a text that makes the message longer'}]}");
    tdg__rpc_error_t error = {.code = 1, .message = "a message", .data = result};
    bool failed = true;

    (void)state;
    for (size_t nth = 1; failed; nth++) {
        tdg__text_t text;

        tdg__text_init(&text, 1000);
        memory_fail(nth, MEMORY_ONCE);
        tdg__rpc_put_result(&text, "1", result);
        tdg__rpc_put_error(&text, "1", &error);
        tdg__rpc_put_notification(&text, "m", result);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(text.error, failed ? TDG_ENOMEM : 0);
        tdg__text_done(&text);
    }
    json_decref(result);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(tells_the_kinds_of_messages_apart),
        CASE(keeps_ids_as_they_came),
        CASE(refuses_what_is_no_message),
        CASE(limits_the_length_of_ids),
        CASE(holds_the_message_until_it_is_done),
        CASE(reads_without_memory),
        CASE(says_code_message_and_data),
        CASE(cuts_a_message_between_characters),
        CASE(keeps_a_message_that_fits_exactly),
        CASE(writes_results),
        CASE(writes_errors_with_and_without_id_and_data),
        CASE(writes_notifications),
        CASE(fails_cleanly_when_writing_finds_no_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("rpc", tests, NULL, NULL);
}
