/* SPDX-License-Identifier: MIT */
#include "server/loop/trim.h"

#include "support.h"

static const size_t MB = 1 << 20;

static void memory_goes_back_once_a_flood_is_over(void **state) {
    tdg__trim_t trim = {0};

    (void)state;
    assert_false(tdg__trim_is_due(&trim, 0, 10 * MB, 0)); /* what it has at first */
    assert_false(tdg__trim_is_due(&trim, 5000, 100 * MB, 1000));
    assert_false(tdg__trim_is_due(&trim, 10000, 300 * MB, 3000)); /* it grows still */
    assert_true(tdg__trim_is_due(&trim, 15000, 300 * MB, 10));
    assert_false(tdg__trim_is_due(&trim, 20000, 15 * MB, 10));
}

static void what_is_in_use_is_tried_less_and_less_often(void **state) {
    tdg__trim_t trim = {0};
    int64_t now_ms = 0;
    unsigned tries = 0;

    (void)state;
    assert_false(tdg__trim_is_due(&trim, now_ms, 10 * MB, 0));
    for (; now_ms < 3600 * 1000; now_ms += 5000)
        tries += tdg__trim_is_due(&trim, now_ms, 300 * MB, 1000);
    assert_in_range(tries, 5, 12); /* in an hour */
}

static void when_clients_leave_it_is_tried_at_once(void **state) {
    tdg__trim_t trim = {0};

    (void)state;
    assert_false(tdg__trim_is_due(&trim, 0, 10 * MB, 0));
    assert_false(tdg__trim_is_due(&trim, 5000, 300 * MB, 1000));
    assert_true(tdg__trim_is_due(&trim, 10000, 300 * MB, 1000)); /* all in use */
    assert_false(tdg__trim_is_due(&trim, 15000, 300 * MB, 1000));
    assert_true(tdg__trim_is_due(&trim, 20000, 300 * MB, 10));
}

static void a_little_is_not_worth_it(void **state) {
    tdg__trim_t trim = {0};

    (void)state;
    assert_false(tdg__trim_is_due(&trim, 0, 10 * MB, 0));
    assert_false(tdg__trim_is_due(&trim, 5000, 25 * MB, 0));
    assert_false(tdg__trim_is_due(&trim, 10000, 25 * MB, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_goes_back_once_a_flood_is_over),
        cmocka_unit_test(what_is_in_use_is_tried_less_and_less_often),
        cmocka_unit_test(when_clients_leave_it_is_tried_at_once),
        cmocka_unit_test(a_little_is_not_worth_it),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("trim", tests, NULL, NULL);
}
