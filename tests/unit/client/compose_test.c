/* SPDX-License-Identifier: MIT
 *
 * Messages and headers as each era wants them. */
#include "unit/client/fake.h"

#include <strings.h>

#include "client/session/tool_headers.h"
#include "mcp/request.h"

static int setup(void **state) {
    struct fake *f = state_create(state, sizeof(*f));

    fake_init(f, TDG__TRANSPORT_HTTP);
    return 0;
}

static int teardown(void **state) {
    fake_end(*state);
    return state_destroy(state);
}

/* ---- Requests ----------------------------------------------------------- */

static void check_request(struct fake *f, const char *params, tdg__version_t version,
                          const char *want) {
    json_t *given = json_from(params), *message;
    json_t *before = json_deep_copy(given);
    tdg__text_t text;

    tdg__text_init(&text, 10000);
    tdg__compose_request(f->core, &text, "7", "resources/read", given, version);
    assert_int_equal(text.error, 0);
    message = json_loads(text.data, 0, NULL);
    assert_json_equal(message, want);
    assert_true(given == NULL || json_equal(given, before));
    json_decref(message);
    json_decref(given);
    json_decref(before);
    tdg__text_done(&text);
}

static void a_legacy_request_is_as_it_was_given(void **state) {
    struct fake *f = *state;

    assert_int_equal(fake_create(f), 0);
    check_request(f, "{'uri':'a:b'}", TDG__V2025_11_25,
                  "{'jsonrpc':'2.0','id':7,'method':'resources/read',"
                  "'params':{'uri':'a:b'}}");
    check_request(f, NULL, TDG__V2024_11_05,
                  "{'jsonrpc':'2.0','id':7,'method':'resources/read'}");
}

static void a_modern_request_says_who_asks(void **state) {
    struct fake *f = *state;

    assert_int_equal(fake_create(f), 0);
    check_request(f, NULL, TDG__V2026_07_28,
                  "{'jsonrpc':'2.0','id':7,'method':'resources/read','params':{'_meta':{"
                  "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                  "'io.modelcontextprotocol/clientInfo':{'name':'fake','version':'1'},"
                  "'io.modelcontextprotocol/clientCapabilities':{}}}}");
}

static void what_is_in_meta_already_stays(void **state) {
    struct fake *f = *state;

    f->inputs = true;
    f->client.flags = TDG_CLIENT_LOGS;
    assert_int_equal(fake_create(f), 0);
    check_request(f,
                  "{'uri':'a:b','_meta':{'progressToken':3,"
                  "'io.modelcontextprotocol/logLevel':'error'}}",
                  TDG__V2026_07_28,
                  "{'jsonrpc':'2.0','id':7,'method':'resources/read','params':{"
                  "'uri':'a:b','_meta':{'progressToken':3,"
                  "'io.modelcontextprotocol/logLevel':'error',"
                  "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
                  "'io.modelcontextprotocol/clientInfo':{'name':'fake','version':'1'},"
                  "'io.modelcontextprotocol/clientCapabilities':"
                  "{'elicitation':{},'roots':{},'sampling':{}}}}}");
}

/* The server's own reading of it. */
static void our_server_takes_what_we_compose(void **state) {
    struct fake *f = *state;
    tdg__rpc_message_t message;
    tdg__rpc_error_t error = {0};
    tdg__mcp_request_t request;
    tdg__text_t text;
    json_t *root, *params = json_from("{'uri':'a:b'}");
    tdg__mcp_headers_t headers = {"2026-07-28", "resources/read", NULL};

    assert_int_equal(fake_create(f), 0);
    tdg__text_init(&text, 10000);
    tdg__compose_request(f->core, &text, "7", "resources/read", params, TDG__V_MODERN);
    root = json_loads(text.data, 0, NULL);
    assert_int_equal(tdg__rpc_read(root, &message, &error), 0);
    assert_int_equal(tdg__mcp_read_modern(&message, false, &request, &error), 0);
    headers.name = tdg__compose_name("resources/read", params);
    assert_int_equal(tdg__mcp_check_headers(&headers, &message, &error), 0);
    tdg__rpc_message_done(&message);
    json_decref(root);
    json_decref(params);
    tdg__text_done(&text);
}

static void names_are_mirrored_of_three_methods(void **state) {
    static const struct {
        const char *method, *name;
    } cases[] = {
        {"tools/call", "n"},           {"prompts/get", "n"}, {"resources/read", "u:"},
        {"resources/subscribe", NULL}, {"tools/list", NULL},
    };
    json_t *params = json_from("{'name':'n','uri':'u:'}");

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *name = tdg__compose_name(cases[i].method, params);

        if (cases[i].name == NULL)
            assert_null(name);
        else
            assert_string_equal(name, cases[i].name);
    }
    json_decref(params);
}

static void initialize_says_what_we_can(void **state) {
    struct fake *f = *state;
    json_t *params;

    f->inputs = true;
    assert_int_equal(fake_create(f), 0);
    params = tdg__compose_initialize(f->core, TDG__V2025_06_18);
    assert_json_equal(params,
                      "{'protocolVersion':'2025-06-18',"
                      "'clientInfo':{'name':'fake','version':'1'},"
                      "'capabilities':{'elicitation':{},'roots':{},'sampling':{}}}");
    json_decref(params);
}

/* ---- Headers that tools ask for ----------------------------------------- */

static void annotations_are_checked(void **state) {
    static const struct {
        const char *schema;
        const char *wrong; /* part of the reason; NULL: it is valid */
    } cases[] = {
        {"{'type':'object'}", NULL},
        {"{'properties':{'a':{'type':'string','x-mcp-header':'A'}}}", NULL},
        {"{'properties':{'a':{'type':'integer','x-mcp-header':'A'},"
         "'b':{'type':'boolean','x-mcp-header':'B'}}}",
         NULL},
        {"{'properties':{'a':{'type':['string','null'],'x-mcp-header':'A'}}}", NULL},
        {"{'properties':{'o':{'type':'object','properties':{'a':{'type':'string',"
         "'x-mcp-header':'A'}}}}}",
         NULL},
        {"{'properties':{'x-mcp-header':{'type':'string'}}}", NULL},
        {"{'properties':{'a':{'type':'object','default':{'x-mcp-header':1}}}}", NULL},
        {"{'properties':{'a':{'type':'string','x-mcp-header':''}}}", "empty"},
        {"{'properties':{'a':{'type':'string','x-mcp-header':7}}}", "not a string"},
        {"{'properties':{'a':{'type':'string','x-mcp-header':'a b'}}}", "characters"},
        {"{'properties':{'a':{'type':'string','x-mcp-header':'a\\u000d'}}}",
         "characters"},
        {"{'properties':{'a':{'type':'string','x-mcp-header':'a:'}}}", "characters"},
        {"{'properties':{'a':{'type':'string','x-mcp-header':'é'}}}", "characters"},
        {"{'properties':{'a':{'type':'string','x-mcp-header':'A'},"
         "'b':{'type':'string','x-mcp-header':'a'}}}",
         "twice"},
        {"{'properties':{'a':{'type':'number','x-mcp-header':'A'}}}", "type"},
        {"{'properties':{'a':{'type':'object','x-mcp-header':'A'}}}", "type"},
        {"{'properties':{'a':{'x-mcp-header':'A'}}}", "type"},
        {"{'properties':{'a':{'type':['string','integer'],'x-mcp-header':'A'}}}", "type"},
        {"{'type':'string','x-mcp-header':'A'}", "alone"},
        {"{'properties':{'l':{'type':'array','items':{'type':'string',"
         "'x-mcp-header':'A'}}}}",
         "alone"},
        {"{'oneOf':[{'properties':{'a':{'type':'string','x-mcp-header':'A'}}}]}",
         "alone"},
        {"{'if':{'properties':{'a':{'type':'string','x-mcp-header':'A'}}}}", "alone"},
        {"{'$defs':{'d':{'type':'string','x-mcp-header':'A'}}}", "alone"},
        {"{'patternProperties':{'^a':{'type':'string','x-mcp-header':'A'}}}", "alone"},
    };
    char why[200];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *schema = json_from(cases[i].schema);
        json_t *tool = json_pack("{s:o}", "inputSchema", schema);
        bool valid = tdg__tool_headers_check(tool, why, sizeof(why)) >= 0;

        if (valid != (cases[i].wrong == NULL))
            fail_msg("%s", cases[i].schema);
        if (!valid && strstr(why, cases[i].wrong) == NULL)
            fail_msg("%s: %s", cases[i].schema, why);
        json_decref(tool);
    }
}

static const char *find_sent(void *user, const char *name) {
    const tdg__tool_headers_t *headers = user;

    for (size_t i = 0; i < headers->count; i++) {
        if (strcasecmp(headers->fields[i].name, name) == 0)
            return headers->fields[i].value;
    }
    return NULL;
}

static void arguments_become_headers_that_our_server_takes(void **state) {
    static const char schema_text[] =
        "{'properties':{'s':{'type':'string','x-mcp-header':'S'},"
        "'i':{'type':'integer','x-mcp-header':'I'},"
        "'b':{'type':'boolean','x-mcp-header':'B'},"
        "'o':{'type':'object','properties':{'n':{'type':'string','x-mcp-header':'N'}}}}}";
    static const struct {
        const char *arguments, *headers;
    } cases[] = {
        {"{}", ""},
        {"{'s':null,'o':null}", ""},
        {"{'s':'text','x':'other'}", "Mcp-Param-S: text\n"},
        {"{'s':'ä'}", "Mcp-Param-S: =?base64?w6Q=?=\n"},
        {"{'s':''}", "Mcp-Param-S: =?base64?"
                     "?=\n"},
        {"{'i':-42}", "Mcp-Param-I: -42\n"},
        {"{'i':42.0}", "Mcp-Param-I: 42\n"},
        {"{'i':9007199254740991}", "Mcp-Param-I: 9007199254740991\n"},
        {"{'b':true}", "Mcp-Param-B: true\n"},
        {"{'b':false,'o':{'n':'deep'}}", "Mcp-Param-B: false\nMcp-Param-N: deep\n"},
        {"{'n':'not here'}", ""},
    };
    json_t *schema = json_from(schema_text);

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        json_t *arguments = json_from(cases[i].arguments);
        tdg__rpc_error_t error = {0};
        tdg__tool_headers_t headers;
        char all[1000] = "";

        assert_int_equal(tdg__tool_headers(schema, arguments, &headers), 0);
        for (size_t h = 0; h < headers.count; h++)
            snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s: %s\n",
                     headers.fields[h].name, headers.fields[h].value);
        assert_string_equal(all, cases[i].headers);
        assert_int_equal(
            tdg__mcp_check_param_headers(schema, arguments, find_sent, &headers, &error),
            0);
        tdg__tool_headers_done(&headers);
        json_decref(arguments);
    }
    json_decref(schema);
}

static void numbers_beyond_53_bits_are_refused(void **state) {
    static const char *const arguments[] = {
        "{'i':9007199254740992}", "{'i':-9007199254740992}", "{'i':1e300}", "{'i':1.5}"};
    json_t *schema =
        json_from("{'properties':{'i':{'type':'integer','x-mcp-header':'I'}}}");

    (void)state;
    for (size_t i = 0; i < COUNT(arguments); i++) {
        json_t *json = json_from(arguments[i]);
        tdg__tool_headers_t headers;

        assert_int_equal(tdg__tool_headers(schema, json, &headers), TDG_EINVAL);
        json_decref(json);
    }
    json_decref(schema);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(a_legacy_request_is_as_it_was_given),
        CASE(a_modern_request_says_who_asks),
        CASE(what_is_in_meta_already_stays),
        CASE(our_server_takes_what_we_compose),
        CASE(names_are_mirrored_of_three_methods),
        CASE(initialize_says_what_we_can),
        CASE(annotations_are_checked),
        CASE(arguments_become_headers_that_our_server_takes),
        CASE(numbers_beyond_53_bits_are_refused),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client/compose", tests, NULL, NULL);
}
