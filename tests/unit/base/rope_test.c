/* SPDX-License-Identifier: MIT */
#include "base/rope.h"
#include "support.h"

static void expect(const tdg__rope_t *rope, const char *text) {
    char *all = malloc(tdg__rope_len(rope) + 1);

    assert_non_null(all);
    assert_int_equal(rope->text.error, 0);
    assert_int_equal(tdg__rope_len(rope), strlen(text));
    tdg__rope_copy(rope, all);
    assert_memory_equal(all, text, strlen(text));
    free(all);
}

static void splices_stand_where_they_were_put(void **state) {
    tdg__buf_t *b = tdg__buf_create("BB", 2), *c = tdg__buf_create("CC", 2);
    tdg__rope_t rope, whole;

    (void)state;
    tdg__rope_init(&rope, 100);
    expect(&rope, "");
    tdg__rope_splice(&rope, b);
    tdg__text_put(&rope.text, "x");
    tdg__rope_splice(&rope, c);
    tdg__rope_splice(&rope, b);
    tdg__text_put(&rope.text, "yz");
    expect(&rope, "BBxCCBByz");

    tdg__rope_init(&whole, 100);
    tdg__text_put(&whole.text, "[");
    tdg__rope_append(&whole, &rope);
    tdg__rope_done(&rope);
    tdg__text_put(&whole.text, "]");
    expect(&whole, "[BBxCCBByz]");
    assert_int_equal(atomic_load(&b->refs), 3); /* by reference */
    tdg__rope_done(&whole);
    assert_int_equal(atomic_load(&b->refs), 1);
    tdg__buf_unref(b);
    tdg__buf_unref(c);
}

static void the_limit_holds_for_all_of_it(void **state) {
    tdg__buf_t *buf = tdg__buf_create("12345", 5);
    tdg__rope_t rope;

    (void)state;
    tdg__rope_init(&rope, 8);
    tdg__text_put(&rope.text, "abc");
    tdg__rope_splice(&rope, buf);
    assert_int_equal(rope.text.error, 0);
    tdg__text_put(&rope.text, "d");
    assert_int_equal(rope.text.error, TDG_ETOOLARGE);
    tdg__rope_done(&rope);

    tdg__rope_init(&rope, 7);
    tdg__text_put(&rope.text, "abc");
    tdg__rope_splice(&rope, buf);
    assert_int_equal(rope.text.error, TDG_ETOOLARGE);
    tdg__rope_done(&rope);
    tdg__buf_unref(buf);
}

static void remembers_that_memory_was_out(void **state) {
    tdg__buf_t *buf = tdg__buf_create("12345", 5);
    tdg__rope_t rope;

    (void)state;
    tdg__rope_init(&rope, 100);
    memory_fail(1, MEMORY_ONCE);
    tdg__rope_splice(&rope, buf);
    tdg__rope_splice(&rope, buf);
    assert_int_equal(rope.text.error, TDG_ENOMEM);
    assert_int_equal(atomic_load(&buf->refs), 1);
    tdg__rope_done(&rope);
    tdg__buf_unref(buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(splices_stand_where_they_were_put, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(the_limit_holds_for_all_of_it, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(remembers_that_memory_was_out, memory_setup,
                                        memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("rope", tests, NULL, NULL);
}
