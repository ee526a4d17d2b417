/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "entries.h"
#include "fake_worker.h"

struct fixture {
    struct fake fake;
    tdg__catalogue_t *catalogue;
    size_t called;       /* callbacks that ran */
    size_t freed;        /* users that were given back ... */
    size_t freed_inside; /* ... before the callback was over */
    tdg_request_t *kept; /* by the tool "keep" */
};

/* ---- What is served ----------------------------------------------------- */

static void read_uri(void *user, tdg_request_t *request, const char *uri) {
    struct fixture *f = user;

    f->called++;
    if (strcmp(uri, "t:gone") == 0)
        tdg_request_fail_not_found(request);
    else
        tdg_request_reply_text(request, uri);
}

/* Answers with what the variable x stands for, "none" where it stands for nothing. */
static void read_variable(void *user, tdg_request_t *request, const char *uri) {
    struct fixture *f = user;
    const char *value = tdg_request_variable(request, "x");

    (void)uri;
    f->called++;
    assert_null(tdg_request_variable(request, "y"));
    assert_null(tdg_request_variable(request, NULL));
    tdg_request_reply_text(request, value != NULL ? value : "none");
}

/* Removes itself and answers, and still uses what it was given. */
static void read_and_go(void *user, tdg_request_t *request, const char *uri) {
    struct fixture *f = user;

    tdg__catalogue_remove(f->catalogue, TDG__RESOURCE, uri);
    tdg_request_reply_text(request, uri);
    f->freed_inside = f->freed;
}

static void echo(void *user, tdg_request_t *request, const json_t *arguments) {
    struct fixture *f = user;

    f->called++;
    tdg_request_reply(request, json_pack("{s:[], s:O}", "content", "echo", arguments));
}

static void keep(void *user, tdg_request_t *request, const json_t *arguments) {
    struct fixture *f = user;

    (void)arguments;
    f->kept = request;
}

static void greet(void *user, tdg_request_t *request, const json_t *arguments) {
    struct fixture *f = user;

    f->called++;
    tdg_request_reply_text(request,
                           json_string_value(json_object_get(arguments, "name")));
}

/* Suggests what it was asked. */
static void suggest(void *user, tdg_request_t *request, const char *argument,
                    const char *value, const json_t *context) {
    struct fixture *f = user;
    const char *known = json_string_value(json_object_get(context, "c"));

    f->called++;
    tdg_request_reply_completion(
        request, json_pack("[s, s, s]", argument, value, known != NULL ? known : "none"),
        0, false);
}

static void give_back(void *user) {
    struct fixture *f = user;

    f->freed++;
}

static void add_resources(struct fixture *f) {
    const tdg_resource_t resources[] = {
        {.uri = "a:1", .name = "r", .read = read_uri, .user = f},
        {.uri = "a:2",
         .name = "r",
         .mime_type = "text/plain",
         .ttl_ms = 50,
         .private_content = true,
         .read = read_uri,
         .user = f},
        {.uri = "a:3",
         .name = "r",
         .read = read_and_go,
         .user = f,
         .user_free = give_back},
    };
    const tdg_template_t templates[] = {
        {.uri_template = "t:{x}",
         .name = "t",
         .ttl_ms = 7,
         .read = read_uri,
         .complete = suggest,
         .user = f},
        {.uri_template = "u:{x}", .name = "u", .read = read_uri, .user = f},
    };

    for (size_t i = 0; i < COUNT(resources); i++)
        assert_int_equal(catalogue_add_resource(f->catalogue, &resources[i]), 0);
    for (size_t i = 0; i < COUNT(templates); i++)
        assert_int_equal(catalogue_add_template(f->catalogue, &templates[i]), 0);
}

static void add_others(struct fixture *f) {
    json_t *schema = json_from("{'properties':{'region':{'x-mcp-header':'Region'}}}");
    json_t *arguments = json_from("[{'name':'name', 'required':true}, {'name':'mood'},"
                                  "{'name':'where', 'required':true}]");
    const tdg_tool_t tools[] = {
        {.name = "echo", .call = echo, .user = f, .input_schema = schema},
        {.name = "keep", .call = keep, .user = f, .user_free = give_back},
    };
    const tdg_prompt_t prompts[] = {
        {.name = "greet",
         .description = "d",
         .arguments = arguments,
         .get = greet,
         .complete = suggest,
         .user = f},
        {.name = "plain", .get = echo, .user = f},
    };

    for (size_t i = 0; i < COUNT(tools); i++)
        assert_int_equal(catalogue_add_tool(f->catalogue, &tools[i]), 0);
    for (size_t i = 0; i < COUNT(prompts); i++)
        assert_int_equal(catalogue_add_prompt(f->catalogue, &prompts[i]), 0);
    json_decref(schema);
    json_decref(arguments);
}

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    fake_start(&f->fake);
    assert_int_equal(tdg__catalogue_create(NULL, NULL, &f->catalogue), 0);
    f->fake.server.shared.catalogue = f->catalogue;
    add_resources(f);
    add_others(f);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    fake_stop(&f->fake);
    tdg__catalogue_destroy(f->catalogue);
    return state_destroy(state);
}

/* ---- Asking ------------------------------------------------------------- */

/* What the rows of the tables below hold; NULL and 0 where a method has no such thing. */
struct question {
    tdg__method_t method;
    const char *what;      /* URI, name, page or reference */
    const char *arguments; /* JSON with '; of a completion, its context */
    bool is_prompt;        /* the reference of a completion */
};

static void ask_with(struct fixture *f, const struct question *question,
                     tdg__version_t version,
                     const char *(*find)(void *user, const char *name), void *user) {
    tdg__mcp_request_t request = {.method = question->method,
                                  .version = version,
                                  .id = "7",
                                  .log_level = -1,
                                  .argument = "x",
                                  .value = "v",
                                  .ref_is_prompt = question->is_prompt};
    json_t *arguments = json_from(question->arguments);
    tdg__call_t *call;

    if (question->method == TDG__M_READ)
        request.uri = question->what;
    else if (question->method == TDG__M_CALL || question->method == TDG__M_PROMPT)
        request.name = question->what;
    else if (question->method == TDG__M_COMPLETE)
        request.ref = question->what;
    else
        request.page = question->what;
    request.arguments = request.context = arguments;

    call = tdg__call_create(&f->fake.channel, &request);
    assert_non_null(call);
    assert_true(tdg__call_handle(call, &request, find, user));
    json_decref(arguments);
}

static void ask(struct fixture *f, const struct question *question,
                tdg__version_t version) {
    ask_with(f, question, version, NULL, NULL);
}

/* The value of the only answer so far, new; it is forgotten then. `code` 0: a result,
 * without what the modern era adds to all. */
static json_t *take_answer(struct fixture *f, int code) {
    json_t *answer, *value;

    assert_said(&f->fake, 0, SAID_ANSWER, code, NULL);
    assert_int_equal(f->fake.count, 1);
    answer = json_loads(f->fake.said[0].text, 0, NULL);
    value = json_incref(json_object_get(answer, code == 0 ? "result" : "error"));
    assert_non_null(value);
    json_decref(answer);
    fake_forget(&f->fake);
    return value;
}

/* Fails unless the question is answered like that in both eras; the modern one adds
 * `caching`, a piece of JSON, and what it adds to all. */
static void expect_result(struct fixture *f, const struct question *question,
                          const char *expected, const char *caching) {
    char modern[1000];
    json_t *result;

    ask(f, question, TDG__V2024_11_05);
    result = take_answer(f, 0);
    assert_json_equal(result, expected);
    json_decref(result);

    snprintf(modern, sizeof(modern),
             "%.*s, 'resultType':'complete'%s, '_meta':"
             "{'io.modelcontextprotocol/serverInfo':{'name':'fake', 'version':'1'}}}",
             (int)strlen(expected) - 1, expected, caching);
    ask(f, question, TDG__V2026_07_28);
    result = take_answer(f, 0);
    assert_json_equal(result, modern);
    json_decref(result);
}

static void expect_error(struct fixture *f, const struct question *question,
                         tdg__version_t version, int code, const char *message) {
    json_t *error;

    ask(f, question, version);
    error = take_answer(f, code);
    assert_string_equal(json_string_value(json_object_get(error, "message")), message);
    json_decref(error);
}

#define NO_CACHING ""
#define LIST_CACHING ", 'ttlMs':0, 'cacheScope':'public'"

/* ---- Lists -------------------------------------------------------------- */

static void lists_hold_the_definitions(void **state) {
    static const struct {
        struct question question;
        const char *expected;
    } rows[] = {
        {{.method = TDG__M_TEMPLATES},
         "{'resourceTemplates':[{'uriTemplate':'t:{x}', 'name':'t'},"
         "{'uriTemplate':'u:{x}', 'name':'u'}]}"},
        {{.method = TDG__M_TOOLS},
         "{'tools':[{'name':'echo', 'inputSchema':{'type':'object',"
         "'properties':{'region':{'x-mcp-header':'Region'}}}},"
         "{'name':'keep', 'inputSchema':{'type':'object'}}]}"},
        {{.method = TDG__M_PROMPTS},
         "{'prompts':[{'name':'greet', 'description':'d', 'arguments':["
         "{'name':'name', 'required':true}, {'name':'mood'},"
         "{'name':'where', 'required':true}]}, {'name':'plain'}]}"},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        expect_result(*state, &rows[i].question, rows[i].expected, LIST_CACHING);
}

static void lists_go_on_from_page_to_page(void **state) {
    struct fixture *f = *state;
    struct question question = {.method = TDG__M_RESOURCES};
    json_t *first, *second;

    ask(f, &question, TDG__V2025_11_25);
    first = take_answer(f, 0);
    assert_int_equal(json_array_size(json_object_get(first, "resources")), 2);
    question.what = json_string_value(json_object_get(first, "nextCursor"));
    assert_non_null(question.what);

    ask(f, &question, TDG__V2025_11_25);
    second = take_answer(f, 0);
    assert_json_equal(second, "{'resources':[{'uri':'a:3', 'name':'r'}]}");

    question.method = TDG__M_TOOLS; /* it belongs to another list */
    expect_error(f, &question, TDG__V2025_11_25, -32602, "Invalid cursor");
    json_decref(first);
    json_decref(second);
}

static void a_page_that_never_was_is_refused(void **state) {
    const struct question questions[] = {
        {.method = TDG__M_RESOURCES, .what = "no"},
        {.method = TDG__M_TEMPLATES, .what = ""},
        {.method = TDG__M_TOOLS, .what = "1.2"},
        {.method = TDG__M_PROMPTS, .what = "x"},
    };

    for (size_t i = 0; i < COUNT(questions); i++) {
        expect_error(*state, &questions[i], TDG__V2024_11_05, -32602, "Invalid cursor");
        expect_error(*state, &questions[i], TDG__V2026_07_28, -32602, "Invalid cursor");
    }
}

/* ---- Reading ------------------------------------------------------------ */

static void reads_resources_and_templates(void **state) {
    static const struct {
        const char *uri, *mime_type, *ttl_ms, *scope;
    } rows[] = {
        {"a:1", "", "0", "public"},
        {"a:2", "'mimeType':'text/plain',", "50", "private"},
        {"t:5", "", "7", "public"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct question question = {.method = TDG__M_READ, .what = rows[i].uri};
        char expected[200], caching[100];

        snprintf(expected, sizeof(expected),
                 "{'contents':[{'uri':'%s', %s 'text':'%s'}]}", rows[i].uri,
                 rows[i].mime_type, rows[i].uri);
        snprintf(caching, sizeof(caching), ", 'ttlMs':%s, 'cacheScope':'%s'",
                 rows[i].ttl_ms, rows[i].scope);
        expect_result(*state, &question, expected, caching);
    }
}

static void reading_fails_as_era_and_dialect_have_it(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *uri;
        int legacy, modern, erlmcp;
        bool is_invalid;
    } rows[] = {
        {"a:9", -32002, -32602, -32001, false},
        {"t:gone", -32002, -32602, -32001, false},
        {"", -32602, -32602, -32022, true},
        {"nope", -32602, -32602, -32022, true},
        {"t:a b", -32602, -32602, -32022, true},
        {"t:%zz", -32602, -32602, -32022, true},
    };

    for (size_t i = 0; i < COUNT(rows) * 3; i++) {
        size_t row = i / 3;
        const struct question question = {.method = TDG__M_READ, .what = rows[row].uri};
        int code = i % 3 == 0   ? rows[row].legacy
                   : i % 3 == 1 ? rows[row].modern
                                : rows[row].erlmcp;
        char expected[100];
        json_t *error;

        f->fake.channel.erlmcp = i % 3 == 2;
        ask(f, &question, i % 3 == 1 ? TDG__V2026_07_28 : TDG__V2025_06_18);
        error = take_answer(f, code);
        snprintf(expected, sizeof(expected), "{%s'uri':'%s'}",
                 rows[row].is_invalid ? "'error_type':'invalid_uri_format'," : "",
                 rows[row].uri);
        assert_json_equal(json_object_get(error, "data"), expected);
        json_decref(error);
    }
}

static void expect_text(struct fixture *f, const char *uri, const char *text) {
    const struct question question = {.method = TDG__M_READ, .what = uri};
    json_t *result, *contents;

    ask(f, &question, TDG__V2025_11_25);
    result = take_answer(f, 0);
    contents = json_array_get(json_object_get(result, "contents"), 0);
    assert_string_equal(json_string_value(json_object_get(contents, "text")), text);
    json_decref(result);
}

static void a_read_knows_the_variables_of_its_template(void **state) {
    struct fixture *f = *state;
    const tdg_template_t template_ = {
        .uri_template = "v:r{?x}", .name = "v", .read = read_variable, .user = f};
    const tdg_resource_t resource = {
        .uri = "v:r?x=own", .name = "v", .read = read_variable, .user = f};

    assert_int_equal(catalogue_add_template(f->catalogue, &template_), 0);
    assert_int_equal(catalogue_add_resource(f->catalogue, &resource), 0);
    expect_text(f, "v:r?x=%C3%A4", "\xc3\xa4");
    expect_text(f, "v:r", "none");
    expect_text(f, "v:r?x=own", "none"); /* a resource has no variables */
}

static void a_value_that_is_no_text_is_not_found_without_a_callback(void **state) {
    static const char *const uris[] = {"t:%00", "t:a%00", "t:%FF", "t:%C3"};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(uris); i++) {
        const struct question question = {.method = TDG__M_READ, .what = uris[i]};

        expect_error(f, &question, TDG__V2025_11_25, -32002, "Resource not found");
    }
    assert_int_equal(f->called, 0);
}

static void a_user_is_given_back_when_its_callback_is_over(void **state) {
    struct fixture *f = *state;
    const struct question question = {.method = TDG__M_READ, .what = "a:3"};

    ask(f, &question, TDG__V2025_11_25);
    json_decref(take_answer(f, 0));
    assert_int_equal(f->freed_inside, 0);
    assert_int_equal(f->freed, 1);
    expect_error(f, &question, TDG__V2025_11_25, -32002, "Resource not found");
}

/* ---- Tools and prompts -------------------------------------------------- */

static void tools_get_an_object(void **state) {
    static const struct question with = {TDG__M_CALL, "echo", "{'a':[1]}", false};
    static const struct question without = {TDG__M_CALL, "echo", NULL, false};

    expect_result(*state, &with, "{'content':[], 'echo':{'a':[1]}}", NO_CACHING);
    expect_result(*state, &without, "{'content':[], 'echo':{}}", NO_CACHING);
}

static void tools_may_answer_later_though_they_are_removed(void **state) {
    struct fixture *f = *state;
    const struct question question = {.method = TDG__M_CALL, .what = "keep"};

    ask(f, &question, TDG__V2025_11_25);
    assert_int_equal(f->fake.count, 0);
    assert_int_equal(tdg__catalogue_remove(f->catalogue, TDG__TOOL, "keep"), 0);
    assert_int_equal(f->freed, 0);
    tdg_request_reply_text(f->kept, "late");
    json_decref(take_answer(f, 0));
    assert_int_equal(f->freed, 1);
}

/* `user` is the value. */
static const char *find_region(void *user, const char *name) {
    const char *value = user;

    if (strcmp(name, "mcp-param-region") != 0 || value == NULL || value[0] == '\0')
        return NULL;
    return value;
}

static void tools_are_called_if_headers_mirror_the_arguments(void **state) {
    struct fixture *f = *state;
    static struct {
        const char *arguments;
        char header[4]; /* empty: none */
        int code;
    } rows[] = {
        {"{'region':'eu'}", "eu", 0},
        {"{'region':'eu'}", "us", -32020},
        {"{'region':'eu'}", "", -32020},
        {"{}", "", 0},
        {NULL, "", 0},
        {NULL, "eu", -32020},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct question question = {
            .method = TDG__M_CALL, .what = "echo", .arguments = rows[i].arguments};

        f->called = 0;
        ask_with(f, &question, TDG__V2026_07_28, find_region, rows[i].header);
        json_decref(take_answer(f, rows[i].code));
        assert_int_equal(f->called, rows[i].code == 0);
    }
}

static void prompts_get_their_arguments(void **state) {
    static const struct question question = {TDG__M_PROMPT, "greet",
                                             "{'name':'Ann', 'where':'here'}", false};
    static const struct question plain = {TDG__M_PROMPT, "plain", NULL, false};

    expect_result(*state, &question,
                  "{'description':'d', 'messages':[{'role':'user',"
                  "'content':{'type':'text', 'text':'Ann'}}]}",
                  NO_CACHING);
    expect_result(*state, &plain, "{'content':[], 'echo':{}}", NO_CACHING);
}

static void what_does_not_exist_or_lacks_something_is_refused(void **state) {
    struct fixture *f = *state;
    static const struct {
        tdg__method_t method;
        const char *name, *arguments, *message;
    } rows[] = {
        {TDG__M_CALL, "none", NULL, "Unknown tool: none"},
        {TDG__M_CALL, "greet", NULL, "Unknown tool: greet"},
        {TDG__M_PROMPT, "echo", NULL, "Unknown prompt: echo"},
        {TDG__M_PROMPT, "greet", NULL, "Missing required arguments: name, where"},
        {TDG__M_PROMPT, "greet", "{'where':'x'}", "Missing required arguments: name"},
        {TDG__M_PROMPT, "greet", "{'name':'a', 'where':1}",
         "The argument must be a string: where"},
        {TDG__M_PROMPT, "plain", "{'a':null}", "The argument must be a string: a"},
        {TDG__M_COMPLETE, "none", NULL, "Unknown reference: none"},
        {TDG__M_COMPLETE, "greet", NULL, "Unknown reference: greet"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct question question = {.method = rows[i].method,
                                          .what = rows[i].name,
                                          .arguments = rows[i].arguments};

        expect_error(f, &question, TDG__V2024_11_05, -32602, rows[i].message);
        expect_error(f, &question, TDG__V2026_07_28, -32602, rows[i].message);
    }
    assert_int_equal(f->called, 0);
}

static void many_missing_arguments_fit_the_message(void **state) {
    struct fixture *f = *state;
    const struct question question = {.method = TDG__M_PROMPT, .what = "many"};
    tdg_prompt_t prompt = {.name = "many", .get = echo, .user = f};
    json_t *arguments = json_array(), *error;
    const char *message;

    for (int i = 0; i < 100; i++)
        json_array_append_new(
            arguments, json_pack("{s:s, s:b}", "name", "\xc3\xa4rger", "required", true));
    prompt.arguments = arguments;
    assert_int_equal(catalogue_add_prompt(f->catalogue, &prompt), 0);
    json_decref(arguments);

    ask(f, &question, TDG__V2025_11_25);
    error = take_answer(f, -32602); /* jansson has read it: it is UTF-8 */
    message = json_string_value(json_object_get(error, "message"));
    assert_ptr_equal(strstr(message, "Missing required arguments: \xc3\xa4rger, "),
                     message);
    assert_in_range(strlen(message), 230, 239);
    json_decref(error);
}

/* ---- Completion --------------------------------------------------------- */

static void completion_asks_template_or_prompt(void **state) {
    static const struct {
        struct question question;
        const char *values;
    } rows[] = {
        {{TDG__M_COMPLETE, "t:{x}", NULL, false}, "'x', 'v', 'none'"},
        {{TDG__M_COMPLETE, "t:{x}", "{'c':'d'}", false}, "'x', 'v', 'd'"},
        {{TDG__M_COMPLETE, "greet", NULL, true}, "'x', 'v', 'none'"},
        {{TDG__M_COMPLETE, "u:{x}", NULL, false}, ""},
        {{TDG__M_COMPLETE, "plain", NULL, true}, ""},
        {{TDG__M_COMPLETE, "a:1", NULL, false}, ""},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[100];

        snprintf(expected, sizeof(expected),
                 "{'completion':{'values':[%s], 'hasMore':false}}", rows[i].values);
        expect_result(*state, &rows[i].question, expected, NO_CACHING);
    }
}

/* ---- What is advertised ------------------------------------------------- */

static void methods_exist_as_advertised(void **state) {
    struct fixture *f = *state;
    tdg__server_info_t *info = &f->fake.server.describes;
    const struct {
        struct question question;
        bool *switch_;
        const char *message;
        bool legacy_too; /* as strict there */
    } rows[] = {
        {{TDG__M_TOOLS, NULL, NULL, false},
         &info->tools,
         "Method not found: tools/list",
         false},
        {{TDG__M_CALL, "echo", NULL, false},
         &info->tools,
         "Method not found: tools/call",
         false},
        {{TDG__M_PROMPTS, NULL, NULL, false},
         &info->prompts,
         "Method not found: prompts/list",
         false},
        {{TDG__M_PROMPT, "plain", NULL, false},
         &info->prompts,
         "Method not found: prompts/get",
         false},
        {{TDG__M_COMPLETE, "t:{x}", NULL, false},
         &info->completions,
         "Method not found: completion/complete",
         true},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        *rows[i].switch_ = false;
        expect_error(f, &rows[i].question, TDG__V2026_07_28, -32601, rows[i].message);
        if (rows[i].legacy_too) {
            expect_error(f, &rows[i].question, TDG__V2025_11_25, -32601, rows[i].message);
        } else {
            ask(f, &rows[i].question, TDG__V2025_11_25);
            json_decref(take_answer(f, 0));
        }
        *rows[i].switch_ = true;
        ask(f, &rows[i].question, TDG__V2026_07_28);
        json_decref(take_answer(f, 0));
    }
}

static void other_methods_are_left_to_others(void **state) {
    struct fixture *f = *state;
    static const tdg__method_t methods[] = {TDG__M_PING, TDG__M_SUBSCRIBE, TDG__M_LISTEN,
                                            TDG__M_INITIALIZE, TDG__M_SET_LEVEL};

    for (size_t i = 0; i < COUNT(methods); i++) {
        const tdg__mcp_request_t request = {
            .method = methods[i], .version = TDG__V2025_11_25, .id = "7"};
        tdg__call_t *call = tdg__call_create(&f->fake.channel, &request);

        assert_false(tdg__call_handle(call, &request, NULL, NULL));
        assert_int_equal(f->fake.count, 0);
        tdg__call_answer(call, NULL);
        fake_forget(&f->fake);
    }
}

/* ---- Without memory ----------------------------------------------------- */

/* The answer as text, for free(), when the n-th allocation fails; NULL: none has. */
static char *answer_without_memory(struct fixture *f, const struct question *question,
                                   tdg__version_t version, size_t nth, int how) {
    tdg__mcp_request_t request = {.method = question->method,
                                  .version = version,
                                  .id = "7",
                                  .uri = question->what,
                                  .name = question->what,
                                  .ref = question->what,
                                  .argument = "x",
                                  .value = "v",
                                  .ref_is_prompt = question->is_prompt};
    tdg__call_t *call = tdg__call_create(&f->fake.channel, &request);
    struct said *said = &f->fake.said[0];
    bool failed;
    char *text;

    assert_non_null(call);
    memory_fail(nth, how);
    assert_true(tdg__call_handle(call, &request, find_region, NULL));
    failed = memory_failed();
    memory_fail(0, MEMORY_ONCE);

    assert_int_equal(f->fake.count, 1);
    assert_int_equal(said->kind, SAID_ANSWER);
    text = said->text;
    said->text = NULL;
    fake_forget(&f->fake);
    if (failed || nth == 0)
        return text;
    free(text);
    return NULL;
}

/* Complete or an error: nothing in between. */
static void expect_whole(const char *text, const char *usual) {
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    if (json_object_get(json, "error") == NULL)
        assert_string_equal(text, usual);
    json_decref(json);
}

/* Returns how many allocations there were to fail. */
static size_t expect_whole_answers(struct fixture *f, const struct question *question,
                                   tdg__version_t version, int how) {
    char *usual = answer_without_memory(f, question, version, 0, how), *text;
    size_t nth = 1;

    while ((text = answer_without_memory(f, question, version, nth, how)) != NULL) {
        expect_whole(text, usual);
        free(text);
        assert_true(nth < 200);
        nth++;
    }
    free(usual);
    return nth - 1;
}

static void every_method_answers_once_when_memory_is_out(void **state) {
    static const struct question questions[] = {
        {TDG__M_RESOURCES, NULL, NULL, false},   {TDG__M_TEMPLATES, NULL, NULL, false},
        {TDG__M_TOOLS, NULL, NULL, false},       {TDG__M_PROMPTS, NULL, NULL, false},
        {TDG__M_READ, "a:2", NULL, false},       {TDG__M_READ, "t:5", NULL, false},
        {TDG__M_READ, "nope", NULL, false},      {TDG__M_READ, "b:5", NULL, false},
        {TDG__M_CALL, "echo", NULL, false},      {TDG__M_CALL, "none", NULL, false},
        {TDG__M_PROMPT, "plain", NULL, false},   {TDG__M_PROMPT, "greet", NULL, false},
        {TDG__M_COMPLETE, "t:{x}", NULL, false}, {TDG__M_COMPLETE, "plain", NULL, true},
    };
    size_t tries = 0;

    for (size_t i = 0; i < COUNT(questions) * 4; i++)
        tries += expect_whole_answers(*state, &questions[i / 4],
                                      i & 1 ? TDG__V2026_07_28 : TDG__V2025_11_25,
                                      i & 2 ? MEMORY_FROM_THEN_ON : MEMORY_ONCE);
    assert_true(tries > 200);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(lists_hold_the_definitions),
        TEST(lists_go_on_from_page_to_page),
        TEST(a_page_that_never_was_is_refused),
        TEST(reads_resources_and_templates),
        TEST(reading_fails_as_era_and_dialect_have_it),
        TEST(a_read_knows_the_variables_of_its_template),
        TEST(a_value_that_is_no_text_is_not_found_without_a_callback),
        TEST(a_user_is_given_back_when_its_callback_is_over),
        TEST(tools_get_an_object),
        TEST(tools_may_answer_later_though_they_are_removed),
        TEST(tools_are_called_if_headers_mirror_the_arguments),
        TEST(prompts_get_their_arguments),
        TEST(what_does_not_exist_or_lacks_something_is_refused),
        TEST(many_missing_arguments_fit_the_message),
        TEST(completion_asks_template_or_prompt),
        TEST(methods_exist_as_advertised),
        TEST(other_methods_are_left_to_others),
        TEST(every_method_answers_once_when_memory_is_out),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("methods", tests, NULL, NULL);
}
