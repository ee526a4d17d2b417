/* SPDX-License-Identifier: MIT */
#include "base/sized.h"
#include "support.h"

/* The same struct as releases know it. */
struct first {
    int a;
};

struct second {
    int a, b;
};

static void older_caller_has_zero_for_newer_fields(void **state) {
    const struct first given = {1};
    struct second ours = {7, 7};

    (void)state;
    assert_int_equal(tdg__sized_read(&ours, sizeof(ours), &given, sizeof(given)), 0);
    assert_int_equal(ours.a, 1);
    assert_int_equal(ours.b, 0);
}

static void newer_caller_may_leave_unknown_fields_zero(void **state) {
    const struct second given = {1, 0};
    struct first ours = {7};

    (void)state;
    assert_int_equal(tdg__sized_read(&ours, sizeof(ours), &given, sizeof(given)), 0);
    assert_int_equal(ours.a, 1);
}

static void newer_caller_that_sets_an_unknown_field_is_refused(void **state) {
    const struct second given = {1, 2};
    struct first ours;

    (void)state;
    assert_int_equal(tdg__sized_read(&ours, sizeof(ours), &given, sizeof(given)),
                     TDG_ENOTSUP);
}

static void null_is_all_zero(void **state) {
    struct second ours = {7, 7};

    (void)state;
    assert_int_equal(tdg__sized_read(&ours, sizeof(ours), NULL, sizeof(ours)), 0);
    assert_int_equal(ours.a, 0);
    assert_int_equal(ours.b, 0);
}

static void writes_no_more_than_the_caller_has_room_for(void **state) {
    const struct second ours = {1, 2};
    struct second room = {7, 7};

    (void)state;
    tdg__sized_write(&room, sizeof(struct first), &ours, sizeof(ours));
    assert_int_equal(room.a, 1);
    assert_int_equal(room.b, 7);
}

static void what_only_the_caller_knows_is_zero(void **state) {
    const struct first ours = {1};
    struct second room = {7, 7};

    (void)state;
    tdg__sized_write(&room, sizeof(room), &ours, sizeof(ours));
    assert_int_equal(room.a, 1);
    assert_int_equal(room.b, 0);
}

static void a_size_of_no_struct_is_refused(void **state) {
    static const size_t sizes[] = {0, TDG__SIZED_MAX + 1, SIZE_MAX};
    struct second ours = {7, 7}, given = {1, 2};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(tdg__sized_read(&ours, sizeof(ours), &given, sizes[i]),
                         TDG_EINVAL);
        assert_int_equal(tdg__sized_read(&ours, sizeof(ours), NULL, sizes[i]), 0);
        assert_int_equal(tdg__sized_write(&given, sizes[i], &ours, sizeof(ours)),
                         TDG_EINVAL);
        assert_int_equal(given.a, 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_caller_has_zero_for_newer_fields),
        cmocka_unit_test(newer_caller_may_leave_unknown_fields_zero),
        cmocka_unit_test(newer_caller_that_sets_an_unknown_field_is_refused),
        cmocka_unit_test(null_is_all_zero),
        cmocka_unit_test(writes_no_more_than_the_caller_has_room_for),
        cmocka_unit_test(a_size_of_no_struct_is_refused),
        cmocka_unit_test(what_only_the_caller_knows_is_zero),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("sized", tests, NULL, NULL);
}
