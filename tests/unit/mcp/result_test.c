/* SPDX-License-Identifier: MIT */
#include "mcp/result.h"

#include <stdio.h>

#include "support.h"

static const tdg__server_info_t everything = {.name = "n",
                                              .title = "T",
                                              .version = "1",
                                              .instructions = "ask",
                                              .legacy = true,
                                              .modern = true,
                                              .subscribe = true,
                                              .list_changed = true,
                                              .logging = true,
                                              .completions = true,
                                              .tools = true,
                                              .prompts = true,
                                              .resources = true};

/* Takes the value. */
static void assert_is(json_t *json, const char *expected) {
    assert_non_null(json);
    assert_json_equal(json, expected);
    json_decref(json);
}

/* ---- initialize and server/discover ------------------------------------- */

static void the_server_introduces_itself(void **state) {
    tdg__server_info_t info = everything;

    (void)state;
    assert_is(tdg__result_server_info(&info),
              "{'name': 'n', 'version': '1', 'title': 'T'}");
    info.title = NULL;
    assert_is(tdg__result_server_info(&info), "{'name': 'n', 'version': '1'}");
}

static void a_legacy_version_that_we_speak_is_answered_with_itself(void **state) {
    static const struct {
        const char *requested;
        tdg__version_t version;
    } cases[] = {
        {"2024-11-05", TDG__V2024_11_05}, {"2025-03-26", TDG__V2025_03_26},
        {"2025-06-18", TDG__V2025_06_18}, {"2025-11-25", TDG__V2025_11_25},
        {"2026-07-28", TDG__V2025_11_25}, {"2099-01-01", TDG__V2025_11_25},
        {"1.0", TDG__V2025_11_25},        {"", TDG__V2025_11_25},
        {NULL, TDG__V2025_11_25},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(tdg__negotiate(cases[i].requested), cases[i].version);
}

static void initialize_tells_a_version_what_it_knows(void **state) {
    static const struct {
        tdg__version_t version;
        const char *text, *title, *completions;
    } cases[] = {
        {TDG__V2024_11_05, "2024-11-05", "", ""},
        {TDG__V2025_03_26, "2025-03-26", "", ", 'completions': {}"},
        {TDG__V2025_06_18, "2025-06-18", ", 'title': 'T'", ", 'completions': {}"},
        {TDG__V2025_11_25, "2025-11-25", ", 'title': 'T'", ", 'completions': {}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char expected[512];

        snprintf(expected, sizeof(expected),
                 "{'protocolVersion': '%s', 'capabilities': {'resources': "
                 "{'subscribe': true, 'listChanged': true}, 'tools': "
                 "{'listChanged': true}, 'prompts': {'listChanged': true}, "
                 "'logging': {}%s}, 'serverInfo': {'name': 'n', 'version': '1'%s}, "
                 "'instructions': 'ask'}",
                 cases[i].text, cases[i].completions, cases[i].title);
        assert_is(tdg__result_initialize(&everything, cases[i].version, 0), expected);
    }
}

static void what_is_off_is_not_advertised(void **state) {
    tdg__server_info_t info = {.name = "n", .version = "1", .resources = true};

    (void)state;
    info.legacy = true;
    assert_is(tdg__result_initialize(&info, TDG__V2025_11_25, 0),
              "{'protocolVersion': '2025-11-25', 'capabilities': {'resources': {}}, "
              "'serverInfo': {'name': 'n', 'version': '1'}}");
    info.subscribe = true;
    info.tools = true;
    assert_is(tdg__result_initialize(&info, TDG__V2025_11_25, 0),
              "{'protocolVersion': '2025-11-25', 'capabilities': {'resources': "
              "{'subscribe': true}, 'tools': {}}, "
              "'serverInfo': {'name': 'n', 'version': '1'}}");
    assert_is(tdg__result_initialize(&info, TDG__V2025_11_25, 15000),
              "{'protocolVersion': '2025-11-25', 'capabilities': {'resources': "
              "{'subscribe': true}, 'tools': {}}, "
              "'serverInfo': {'name': 'n', 'version': '1'}, "
              "'_meta': {'dev.tidings/keepAliveMs': 15000}}");
    info.subscribe = false;
    info.list_changed = true;
    info.modern = true;
    assert_is(tdg__result_discover(&info),
              "{'supportedVersions': ['2026-07-28', '2025-11-25', '2025-06-18', "
              "'2025-03-26', '2024-11-05'], 'capabilities': {'resources': "
              "{'listChanged': true}, 'tools': {'listChanged': true}}}");
}

static void discover_lists_the_versions_that_are_spoken(void **state) {
    tdg__server_info_t info = everything;
    json_t *result;

    (void)state;
    assert_is(tdg__result_discover(&info),
              "{'supportedVersions': ['2026-07-28', '2025-11-25', '2025-06-18', "
              "'2025-03-26', '2024-11-05'], 'capabilities': {'resources': "
              "{'subscribe': true, 'listChanged': true}, 'tools': {'listChanged': true}, "
              "'prompts': {'listChanged': true}, 'logging': {}, 'completions': {}}, "
              "'instructions': 'ask'}");

    info.legacy = false;
    result = tdg__result_discover(&info);
    assert_json_equal(json_object_get(result, "supportedVersions"), "['2026-07-28']");
    json_decref(result);
}

/* ---- What every result has ---------------------------------------------- */

#define INFO "'io.modelcontextprotocol/serverInfo': {'name': 'n'}"

static void assert_finished(const char *result, tdg__method_t method,
                            tdg__version_t version, const tdg__caching_t *caching,
                            const char *expected) {
    json_t *json = json_from(result), *info = json_from("{'name': 'n'}");

    assert_int_equal(tdg__result_finish(json, method, version, caching, info), 0);
    json_decref(info);
    assert_is(json, expected);
}

static void a_legacy_result_stays_as_it_is(void **state) {
    static const tdg__caching_t caching = {1000, false};

    (void)state;
    for (int version = TDG__V_UNKNOWN; version <= TDG__V_LATEST_LEGACY; version++) {
        assert_finished("{}", TDG__M_READ, (tdg__version_t)version, &caching, "{}");
        assert_finished("{'_meta': {}}", TDG__M_CALL, (tdg__version_t)version, NULL,
                        "{'_meta': {}}");
    }
}

static void exactly_six_methods_are_cacheable(void **state) {
    static const bool cacheable[TDG__M_COUNT] = {
        [TDG__M_DISCOVER] = true,  [TDG__M_TOOLS] = true,     [TDG__M_PROMPTS] = true,
        [TDG__M_RESOURCES] = true, [TDG__M_TEMPLATES] = true, [TDG__M_READ] = true,
    };
    static const tdg__caching_t caching = {1000, false};

    (void)state;
    for (int method = 0; method < TDG__M_COUNT; method++)
        assert_finished("{}", (tdg__method_t)method, TDG__V_MODERN, &caching,
                        cacheable[method] ? "{'resultType': 'complete', '_meta': {" INFO
                                            "}, 'ttlMs': 1000, 'cacheScope': 'public'}"
                                          : "{'resultType': 'complete', '_meta': {" INFO
                                            "}}");
}

static void assert_read_finished(const char *result, const char *expected) {
    static const tdg__caching_t caching = {UINT32_MAX, true};

    assert_finished(result, TDG__M_READ, TDG__V_MODERN, &caching, expected);
}

static void what_the_answer_says_itself_is_kept(void **state) {
    (void)state;
    assert_read_finished("{'x': 1}",
                         "{'x': 1, 'resultType': 'complete', '_meta': {" INFO "}, "
                         "'ttlMs': 4294967295, 'cacheScope': 'private'}");
    assert_read_finished("{'ttlMs': 5, 'cacheScope': 'public'}",
                         "{'resultType': 'complete', '_meta': {" INFO "}, "
                         "'ttlMs': 5, 'cacheScope': 'public'}");
    assert_read_finished("{'_meta': {'a': 1}}",
                         "{'resultType': 'complete', '_meta': {'a': 1, " INFO "}, "
                         "'ttlMs': 4294967295, 'cacheScope': 'private'}");
    assert_read_finished("{'_meta': {'io.modelcontextprotocol/serverInfo': {}}}",
                         "{'resultType': 'complete', "
                         "'_meta': {'io.modelcontextprotocol/serverInfo': {}}, "
                         "'ttlMs': 4294967295, 'cacheScope': 'private'}");
    assert_read_finished("{'_meta': 'not an object'}",
                         "{'resultType': 'complete', '_meta': {" INFO "}, "
                         "'ttlMs': 4294967295, 'cacheScope': 'private'}");
}

static void an_unfinished_answer_has_no_caching(void **state) {
    (void)state;
    assert_read_finished("{'resultType': 'input_required'}",
                         "{'resultType': 'input_required', '_meta': {" INFO "}}");
}

static void without_advice_nothing_is_kept_or_shared(void **state) {
    (void)state;
    assert_finished("{}", TDG__M_TOOLS, TDG__V_MODERN, NULL,
                    "{'resultType': 'complete', '_meta': {" INFO "}, 'ttlMs': 0, "
                    "'cacheScope': 'private'}");
}

static void the_meta_of_the_answer_is_not_modified(void **state) {
    json_t *meta = json_from("{'a': 1}"), *info = json_from("{'name': 'n'}");
    json_t *result = json_pack("{s:O}", "_meta", meta);

    (void)state;
    assert_int_equal(tdg__result_finish(result, TDG__M_CALL, TDG__V_MODERN, NULL, info),
                     0);
    assert_json_equal(meta, "{'a': 1}");
    json_decref(result);
    json_decref(info);
    json_decref(meta);
}

static json_t *finished_discover(const tdg__server_info_t *info) {
    json_t *result = tdg__result_discover(info);
    json_t *server_info = tdg__result_server_info(info);
    int rv = TDG_ENOMEM;

    if (result != NULL && server_info != NULL)
        rv =
            tdg__result_finish(result, TDG__M_DISCOVER, TDG__V_MODERN, NULL, server_info);
    json_decref(server_info);
    if (rv < 0) {
        assert_int_equal(rv, TDG_ENOMEM);
        json_decref(result);
        return NULL;
    }
    return result;
}

static json_t *initialize(const tdg__server_info_t *info) {
    return tdg__result_initialize(info, TDG__V2025_11_25, 0);
}

static void without_memory_a_result_is_not_finished(void **state) {
    json_t *info = json_from("{'name': 'n'}");
    size_t failures = 0;

    (void)state;
    for (size_t nth = 1;; nth++, failures++) {
        json_t *result = json_from("{'_meta': {'a': 1, 'b': 2, 'c': 3}}");
        int rv;

        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__result_finish(result, TDG__M_READ, TDG__V_MODERN, NULL, info);
        assert_int_equal(rv, memory_failed() ? TDG_ENOMEM : 0);
        memory_fail(0, MEMORY_ONCE);
        json_decref(result);
        if (rv == 0)
            break;
    }
    assert_in_range(failures, 5, 100);
    json_decref(info);
}

static void without_memory_there_is_no_result(void **state) {
    static json_t *(*const makers[])(const tdg__server_info_t *) = {initialize,
                                                                    finished_discover};

    (void)state;
    for (size_t i = 0; i < COUNT(makers); i++) {
        json_t *full = makers[i](&everything), *result;
        size_t before = memory_live(), failures = 0;

        for (size_t nth = 1;; nth++, failures++) {
            memory_fail(nth, MEMORY_ONCE);
            result = makers[i](&everything);
            if (!memory_failed())
                break;
            assert_null(result);
            assert_int_equal(memory_live(), before);
        }
        memory_fail(0, MEMORY_ONCE);
        assert_true(json_equal(result, full));
        assert_in_range(failures, 20, 500);
        json_decref(result);
        json_decref(full);
    }
}

/* ---- Errors ------------------------------------------------------------- */

enum era { LEGACY, MODERN, ERLMCP, ERAS };

static void assert_fault(tdg__fault_t fault, enum era era, int code, const char *uri,
                         const char *detail, const char *data) {
    static const tdg__version_t versions[ERAS] = {TDG__V2025_03_26, TDG__V_MODERN,
                                                  TDG__V2025_11_25};
    tdg__rpc_error_t error = {0};

    tdg__fault_set(&error, fault, versions[era], era == ERLMCP, uri, detail);
    assert_int_equal(error.code, code);
    assert_true(strlen(error.message) > 0);
    if (data == NULL)
        assert_null(error.data);
    else
        assert_json_equal(error.data, data);
    tdg__rpc_error_done(&error);
}

static void each_fault_has_its_code_and_data(void **state) {
    static const struct {
        tdg__fault_t fault;
        int codes[ERAS]; /* legacy, modern, erlmcp */
        const char *data;
    } cases[] = {
        {TDG__FAULT_NOT_FOUND, {-32002, -32602, -32001}, "{'uri': 'a:1'}"},
        {TDG__FAULT_INVALID_URI,
         {-32602, -32602, -32022},
         "{'error_type': 'invalid_uri_format', 'uri': 'a:1'}"},
        {TDG__FAULT_NOT_SUBSCRIBABLE,
         {-32602, -32602, -32602},
         "{'error_type': 'not_subscribable', 'uri': 'a:1'}"},
        {TDG__FAULT_NOT_SUBSCRIBED, {-32006, -32602, -32006}, "{'uri': 'a:1'}"},
        {TDG__FAULT_SUBSCRIBE_FAILED,
         {-32006, -32603, -32006},
         "{'uri': 'a:1', 'detail': 'why'}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int era = 0; era < ERAS; era++)
            assert_fault(cases[i].fault, (enum era)era, cases[i].codes[era], "a:1", "why",
                         cases[i].data);
    }
    for (int era = 0; era < ERAS; era++) {
        assert_fault(TDG__FAULT_SUBSCRIPTIONS_OFF, (enum era)era,
                     era == MODERN ? -32601 : -32004, NULL, NULL, NULL);
        assert_fault(TDG__FAULT_NOT_INITIALISED, (enum era)era,
                     era == MODERN ? -32600 : -32005, NULL, NULL, NULL);
    }
}

static void the_erlmcp_dialect_is_for_legacy_requests(void **state) {
    tdg__rpc_error_t error = {0};

    (void)state;
    tdg__fault_set(&error, TDG__FAULT_INVALID_URI, TDG__V_MODERN, true, "a", NULL);
    assert_int_equal(error.code, -32602);
    tdg__rpc_error_done(&error);
    tdg__fault_set(&error, TDG__FAULT_NOT_FOUND, TDG__V_MODERN, true, "a:1", NULL);
    assert_int_equal(error.code, -32602);
    tdg__rpc_error_done(&error);
}

/* Seed 001: {"code": -32602, "message": "Invalid params", "data": {"detail": …}}. */
static void the_erlmcp_dialect_has_details_in_data_only(void **state) {
    tdg__rpc_error_t error = {0};

    (void)state;
    tdg__rpc_error_set(&error, -32602, json_from("{'detail':'Missing uri parameter'}"),
                       "Invalid params: Missing uri parameter");
    tdg__error_to_erlmcp(&error);
    assert_string_equal(error.message, "Invalid params");
    assert_json_equal(error.data, "{'detail':'Missing uri parameter'}");
    tdg__rpc_error_done(&error);

    tdg__rpc_error_set(&error, -32602, NULL, "Unknown tool: a");
    tdg__error_to_erlmcp(&error);
    assert_string_equal(error.message, "Unknown tool: a");
    tdg__rpc_error_done(&error);
}

static void a_fault_before_initialize_is_a_legacy_one(void **state) {
    tdg__rpc_error_t error = {0};

    (void)state;
    tdg__fault_set(&error, TDG__FAULT_NOT_INITIALISED, TDG__V_UNKNOWN, false, NULL, NULL);
    assert_int_equal(error.code, -32005);
    tdg__rpc_error_done(&error);
}

static void a_uri_in_an_error_is_as_it_came(void **state) {
    (void)state;
    assert_fault(TDG__FAULT_INVALID_URI, LEGACY, -32602, "", NULL,
                 "{'error_type': 'invalid_uri_format', 'uri': ''}");
    assert_fault(TDG__FAULT_INVALID_URI, LEGACY, -32602, "\n\xe2\x80\xa8%s\"", NULL,
                 "{'error_type': 'invalid_uri_format', 'uri': '\\n\\u2028%s\\u0022'}");
    assert_fault(TDG__FAULT_NOT_FOUND, MODERN, -32602, NULL, NULL, NULL);
    assert_fault(TDG__FAULT_SUBSCRIBE_FAILED, LEGACY, -32006, "a:1", NULL,
                 "{'uri': 'a:1'}");
}

static void the_modern_era_stays_out_of_the_implementations_range(void **state) {
    (void)state;
    for (int fault = 0; fault < TDG__FAULT_COUNT; fault++) {
        tdg__rpc_error_t error = {0};

        tdg__fault_set(&error, (tdg__fault_t)fault, TDG__V_MODERN, false, "a:1", NULL);
        assert_false(error.code >= -32019 && error.code <= -32000);
        tdg__rpc_error_done(&error);
    }
}

static void without_memory_an_error_keeps_its_code(void **state) {
    tdg__rpc_error_t error = {0};

    (void)state;
    memory_fail(1, MEMORY_FROM_THEN_ON);
    tdg__fault_set(&error, TDG__FAULT_NOT_FOUND, TDG__V_MODERN, false, "a:1", NULL);
    assert_true(memory_failed());
    assert_int_equal(error.code, -32602);
    assert_string_equal(error.message, "Resource not found");
    assert_null(error.data);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(the_server_introduces_itself),
        CASE(a_legacy_version_that_we_speak_is_answered_with_itself),
        CASE(initialize_tells_a_version_what_it_knows),
        CASE(what_is_off_is_not_advertised),
        CASE(discover_lists_the_versions_that_are_spoken),
        CASE(a_legacy_result_stays_as_it_is),
        CASE(exactly_six_methods_are_cacheable),
        CASE(what_the_answer_says_itself_is_kept),
        CASE(an_unfinished_answer_has_no_caching),
        CASE(without_advice_nothing_is_kept_or_shared),
        CASE(the_meta_of_the_answer_is_not_modified),
        CASE(without_memory_a_result_is_not_finished),
        CASE(without_memory_there_is_no_result),
        CASE(each_fault_has_its_code_and_data),
        CASE(the_erlmcp_dialect_is_for_legacy_requests),
        CASE(the_erlmcp_dialect_has_details_in_data_only),
        CASE(a_fault_before_initialize_is_a_legacy_one),
        CASE(a_uri_in_an_error_is_as_it_came),
        CASE(the_modern_era_stays_out_of_the_implementations_range),
        CASE(without_memory_an_error_keeps_its_code),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("result", tests, NULL, NULL);
}
