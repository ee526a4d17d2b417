/* SPDX-License-Identifier: MIT
 *
 * Lists by pages, and calls of tools with the headers that they ask for. */
#include "unit/client/fake.h"

static void up(struct fake *f, tdg_era_t era) {
    fake_up(f, era);
    f->answer = NULL;
}

static struct fake_note *list(struct fake *f, tdg_list_kind_t what) {
    struct fake_note *note = fake_note(f);

    tdg__core_list(f->core, what, fake_done, note);
    assert_int_equal(note->calls, 0);
    fake_run(f);
    return note;
}

/* ---- Pages -------------------------------------------------------------- */

static void all_pages_make_one_list(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    json_t *params;

    up(f, TDG_ERA_LEGACY);
    note = list(f, TDG_LIST_RESOURCES);
    params = fake_params(fake_find(f, "resources/list"));
    assert_null(params);
    fake_result(f, fake_find(f, "resources/list"),
                "{'resources':[{'uri':'a:1'}],'nextCursor':'next'}");
    params = fake_params(fake_find(f, "resources/list"));
    assert_json_equal(params, "{'cursor':'next'}");
    json_decref(params);
    fake_result(f, fake_find(f, "resources/list"), "{'resources':[{'uri':'a:2'}]}");
    assert_int_equal(fake_code(note), 0);
    assert_string_equal(note->result, "[{\"uri\":\"a:1\"},{\"uri\":\"a:2\"}]");
}

static void every_kind_has_its_method(void **state) {
    static const struct {
        tdg_list_kind_t list;
        const char *method, *result;
    } cases[] = {
        {TDG_LIST_RESOURCES, "resources/list", "{'resources':[1]}"},
        {TDG_LIST_TEMPLATES, "resources/templates/list", "{'resourceTemplates':[1]}"},
        {TDG_LIST_TOOLS, "tools/list", "{'tools':[1]}"},
        {TDG_LIST_PROMPTS, "prompts/list", "{'prompts':[1]}"},
    };
    struct fake *f = *state;

    up(f, TDG_ERA_MODERN);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fake_note *note = list(f, cases[i].list);

        fake_result(f, fake_find(f, cases[i].method), cases[i].result);
        assert_int_equal(fake_code(note), 0);
        assert_string_equal(note->result, "[1]");
    }
}

static void a_repeated_cursor_is_nonsense(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    static const char *const cursors[] = {"a", "b", "a"};

    up(f, TDG_ERA_MODERN);
    note = list(f, TDG_LIST_PROMPTS);
    for (size_t i = 0; i < COUNT(cursors); i++) {
        char page[100];

        snprintf(page, sizeof(page), "{'prompts':[],'nextCursor':'%s'}", cursors[i]);
        fake_result(f, fake_find(f, "prompts/list"), page);
    }
    assert_int_equal(fake_code(note), TDG_EJSON);
}

static void pages_without_end_are_not_followed(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = list(f, TDG_LIST_PROMPTS);
    for (int i = 0; note->calls == 0; i++) {
        char page[100];

        assert_true(i < 1000);
        snprintf(page, sizeof(page), "{'prompts':[],'nextCursor':'%d'}", i);
        fake_result(f, fake_find(f, "prompts/list"), page);
    }
    assert_int_equal(fake_code(note), TDG_EJSON);
    assert_int_equal(fake_count(f, "prompts/list"), 1000);
}

/* Each page comes in time, and all of them together do not. */
static void all_pages_share_one_time_out(void **state) {
    struct fake *f = *state;
    int64_t began;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    began = f->now;
    note = list(f, TDG_LIST_PROMPTS);
    for (int i = 0; note->calls == 0; i++) {
        char page[100];

        assert_true(i < 10);
        fake_pass(f, f->client.timeout_ms * 2 / 5);
        if (note->calls > 0)
            break;
        snprintf(page, sizeof(page), "{'prompts':[],'nextCursor':'%d'}", i);
        fake_result(f, fake_find(f, "prompts/list"), page);
    }
    assert_int_equal(fake_code(note), TDG_ETIMEDOUT);
    assert_true(f->now - began < (int64_t)f->client.timeout_ms * 7 / 5);
    assert_int_equal(fake_count(f, "prompts/list"), 3);
}

static void too_many_entries_are_too_many(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    char *page = malloc(200100);
    size_t len;

    assert_non_null(page);
    up(f, TDG_ERA_MODERN);
    note = list(f, TDG_LIST_PROMPTS);
    for (int round = 0; round < 2; round++) {
        strcpy(page, "{'prompts':[0");
        len = strlen(page);
        for (int i = 0; i < 50000; i++, len += 2)
            memcpy(page + len, ",0", 2);
        snprintf(page + len, 100, "],'nextCursor':'%d'}", round);
        fake_result(f, fake_find(f, "prompts/list"), page);
    }
    assert_int_equal(fake_code(note), TDG_ETOOLARGE);
    free(page);
}

/* Every page is a message that is allowed, and there are few entries. */
static void large_pages_are_too_large_together(void **state) {
    enum { PAGE = 1000 * 1000 };
    struct fake *f = *state;
    struct fake_note *note;
    char *page = malloc(PAGE + 100);
    int rounds = 0;

    assert_non_null(page);
    up(f, TDG_ERA_MODERN);
    note = list(f, TDG_LIST_PROMPTS);
    for (; note->calls == 0; rounds++) {
        size_t len;

        assert_true(rounds < 100);
        strcpy(page, "{'prompts':['");
        len = strlen(page);
        memset(page + len, 'x', PAGE);
        snprintf(page + len + PAGE, 50, "'],'nextCursor':'%d'}", rounds);
        fake_result(f, fake_find(f, "prompts/list"), page);
    }
    assert_int_equal(fake_code(note), TDG_ETOOLARGE);
    assert_in_range(rounds, 64, 72); /* about four messages of 16 MiB */
    free(page);
}

static void what_is_no_page_is_nonsense(void **state) {
    static const char *const pages[] = {"{}", "{'prompts':{}}",
                                        "{'prompts':[],'nextCursor':7}"};
    struct fake *f = *state;

    up(f, TDG_ERA_MODERN);
    for (size_t i = 0; i < COUNT(pages); i++) {
        struct fake_note *note = list(f, TDG_LIST_PROMPTS);

        fake_result(f, fake_find(f, "prompts/list"), pages[i]);
        assert_int_equal(fake_code(note), TDG_EJSON);
    }
}

static void a_server_without_such_things_has_none(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_LEGACY);
    note = list(f, TDG_LIST_PROMPTS);
    fake_error(f, fake_find(f, "prompts/list"), -32601, "no", NULL);
    assert_int_equal(fake_code(note), 0);
    assert_string_equal(note->result, "[]");
    note = list(f, TDG_LIST_PROMPTS);
    fake_error(f, fake_find(f, "prompts/list"), -32603, "no", NULL);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
}

/* ---- Tools -------------------------------------------------------------- */

#define REGION                                                                           \
    "{'name':'sql','inputSchema':{'properties':{'region':{'type':'string',"              \
    "'x-mcp-header':'Region'}}}}"
#define BROKEN                                                                           \
    "{'name':'broken','inputSchema':{'properties':{'a':{'type':'number',"                \
    "'x-mcp-header':'A'}}}}"

static struct fake_note *call(struct fake *f, const char *arguments) {
    struct fake_note *note = fake_note(f);

    tdg__core_call(f->core, "sql", json_from(arguments), 0, fake_done, note);
    assert_int_equal(note->calls, 0);
    fake_run(f);
    return note;
}

static void tools_with_bad_headers_are_left_out_over_http(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = list(f, TDG_LIST_TOOLS);
    fake_result(f, fake_find(f, "tools/list"), "{'tools':[" BROKEN ",{'name':'ok'}]}");
    assert_string_equal(note->result, "[{\"name\":\"ok\"}]");
    assert_true(fake_logged(f, "broken"));
}

static void over_stdio_nobody_minds(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = list(f, TDG_LIST_TOOLS);
    fake_result(f, fake_find(f, "tools/list"), "{'tools':[" BROKEN "]}");
    assert_non_null(strstr(note->result, "broken"));

    note = call(f, "{'region':'eu'}");
    assert_int_equal(fake_count(f, "tools/list"), 1);
    assert_string_equal(fake_find(f, "tools/call")->headers, "");
    fake_result(f, fake_find(f, "tools/call"), "{'content':[]}");
    assert_int_equal(fake_code(note), 0);
}

static void a_tool_is_looked_up_once(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    struct fake_sent *sent;
    json_t *params;

    up(f, TDG_ERA_MODERN);
    note = call(f, "{'region':'eu'}");
    fake_result(f, fake_find(f, "tools/list"), "{'tools':[" REGION "]}");
    sent = fake_find(f, "tools/call");
    assert_string_equal(sent->headers, "Mcp-Param-Region: eu\n");
    assert_string_equal(sent->name, "sql");
    params = fake_params(sent);
    assert_json_equal(json_object_get(params, "arguments"), "{'region':'eu'}");
    json_decref(params);
    fake_result(f, sent, "{'content':[]}");
    assert_int_equal(fake_code(note), 0);

    note = call(f, NULL);
    sent = fake_find(f, "tools/call");
    assert_string_equal(sent->headers, "");
    params = fake_params(sent);
    assert_null(json_object_get(params, "arguments"));
    json_decref(params);
    fake_result(f, sent, "{'content':[]}");
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(fake_count(f, "tools/list"), 1);
}

static void a_missing_header_makes_us_look_again(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    list(f, TDG_LIST_TOOLS);
    fake_result(f, fake_find(f, "tools/list"), "{'tools':[{'name':'sql'}]}");
    note = call(f, "{'region':'eu'}");
    assert_string_equal(fake_find(f, "tools/call")->headers, "");
    fake_status(f, fake_find(f, "tools/call"), 400, "{'code':-32020,'message':'x'}");
    fake_result(f, fake_find(f, "tools/list"), "{'tools':[" REGION "]}");
    assert_string_equal(fake_find(f, "tools/call")->headers, "Mcp-Param-Region: eu\n");
    fake_status(f, fake_find(f, "tools/call"), 400, "{'code':-32020,'message':'x'}");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(note->rpc_code, -32020);
    assert_int_equal(fake_count(f, "tools/call"), 2);
}

static void a_call_goes_through_where_the_list_does_not(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = call(f, "{'region':'eu'}");
    fake_status(f, fake_find(f, "tools/list"), 500, NULL);
    fake_result(f, fake_find(f, "tools/call"), "{'content':[]}");
    assert_int_equal(fake_code(note), 0);
}

static void a_call_and_its_list_share_one_time_out(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_MODERN);
    note = call(f, "{'region':'eu'}");
    fake_pass(f, f->client.timeout_ms * 3 / 4);
    fake_result(f, fake_find(f, "tools/list"), "{'tools':[" REGION "]}");
    assert_int_equal(note->calls, 0);
    fake_pass(f, f->client.timeout_ms / 2);
    assert_int_equal(fake_code(note), TDG_ETIMEDOUT);
}

static void a_legacy_call_needs_no_list(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up(f, TDG_ERA_LEGACY);
    note = call(f, "{'region':'eu'}");
    assert_int_equal(fake_count(f, "tools/list"), 0);
    assert_string_equal(fake_find(f, "tools/call")->headers, "");
    assert_null(fake_find(f, "tools/call")->name);
    fake_result(f, fake_find(f, "tools/call"), "{'content':[]}");
    assert_int_equal(fake_code(note), 0);
}

/* ---- Without memory ----------------------------------------------------- */

static void script(struct fake *f, struct fake_sent *sent) {
    if (strcmp(sent->method, "tools/list") == 0)
        fake_result(f, sent, "{'tools':[" REGION "," BROKEN "]}");
    else if (strcmp(sent->method, "tools/call") == 0 &&
             strstr(sent->text, "requestState") == NULL)
        fake_result(f, sent,
                    "{'resultType':'input_required','requestState':'s','inputRequests':"
                    "{'a':{'method':'roots/list'}}}");
    else if (strcmp(sent->method, "tools/call") == 0)
        fake_result(f, sent, "{'content':[]}");
    else
        fake_modern_server(f, sent);
}

/* A call with its lookup and a round of input; the n-th allocation from the call on
 * fails. Returns whether one did. */
static bool call_without_memory(size_t nth, int how) {
    struct fake_note *note;
    json_t *arguments;
    struct fake *f;
    void *state;
    bool failed;

    fake_init(state_create(&state, sizeof(*f)), TDG__TRANSPORT_HTTP);
    f = state;
    f->inputs = true;
    f->input_result = "{'roots':[]}";
    fake_up(f, TDG_ERA_MODERN);
    f->answer = script;
    note = fake_note(f);
    arguments = json_pack("{s:s}", "region", "\xc3\xa4");
    memory_fail(nth, how);
    tdg__core_call(f->core, "sql", arguments, 0, fake_done, note);
    fake_run(f);
    fake_pass(f, 60000);
    failed = memory_failed();
    memory_fail(0, MEMORY_ONCE);
    assert_true(note->calls == 1 && (failed || note->code == 0));
    for (size_t i = 0; i < f->sent_count; i++) /* no call goes out in part */
        assert_true(strcmp(f->sent[i]->method, "tools/call") != 0 ||
                    (strstr(f->sent[i]->text, "region") != NULL &&
                     strstr(f->sent[i]->text, "clientInfo") != NULL));
    fake_end(f);
    state_destroy(&state);
    return failed;
}

static void calls_end_once_without_memory(void **state) {
    (void)state;
    for (int how = MEMORY_ONCE; how <= MEMORY_FROM_THEN_ON; how++) {
        size_t nth = 1;

        while (call_without_memory(nth, how))
            nth++;
        assert_true(nth > 50);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
#define STDIO(name) cmocka_unit_test_setup_teardown(name, fake_setup_stdio, fake_teardown)
        HTTP(all_pages_make_one_list),
        HTTP(every_kind_has_its_method),
        HTTP(a_repeated_cursor_is_nonsense),
        HTTP(pages_without_end_are_not_followed),
        HTTP(all_pages_share_one_time_out),
        HTTP(too_many_entries_are_too_many),
        HTTP(large_pages_are_too_large_together),
        HTTP(what_is_no_page_is_nonsense),
        HTTP(a_server_without_such_things_has_none),
        HTTP(tools_with_bad_headers_are_left_out_over_http),
        STDIO(over_stdio_nobody_minds),
        HTTP(a_tool_is_looked_up_once),
        HTTP(a_missing_header_makes_us_look_again),
        HTTP(a_call_goes_through_where_the_list_does_not),
        HTTP(a_call_and_its_list_share_one_time_out),
        HTTP(a_legacy_call_needs_no_list),
        cmocka_unit_test(calls_end_once_without_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client/lists", tests, NULL, NULL);
}
