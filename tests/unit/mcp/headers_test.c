/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "mcp/request.h"
#include "support.h"

/* ---- Text in headers ---------------------------------------------------- */

static void expect_text(const char *value, const char *expected) {
    char *text;

    assert_int_equal(tdg__mcp_header_text(value, &text), 0);
    assert_string_equal(text, expected);
    tdg__free(text);
}

static void reads_plain_and_base64_values(void **state) {
    (void)state;
    expect_text("us-west1", "us-west1");
    expect_text("", "");
    expect_text("a\tb c~!", "a\tb c~!");
    expect_text("=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界");
    expect_text("=?base64?IHBhZGRlZCA=?=", " padded ");
    expect_text("=?base64?bGluZTEKbGluZTI=?=", "line1\nline2");
    expect_text("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?=");
    expect_text("=?base64?"
                "?=",
                "");
    /* not quite the form: as it is */
    expect_text("SGVsbG8=", "SGVsbG8=");
    expect_text("=?base64?SGVsbG8=", "=?base64?SGVsbG8=");
    expect_text("SGVsbG8=?=", "SGVsbG8=?=");
    expect_text("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?=");
    expect_text("=?base64?=", "=?base64?=");
    expect_text(" =?base64?SGVsbG8=?=", " =?base64?SGVsbG8=?=");
}

static void refuses_values_that_no_client_may_send(void **state) {
    static const char *const bad[] = {
        "\x01",
        "a\nb",
        "a\rb",
        "\x7f",
        "caf\xc3\xa9",
        "\xff",
        "=?base64?SGVsbG8?=",     /* no padding */
        "=?base64?SGVs!!!bG8=?=", /* no digits */
        "=?base64?SGVsbG8==?=",
        "=?base64?/w==?=", /* not UTF-8 */
        "=?base64?7aCA?=", /* a surrogate */
        "=?base64?YQBi?=", /* a NUL inside */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        char *text = NULL;

        if (tdg__mcp_header_text(bad[i], &text) != TDG_EINVAL)
            fail_msg("case %zu", i);
        assert_null(text);
    }
}

static void says_when_memory_is_out(void **state) {
    char *text = NULL;

    (void)state;
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__mcp_header_text("plain", &text), TDG_ENOMEM);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__mcp_header_text("=?base64?SGVsbG8=?=", &text), TDG_ENOMEM);
    assert_null(text);
}

/* ---- Standard headers --------------------------------------------------- */

#define META "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28'}"

static int check(const char *method, const char *params,
                 const tdg__mcp_headers_t *headers, tdg__rpc_error_t *error) {
    json_t *json = json_pack("{s:s,s:i,s:s,s:o*}", "jsonrpc", "2.0", "id", 1, "method",
                             method, "params", json_from(params));
    tdg__rpc_message_t message;
    int rv;

    *error = (tdg__rpc_error_t){0};
    assert_int_equal(tdg__rpc_read(json, &message, error), 0);
    json_decref(json);
    rv = tdg__mcp_check_headers(headers, &message, error);
    tdg__rpc_message_done(&message);
    return rv;
}

static void a_text_becomes_a_value_and_back(void **state) {
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"tool", "tool"},
        {"file:///a b", "file:///a b"},
        {"", "=?base64?\?="},
        {" a", "=?base64?IGE=?="},
        {"a ", "=?base64?YSA=?="},
        {"a\nb", "=?base64?YQpi?="},
        {"\xc3\xa4", "=?base64?w6Q=?="},
        {"=?base64?SGVsbG8=?=", "=?base64?PT9iYXNlNjQ/U0dWc2JHOD0/PQ==?="},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *value = tdg__mcp_header_value(cases[i].text), *text;

        assert_string_equal(value, cases[i].value);
        assert_int_equal(tdg__mcp_header_text(value, &text), 0);
        assert_string_equal(text, cases[i].text);
        tdg__free(value);
        tdg__free(text);
    }
    for (size_t n = 1; n <= 2; n++) {
        memory_fail(n, MEMORY_ONCE);
        assert_null(tdg__mcp_header_value(" "));
    }
    memory_fail(0, MEMORY_ONCE);
}

static void expect_taken(const char *method, const char *params, const char *version,
                         const char *method_header, const char *name) {
    const tdg__mcp_headers_t headers = {version, method_header, name};
    tdg__rpc_error_t error;

    if (check(method, params, &headers, &error) != 0)
        fail_msg("%s", error.message);
}

static void takes_headers_that_mirror_the_body(void **state) {
    (void)state;
    expect_taken("tools/list", "{" META "}", "2026-07-28", "tools/list", NULL);
    expect_taken("tools/list", "{" META ",'name':'x'}", "2026-07-28", "tools/list", "y");
    expect_taken("tools/call", "{" META ",'name':'t'}", "2026-07-28", "tools/call", "t");
    expect_taken("tools/call", "{" META ",'name':'t'}", "2026-07-28", "tools/call",
                 "=?base64?dA==?=");
    expect_taken("prompts/get", "{" META ",'name':'p'}", "2026-07-28", "prompts/get",
                 "p");
    expect_taken("resources/read", "{" META ",'uri':'file:///a'}", "2026-07-28",
                 "resources/read", "file:///a");
    expect_taken("no/such/method", "{" META "}", "2026-07-28", "no/such/method", NULL);
    /* what the body lacks, somebody else says */
    expect_taken("server/discover", "{}", "2026-07-28", "server/discover", NULL);
    expect_taken("tools/call", NULL, "2026-07-28", "tools/call", NULL);
    expect_taken("resources/read", "{" META ",'uri':5}", "2026-07-28", "resources/read",
                 "5");
}

static void expect_refused(const char *method, const char *params, const char *version,
                           const char *method_header, const char *name,
                           const char *says) {
    const tdg__mcp_headers_t headers = {version, method_header, name};
    tdg__rpc_error_t error;

    assert_int_equal(check(method, params, &headers, &error), TDG_EINVAL);
    assert_int_equal(error.code, TDG__RPC_HEADER_MISMATCH);
    assert_string_equal(error.message + strlen("Header mismatch: "), says);
}

static void refuses_headers_that_do_not(void **state) {
    (void)state;
    expect_refused("tools/list", "{" META "}", NULL, "tools/list", NULL,
                   "the MCP-Protocol-Version header is missing");
    expect_refused("tools/list", "{}", NULL, "tools/list", NULL,
                   "the MCP-Protocol-Version header is missing");
    expect_refused("tools/list", "{" META "}", "2025-11-25", "tools/list", NULL,
                   "MCP-Protocol-Version header value '2025-11-25' does not match body "
                   "value '2026-07-28'");
    expect_refused("tools/list", "{" META "}", "2026-07-28", NULL, NULL,
                   "the Mcp-Method header is missing");
    expect_refused(
        "tools/list", "{" META "}", "2026-07-28", "tools/call", NULL,
        "Mcp-Method header value 'tools/call' does not match body value 'tools/list'");
    expect_refused(
        "tools/list", "{" META "}", "2026-07-28", "Tools/List", NULL,
        "Mcp-Method header value 'Tools/List' does not match body value 'tools/list'");
    expect_refused("tools/call", "{" META ",'name':'t'}", "2026-07-28", "tools/call",
                   NULL, "the Mcp-Name header is missing");
    expect_refused("tools/call", "{" META ",'name':'bar'}", "2026-07-28", "tools/call",
                   "foo", "Mcp-Name header value 'foo' does not match body value 'bar'");
    expect_refused("prompts/get", "{" META ",'name':'p'}", "2026-07-28", "prompts/get",
                   "P", "Mcp-Name header value 'P' does not match body value 'p'");
    expect_refused("resources/read", "{" META ",'uri':'a:b'}", "2026-07-28",
                   "resources/read", "a:c",
                   "Mcp-Name header value 'a:c' does not match body value 'a:b'");
    expect_refused("tools/call", "{" META ",'name':'t'}", "2026-07-28", "tools/call",
                   "=?base64?dA=?=", "the Mcp-Name header has bad base64 or characters");
    expect_refused(
        "tools/call", "{" META ",'name':'t'}", "2026-07-28", "tools/call",
        "=?base64?dQ==?=", "Mcp-Name header value 'u' does not match body value 't'");
    expect_refused("tools/call", "{" META ",'name':'caf\xc3\xa9'}", "2026-07-28",
                   "tools/call", "caf\xc3\xa9",
                   "the Mcp-Name header has bad base64 or characters");
    expect_refused(
        "tools/list", "{" META "}", "2026-07-28", "tools\xff\x01list", NULL,
        "Mcp-Method header value 'tools??list' does not match body value 'tools/list'");
}

static void cuts_long_values_in_its_message(void **state) {
    char name[3000], expected[65];
    tdg__mcp_headers_t headers = {"2026-07-28", "tools/call", name};
    tdg__rpc_error_t error;

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memset(expected, 'x', 64);
    expected[64] = '\0';
    assert_int_equal(check("tools/call", "{" META ",'name':'t'}", &headers, &error),
                     TDG_EINVAL);
    assert_non_null(strstr(error.message, expected));
    assert_non_null(strstr(error.message, "x...' does not match body value 't'"));
}

static void does_not_call_lack_of_memory_a_mismatch(void **state) {
    json_t *json = json_from("{'jsonrpc':'2.0','id':1,'method':'tools/call',"
                             "'params':{'name':'t'}}");
    tdg__mcp_headers_t headers = {"2026-07-28", "tools/call", "t"};
    tdg__rpc_message_t message;
    tdg__rpc_error_t error;

    (void)state;
    assert_int_equal(tdg__rpc_read(json, &message, &error), 0);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__mcp_check_headers(&headers, &message, &error), TDG_EINVAL);
    assert_int_equal(error.code, TDG__RPC_INTERNAL);
    tdg__rpc_message_done(&message);
    json_decref(json);
}

/* ---- Headers from the parameters of tools ------------------------------- */

static const char schema[] = "{'type':'object','properties':{"
                             "'region':{'type':'string','x-mcp-header':'Region'},"
                             "'count':{'type':'integer','x-mcp-header':'COUNT'},"
                             "'dry':{'type':'boolean','x-mcp-header':'Dry-Run'},"
                             "'query':{'type':'string'},"
                             "'place':{'type':'object','properties':{"
                             "'city':{'type':'string','x-mcp-header':'City'}}}}}";

/* "name=value;name=value" */
static const char *find_in_list(void *user, const char *name) {
    static char value[200];
    const char *at = user;
    size_t len = strlen(name);

    for (; at != NULL && *at != '\0'; at = strchr(at, ';') ? strchr(at, ';') + 1 : NULL) {
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + len + 1, ";"),
                     at + len + 1);
            return value;
        }
    }
    return NULL;
}

static int check_params(const char *schema_text, const char *arguments,
                        const char *headers, tdg__rpc_error_t *error) {
    json_t *input = json_from(schema_text), *values = json_from(arguments);
    char list[500];
    int rv;

    snprintf(list, sizeof(list), "%s", headers);
    *error = (tdg__rpc_error_t){0};
    rv = tdg__mcp_check_param_headers(input, values, find_in_list, list, error);
    json_decref(values);
    json_decref(input);
    return rv;
}

static void expect_params_taken(const char *arguments, const char *headers) {
    tdg__rpc_error_t error;

    if (check_params(schema, arguments, headers, &error) != 0)
        fail_msg("%s: %s", headers, error.message);
}

static void takes_parameters_that_are_mirrored(void **state) {
    (void)state;
    expect_params_taken(NULL, "");
    expect_params_taken("{}", "");
    expect_params_taken("{'query':'x'}", "mcp-param-query=y");
    expect_params_taken("{'region':'us'}", "mcp-param-region=us");
    expect_params_taken("{'region':'us'}", "mcp-param-region==?base64?dXM=?=");
    expect_params_taken("{'region':''}", "mcp-param-region=");
    expect_params_taken("{'region':null,'count':null}", "");
    expect_params_taken("{'count':42}", "mcp-param-count=42");
    expect_params_taken("{'count':42}", "mcp-param-count=42.0");
    expect_params_taken("{'count':42.0}", "mcp-param-count=42");
    expect_params_taken("{'count':-7}", "mcp-param-count=-7");
    expect_params_taken("{'count':9007199254740991}", "mcp-param-count=9007199254740991");
    expect_params_taken("{'dry':true}", "mcp-param-dry-run=true");
    expect_params_taken("{'dry':false}", "mcp-param-dry-run=false");
    expect_params_taken("{'place':{'city':'Rome'}}", "mcp-param-city=Rome");
    expect_params_taken("{'place':{}}", "");
    expect_params_taken("{'place':'Rome'}", "");
    expect_params_taken("{'region':'us','count':1,'dry':true,'place':{'city':'a b'}}",
                        "mcp-param-city=a "
                        "b;mcp-param-dry-run=true;mcp-param-count=1;mcp-param-region=us");
}

static void expect_params_refused(const char *arguments, const char *headers,
                                  const char *says) {
    tdg__rpc_error_t error;

    assert_int_equal(check_params(schema, arguments, headers, &error), TDG_EINVAL);
    assert_int_equal(error.code, TDG__RPC_HEADER_MISMATCH);
    assert_string_equal(error.message + strlen("Header mismatch: "), says);
}

static void refuses_parameters_that_are_not(void **state) {
    (void)state;
    expect_params_refused("{'region':'us'}", "",
                          "the mcp-param-region header is missing");
    expect_params_refused("{'region':''}", "", "the mcp-param-region header is missing");
    expect_params_refused(
        "{'region':'us'}", "mcp-param-region=eu",
        "mcp-param-region header value 'eu' does not match body value 'us'");
    expect_params_refused(
        "{'region':'us'}", "mcp-param-region=US",
        "mcp-param-region header value 'US' does not match body value 'us'");
    expect_params_refused("{'region':'us'}", "mcp-param-region==?base64?dXM?=",
                          "the mcp-param-region header has bad base64 or characters");
    expect_params_refused("{'region':'us'}", "mcp-param-region=u\xff",
                          "the mcp-param-region header has bad base64 or characters");
    expect_params_refused("{}", "mcp-param-region=us",
                          "the mcp-param-region header has no counterpart in the body");
    expect_params_refused("{'region':null}", "mcp-param-region=null",
                          "the mcp-param-region header has no counterpart in the body");
    expect_params_refused(NULL, "mcp-param-city=Rome",
                          "the mcp-param-city header has no counterpart in the body");
    expect_params_refused(
        "{'count':42}", "mcp-param-count=43",
        "mcp-param-count header value '43' does not match body value 'another value'");
    expect_params_refused(
        "{'count':42}", "mcp-param-count=0x2a",
        "mcp-param-count header value '0x2a' does not match body value 'another value'");
    expect_params_refused(
        "{'count':42}", "mcp-param-count=",
        "mcp-param-count header value '' does not match body value 'another value'");
    expect_params_refused("{'count':9007199254740993}",
                          "mcp-param-count=9007199254740992",
                          "mcp-param-count header value '9007199254740992' does not "
                          "match body value 'another value'");
    expect_params_refused("{'dry':true}", "mcp-param-dry-run=True",
                          "mcp-param-dry-run header value 'True' does not match body "
                          "value 'another value'");
    expect_params_refused("{'dry':true}", "mcp-param-dry-run=false",
                          "mcp-param-dry-run header value 'false' does not match body "
                          "value 'another value'");
    expect_params_refused(
        "{'region':['us']}", "mcp-param-region=us",
        "mcp-param-region header value 'us' does not match body value 'another value'");
    expect_params_refused("{'place':{'city':'Rome'}}", "",
                          "the mcp-param-city header is missing");
}

static void looks_only_where_headers_are_allowed(void **state) {
    static const char *const schemas[] = {
        "{}",
        "{'properties':[]}",
        "{'properties':{'a':true}}",
        "{'properties':{'a':{'x-mcp-header':5}}}",
        "{'properties':{'a':{'items':{'properties':{'b':{'x-mcp-header':'B'}}}}}}",
        "{'anyOf':[{'properties':{'a':{'x-mcp-header':'A'}}}]}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(schemas); i++) {
        tdg__rpc_error_t error;

        assert_int_equal(check_params(schemas[i], "{'a':'x','b':'y'}", "", &error), 0);
    }
    assert_int_equal(tdg__mcp_check_param_headers(NULL, NULL, find_in_list, NULL, NULL),
                     0);
}

static void gives_up_on_names_and_nesting_that_nobody_uses(void **state) {
    char text[2000], name[200];
    tdg__rpc_error_t error;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text), "{'properties':{'a':{'x-mcp-header':'%s'}}}", name);
    assert_int_equal(check_params(text, "{'a':'x'}", "", &error), 0);

    text[0] = '\0';
    for (int i = 0; i < 40; i++)
        strcat(text, "{'properties':{'a':");
    strcat(text, "{'x-mcp-header':'A'}");
    for (int i = 0; i < 40; i++)
        strcat(text, "}}");
    assert_int_equal(check_params(text, "{'a':{'a':{}}}", "mcp-param-a=x", &error), 0);
}

static void fails_cleanly_without_memory(void **state) {
    json_t *input = json_from(schema), *values = json_from("{'region':'us','count':42}");
    char list[] = "mcp-param-region=us;mcp-param-count=42";
    bool failed = true;
    size_t nth;

    (void)state;
    for (nth = 1; failed; nth++) {
        tdg__rpc_error_t error = {0};
        int rv;

        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__mcp_check_param_headers(input, values, find_in_list, list, &error);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(rv, failed ? TDG_EINVAL : 0);
        assert_int_equal(error.code, failed ? TDG__RPC_INTERNAL : 0);
    }
    assert_true(nth > 3);
    json_decref(values);
    json_decref(input);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(reads_plain_and_base64_values),
        CASE(a_text_becomes_a_value_and_back),
        CASE(refuses_values_that_no_client_may_send),
        CASE(says_when_memory_is_out),
        CASE(takes_headers_that_mirror_the_body),
        CASE(refuses_headers_that_do_not),
        CASE(cuts_long_values_in_its_message),
        CASE(does_not_call_lack_of_memory_a_mismatch),
        CASE(takes_parameters_that_are_mirrored),
        CASE(refuses_parameters_that_are_not),
        CASE(looks_only_where_headers_are_allowed),
        CASE(gives_up_on_names_and_nesting_that_nobody_uses),
        CASE(fails_cleanly_without_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
