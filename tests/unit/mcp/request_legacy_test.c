/* SPDX-License-Identifier: MIT */
#include "mcp/request.h"
#include "support.h"

struct reading {
    tdg__rpc_message_t message;
    tdg__mcp_request_t request;
    tdg__rpc_error_t error;
    int rv;
};

static void read_message(struct reading *r, const char *method, const char *params,
                         int id, tdg__version_t version) {
    json_t *json = json_pack("{s:s,s:s,s:o*}", "jsonrpc", "2.0", "method", method,
                             "params", json_from(params));

    assert_non_null(json);
    if (id != 0)
        assert_int_equal(json_object_set_new(json, "id", json_integer(id)), 0);
    *r = (struct reading){.rv = 0};
    assert_int_equal(tdg__rpc_read(json, &r->message, &r->error), 0);
    json_decref(json);
    r->rv = tdg__mcp_read_legacy(&r->message, version, &r->request, &r->error);
}

static void read_legacy(struct reading *r, const char *method, const char *params) {
    read_message(r, method, params, 1, TDG__V_LATEST_LEGACY);
}

static void done(struct reading *r) {
    tdg__rpc_error_done(&r->error);
    tdg__rpc_message_done(&r->message);
}

#define INITIALIZE                                                                       \
    "{'protocolVersion':'2025-06-18','capabilities':{'roots':{}},"                       \
    "'clientInfo':{'name':'me','version':'1'}}"
#define COMPLETE                                                                         \
    "{'ref':{'type':'ref/prompt','name':'p'},'argument':{'name':'a','value':'v'}}"

static const struct {
    const char *method, *params;
    tdg__method_t expected;
} requests[] = {
    {"initialize", INITIALIZE, TDG__M_INITIALIZE},
    {"ping", NULL, TDG__M_PING},
    {"ping", "{'_meta':{}}", TDG__M_PING},
    {"resources/list", NULL, TDG__M_RESOURCES},
    {"resources/list", "{}", TDG__M_RESOURCES},
    {"resources/templates/list", NULL, TDG__M_TEMPLATES},
    {"resources/read", "{'uri':'a:b'}", TDG__M_READ},
    {"resources/subscribe", "{'uri':'a:b'}", TDG__M_SUBSCRIBE},
    {"resources/unsubscribe", "{'uri':'a:b'}", TDG__M_UNSUBSCRIBE},
    {"tools/list", NULL, TDG__M_TOOLS},
    {"tools/call", "{'name':'t'}", TDG__M_CALL},
    {"prompts/list", NULL, TDG__M_PROMPTS},
    {"prompts/get", "{'name':'p'}", TDG__M_PROMPT},
    {"completion/complete", COMPLETE, TDG__M_COMPLETE},
    {"logging/setLevel", "{'level':'info'}", TDG__M_SET_LEVEL},
};

static void knows_its_methods_in_each_revision(void **state) {
    (void)state;
    for (int v = TDG__V2024_11_05; v <= TDG__V_LATEST_LEGACY; v++) {
        for (size_t i = 0; i < COUNT(requests); i++) {
            struct reading r;

            read_message(&r, requests[i].method, requests[i].params, 1,
                         (tdg__version_t)v);
            assert_int_equal(r.rv, 0);
            assert_int_equal(r.request.method, requests[i].expected);
            assert_int_equal(r.request.version, v);
            assert_string_equal(r.request.id, "1");
            assert_string_equal(tdg__method_name(r.request.method), requests[i].method);
            done(&r);
        }
    }
}

static void takes_only_initialize_and_ping_before_initialize(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(requests); i++) {
        tdg__method_t method = requests[i].expected;
        bool early = method == TDG__M_INITIALIZE || method == TDG__M_PING;
        struct reading r;

        read_message(&r, requests[i].method, requests[i].params, 1, TDG__V_UNKNOWN);
        assert_int_equal(r.rv, early ? 0 : TDG_EINVAL);
        assert_int_equal(r.error.code, early ? 0 : TDG__RPC_NOT_INITIALISED);
        done(&r);
    }
}

static void has_no_other_methods(void **state) {
    static const char *const methods[] = {"server/discover",
                                          "subscriptions/listen",
                                          "tasks/list",
                                          "roots/list",
                                          "",
                                          "notifications/initialized",
                                          "notifications/cancelled",
                                          "INITIALIZE"};

    (void)state;
    for (size_t i = 0; i < COUNT(methods); i++) {
        for (int v = TDG__V_UNKNOWN; v <= TDG__V_LATEST_LEGACY; v++) {
            struct reading r;

            read_message(&r, methods[i], "{}", 1, (tdg__version_t)v);
            assert_int_equal(r.rv, TDG_EINVAL);
            assert_int_equal(r.error.code, TDG__RPC_METHOD_NOT_FOUND);
            assert_non_null(strstr(r.error.message, methods[i]));
            done(&r);
        }
    }
}

static void expect_refused(const char *method, const char *params, const char *expected) {
    const char *detail;
    struct reading r;

    read_legacy(&r, method, params);
    detail = json_string_value(json_object_get(r.error.data, "detail"));
    if (r.rv != TDG_EINVAL || r.error.code != TDG__RPC_INVALID_PARAMS || detail == NULL ||
        strcmp(detail, expected) != 0)
        fail_msg("%s %s: %d, %d, %s", method, params ? params : "-", r.rv, r.error.code,
                 r.error.message);
    done(&r);
}

static void refuses_wrong_parameters(void **state) {
    (void)state;
    expect_refused("initialize", NULL, "Missing protocolVersion parameter");
    expect_refused("initialize", "{'protocolVersion':1}",
                   "protocolVersion in params must be a string");
    expect_refused("initialize", "{'protocolVersion':'2025-06-18'}",
                   "Missing capabilities parameter");
    expect_refused("initialize", "{'protocolVersion':'2025-06-18','capabilities':[]}",
                   "capabilities in params must be an object");
    expect_refused("initialize", "{'protocolVersion':'2025-06-18','capabilities':{}}",
                   "Missing clientInfo parameter");
    expect_refused("initialize",
                   "{'protocolVersion':'2025-06-18','capabilities':{},'clientInfo':'x'}",
                   "clientInfo in params must be an object");
    expect_refused("initialize",
                   "{'protocolVersion':'2025-06-18','capabilities':{},'clientInfo':{}}",
                   "name is missing in clientInfo");
    expect_refused(
        "initialize",
        "{'protocolVersion':'2025-06-18','capabilities':{},'clientInfo':{'name':'x'}}",
        "version is missing in clientInfo");
    expect_refused("ping", "{'_meta':1}", "_meta in params must be an object");
    expect_refused("ping", "{'_meta':{'progressToken':[]}}",
                   "progressToken in _meta must be a string or a whole number");
    expect_refused("resources/list", "{'cursor':1}", "cursor in params must be a string");
    expect_refused("resources/templates/list", "{'cursor':1}",
                   "cursor in params must be a string");
    expect_refused("tools/list", "{'cursor':1}", "cursor in params must be a string");
    expect_refused("prompts/list", "{'cursor':1}", "cursor in params must be a string");
    expect_refused("resources/read", NULL, "Missing uri parameter");
    expect_refused("resources/read", "{'uri':null}", "uri in params must be a string");
    expect_refused("resources/subscribe", NULL, "Missing uri parameter");
    expect_refused("resources/subscribe", "{'uri':['a:b']}",
                   "uri in params must be a string");
    expect_refused("resources/unsubscribe", "{}", "Missing uri parameter");
    expect_refused("resources/unsubscribe", "{'uri':1}",
                   "uri in params must be a string");
    expect_refused("tools/call", NULL, "Missing name parameter");
    expect_refused("tools/call", "{'name':'t','arguments':'x'}",
                   "arguments in params must be an object");
    expect_refused("prompts/get", "{'name':1}", "name in params must be a string");
    expect_refused("prompts/get", "{'name':'p','arguments':{'x':null}}",
                   "the arguments of a prompt must be strings: x");
    expect_refused("completion/complete", NULL, "Missing ref parameter");
    expect_refused("logging/setLevel", NULL, "Missing level parameter");
    expect_refused("logging/setLevel", "{'level':6}", "level in params must be a string");
    expect_refused("logging/setLevel", "{'level':'INFO'}",
                   "level in params is not a log level: INFO");
}

static void reads_who_initializes(void **state) {
    struct reading r;

    (void)state;
    read_message(&r, "initialize", INITIALIZE, 1, TDG__V_UNKNOWN);
    assert_int_equal(r.rv, 0);
    assert_string_equal(r.request.requested_version, "2025-06-18");
    assert_string_equal(r.request.client_name, "me");
    assert_string_equal(r.request.client_version, "1");
    assert_json_equal(r.request.client_capabilities, "{'roots':{}}");
    done(&r);
}

static void takes_a_version_that_nobody_knows(void **state) {
    struct reading r;

    (void)state;
    read_message(&r, "initialize",
                 "{'protocolVersion':'1','capabilities':{},"
                 "'clientInfo':{'name':'','version':''}}",
                 1, TDG__V_UNKNOWN);
    assert_int_equal(r.rv, 0);
    assert_string_equal(r.request.requested_version, "1");
    done(&r);
}

static void knows_all_log_levels(void **state) {
    static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    char params[64];

    (void)state;
    for (size_t i = 0; i < COUNT(levels); i++) {
        struct reading r;

        snprintf(params, sizeof(params), "{'level':'%s'}", levels[i]);
        read_legacy(&r, "logging/setLevel", params);
        assert_int_equal(r.rv, 0);
        assert_int_equal(r.request.level, i);
        done(&r);
    }
}

/* Before and after initialize, in each revision. */
static void expect_notification(const char *method, const char *params,
                                tdg__method_t expected, const char *cancels) {
    for (int v = TDG__V_UNKNOWN; v <= TDG__V_LATEST_LEGACY; v++) {
        struct reading r;

        read_message(&r, method, params, 0, (tdg__version_t)v);
        assert_int_equal(r.rv, 0);
        assert_int_equal(r.request.method, expected);
        if (cancels == NULL)
            assert_null(r.request.cancels);
        else
            assert_string_equal(r.request.cancels, cancels);
        done(&r);
    }
}

static void knows_the_notifications_it_acts_on(void **state) {
    (void)state;
    expect_notification("notifications/initialized", NULL, TDG__M_INITIALIZED, NULL);
    expect_notification("notifications/initialized", "{'_meta':4}", TDG__M_INITIALIZED,
                        NULL);
    expect_notification("notifications/cancelled", "{'requestId':1,'reason':'x'}",
                        TDG__M_CANCELLED, "1");
    expect_notification("notifications/cancelled", "{'requestId':[]}", TDG__M_CANCELLED,
                        NULL);
    expect_notification("notifications/progress", "{'progressToken':1,'progress':0.5}",
                        TDG__M_OTHER_NOTIFICATION, NULL);
    expect_notification("notifications/roots/list_changed", NULL,
                        TDG__M_OTHER_NOTIFICATION, NULL);
    expect_notification("notifications/unheard_of", NULL, TDG__M_OTHER_NOTIFICATION,
                        NULL);
    expect_notification("initialize", INITIALIZE, TDG__M_OTHER_NOTIFICATION, NULL);
    expect_notification("tools/call", "{'name':'t'}", TDG__M_OTHER_NOTIFICATION, NULL);
}

#define MS_RANGE "must be a whole number from 0 to 86400000"

/* ---- Wishes ------------------------------------------------------------- */

static void wishes_for_nothing_by_default(void **state) {
    struct reading r;

    (void)state;
    read_legacy(&r, "resources/subscribe", "{'uri':'a:b','_meta':{'dev.tidings/x':1}}");
    assert_int_equal(r.rv, 0);
    assert_string_equal(r.request.uri, "a:b");
    assert_false(r.request.wishes.any);
    assert_null(r.request.wishes.cursor);
    assert_null(r.request.wishes.filter);
    assert_int_equal(r.request.wishes.since_ms, 0);
    assert_int_equal(r.request.wishes.batch_ms, -1);
    assert_int_equal(r.request.wishes.debounce_ms, -1);
    assert_int_equal(r.request.wishes.throttle_ms, -1);
    assert_int_equal(r.request.wishes.rate_limit_ms, -1);
    assert_int_equal(r.request.wishes.priority, 0);
    assert_false(r.request.wishes.await_creation);
    done(&r);
}

static void reads_every_wish(void **state) {
    struct reading r;

    (void)state;
    read_legacy(&r, "resources/subscribe",
                "{'uri':'a:b','_meta':{'dev.tidings/cursor':'ab-12',"
                "'dev.tidings/sinceMs':86400000,'dev.tidings/options':{'debounceMs':0,"
                "'rateLimitMs':86400000,'filter':{'uri':{'eq':'x'}},'priority':-1,"
                "'awaitCreation':true}}}");
    assert_int_equal(r.rv, 0);
    assert_true(r.request.wishes.any);
    assert_string_equal(r.request.wishes.cursor, "ab-12");
    assert_int_equal(r.request.wishes.since_ms, 86400000);
    assert_int_equal(r.request.wishes.batch_ms, -1);
    assert_int_equal(r.request.wishes.debounce_ms, 0);
    assert_int_equal(r.request.wishes.throttle_ms, -1);
    assert_int_equal(r.request.wishes.rate_limit_ms, 86400000);
    assert_json_equal(r.request.wishes.filter, "{'uri':{'eq':'x'}}");
    assert_int_equal(r.request.wishes.priority, -1);
    assert_true(r.request.wishes.await_creation);
    done(&r);
}

static void notices_each_wish_alone(void **state) {
    static const char *const metas[] = {
        "'dev.tidings/cursor':''", "'dev.tidings/sinceMs':0", "'dev.tidings/options':{}",
        "'dev.tidings/options':{'batchMs':1}", "'dev.tidings/options':{'throttleMs':1}"};
    char params[200];

    (void)state;
    for (size_t i = 0; i < COUNT(metas); i++) {
        struct reading r;

        snprintf(params, sizeof(params), "{'uri':'a:b','_meta':{%s}}", metas[i]);
        read_legacy(&r, "resources/subscribe", params);
        assert_int_equal(r.rv, 0);
        assert_true(r.request.wishes.any);
        assert_int_equal(r.request.wishes.batch_ms, i == 3 ? 1 : -1);
        assert_int_equal(r.request.wishes.throttle_ms, i == 4 ? 1 : -1);
        done(&r);
    }
}

static void expect_refused_wish(const char *wish, const char *expected) {
    char params[300];

    snprintf(params, sizeof(params), "{'uri':'a:b','_meta':{%s}}", wish);
    expect_refused("resources/subscribe", params, expected);
}

static void refuses_wishes_that_it_does_not_understand(void **state) {
    (void)state;
    expect_refused_wish("'dev.tidings/cursor':5",
                        "dev.tidings/cursor in _meta must be a string");
    expect_refused_wish(
        "'dev.tidings/"
        "cursor':'12345678901234567890123456789012345678901234567890123456789012345'",
        "dev.tidings/cursor is longer than 64 bytes");
    expect_refused_wish("'dev.tidings/fresh':['a:1']",
                        "dev.tidings/fresh in _meta must be an object");
    expect_refused_wish("'dev.tidings/fresh':{'resourceSubscriptions':['a:1',5]}",
                        "resourceSubscriptions must be an array of strings");
    expect_refused_wish("'dev.tidings/fresh':{'toolsListChanged':1}",
                        "toolsListChanged in dev.tidings/fresh must be true or false");
    expect_refused_wish("'dev.tidings/sinceMs':'1'", "dev.tidings/sinceMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/sinceMs':-1", "dev.tidings/sinceMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/sinceMs':1.5", "dev.tidings/sinceMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/sinceMs':86400001",
                        "dev.tidings/sinceMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/sinceMs':null", "dev.tidings/sinceMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/options':[]",
                        "dev.tidings/options in _meta must be an object");
    expect_refused_wish("'dev.tidings/options':{'batchMs':-1}", "batchMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/options':{'batchMs':86400001}",
                        "batchMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/options':{'debounceMs':'1'}",
                        "debounceMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/options':{'throttleMs':1.0}",
                        "throttleMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/options':{'rateLimitMs':true}",
                        "rateLimitMs " MS_RANGE);
    expect_refused_wish("'dev.tidings/options':{'filter':[]}",
                        "filter must be an object");
    expect_refused_wish("'dev.tidings/options':{'filter':null}",
                        "filter must be an object");
    expect_refused_wish("'dev.tidings/options':{'awaitCreation':1}",
                        "awaitCreation must be true or false");
    expect_refused_wish("'dev.tidings/options':{'priority':2}",
                        "priority must be -1, 0 or 1");
    expect_refused_wish("'dev.tidings/options':{'priority':-2}",
                        "priority must be -1, 0 or 1");
    expect_refused_wish("'dev.tidings/options':{'priority':'high'}",
                        "priority must be -1, 0 or 1");
    expect_refused_wish("'dev.tidings/options':{'batchms':1}", "unknown option: batchms");
    expect_refused_wish("'dev.tidings/options':{'':1}", "unknown option: ");
    expect_refused_wish("'dev.tidings/options':{'batchMs':1,'debounceMs':1}",
                        "only one of batchMs, debounceMs and throttleMs can be chosen");
    expect_refused_wish("'dev.tidings/options':{'throttleMs':0,'batchMs':0}",
                        "only one of batchMs, debounceMs and throttleMs can be chosen");
}

static void takes_a_cursor_of_the_longest_length(void **state) {
    struct reading r;

    (void)state;
    read_legacy(&r, "resources/subscribe",
                "{'uri':'a:b','_meta':{'dev.tidings/cursor':"
                "'1234567890123456789012345678901234567890123456789012345678901234'}}");
    assert_int_equal(r.rv, 0);
    assert_int_equal(strlen(r.request.wishes.cursor), 64);
    done(&r);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(knows_its_methods_in_each_revision),
        CASE(takes_only_initialize_and_ping_before_initialize),
        CASE(has_no_other_methods),
        CASE(refuses_wrong_parameters),
        CASE(reads_who_initializes),
        CASE(takes_a_version_that_nobody_knows),
        CASE(knows_all_log_levels),
        CASE(knows_the_notifications_it_acts_on),
        CASE(wishes_for_nothing_by_default),
        CASE(reads_every_wish),
        CASE(notices_each_wish_alone),
        CASE(refuses_wishes_that_it_does_not_understand),
        CASE(takes_a_cursor_of_the_longest_length),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("request_legacy", tests, NULL, NULL);
}
