/* SPDX-License-Identifier: MIT */
#include "server/loop/configured.h"
#include "support.h"
#include "unit/targets.h"

static const tdg_settings_t none;
static const tdg_settings_t slow = {TDG_TIMING_DEBOUNCE, 700, 7000,
                                    TDG_RATE_OFF,        20,  TDG_FLOOR_OFF};

static tdg__configured_t *create(void) {
    tdg__configured_t *configured;

    assert_int_equal(tdg__configured_create(&none, &configured), 0);
    return configured;
}

/* Whatever a name looks like, its kind says what it is. */
static void a_name_means_nothing_by_itself(void **state) {
    static const char *const names[] = {"list:tools", "t:{x}", "tools"};
    tdg__configured_t *configured = create();

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        const tdg_target_t uri = {TDG_TARGET_URI, names[i]};
        tdg__target_t target = tdg__target_to_engine(&uri);

        assert_int_equal(target.kind, TDG__TARGET_URI);
        assert_string_equal(target.name, names[i]);
        assert_int_equal(tdg__configured_set(configured, &uri, &slow), 0);
        assert_int_equal(tdg__configured_get(configured, &uri).window_ms, slow.window_ms);
    }
    assert_int_equal(tdg__configured_get(configured, FOR_TEMPLATE("t:{x}")).window_ms, 0);
    assert_int_equal(tdg__configured_get(configured, FOR_LIST("tools")).window_ms, 0);
    tdg__configured_destroy(configured);
}

static void settings_are_remembered_and_forgotten(void **state) {
    tdg__configured_t *configured = create();

    (void)state;
    assert_memory_equal(&(tdg_settings_t){0}, &none, sizeof(none));
    tdg_settings_t got = tdg__configured_get(configured, FOR_URI("a:1"));
    assert_memory_equal(&got, &none, sizeof(none));
    assert_int_equal(tdg__configured_set(configured, FOR_URI("a:1"), &slow), 0);
    got = tdg__configured_get(configured, FOR_URI("a:1"));
    assert_int_equal(got.timing, slow.timing);
    assert_int_equal(got.window_ms, slow.window_ms);
    assert_int_equal(got.longest_ms, slow.longest_ms);
    assert_int_equal(got.rate_limit_ms, slow.rate_limit_ms);
    assert_int_equal(got.min_window_ms, slow.min_window_ms);
    assert_int_equal(got.min_rate_limit_ms, slow.min_rate_limit_ms);
    assert_int_equal(tdg__configured_set(configured, FOR_URI("a:1"), &none), 0);
    got = tdg__configured_get(configured, FOR_URI("a:1"));
    assert_memory_equal(&got, &none, sizeof(none));
    tdg__configured_destroy(configured);
    tdg__configured_destroy(NULL);
}

static void nonsense_is_refused(void **state) {
    const tdg_settings_t bad = {.timing = (tdg_timing_mode_t)9};
    tdg__configured_t *configured = create(), *other;

    (void)state;
    assert_int_equal(tdg__configured_create(&bad, &other), TDG_EINVAL);
    assert_int_equal(tdg__configured_set(configured, FOR_URI("a:1"), &bad), TDG_EINVAL);
    assert_int_equal(tdg__configured_set(configured, FOR_URI(""), &slow), TDG_EINVAL);
    assert_int_equal(tdg__configured_set(configured, FOR_URI(NULL), &slow), TDG_EINVAL);
    assert_int_equal(tdg__configured_set(configured, NULL, &slow), TDG_EINVAL);
    assert_int_equal(tdg__configured_set(
                         configured, &(tdg_target_t){(tdg_target_kind_t)7, "a:1"}, &slow),
                     TDG_EINVAL);
    assert_int_equal(tdg__configured_set(configured, FOR_TEMPLATE("t:{"), &slow),
                     TDG_ETEMPLATE);
    tdg_settings_t got = tdg__configured_get(configured, FOR_URI("a:1"));
    assert_memory_equal(&got, &none, sizeof(none));
    tdg__configured_destroy(configured);
}

/* A change of a:1 waits in an engine that was told; in another it is due at once. */
static void engines_are_told_of_all(void **state) {
    const tdg__engine_opts_t opts = {
        .defaults = {.timing = {TDG__TIMING_IMMEDIATE, 0, 0}, .rate_limit_ms = -1}};
    const tdg__target_t a = tdg__target_uri("a:1");
    tdg__configured_t *configured = create();

    (void)state;
    assert_int_equal(tdg__configured_set(configured, FOR_URI("a:1"), &slow), 0);
    assert_int_equal(tdg__configured_set(configured, FOR_TEMPLATE("t:{x}"), &slow), 0);
    for (int told = 0; told < 2; told++) {
        tdg__engine_t *engine;
        tdg__stream_t stream;

        assert_int_equal(tdg__engine_create(&opts, &engine), 0);
        if (told != 0)
            assert_int_equal(tdg__configured_apply(configured, engine), 0);
        assert_int_equal(tdg__engine_open(engine, NULL, &stream), 0);
        assert_int_equal(tdg__engine_subscribe(engine, stream, &a, NULL, NULL), 0);
        assert_int_equal(tdg__engine_acknowledge(engine, stream, &a), 0);
        assert_int_equal(tdg__engine_publish(engine, &a, NULL, false, NULL), 0);
        assert_int_equal(tdg__engine_next_ready(engine, 0) == 0, told);
        tdg__engine_destroy(engine);
    }
    tdg__configured_destroy(configured);
}

static void nothing_is_left_where_memory_runs_out(void **state) {
    bool failed = true;

    (void)state;
    for (size_t n = 1; failed; n++) {
        tdg__configured_t *configured = NULL;

        memory_fail(n, MEMORY_ONCE);
        int rv = tdg__configured_create(&none, &configured);
        if (rv == 0) {
            rv = tdg__configured_set(configured, FOR_URI("a:1"), &slow);
            if (rv < 0)
                assert_int_equal(
                    tdg__configured_get(configured, FOR_URI("a:1")).window_ms, 0);
        }
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(rv, failed ? TDG_ENOMEM : 0);
        tdg__configured_destroy(configured);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_means_nothing_by_itself),
        cmocka_unit_test_setup_teardown(settings_are_remembered_and_forgotten,
                                        memory_setup, memory_teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(engines_are_told_of_all, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(nothing_is_left_where_memory_runs_out,
                                        memory_setup, memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("configured", tests, NULL, NULL);
}
