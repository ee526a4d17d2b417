/* SPDX-License-Identifier: MIT */
#include "mcp/notice.h"

#include <math.h>
#include <stdio.h>

#include "support.h"

/* Parses what must be one line of compact JSON. */
static json_t *parse_line(const char *text, size_t len) {
    bool quoted = false;
    json_error_t error;
    json_t *json;

    for (size_t i = 0; i < len; i++) {
        assert_in_range((unsigned char)text[i], quoted ? 0x20 : 0x21, 0xff);
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
    }

    json = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        fail_msg("%s: %.*s", error.text, (int)len, text);
    return json;
}

static json_t *at(json_t *json, const char *key) {
    return json_object_get(json, key);
}

/* ---- Head and tail ------------------------------------------------------ */

/* What head and tail are together. */
static json_t *message(const tdg__notice_t *notice, tdg__form_t form,
                       const tdg__tail_t *tail) {
    tdg__buf_t *head = tdg__notice_head(notice, form);
    size_t room = TDG__TAIL_MAX + tail->subscription_len, len = 0;
    json_t *json;
    char *text;

    assert_non_null(head);
    text = malloc(head->len + room);
    assert_non_null(text);
    memcpy(text, head->data, head->len);
    if (tdg__notice_has_tail(notice->list != NULL, form)) {
        len = tdg__notice_tail(text + head->len, tail);
        assert_in_range(len, 1, room);
    }

    json = parse_line(text, head->len + len);
    free(text);
    tdg__buf_unref(head);
    return json;
}

static tdg__notice_t update(const char *uri, const json_t *metadata) {
    return (tdg__notice_t){.uri = uri,
                           .uri_len = strlen(uri),
                           .version = 7,
                           .metadata = metadata,
                           .in_params = true,
                           .in_meta = true};
}

static const tdg__tail_t legacy_tail = {.epoch = 0xab, .number = 42};
static const tdg__tail_t modern_tail = {
    .subscription = "1", .subscription_len = 1, .epoch = 0xab, .number = 42, .merged = 3};

static void assert_message(const tdg__notice_t *notice, tdg__form_t form,
                           const tdg__tail_t *tail, const char *expected) {
    json_t *json = message(notice, form, tail);

    assert_json_equal(json, expected);
    json_decref(json);
}

static void an_update_reads_as_the_header_shows(void **state) {
    json_t *metadata = json_from("{'size': 1}");
    tdg__notice_t notice = update("a:1", metadata);

    (void)state;
    assert_message(&notice, TDG__FORM_STANDARD, &modern_tail,
                   "{'jsonrpc': '2.0', 'method': 'notifications/resources/updated', "
                   "'params': {'uri': 'a:1', 'metadata': {'size': 1}, '_meta': "
                   "{'dev.tidings/version': 7, 'dev.tidings/metadata': {'size': 1}, "
                   "'dev.tidings/cursor': 'ab-42', 'dev.tidings/merged': 3, "
                   "'io.modelcontextprotocol/subscriptionId': 1}}}");
    assert_message(&notice, TDG__FORM_STANDARD, &legacy_tail,
                   "{'jsonrpc': '2.0', 'method': 'notifications/resources/updated', "
                   "'params': {'uri': 'a:1', 'metadata': {'size': 1}, '_meta': "
                   "{'dev.tidings/version': 7, 'dev.tidings/metadata': {'size': 1}, "
                   "'dev.tidings/cursor': 'ab-42'}}}");
    json_decref(metadata);
}

static void metadata_goes_where_it_is_wanted(void **state) {
    json_t *metadata = json_from("{'size': 1}");
    tdg__notice_t notice = update("a:1", metadata);

    (void)state;
    notice.in_meta = false;
    assert_message(&notice, TDG__FORM_STANDARD, &legacy_tail,
                   "{'jsonrpc': '2.0', 'method': 'notifications/resources/updated', "
                   "'params': {'uri': 'a:1', 'metadata': {'size': 1}, '_meta': "
                   "{'dev.tidings/version': 7, 'dev.tidings/cursor': 'ab-42'}}}");
    notice.in_meta = true;
    notice.in_params = false;
    assert_message(&notice, TDG__FORM_STANDARD, &legacy_tail,
                   "{'jsonrpc': '2.0', 'method': 'notifications/resources/updated', "
                   "'params': {'uri': 'a:1', '_meta': {'dev.tidings/version': 7, "
                   "'dev.tidings/metadata': {'size': 1}, "
                   "'dev.tidings/cursor': 'ab-42'}}}");
    notice.in_meta = false;
    assert_message(&notice, TDG__FORM_STANDARD, &legacy_tail,
                   "{'jsonrpc': '2.0', 'method': 'notifications/resources/updated', "
                   "'params': {'uri': 'a:1', '_meta': {'dev.tidings/version': 7, "
                   "'dev.tidings/cursor': 'ab-42'}}}");
    json_decref(metadata);
}

static void assert_methods(const char *list, bool deleted, const char *standard,
                           const char *erlmcp) {
    tdg__notice_t notice = update("a:1", NULL);

    notice.list = list;
    notice.deleted = deleted;
    for (int form = 0; form < TDG__FORM_COUNT; form++) {
        json_t *json = message(&notice, (tdg__form_t)form, &legacy_tail);

        assert_string_equal(json_string_value(at(json, "method")),
                            form == TDG__FORM_ERLMCP ? erlmcp : standard);
        json_decref(json);
    }
}

static void each_form_has_its_method_names(void **state) {
    (void)state;
    assert_methods(NULL, false, "notifications/resources/updated", "resources/updated");
    assert_methods(NULL, true, "notifications/resources/updated", "resources/deleted");
    assert_methods("tools", false, "notifications/tools/list_changed",
                   "notifications/tools/list_changed");
    assert_methods("prompts", false, "notifications/prompts/list_changed",
                   "notifications/prompts/list_changed");
    assert_methods("resources", false, "notifications/resources/list_changed",
                   "notifications/resources/list_changed");
}

static void a_list_change_has_nothing_but_meta(void **state) {
    tdg__notice_t notice = {.list = "tools"};

    (void)state;
    assert_message(&notice, TDG__FORM_STANDARD, &modern_tail,
                   "{'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed', "
                   "'params': {'_meta': {'dev.tidings/cursor': 'ab-42', "
                   "'dev.tidings/merged': 3, "
                   "'io.modelcontextprotocol/subscriptionId': 1}}}");
    assert_message(&notice, TDG__FORM_ERLMCP, &legacy_tail,
                   "{'jsonrpc': '2.0', 'method': 'notifications/tools/list_changed', "
                   "'params': {}}");
}

/* What clients and applications may put into text: quotes, backslashes, every control
 * character, line ends of all kinds, characters beyond 16 bits, nothing. */
static const char *const strange[] = {
    "a:1",
    "a:\"'\\/",
    "a:\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f",
    "\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f",
    "a:\xc2\x85\xe2\x80\xa8\xe2\x80\xa9",
    "a:\xf0\x9f\x8c\xa6\xf4\x8f\xbf\xbf",
    "",
};

static void check_combination(const tdg__notice_t *notice, tdg__form_t form,
                              const tdg__tail_t *tail) {
    json_t *json = message(notice, form, tail);
    json_t *params = at(json, "params"), *meta = at(params, "_meta");
    json_t *id = at(meta, "io.modelcontextprotocol/subscriptionId");
    json_t *in_params = at(params, "metadata");
    json_t *in_meta = at(meta, "dev.tidings/metadata");

    if (notice->list != NULL && form == TDG__FORM_ERLMCP) {
        assert_true(json_is_object(params));
        assert_int_equal(json_object_size(params), 0);
        json_decref(json);
        return;
    }
    assert_true(json_is_object(meta));
    if (notice->list == NULL) {
        bool has = notice->metadata != NULL;

        assert_string_equal(json_string_value(at(params, "uri")), notice->uri);
        assert_true((uint64_t)json_integer_value(at(meta, "dev.tidings/version")) ==
                    notice->version);
        assert_int_equal(in_params != NULL, has && notice->in_params);
        assert_int_equal(in_meta != NULL, has && notice->in_meta);
        assert_true(in_params == NULL || json_equal(in_params, notice->metadata));
        assert_true(in_meta == NULL || json_equal(in_meta, notice->metadata));
    } else {
        assert_int_equal(json_object_size(params), 1);
    }

    assert_int_equal(json_integer_value(at(meta, "dev.tidings/merged")), tail->merged);
    assert_int_equal(at(meta, "dev.tidings/merged") != NULL, tail->merged != 0);
    assert_true(json_is_string(at(meta, "dev.tidings/cursor")));
    assert_int_equal(id != NULL, tail->subscription != NULL);
    if (id != NULL) {
        json_t *given = json_loads(tail->subscription, JSON_DECODE_ANY, NULL);

        assert_true(json_equal(id, given));
        json_decref(given);
    }
    json_decref(json);
}

/* Every form and tail for one notice. */
static void check_tails(const tdg__notice_t *notice) {
    static const char *const ids[] = {NULL, "1", "-9223372036854775808", "\"x\"",
                                      "\"\\\"\\\\\\u2028\\n\""};
    static const uint32_t merged[] = {0, 1, UINT32_MAX};
    static const uint64_t numbers[] = {0, 1, UINT64_MAX};

    for (size_t i = 0; i < COUNT(ids) * COUNT(merged) * COUNT(numbers); i++) {
        const char *id = ids[i % COUNT(ids)];
        tdg__tail_t tail = {.subscription = id,
                            .subscription_len = id == NULL ? 0 : strlen(id),
                            .epoch = numbers[i / COUNT(ids) % COUNT(numbers)],
                            .number = numbers[i / COUNT(ids) % COUNT(numbers)],
                            .merged = merged[i / COUNT(ids) / COUNT(numbers)]};

        check_combination(notice, TDG__FORM_STANDARD, &tail);
        check_combination(notice, TDG__FORM_ERLMCP, &tail);
    }
}

static void every_combination_is_one_line_of_valid_json(void **state) {
    static const char *const lists[] = {NULL, "tools", "prompts", "resources"};

    (void)state;
    for (size_t i = 0; i < COUNT(strange) * 16 * COUNT(lists); i++) {
        const char *text = strange[i / 16 % COUNT(strange)];
        json_t *metadata = NULL;
        tdg__notice_t notice;

        if (i & 1)
            metadata = json_pack("{s:s, s:[f, b, n, {}], s:I}", text[0] ? text : "k",
                                 text, "list", 0.5, true, "big", (json_int_t)INT64_MIN);
        notice = update(text, metadata);
        notice.in_params = i & 2;
        notice.in_meta = i & 4;
        notice.deleted = i & 8;
        notice.version = i == 0 ? 0 : INT64_MAX;
        notice.list = lists[i / 16 / COUNT(strange)];
        check_tails(&notice);
        json_decref(metadata);
    }
}

static void the_longest_tail_fits(void **state) {
    static const char *const id = "\"1234567\"";
    tdg__tail_t tail = {.subscription = id,
                        .subscription_len = strlen(id),
                        .epoch = UINT64_MAX,
                        .number = UINT64_MAX,
                        .merged = UINT32_MAX};
    char out[TDG__TAIL_MAX + 9 + 1];

    (void)state;
    memset(out, '#', sizeof(out));
    assert_in_range(tdg__notice_tail(out, &tail), 1, TDG__TAIL_MAX + 9);
    assert_int_equal(out[TDG__TAIL_MAX + 9], '#');
}

static void a_tail_needs_no_memory(void **state) {
    size_t calls = memory_calls();
    char out[TDG__TAIL_MAX + 1];

    (void)state;
    tdg__notice_tail(out, &modern_tail);
    assert_int_equal(memory_calls(), calls);
}

static void without_memory_there_is_no_head(void **state) {
    json_t *metadata = json_from("{'size': 1, 'list': [1, {'a': 'b'}]}");
    tdg__notice_t notice = update("a:1", metadata);
    size_t before = memory_live(), failures = 0;
    tdg__buf_t *head;

    (void)state;
    for (size_t nth = 1;; nth++, failures++) {
        memory_fail(nth, MEMORY_ONCE);
        head = tdg__notice_head(&notice, TDG__FORM_STANDARD);
        if (head != NULL)
            break;
        assert_true(memory_failed());
        assert_int_equal(memory_live(), before);
    }
    assert_false(memory_failed());
    assert_in_range(failures, 3, 100);
    tdg__buf_unref(head);
    json_decref(metadata);
}

/* ---- Single messages ---------------------------------------------------- */

enum { ROOM = 4096 };

static void assert_line(tdg__text_t *text, const char *expected) {
    json_t *json;

    assert_int_equal(text->error, 0);
    json = parse_line(text->data, text->len);
    assert_json_equal(json, expected);
    json_decref(json);
    tdg__text_clear(text);
}

static void assert_acknowledged(tdg__ack_t ack, const char *uris,
                                const char *notifications, const char *meta) {
    json_t *array = json_from(uris);
    char expected[1024];
    tdg__text_t text;

    ack.subscription = "1";
    ack.uris = array;
    tdg__text_init(&text, ROOM);
    tdg__put_acknowledged(&text, &ack);
    snprintf(expected, sizeof(expected),
             "{'jsonrpc': '2.0', 'method': 'notifications/subscriptions/acknowledged', "
             "'params': {'notifications': {%s}, '_meta': {%s, "
             "'io.modelcontextprotocol/subscriptionId': 1}}}",
             notifications, meta);
    assert_line(&text, expected);
    tdg__text_done(&text);
    json_decref(array);
}

static void an_acknowledgement_says_what_is_honoured(void **state) {
    (void)state;
    assert_acknowledged((tdg__ack_t){0}, NULL, "", "'dev.tidings/cursor': '0-0'");
    assert_acknowledged((tdg__ack_t){.tools = true, .epoch = 10, .number = 5}, NULL,
                        "'toolsListChanged': true", "'dev.tidings/cursor': 'a-5'");
    assert_acknowledged((tdg__ack_t){.prompts = true}, "[]",
                        "'promptsListChanged': true, 'resourceSubscriptions': []",
                        "'dev.tidings/cursor': '0-0'");
    assert_acknowledged((tdg__ack_t){.resources = true}, "['a:1', 'b:\\u2028\\n']",
                        "'resourcesListChanged': true, "
                        "'resourceSubscriptions': ['a:1', 'b:\\u2028\\n']",
                        "'dev.tidings/cursor': '0-0'");
    assert_acknowledged((tdg__ack_t){.tools = true, .prompts = true, .resources = true},
                        "['a:1']",
                        "'toolsListChanged': true, 'promptsListChanged': true, "
                        "'resourcesListChanged': true, "
                        "'resourceSubscriptions': ['a:1']",
                        "'dev.tidings/cursor': '0-0'");
}

static void an_acknowledgement_says_why_something_is_left_out(void **state) {
    json_t *refused = json_from("{'b:\\n': 'not_found', 'c': 'invalid_uri_format'}");
    json_t *none = json_object();

    (void)state;
    assert_acknowledged((tdg__ack_t){.refused = refused}, "['a:1']",
                        "'resourceSubscriptions': ['a:1']",
                        "'dev.tidings/cursor': '0-0', 'dev.tidings/refused': "
                        "{'b:\\n': 'not_found', 'c': 'invalid_uri_format'}");
    assert_acknowledged((tdg__ack_t){.refused = none}, "['a:1']",
                        "'resourceSubscriptions': ['a:1']",
                        "'dev.tidings/cursor': '0-0'");
    json_decref(refused);
    json_decref(none);
}

static void an_acknowledgement_tells_who_had_a_cursor_how_it_went(void **state) {
    (void)state;
    assert_acknowledged((tdg__ack_t){.had_cursor = true}, NULL, "",
                        "'dev.tidings/cursor': '0-0', 'dev.tidings/resumed': false");
    assert_acknowledged((tdg__ack_t){.keepalive_ms = 15000}, NULL, "",
                        "'dev.tidings/cursor': '0-0', 'dev.tidings/keepAliveMs': 15000");
    assert_acknowledged((tdg__ack_t){.had_cursor = true, .resumed = true}, NULL, "",
                        "'dev.tidings/cursor': '0-0', 'dev.tidings/resumed': true");
    assert_acknowledged((tdg__ack_t){.resumed = true}, NULL, "",
                        "'dev.tidings/cursor': '0-0'");
}

static void a_listen_is_completed_and_cancelled_under_its_id(void **state) {
    json_t *info = json_from("{'name': 'n', 'version': '1'}");
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, ROOM);
    tdg__put_listen_complete(&text, "\"a\\n\"", info);
    assert_line(&text, "{'jsonrpc': '2.0', 'id': 'a\\n', 'result': "
                       "{'resultType': 'complete', '_meta': "
                       "{'io.modelcontextprotocol/serverInfo': "
                       "{'name': 'n', 'version': '1'}, "
                       "'io.modelcontextprotocol/subscriptionId': 'a\\n'}}}");
    tdg__put_listen_complete(&text, "-3", NULL);
    assert_line(&text, "{'jsonrpc': '2.0', 'id': -3, 'result': "
                       "{'resultType': 'complete', '_meta': "
                       "{'io.modelcontextprotocol/subscriptionId': -3}}}");
    tdg__put_cancelled(&text, "-3", "the server \"stops\"\n");
    assert_line(&text, "{'jsonrpc': '2.0', 'method': 'notifications/cancelled', "
                       "'params': {'requestId': -3, "
                       "'reason': 'the server \\u0022stops\\u0022\\n', '_meta': "
                       "{'io.modelcontextprotocol/subscriptionId': -3}}}");
    tdg__put_cancelled(&text, "\"x\"", NULL);
    assert_line(&text, "{'jsonrpc': '2.0', 'method': 'notifications/cancelled', "
                       "'params': {'requestId': 'x', '_meta': "
                       "{'io.modelcontextprotocol/subscriptionId': 'x'}}}");
    tdg__text_done(&text);
    json_decref(info);
}

static void assert_progress(const char *token, double progress, double total,
                            const char *said, const char *params) {
    json_t *json = json_from(token);
    char expected[512];
    tdg__text_t text;

    tdg__text_init(&text, ROOM);
    tdg__put_progress(&text, json, progress, total, said);
    snprintf(expected, sizeof(expected),
             "{'jsonrpc': '2.0', 'method': 'notifications/progress', 'params': {%s}}",
             params);
    assert_line(&text, expected);
    tdg__text_done(&text);
    json_decref(json);
}

static void progress_names_its_token(void **state) {
    (void)state;
    assert_progress("'t'", 1, 0, NULL, "'progressToken': 't', 'progress': 1");
    assert_progress("7", 0.5, 2, "\"a",
                    "'progressToken': 7, 'progress': 0.5, 'total': 2, "
                    "'message': '\\u0022a'");
    assert_progress("7", -1, -2, "", "'progressToken': 7, 'progress': -1, 'message': ''");
    assert_progress("7", 1e18, 2.5, NULL,
                    "'progressToken': 7, 'progress': 1e18, 'total': 2.5");
    assert_progress("7", 1, INFINITY, NULL, "'progressToken': 7, 'progress': 1");
    assert_progress("7", 1, NAN, NULL, "'progressToken': 7, 'progress': 1");
}

static void progress_that_is_no_number_is_not_said(void **state) {
    static const double cases[] = {NAN, INFINITY, -INFINITY};
    json_t *token = json_integer(1);
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, ROOM);
    for (size_t i = 0; i < COUNT(cases); i++)
        tdg__put_progress(&text, token, cases[i], 1, NULL);
    assert_int_equal(text.len, 0);
    assert_int_equal(text.error, 0);
    json_decref(token);
}

static void a_log_message_names_its_level(void **state) {
    json_t *data = json_from("{'a': [1]}");
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, ROOM);
    tdg__put_log(&text, 0, NULL, data);
    assert_line(&text, "{'jsonrpc': '2.0', 'method': 'notifications/message', 'params': "
                       "{'level': 'debug', 'data': {'a': [1]}}}");
    tdg__put_log(&text, 7, "a\tb", data);
    assert_line(&text, "{'jsonrpc': '2.0', 'method': 'notifications/message', 'params': "
                       "{'level': 'emergency', 'logger': 'a\\tb', 'data': {'a': [1]}}}");
    tdg__text_done(&text);
    json_decref(data);
}

static void levels_are_those_of_syslog(void **state) {
    static const char *const names[] = {"debug", "info",     "notice", "warning",
                                        "error", "critical", "alert",  "emergency"};

    (void)state;
    for (int level = 0; level < (int)COUNT(names); level++) {
        assert_string_equal(tdg__log_level_name(level), names[level]);
        assert_int_equal(tdg__log_level_from_name(names[level]), level);
    }
    assert_null(tdg__log_level_name(-1));
    assert_null(tdg__log_level_name(8));
    assert_int_equal(tdg__log_level_from_name("Debug"), -1);
    assert_int_equal(tdg__log_level_from_name(""), -1);
    assert_int_equal(tdg__log_level_from_name(NULL), -1);
}

static void put_all(tdg__text_t *text, const json_t *json) {
    const tdg__ack_t ack = {.subscription = "1", .uris = json, .had_cursor = true};

    tdg__put_acknowledged(text, &ack);
    tdg__put_listen_complete(text, "1", json);
    tdg__put_cancelled(text, "1", "why");
    tdg__put_progress(text, json, 0.5, 2, "m");
    tdg__put_log(text, 3, "l", json);
    tdg__put_event(text, "1", "message", "{}", 2);
}

static void without_memory_the_text_says_so(void **state) {
    json_t *json = json_from("['a', {'b': 'c'}]");
    tdg__text_t text;
    size_t failures = 0;

    (void)state;
    for (size_t nth = 1;; nth++, failures++) {
        size_t before = memory_live();
        int error;

        memory_fail(nth, MEMORY_ONCE);
        tdg__text_init(&text, ROOM);
        put_all(&text, json);
        error = text.error;
        tdg__text_done(&text);
        assert_int_equal(memory_live(), before);
        if (!memory_failed()) {
            assert_int_equal(error, 0);
            break;
        }
        assert_int_equal(error, TDG_ENOMEM);
    }
    assert_in_range(failures, 5, 200);
    json_decref(json);
}

/* ---- SSE ---------------------------------------------------------------- */

static void an_event_is_framed(void **state) {
    static const struct {
        const char *id, *event, *data, *expected;
    } cases[] = {
        {NULL, NULL, "{}", "data: {}\n\n"},
        {"g1.1.a-1", NULL, "{}", "id: g1.1.a-1\ndata: {}\n\n"},
        {NULL, "endpoint", "/m", "event: endpoint\ndata: /m\n\n"},
        {"1", "message", "{}", "id: 1\nevent: message\ndata: {}\n\n"},
        {"1", NULL, NULL, "id: 1\ndata: \n\n"},
    };
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, ROOM);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *data = cases[i].data;

        tdg__put_event(&text, cases[i].id, cases[i].event, data, data ? strlen(data) : 0);
        assert_string_equal(text.data, cases[i].expected);
        tdg__text_clear(&text);
    }
    tdg__put_event(&text, NULL, NULL, "abc", 1);
    assert_string_equal(text.data, "data: a\n\n");
    tdg__text_done(&text);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(an_update_reads_as_the_header_shows),
        CASE(metadata_goes_where_it_is_wanted),
        CASE(each_form_has_its_method_names),
        CASE(a_list_change_has_nothing_but_meta),
        CASE(every_combination_is_one_line_of_valid_json),
        CASE(the_longest_tail_fits),
        CASE(a_tail_needs_no_memory),
        CASE(without_memory_there_is_no_head),
        CASE(an_acknowledgement_says_what_is_honoured),
        CASE(an_acknowledgement_says_why_something_is_left_out),
        CASE(an_acknowledgement_tells_who_had_a_cursor_how_it_went),
        CASE(a_listen_is_completed_and_cancelled_under_its_id),
        CASE(progress_names_its_token),
        CASE(progress_that_is_no_number_is_not_said),
        CASE(a_log_message_names_its_level),
        CASE(levels_are_those_of_syslog),
        CASE(without_memory_the_text_says_so),
        CASE(an_event_is_framed),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("notice", tests, NULL, NULL);
}
