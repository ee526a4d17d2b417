/* SPDX-License-Identifier: MIT */
#include "source/common/records.h"

#include "support.h"

#include <string.h>

struct note {
    tdg__record_t record;
    int said;
};

struct fixture {
    uv_loop_t loop;
    tdg__records_t records;
    char due[64]; /* names, in the order in which their time came */
    bool removes; /* whoever is due goes, and "b" with it */
};

static void on_due(tdg__record_t *record, void *user) {
    struct fixture *f = user;
    tdg__record_t *other;

    strcat(f->due, record->name);
    if (!f->removes)
        return;
    tdg__records_remove(&f->records, record);
    other = tdg__records_find(&f->records, "b");
    if (other != NULL)
        tdg__records_remove(&f->records, other);
}

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    uv_loop_init(&f->loop);
    tdg__records_open(&f->records, &f->loop);
    return tdg__records_init(&f->records, sizeof(struct note), on_due, f);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    uv_close((uv_handle_t *)&f->records.timer, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    tdg__records_done(&f->records);
    return state_destroy(state);
}

static void a_record_is_found_by_its_name_until_it_is_removed(void **state) {
    struct fixture *f = *state;
    struct note *a = tdg__records_add(&f->records, "a");
    struct note *b = tdg__records_add(&f->records, "b");

    assert_int_equal(a->said, 0);
    assert_ptr_equal(tdg__records_find(&f->records, "a"), a);
    assert_ptr_equal(tdg__records_find(&f->records, "b"), b);
    assert_null(tdg__records_find(&f->records, "c"));
    a->said = 1;
    tdg__records_remove(&f->records, &a->record);
    assert_null(tdg__records_find(&f->records, "a"));
    assert_ptr_equal(tdg__records_find(&f->records, "b"), b);
    a = tdg__records_add(&f->records, "a");
    assert_int_equal(a->said, 0);
}

static void records_may_go_while_they_are_walked(void **state) {
    struct fixture *f = *state;
    tdg__record_t *record;
    size_t count = 0;
    char name[16];

    for (int i = 0; i < 600; i++) {
        snprintf(name, sizeof(name), "%d", i);
        tdg__records_add(&f->records, name);
    }
    for (uint32_t at = 0; (record = tdg__records_next(&f->records, &at)) != NULL; count++)
        if (count % 3 != 0)
            tdg__records_remove(&f->records, record);
    assert_int_equal(count, 600);
    for (uint32_t at = 0; tdg__records_next(&f->records, &at) != NULL;)
        count--;
    assert_int_equal(count, 400);
}

static void times_come_in_their_order(void **state) {
    struct fixture *f = *state;
    struct note *a = tdg__records_add(&f->records, "a");
    struct note *b = tdg__records_add(&f->records, "b");
    struct note *c = tdg__records_add(&f->records, "c");
    struct note *d = tdg__records_add(&f->records, "d");

    tdg__records_arm(&f->records, &a->record, 3);
    tdg__records_arm(&f->records, &b->record, 1);
    tdg__records_arm(&f->records, &c->record, 9);
    tdg__records_arm(&f->records, &c->record, 2); /* sooner than first said */
    tdg__records_arm(&f->records, &d->record, 2);
    tdg__records_disarm(&f->records, &d->record);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_string_equal(f->due, "bca");
}

static void what_is_due_may_remove_itself_and_others(void **state) {
    struct fixture *f = *state;
    struct note *a = tdg__records_add(&f->records, "a");
    struct note *b = tdg__records_add(&f->records, "b");

    f->removes = true;
    tdg__records_arm(&f->records, &a->record, 0);
    tdg__records_arm(&f->records, &b->record, 0);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_string_equal(f->due, "a");
    assert_null(tdg__records_find(&f->records, "b"));
}

static void nothing_is_added_where_memory_runs_out(void **state) {
    struct fixture *f = *state;
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        memory_fail(nth, MEMORY_ONCE);

        const struct note *added = tdg__records_add(&f->records, "a");

        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(added == NULL, failed);
        assert_ptr_equal(tdg__records_find(&f->records, "a"), added);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_record_is_found_by_its_name_until_it_is_removed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(records_may_go_while_they_are_walked, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(times_come_in_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_due_may_remove_itself_and_others, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_is_added_where_memory_runs_out, setup,
                                        teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
