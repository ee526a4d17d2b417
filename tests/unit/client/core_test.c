/* SPDX-License-Identifier: MIT
 *
 * The core's timers and its log, without a server. */
#include "unit/client/fake.h"

struct fixture {
    struct fake fake;
    tdg__core_timer_t timers[4];
    char order[16];
};

static struct fixture *here; /* timers know only the core */

static int setup(void **state) {
    struct fixture *fix = state_create(state, sizeof(*fix));

    here = fix;
    fake_init(&fix->fake, TDG__TRANSPORT_HTTP);
    return fake_create(&fix->fake);
}

static int teardown(void **state) {
    struct fixture *fix = *state;

    fake_end(&fix->fake);
    return state_destroy(state);
}

static void write_order(tdg__core_t *core, tdg__core_timer_t *timer) {
    (void)core;
    here->order[strlen(here->order)] = (char)('0' + (timer - here->timers));
}

static void timers_run_in_the_order_of_their_time(void **state) {
    struct fixture *fix = *state;
    tdg__core_t *core = fix->fake.core;
    int64_t start = fix->fake.now;

    for (size_t i = 0; i < COUNT(fix->timers); i++)
        assert_int_equal(tdg__core_timer_init(core, &fix->timers[i], write_order), 0);
    tdg__core_timer_at(core, &fix->timers[0], start + 30);
    tdg__core_timer_at(core, &fix->timers[1], start + 10);
    tdg__core_timer_at(core, &fix->timers[2], start + 20);
    tdg__core_timer_at(core, &fix->timers[3], start + 5);
    tdg__core_timer_stop(core, &fix->timers[3]);
    assert_int_equal(tdg__core_deadline(core), start + 10);

    fake_pass(&fix->fake, 20);
    assert_string_equal(fix->order, "12");
    fake_pass(&fix->fake, 20);
    assert_string_equal(fix->order, "120");
    assert_int_equal(tdg__core_deadline(core), INT64_MAX);
    for (size_t i = 0; i < COUNT(fix->timers); i++)
        tdg__core_timer_done(core, &fix->timers[i]);
}

static void arm_again(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__core_timer_at(core, timer, tdg__core_now(core));
}

static void a_timer_without_end_does_not_hold_up_a_tick(void **state) {
    struct fixture *fix = *state;
    tdg__core_t *core = fix->fake.core;

    assert_int_equal(tdg__core_timer_init(core, &fix->timers[0], arm_again), 0);
    tdg__core_timer_at(core, &fix->timers[0], fix->fake.now);
    tdg__core_tick(core);
    assert_int_equal(tdg__core_deadline(core), fix->fake.now);
    tdg__core_timer_done(core, &fix->timers[0]);
}

static void the_log_has_no_control_characters(void **state) {
    struct fixture *fix = *state;

    tdg__core_log(fix->fake.core, TDG_LOG_INFO, "a%sb", "\r\n\x1b[31m\x7f");
    assert_string_equal(fix->fake.lines[0], "a???[31m?b");
}

static void oddities_are_logged_once_a_second_and_kind(void **state) {
    struct fixture *fix = *state;
    struct fake *f = &fix->fake;

    for (int i = 0; i < 100; i++) {
        tdg__core_odd(f->core, TDG__ODD_MESSAGE, "message %d", i);
        tdg__core_odd(f->core, TDG__ODD_ANSWER, "answer %d", i);
    }
    assert_int_equal(f->line_count, 2);
    fake_pass(f, 1000);
    tdg__core_odd(f->core, TDG__ODD_MESSAGE, "again");
    assert_int_equal(f->line_count, 3);
}

static void facts_are_empty_before_there_are_any(void **state) {
    struct fixture *fix = *state;
    tdg_server_facts_t facts;

    assert_int_equal(tdg__core_facts(fix->fake.core, &facts), 0);
    assert_string_equal(facts.name, "");
    assert_string_equal(facts.protocol, "");
    assert_null(facts.instructions);
    assert_json_equal(facts.info, "{}");
    assert_json_equal(facts.supported, "[]");
    json_decref(facts.info);
    json_decref(facts.capabilities);
    json_decref(facts.supported);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(timers_run_in_the_order_of_their_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_timer_without_end_does_not_hold_up_a_tick,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(the_log_has_no_control_characters, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(oddities_are_logged_once_a_second_and_kind, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(facts_are_empty_before_there_are_any, setup,
                                        teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client/core", tests, NULL, NULL);
}
