/* SPDX-License-Identifier: MIT */
#include "server/census.h"
#include "support.h"

static tdg__address_t address(uint8_t last) {
    return (tdg__address_t){.bytes = {[15] = last}};
}

static void sessions_are_counted_in_all_and_per_address(void **state) {
    tdg__address_t one = address(1), two = address(2);
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(3, 2, &census), 0);
    assert_int_equal(tdg__census_enter(census, &one, false), TDG__ADMITTED);
    assert_int_equal(tdg__census_enter(census, &one, false), TDG__ADMITTED);
    assert_int_equal(tdg__census_enter(census, &one, false), TDG__FULL_OF_ADDRESS);
    assert_int_equal(tdg__census_enter(census, &two, false), TDG__ADMITTED);
    assert_int_equal(tdg__census_enter(census, &two, false), TDG__FULL);
    assert_int_equal(tdg__census_enter(census, NULL, false), TDG__FULL);
    assert_int_equal(tdg__census_enter(census, NULL, true), TDG__ADMITTED);
    tdg__census_leave(census, NULL);
    tdg__census_leave(census, &one);
    assert_int_equal(tdg__census_enter(census, NULL, false), TDG__ADMITTED);
    tdg__census_leave(census, &one);
    assert_int_equal(tdg__census_enter(census, &one, false), TDG__ADMITTED);
    tdg__census_destroy(census);
    tdg__census_destroy(NULL);
}

/* Whoever is to give way may turn out to be in use. */
static void the_limits_are_exceeded_by_some_at_most(void **state) {
    tdg__address_t one = address(1), two = address(2);
    tdg__census_t *census;
    unsigned count = 0;

    (void)state;
    assert_int_equal(tdg__census_create(128, 64, &census), 0);
    while (count < 1000 && tdg__census_enter(census, &one, true) == TDG__ADMITTED)
        count++;
    assert_int_equal(count, 88);
    assert_int_equal(tdg__census_enter(census, &one, true), TDG__FULL_OF_ADDRESS);
    while (count < 1000 && tdg__census_enter(census, NULL, true) == TDG__ADMITTED)
        count++;
    assert_int_equal(count, 168);
    assert_int_equal(tdg__census_enter(census, &two, true), TDG__FULL);
    tdg__census_leave(census, &one);
    assert_int_equal(tdg__census_enter(census, &two, true), TDG__ADMITTED);
    tdg__census_destroy(census);
}

static void many_addresses_come_and_go(void **state) {
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(1000, 1, &census), 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 256; i++) {
            tdg__address_t one = address((uint8_t)i);

            assert_int_equal(tdg__census_enter(census, &one, false), TDG__ADMITTED);
            assert_int_equal(tdg__census_enter(census, &one, false),
                             TDG__FULL_OF_ADDRESS);
        }
        for (int i = 0; i < 256; i++) {
            tdg__address_t one = address((uint8_t)i);

            tdg__census_leave(census, &one);
        }
    }
    tdg__census_destroy(census);
}

static void the_worker_with_the_most_is_found(void **state) {
    tdg__census_t *census;

    (void)state;
    assert_int_equal(tdg__census_create(10, 5, &census), 0);
    assert_int_equal(tdg__census_most_tentative(census, 0), -1);
    tdg__census_tentative(census, 0, 1);
    assert_int_equal(tdg__census_most_tentative(census, 0), -1);
    assert_int_equal(tdg__census_most_tentative(census, 1), 0);
    tdg__census_tentative(census, 63, 1);
    tdg__census_tentative(census, 63, 1);
    assert_int_equal(tdg__census_most_tentative(census, 1), 63);
    tdg__census_tentative(census, 63, -1);
    tdg__census_tentative(census, 63, -1);
    assert_int_equal(tdg__census_most_tentative(census, 1), 0);
    tdg__census_destroy(census);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_are_counted_in_all_and_per_address),
        cmocka_unit_test(the_limits_are_exceeded_by_some_at_most),
        cmocka_unit_test(many_addresses_come_and_go),
        cmocka_unit_test(the_worker_with_the_most_is_found),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("census", tests, NULL, NULL);
}
