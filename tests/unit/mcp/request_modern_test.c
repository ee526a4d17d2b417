/* SPDX-License-Identifier: MIT */
#include "mcp/request.h"
#include "support.h"

#define MCP "io.modelcontextprotocol/"
#define FIELDS "'" MCP "protocolVersion':'2026-07-28','" MCP "clientCapabilities':{}"
#define META "'_meta':{" FIELDS "}"
#define REF ",'ref':{'type':'ref/prompt','name':'p'}"
#define ARGUMENT ",'argument':{'name':'a','value':'v'}"

/* A message and what was made of it; `params` may be NULL, `id` 0 is a notification. */
struct reading {
    tdg__rpc_message_t message;
    tdg__mcp_request_t request;
    tdg__rpc_error_t error;
    int rv;
};

static void prepare(struct reading *r, const char *method, const char *params, int id) {
    json_t *json = json_pack("{s:s,s:s,s:o*}", "jsonrpc", "2.0", "method", method,
                             "params", json_from(params));

    assert_non_null(json);
    if (id != 0)
        assert_int_equal(json_object_set_new(json, "id", json_integer(id)), 0);
    *r = (struct reading){.rv = 0};
    assert_int_equal(tdg__rpc_read(json, &r->message, &r->error), 0);
    json_decref(json);
}

static void read_modern(struct reading *r, const char *method, const char *params) {
    prepare(r, method, params, 1);
    r->rv = tdg__mcp_read_modern(&r->message, true, &r->request, &r->error);
}

static void done(struct reading *r) {
    tdg__rpc_error_done(&r->error);
    tdg__rpc_message_done(&r->message);
}

static void expect_method(const char *method, const char *params,
                          tdg__method_t expected) {
    struct reading r;

    read_modern(&r, method, params);
    assert_int_equal(r.rv, 0);
    assert_int_equal(r.request.method, expected);
    assert_int_equal(r.request.version, TDG__V2026_07_28);
    assert_string_equal(r.request.id, "1");
    assert_string_equal(tdg__method_name(r.request.method), method);
    done(&r);
}

static void knows_its_methods(void **state) {
    (void)state;
    expect_method("server/discover", "{" META "}", TDG__M_DISCOVER);
    expect_method("subscriptions/listen", "{" META ",'notifications':{}}", TDG__M_LISTEN);
    expect_method("resources/list", "{" META "}", TDG__M_RESOURCES);
    expect_method("resources/templates/list", "{" META "}", TDG__M_TEMPLATES);
    expect_method("resources/read", "{" META ",'uri':'a:b'}", TDG__M_READ);
    expect_method("tools/list", "{" META "}", TDG__M_TOOLS);
    expect_method("tools/call", "{" META ",'name':'t'}", TDG__M_CALL);
    expect_method("prompts/list", "{" META "}", TDG__M_PROMPTS);
    expect_method("prompts/get", "{" META ",'name':'p'}", TDG__M_PROMPT);
    expect_method("completion/complete", "{" META REF ARGUMENT "}", TDG__M_COMPLETE);
}

static void has_no_other_methods(void **state) {
    static const char *const methods[] = {
        "initialize", "ping", "logging/setLevel", "resources/subscribe",
        "resources/unsubscribe", "", "tools", "tools/list/", "Tools/List",
        /* not as a request */
        "notifications/cancelled", "notifications/initialized"};

    (void)state;
    for (size_t i = 0; i < COUNT(methods); i++) {
        struct reading r;

        read_modern(&r, methods[i], "{" META ",'uri':'a:b','level':'info'}");
        assert_int_equal(r.rv, TDG_EINVAL);
        assert_int_equal(r.error.code, TDG__RPC_METHOD_NOT_FOUND);
        assert_non_null(strstr(r.error.message, methods[i]));
        assert_int_equal(r.request.method, TDG__M_NONE);
        done(&r);
    }
}

static void expect_refused(const char *method, const char *params, const char *expected) {
    const char *detail;
    struct reading r;

    read_modern(&r, method, params);
    detail = json_string_value(json_object_get(r.error.data, "detail"));
    if (r.rv != TDG_EINVAL || r.error.code != TDG__RPC_INVALID_PARAMS || detail == NULL ||
        strcmp(detail, expected) != 0)
        fail_msg("%s %s: %d, %d, %s", method, params ? params : "-", r.rv, r.error.code,
                 r.error.message);
    assert_string_equal(r.error.message + strlen("Invalid params: "), detail);
    done(&r);
}

static void refuses_wrong_parameters(void **state) {
    (void)state;
    /* the fields of every request */
    expect_refused("tools/list", NULL, MCP "protocolVersion is missing in _meta");
    expect_refused("tools/list", "{}", MCP "protocolVersion is missing in _meta");
    expect_refused("tools/list", "{'_meta':[]}", "_meta in params must be an object");
    expect_refused("tools/list", "{'_meta':null}", "_meta in params must be an object");
    expect_refused("tools/list", "{'_meta':{}}",
                   MCP "protocolVersion is missing in _meta");
    expect_refused("server/discover", "{'_meta':{'" MCP "clientCapabilities':{}}}",
                   MCP "protocolVersion is missing in _meta");
    expect_refused("tools/list", "{'_meta':{'" MCP "protocolVersion':20260728}}",
                   MCP "protocolVersion in _meta must be a string");
    expect_refused("server/discover", "{'_meta':{'" MCP "protocolVersion':'2026-07-28'}}",
                   MCP "clientCapabilities is missing in _meta");
    expect_refused("no/such/method", "{'_meta':{'" MCP "protocolVersion':'2026-07-28'}}",
                   MCP "clientCapabilities is missing in _meta");
    expect_refused("tools/list",
                   "{'_meta':{'" MCP "protocolVersion':'2026-07-28','" MCP
                   "clientCapabilities':[]}}",
                   MCP "clientCapabilities in _meta must be an object");
    expect_refused("tools/list", "{'_meta':{" FIELDS ",'" MCP "clientInfo':'me'}}",
                   MCP "clientInfo in _meta must be an object");
    expect_refused("tools/list",
                   "{'_meta':{" FIELDS ",'" MCP "clientInfo':{'version':'1'}}}",
                   "name is missing in " MCP "clientInfo");
    expect_refused("tools/list",
                   "{'_meta':{" FIELDS ",'" MCP "clientInfo':{'name':'a'}}}",
                   "version is missing in " MCP "clientInfo");
    expect_refused("tools/list",
                   "{'_meta':{" FIELDS ",'" MCP "clientInfo':{'name':1,'version':'1'}}}",
                   "name in " MCP "clientInfo must be a string");
    expect_refused("tools/list", "{'_meta':{" FIELDS ",'" MCP "logLevel':3}}",
                   MCP "logLevel in _meta must be a string");
    expect_refused("tools/list", "{'_meta':{" FIELDS ",'" MCP "logLevel':'loud'}}",
                   MCP "logLevel in _meta is not a log level: loud");
    expect_refused("tools/list", "{'_meta':{" FIELDS ",'progressToken':1.5}}",
                   "progressToken in _meta must be a string or a whole number");
    expect_refused("tools/list", "{'_meta':{" FIELDS ",'progressToken':null}}",
                   "progressToken in _meta must be a string or a whole number");
    /* lists */
    expect_refused("resources/list", "{" META ",'cursor':5}",
                   "cursor in params must be a string");
    expect_refused("resources/templates/list", "{" META ",'cursor':null}",
                   "cursor in params must be a string");
    expect_refused("tools/list", "{" META ",'cursor':{}}",
                   "cursor in params must be a string");
    expect_refused("prompts/list", "{" META ",'cursor':true}",
                   "cursor in params must be a string");
    /* resources/read */
    expect_refused("resources/read", "{" META "}", "Missing uri parameter");
    expect_refused("resources/read", "{" META ",'uri':7}",
                   "uri in params must be a string");
    /* tools/call */
    expect_refused("tools/call", "{" META "}", "Missing name parameter");
    expect_refused("tools/call", "{" META ",'name':{}}",
                   "name in params must be a string");
    expect_refused("tools/call", "{" META ",'name':'t','arguments':[1]}",
                   "arguments in params must be an object");
    expect_refused("tools/call", "{" META ",'name':'t','arguments':null}",
                   "arguments in params must be an object");
    /* prompts/get */
    expect_refused("prompts/get", "{" META "}", "Missing name parameter");
    expect_refused("prompts/get", "{" META ",'name':'p','arguments':'x'}",
                   "arguments in params must be an object");
    expect_refused("prompts/get", "{" META ",'name':'p','arguments':{'a':'b','c':4}}",
                   "the arguments of a prompt must be strings: c");
    /* completion/complete */
    expect_refused("completion/complete", "{" META "}", "Missing ref parameter");
    expect_refused("completion/complete", "{" META ",'ref':'p'}",
                   "ref in params must be an object");
    expect_refused("completion/complete", "{" META ",'ref':{}}",
                   "type is missing in ref");
    expect_refused("completion/complete", "{" META ",'ref':{'type':'ref/tool'}}",
                   "type in ref must be ref/prompt or ref/resource, not ref/tool");
    expect_refused("completion/complete",
                   "{" META ",'ref':{'type':'ref/prompt','uri':'x'}}",
                   "name is missing in ref");
    expect_refused("completion/complete",
                   "{" META ",'ref':{'type':'ref/resource','name':'x'}}",
                   "uri is missing in ref");
    expect_refused("completion/complete",
                   "{" META ",'ref':{'type':'ref/resource','uri':9}}",
                   "uri in ref must be a string");
    expect_refused("completion/complete", "{" META REF "}", "Missing argument parameter");
    expect_refused("completion/complete", "{" META REF ",'argument':1}",
                   "argument in params must be an object");
    expect_refused("completion/complete", "{" META REF ",'argument':{'value':'v'}}",
                   "name is missing in argument");
    expect_refused("completion/complete",
                   "{" META REF ",'argument':{'name':'a','value':1}}",
                   "value in argument must be a string");
    expect_refused("completion/complete", "{" META REF ARGUMENT ",'context':1}",
                   "context in params must be an object");
    expect_refused("completion/complete",
                   "{" META REF ARGUMENT ",'context':{'arguments':[]}}",
                   "arguments in context must be an object");
    expect_refused("completion/complete",
                   "{" META REF ARGUMENT ",'context':{'arguments':{'b':1}}}",
                   "the arguments in context must be strings: b");
    /* subscriptions/listen */
    expect_refused("subscriptions/listen", "{" META "}",
                   "Missing notifications parameter");
    expect_refused("subscriptions/listen", "{" META ",'notifications':[]}",
                   "notifications in params must be an object");
    expect_refused("subscriptions/listen",
                   "{" META ",'notifications':{'toolsListChanged':1}}",
                   "toolsListChanged in notifications must be true or false");
    expect_refused("subscriptions/listen",
                   "{" META ",'notifications':{'promptsListChanged':'x'}}",
                   "promptsListChanged in notifications must be true or false");
    expect_refused("subscriptions/listen",
                   "{" META ",'notifications':{'resourcesListChanged':null}}",
                   "resourcesListChanged in notifications must be true or false");
    expect_refused("subscriptions/listen",
                   "{" META ",'notifications':{'resourceSubscriptions':'a:b'}}",
                   "resourceSubscriptions must be an array of strings");
    expect_refused("subscriptions/listen",
                   "{" META ",'notifications':{'resourceSubscriptions':{'a':'b'}}}",
                   "resourceSubscriptions must be an array of strings");
    expect_refused("subscriptions/listen",
                   "{" META ",'notifications':{'resourceSubscriptions':['a:b',1]}}",
                   "resourceSubscriptions must be an array of strings");
    expect_refused("subscriptions/listen",
                   "{'_meta':{" FIELDS ",'dev.tidings/cursor':4},'notifications':{}}",
                   "dev.tidings/cursor in _meta must be a string");
}

static void names_the_versions_it_speaks(void **state) {
    static const char params[] = "{'_meta':{'" MCP "protocolVersion':'1900-01-01'}}";
    struct reading r;

    (void)state;
    read_modern(&r, "no/such/method", params);
    assert_int_equal(r.rv, TDG_EINVAL);
    assert_int_equal(r.error.code, TDG__RPC_UNSUPPORTED_VERSION);
    assert_json_equal(r.error.data,
                      "{'requested':'1900-01-01','supported':['2026-07-28','2025-11-25',"
                      "'2025-06-18','2025-03-26','2024-11-05']}");
    done(&r);

    prepare(&r, "tools/list", params, 1);
    assert_int_equal(tdg__mcp_read_modern(&r.message, false, &r.request, &r.error),
                     TDG_EINVAL);
    assert_json_equal(r.error.data,
                      "{'requested':'1900-01-01','supported':['2026-07-28']}");
    done(&r);
}

static void takes_no_legacy_version_in_meta(void **state) {
    struct reading r;

    (void)state;
    read_modern(&r, "tools/list",
                "{'_meta':{'" MCP "protocolVersion':'2025-11-25','" MCP
                "clientCapabilities':{}}}");
    assert_int_equal(r.rv, TDG_EINVAL);
    assert_int_equal(r.error.code, TDG__RPC_UNSUPPORTED_VERSION);
    done(&r);
}

static void reads_the_fields_of_every_request(void **state) {
    struct reading r;

    (void)state;
    read_modern(&r, "tools/list",
                "{'_meta':{" FIELDS ",'progressToken':'p','" MCP
                "clientInfo':{'name':'me','version':'1.2','title':'I'},'" MCP
                "logLevel':'warning'},'cursor':''}");
    assert_int_equal(r.rv, 0);
    assert_string_equal(r.request.client_name, "me");
    assert_json_equal(r.request.client_info, "{'name':'me','version':'1.2','title':'I'}");
    assert_string_equal(r.request.client_version, "1.2");
    assert_json_equal(r.request.client_capabilities, "{}");
    assert_json_equal(r.request.progress_token, "'p'");
    assert_int_equal(r.request.log_level, 3);
    assert_string_equal(r.request.page, "");
    done(&r);
}

static void leaves_out_what_the_client_does_not_say(void **state) {
    struct reading r;

    (void)state;
    read_modern(&r, "tools/list", "{" META "}");
    assert_int_equal(r.rv, 0);
    assert_null(r.request.client_name);
    assert_null(r.request.client_info);
    assert_null(r.request.progress_token);
    assert_null(r.request.page);
    assert_int_equal(r.request.log_level, -1);
    done(&r);
}

static void reads_names_and_arguments(void **state) {
    struct reading r;

    (void)state;
    read_modern(&r, "tools/call", "{" META ",'name':'t','arguments':{'a':[1,null]}}");
    assert_int_equal(r.rv, 0);
    assert_string_equal(r.request.name, "t");
    assert_json_equal(r.request.arguments, "{'a':[1,null]}");
    done(&r);

    read_modern(&r, "prompts/get", "{" META ",'name':'p','arguments':{'a':'b'}}");
    assert_int_equal(r.rv, 0);
    assert_string_equal(r.request.name, "p");
    assert_json_equal(r.request.arguments, "{'a':'b'}");
    done(&r);

    read_modern(&r, "tools/call", "{" META ",'name':''}");
    assert_int_equal(r.rv, 0);
    assert_string_equal(r.request.name, "");
    assert_null(r.request.arguments);
    done(&r);

    read_modern(&r, "resources/read", "{" META ",'uri':'file:///a'}");
    assert_int_equal(r.rv, 0);
    assert_string_equal(r.request.uri, "file:///a");
    done(&r);
}

static void reads_what_is_to_be_completed(void **state) {
    struct reading r;

    (void)state;
    read_modern(&r, "completion/complete",
                "{" META ",'ref':{'type':'ref/resource','uri':'a:{b}'},"
                "'argument':{'name':'b','value':'x'},"
                "'context':{'arguments':{'c':'d'}}}");
    assert_int_equal(r.rv, 0);
    assert_false(r.request.ref_is_prompt);
    assert_string_equal(r.request.ref, "a:{b}");
    assert_string_equal(r.request.argument, "b");
    assert_string_equal(r.request.value, "x");
    assert_json_equal(r.request.context, "{'c':'d'}");
    done(&r);

    read_modern(&r, "completion/complete",
                "{" META ",'ref':{'type':'ref/prompt','name':'p'},"
                "'argument':{'name':'b','value':''},'context':{}}");
    assert_int_equal(r.rv, 0);
    assert_true(r.request.ref_is_prompt);
    assert_string_equal(r.request.ref, "p");
    assert_null(r.request.context);
    done(&r);
}

static void reads_what_is_listened_to(void **state) {
    struct reading r;

    (void)state;
    read_modern(&r, "subscriptions/listen",
                "{" META ",'notifications':{'toolsListChanged':true,"
                "'promptsListChanged':false,'resourceSubscriptions':['a:b',''],"
                "'com.example/other':7}}");
    assert_int_equal(r.rv, 0);
    assert_true(r.request.listen.tools);
    assert_false(r.request.listen.prompts);
    assert_false(r.request.listen.resources);
    assert_json_equal(r.request.listen.uris, "['a:b','']");
    assert_false(r.request.wishes.any);
    done(&r);

    read_modern(
        &r, "subscriptions/listen",
        "{'_meta':{" FIELDS ",'dev.tidings/cursor':'1-2','dev.tidings/fresh':"
        "{'resourceSubscriptions':['list:tools'],'promptsListChanged':true}},"
        "'notifications':{'resourcesListChanged':true,'promptsListChanged':true}}");
    assert_int_equal(r.rv, 0);
    assert_true(r.request.listen.resources);
    assert_true(r.request.listen.prompts);
    assert_null(r.request.listen.uris);
    assert_true(r.request.wishes.any);
    assert_string_equal(r.request.wishes.cursor, "1-2");
    assert_json_equal(r.request.wishes.fresh.uris, "['list:tools']");
    assert_true(r.request.wishes.fresh.prompts);
    assert_false(r.request.wishes.fresh.tools);
    done(&r);
}

static void expect_notification(const char *method, const char *params,
                                tdg__method_t expected, const char *cancels) {
    struct reading r;

    prepare(&r, method, params, 0);
    assert_int_equal(tdg__mcp_read_modern(&r.message, true, &r.request, &r.error), 0);
    assert_int_equal(r.request.method, expected);
    assert_string_equal(r.request.id, "");
    if (cancels == NULL)
        assert_null(r.request.cancels);
    else
        assert_string_equal(r.request.cancels, cancels);
    done(&r);
}

static void never_refuses_a_notification(void **state) {
    (void)state;
    expect_notification("notifications/cancelled", "{'requestId':5}", TDG__M_CANCELLED,
                        "5");
    expect_notification("notifications/cancelled", "{'requestId':'5'}", TDG__M_CANCELLED,
                        "\"5\"");
    expect_notification("notifications/cancelled", "{'requestId':null}", TDG__M_CANCELLED,
                        NULL);
    expect_notification("notifications/cancelled", "{'requestId':1.5}", TDG__M_CANCELLED,
                        NULL);
    expect_notification("notifications/cancelled", "{}", TDG__M_CANCELLED, NULL);
    expect_notification("notifications/cancelled", NULL, TDG__M_CANCELLED, NULL);
    expect_notification("notifications/initialized", NULL, TDG__M_OTHER_NOTIFICATION,
                        NULL);
    expect_notification("notifications/progress", "{'_meta':5}",
                        TDG__M_OTHER_NOTIFICATION, NULL);
    expect_notification("no/such/thing", NULL, TDG__M_OTHER_NOTIFICATION, NULL);
    expect_notification("tools/call", "{'name':'t'}", TDG__M_OTHER_NOTIFICATION, NULL);
}

static void expect_era(const char *method, const char *params, int id, bool modern) {
    struct reading r;

    prepare(&r, method, params, id);
    assert_int_equal(tdg__mcp_is_modern(&r.message), modern);
    done(&r);
}

static void takes_no_response_for_modern(void **state) {
    json_t *response = json_from("{'jsonrpc':'2.0','id':1,'result':{}}");
    tdg__rpc_message_t message;
    tdg__rpc_error_t error;

    (void)state;
    assert_int_equal(tdg__rpc_read(response, &message, &error), 0);
    assert_false(tdg__mcp_is_modern(&message));
    tdg__rpc_message_done(&message);
    json_decref(response);
}

static void tells_modern_messages_by_their_fields_or_method(void **state) {
    (void)state;
    expect_era("tools/list", "{" META "}", 1, true);
    expect_era("tools/list", "{'_meta':{'" MCP "protocolVersion':7}}", 1, true);
    expect_era("tools/list", "{'_meta':{'" MCP "clientCapabilities':{}}}", 1, true);
    expect_era("tools/list", "{'_meta':{'" MCP "clientInfo':{}}}", 1, true);
    expect_era("notifications/cancelled", "{" META "}", 0, true);
    expect_era("server/discover", NULL, 1, true);
    expect_era("subscriptions/listen", "{}", 1, true);
    expect_era("tools/list", NULL, 1, false);
    expect_era("tools/list", "{'_meta':{'progressToken':1}}", 1, false);
    expect_era("tools/list", "{'_meta':{'" MCP "related-task':{}}}", 1, false);
    expect_era("tools/list", "{'_meta':'" MCP "protocolVersion'}", 1, false);
    expect_era("initialize", "{'protocolVersion':'2026-07-28'}", 1, false);
    expect_era("notifications/cancelled", "{'requestId':1}", 0, false);
}

/* What the answer is with memory, and what it is when an allocation fails. */
static void expect_without_memory(const char *method, const char *params, int code,
                                  int without_memory) {
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        struct reading r;

        prepare(&r, method, params, 1);
        memory_fail(nth, MEMORY_ONCE);
        r.rv = tdg__mcp_read_modern(&r.message, true, &r.request, &r.error);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(r.rv, code == 0 ? 0 : TDG_EINVAL);
        assert_int_equal(r.error.code, failed ? without_memory : code);
        done(&r);
    }
}

/* Without memory an error loses its data at most; a request needs none. */
static void needs_no_memory_to_say_yes_or_no(void **state) {
    (void)state;
    expect_without_memory("tools/list", "{" META "}", 0, 0);
    expect_without_memory("resources/read", "{" META "}", TDG__RPC_INVALID_PARAMS,
                          TDG__RPC_INVALID_PARAMS);
    expect_without_memory("no/such/method", "{" META "}", TDG__RPC_METHOD_NOT_FOUND,
                          TDG__RPC_METHOD_NOT_FOUND);
    expect_without_memory("tools/list",
                          "{'_meta':{'" MCP "protocolVersion':'a long version'}}",
                          TDG__RPC_UNSUPPORTED_VERSION, TDG__RPC_INTERNAL);
}

static void cuts_long_names_in_errors_at_a_character(void **state) {
    char params[2000] = "{" META ",'name':'p','arguments':{'";
    const char *detail;
    struct reading r;

    (void)state;
    for (int i = 0; i < 200; i++)
        strcat(params, "€");
    strcat(params, "':1}}");
    read_modern(&r, "prompts/get", params);
    assert_int_equal(r.rv, TDG_EINVAL);
    detail = json_string_value(json_object_get(r.error.data, "detail"));
    assert_non_null(detail);
    assert_in_range(strlen(r.error.message), 236, 239);
    assert_string_equal(detail + strlen(detail) - strlen("€"), "€");
    done(&r);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(knows_its_methods),
        CASE(has_no_other_methods),
        CASE(refuses_wrong_parameters),
        CASE(names_the_versions_it_speaks),
        CASE(takes_no_legacy_version_in_meta),
        CASE(reads_the_fields_of_every_request),
        CASE(leaves_out_what_the_client_does_not_say),
        CASE(reads_names_and_arguments),
        CASE(reads_what_is_to_be_completed),
        CASE(reads_what_is_listened_to),
        CASE(never_refuses_a_notification),
        CASE(tells_modern_messages_by_their_fields_or_method),
        CASE(takes_no_response_for_modern),
        CASE(needs_no_memory_to_say_yes_or_no),
        CASE(cuts_long_names_in_errors_at_a_character),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("request_modern", tests, NULL, NULL);
}
