/* SPDX-License-Identifier: MIT */
#include "serve/wanted.h"

#include "support.h"
#include "unit/targets.h"

static void a_name_of_another_kind_is_another_target(void **state) {
    tdg__wanted_set_t set;
    tdg__wanted_t *uri, *list, *template_;

    (void)state;
    assert_int_equal(tdg__wanted_init(&set), 0);
    uri = tdg__wanted_add(&set, FOR_URI("resources"));
    assert_null(tdg__wanted_find(&set, FOR_LIST("resources")));
    assert_null(tdg__wanted_find(&set, FOR_TEMPLATE("resources")));
    list = tdg__wanted_add(&set, FOR_LIST("resources"));
    template_ = tdg__wanted_add(&set, FOR_TEMPLATE("resources"));
    assert_ptr_equal(tdg__wanted_find(&set, FOR_URI("resources")), uri);
    assert_ptr_equal(tdg__wanted_find(&set, FOR_LIST("resources")), list);
    assert_ptr_equal(tdg__wanted_find(&set, FOR_TEMPLATE("resources")), template_);
    tdg__wanted_remove(&set, uri);
    assert_null(tdg__wanted_find(&set, FOR_URI("resources")));
    assert_ptr_equal(tdg__wanted_find(&set, FOR_LIST("resources")), list);
    tdg__wanted_done(&set);
}

static void nothing_is_added_where_memory_runs_out(void **state) {
    bool failed = true;

    (void)state;
    for (size_t n = 1; failed; n++) {
        tdg__wanted_set_t set;

        assert_int_equal(tdg__wanted_init(&set), 0);
        memory_fail(n, MEMORY_ONCE);

        const tdg__wanted_t *added = tdg__wanted_add(&set, FOR_URI("list:resources"));

        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(added == NULL, failed);
        assert_ptr_equal(tdg__wanted_find(&set, FOR_URI("list:resources")), added);
        tdg__wanted_done(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_of_another_kind_is_another_target),
        cmocka_unit_test_setup_teardown(nothing_is_added_where_memory_runs_out,
                                        memory_setup, memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("wanted", tests, NULL, NULL);
}
