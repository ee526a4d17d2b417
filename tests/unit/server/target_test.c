/* SPDX-License-Identifier: MIT */
#include "served.h"
#include "server/mcp/target.h"

static void read_it(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    tdg_request_reply_text(request, uri);
}

static void expect(struct served *served, const char *text, int code,
                   tdg__target_kind_t kind, const char *name) {
    tdg__resolved_t resolved;

    assert_int_equal(tdg__resolve(served->server, text, &resolved), code);
    if (code < 0)
        return;
    assert_int_equal(resolved.target.kind, kind);
    assert_string_equal(resolved.target.name, name);
    assert_int_equal(resolved.target.len, strlen(name));
    tdg__resolved_done(&resolved);
}

static void what_is_served_resolves(void **state) {
    const tdg_resource_t still = {
        .uri = "a:still", .name = "s", .read = read_it, .not_subscribable = true};
    struct served served;

    (void)state;
    served_create(&served, NULL);
    assert_int_equal(tdg_server_add_resource(served.server, &still), 0);
    expect(&served, "a:1", 0, TDG__TARGET_URI, "a:1");
    expect(&served, "t:anything", 0, TDG__TARGET_URI, "t:anything");
    expect(&served, "t:{x}", 0, TDG__TARGET_TEMPLATE, "t:{x}");
    expect(&served, "t:%7Bx%7d", 0, TDG__TARGET_TEMPLATE, "t:{x}");
    expect(&served, "t:%7By%7D", 0, TDG__TARGET_URI, "t:%7By%7D"); /* t:{x} matches it */
    expect(&served, "t:{y}", TDG_EURI, TDG__TARGET_URI, "");
    expect(&served, "b:1", TDG_ENOTFOUND, TDG__TARGET_URI, "");
    expect(&served, "a:still", TDG_ENOTSUP, TDG__TARGET_URI, "");
    expect(&served, "", TDG_EURI, TDG__TARGET_URI, "");
    expect(&served, "no scheme", TDG_EURI, TDG__TARGET_URI, "");
    served_destroy(&served);
}

static void other_templates_resolve_where_that_is_switched_on(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_ANY_TEMPLATE};
    struct served served;

    (void)state;
    served_create(&served, &opts);
    expect(&served, "u:{y}", 0, TDG__TARGET_TEMPLATE, "u:{y}");
    expect(&served, "u:%7By%7D", 0, TDG__TARGET_TEMPLATE, "u:{y}");
    expect(&served, "a:1", 0, TDG__TARGET_URI, "a:1");
    expect(&served, "u:1", TDG_ENOTFOUND, TDG__TARGET_URI, "");
    served_destroy(&served);
}

static void wishes_become_options(void **state) {
    static const struct {
        tdg__wishes_t wishes;
        tdg__timing_mode_t mode;
        uint32_t window_ms;
        int32_t rate_limit_ms;
    } cases[] = {
        {{.batch_ms = -1, .debounce_ms = -1, .throttle_ms = -1, .rate_limit_ms = -1},
         TDG__TIMING_INHERIT,
         0,
         TDG__RATE_INHERIT},
        {{.batch_ms = 5, .debounce_ms = -1, .throttle_ms = -1, .rate_limit_ms = 0},
         TDG__TIMING_BATCH,
         5,
         TDG__RATE_OFF},
        {{.batch_ms = -1, .debounce_ms = 6, .throttle_ms = -1, .rate_limit_ms = 9},
         TDG__TIMING_DEBOUNCE,
         6,
         9},
        {{.batch_ms = -1, .debounce_ms = -1, .throttle_ms = 0, .rate_limit_ms = -1},
         TDG__TIMING_THROTTLE,
         0,
         TDG__RATE_INHERIT},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t why = {0};
        tdg__sub_opts_t opts;

        tdg__wishes_to_opts(&cases[i].wishes, &why, &opts);
        assert_int_equal(opts.settings.timing.mode, cases[i].mode);
        assert_int_equal(opts.settings.timing.window_ms, cases[i].window_ms);
        assert_int_equal(opts.settings.rate_limit_ms, cases[i].rate_limit_ms);
        assert_false(opts.has_cursor);
        assert_ptr_equal(opts.error, &why);
    }
}

static void an_unreadable_cursor_is_a_foreign_one(void **state) {
    const tdg__wishes_t wishes = {.batch_ms = -1,
                                  .debounce_ms = -1,
                                  .throttle_ms = -1,
                                  .rate_limit_ms = -1,
                                  .cursor = "nonsense"};
    tdg__parse_error_t why = {0};
    tdg__sub_opts_t opts;

    (void)state;
    tdg__wishes_to_opts(&wishes, &why, &opts);
    assert_true(opts.has_cursor);
    assert_int_equal(opts.cursor.epoch, 0);
    assert_int_equal(opts.cursor.number, 0);
}

static void only_wishes_are_the_clients_fault(void **state) {
    tdg__parse_error_t why = {0};
    tdg__rpc_error_t error = {0};

    (void)state;
    assert_false(tdg__wishes_blamed(TDG_ENOMEM, &why, &error));
    assert_false(tdg__wishes_blamed(TDG_EENDED, &why, NULL));
    assert_true(tdg__wishes_blamed(TDG_EFILTERSIZE, &why, NULL));
    assert_true(tdg__wishes_blamed(TDG_EFILTER, &why, &error));
    assert_int_equal(error.code, TDG__RPC_INVALID_PARAMS);
    tdg__rpc_error_done(&error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_served_resolves, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(other_templates_resolve_where_that_is_switched_on,
                                        memory_setup, memory_teardown),
        cmocka_unit_test(wishes_become_options),
        cmocka_unit_test(an_unreadable_cursor_is_a_foreign_one),
        cmocka_unit_test_setup_teardown(only_wishes_are_the_clients_fault, memory_setup,
                                        memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
