/* SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "base/budget.h"
#include "base/buf.h"
#include "support.h"

static void grants_what_fits_and_no_more(void **state) {
    tdg__budget_t *budget = tdg__budget_create(100);

    (void)state;
    assert_true(tdg__budget_take(budget, 60));
    assert_false(tdg__budget_take(budget, 41));
    assert_true(tdg__budget_take(budget, 40));
    assert_int_equal(tdg__budget_refusals(budget), 1);
    assert_false(tdg__budget_take(budget, 1));
    assert_int_equal(tdg__budget_refusals(budget), 2);
    tdg__budget_give(budget, 60);
    assert_int_equal(tdg__budget_used(budget), 40);
    tdg__budget_give(budget, 40);
    tdg__budget_unref(budget);
}

static void grants_anything_to_one_that_is_alone(void **state) {
    tdg__budget_t *budget = tdg__budget_create(100);

    (void)state;
    assert_true(tdg__budget_take(budget, 1000));
    assert_false(tdg__budget_take(budget, 1));
    assert_true(tdg__budget_exchange(budget, 1000, 2000));
    tdg__budget_give(budget, 2000);
    tdg__budget_unref(budget);
}

static void exchanges_an_estimate_for_what_it_came_to(void **state) {
    tdg__budget_t *budget = tdg__budget_create(100);

    (void)state;
    assert_true(tdg__budget_take(budget, 50));
    assert_true(tdg__budget_take(budget, 50));
    assert_false(tdg__budget_exchange(budget, 50, 51));
    assert_int_equal(tdg__budget_used(budget), 100);
    assert_true(tdg__budget_exchange(budget, 50, 20));
    assert_int_equal(tdg__budget_used(budget), 70);
    tdg__budget_give(budget, 70);
    tdg__budget_unref(budget);
}

static void what_exists_already_counts_beyond_the_limit(void **state) {
    tdg__budget_t *budget = tdg__budget_create(100);
    tdg__buf_t *buf = tdg__buf_create("0123456789", 10);

    (void)state;
    assert_true(tdg__budget_take(budget, 99));
    assert_true(tdg__budget_take(budget, 0));
    tdg__budget_overdraw(budget, 11);
    assert_int_equal(tdg__budget_used(budget), 110);
    assert_false(tdg__budget_take(budget, 0));
    tdg__buf_overcharge(buf, budget);
    assert_int_equal(tdg__budget_used(budget), 120);
    tdg__buf_unref(buf);
    assert_int_equal(tdg__budget_used(budget), 110);
    tdg__budget_give(budget, 110);
    tdg__budget_unref(budget);
}

static void reserves_what_fits_beside_what_is_used(void **state) {
    tdg__budget_t *budget = tdg__budget_create(100);

    (void)state;
    assert_true(tdg__budget_take(budget, 30));
    assert_true(tdg__budget_reserve(budget, 60));
    assert_false(tdg__budget_reserve(budget, 11));
    assert_int_equal(tdg__budget_refusals(budget), 1);
    assert_true(tdg__budget_reserve(budget, 10));
    assert_int_equal(tdg__budget_reserved(budget), 70);
    tdg__budget_unreserve(budget, 70);
    tdg__budget_give(budget, 30);
    assert_true(tdg__budget_reserve(budget, 1000)); /* it is alone */
    tdg__budget_unreserve(budget, 1000);
    tdg__budget_unref(budget);
}

static void what_is_reserved_keeps_nobody_from_taking(void **state) {
    tdg__budget_t *budget = tdg__budget_create(100);

    (void)state;
    assert_true(tdg__budget_reserve(budget, 100));
    assert_true(tdg__budget_reserve(budget, 0));
    assert_true(tdg__budget_take(budget, 99));
    assert_true(tdg__budget_reserve(budget, 0));
    assert_true(tdg__budget_take(budget, 1));
    assert_false(tdg__budget_reserve(budget, 0)); /* used up */
    tdg__budget_unreserve(budget, 100);
    tdg__budget_give(budget, 100);
    tdg__budget_unref(budget);
}

static void a_buffer_counts_until_its_last_holder_goes(void **state) {
    tdg__budget_t *budget = tdg__budget_create(100);
    tdg__buf_t *buf = tdg__buf_create("0123456789", 10);

    (void)state;
    assert_true(tdg__buf_charge(buf, budget, 0));
    assert_int_equal(tdg__budget_used(budget), 10);
    tdg__buf_ref(buf);
    tdg__buf_unref(buf);
    assert_int_equal(tdg__budget_used(budget), 10);

    tdg__budget_t *ours = tdg__budget_ref(budget);
    tdg__budget_unref(budget); /* whoever made it goes first */
    tdg__buf_unref(buf);
    assert_int_equal(tdg__budget_used(ours), 0);
    tdg__budget_unref(ours);
}

static void *take_and_give(void *arg) {
    tdg__budget_t *budget = arg;

    for (int i = 0; i < 100000; i++) {
        if (!tdg__budget_take(budget, 60))
            continue;
        if (tdg__budget_used(budget) > 100)
            abort();
        tdg__budget_give(budget, 60);
    }
    return NULL;
}

static void holds_between_threads(void **state) {
    tdg__budget_t *budget = tdg__budget_create(100);
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, budget), 0);
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(tdg__budget_used(budget), 0);
    tdg__budget_unref(budget);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_what_fits_and_no_more),
        cmocka_unit_test(grants_anything_to_one_that_is_alone),
        cmocka_unit_test(exchanges_an_estimate_for_what_it_came_to),
        cmocka_unit_test(what_exists_already_counts_beyond_the_limit),
        cmocka_unit_test(reserves_what_fits_beside_what_is_used),
        cmocka_unit_test(what_is_reserved_keeps_nobody_from_taking),
        cmocka_unit_test(a_buffer_counts_until_its_last_holder_goes),
        cmocka_unit_test(holds_between_threads),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
