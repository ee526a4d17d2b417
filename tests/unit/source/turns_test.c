/* SPDX-License-Identifier: MIT */
#include "source/common/turns.h"

#include "support.h"

struct fixture {
    tdg__turns_t turns;
    tdg__turn_t all[8];
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    tdg__turns_init(&f->turns);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    assert_null(tdg__turns_take(&f->turns));
    tdg__turns_done(&f->turns);
    return state_destroy(state);
}

static void put(struct fixture *f, size_t i, uint64_t client) {
    tdg__turns_put(&f->turns, &f->all[i], client);
}

/* It is its turn, both to look at and to take. */
static void expect(struct fixture *f, size_t i) {
    assert_ptr_equal(tdg__turns_next(&f->turns), &f->all[i]);
    assert_ptr_equal(tdg__turns_take(&f->turns), &f->all[i]);
    assert_int_equal(f->all[i].lane, 0);
}

static void clients_take_turns_and_each_has_its_order(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < 4; i++)
        put(f, i, 7);
    put(f, 4, 8);
    put(f, 5, 9);
    expect(f, 0);
    expect(f, 4);
    expect(f, 5);
    for (size_t i = 1; i < 4; i++)
        expect(f, i);
}

static void nobody_has_every_other_turn(void **state) {
    struct fixture *f = *state;

    put(f, 0, 7);
    put(f, 1, 8);
    put(f, 2, TDG__NO_CLIENT);
    put(f, 3, TDG__NO_CLIENT);
    expect(f, 2);
    expect(f, 0);
    expect(f, 3);
    expect(f, 1);
}

static void one_may_leave_before_its_turn(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < 3; i++)
        put(f, i, 7);
    put(f, 3, 8);
    tdg__turns_leave(&f->turns, &f->all[1]);
    tdg__turns_leave(&f->turns, &f->all[3]);
    expect(f, 0);
    put(f, 3, 8);
    expect(f, 2);
    expect(f, 3);
}

static void what_another_client_wants_too_goes_where_it_is_sooner(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < 4; i++)
        put(f, i, 7);
    tdg__turns_also(&f->turns, &f->all[3], 8);
    expect(f, 0);
    expect(f, 3);
    expect(f, 1);
    expect(f, 2);
}

static void the_last_of_the_longest_lane_gives_way(void **state) {
    struct fixture *f = *state;

    assert_null(tdg__turns_last_of_longest(&f->turns, 7));
    put(f, 0, 7);
    put(f, 1, 7);
    put(f, 2, 8);
    assert_ptr_equal(tdg__turns_last_of_longest(&f->turns, 9), &f->all[1]);
    assert_ptr_equal(tdg__turns_last_of_longest(&f->turns, 8), &f->all[1]);
    assert_null(tdg__turns_last_of_longest(&f->turns, 7));
    expect(f, 0);
    expect(f, 2);
    expect(f, 1);
}

static void without_memory_all_wait_in_one_lane(void **state) {
    struct fixture *f = *state;

    memory_fail(1, MEMORY_FROM_THEN_ON);
    put(f, 0, 7);
    put(f, 1, 8);
    memory_fail(0, MEMORY_ONCE);
    put(f, 2, 9);
    expect(f, 0);
    expect(f, 2);
    expect(f, 1);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    /* clang-format off: version 14 crashes on a table with a macro in it */
    const struct CMUnitTest tests[] = {
        CASE(clients_take_turns_and_each_has_its_order),
        CASE(nobody_has_every_other_turn),
        CASE(one_may_leave_before_its_turn),
        CASE(what_another_client_wants_too_goes_where_it_is_sooner),
        CASE(the_last_of_the_longest_lane_gives_way),
        CASE(without_memory_all_wait_in_one_lane),
    };
    /* clang-format on */

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
