/* SPDX-License-Identifier: MIT */
#include "base/queue.h"

#include "support.h"

struct record {
    int number;
    tdg__queue_t link, other;
};

/* The numbers of the records in a list, in both directions. */
static void expect(const tdg__queue_t *list, const int *numbers, size_t count) {
    const tdg__queue_t *at = list->next;

    for (size_t i = 0; i < count; i++, at = at->next)
        assert_int_equal(TDG__RECORD(struct record, link, at)->number, numbers[i]);
    assert_ptr_equal(at, list);
    at = list->prev;
    for (size_t i = count; i > 0; i--, at = at->prev)
        assert_int_equal(TDG__RECORD(struct record, link, at)->number, numbers[i - 1]);
    assert_ptr_equal(at, list);
    assert_int_equal(tdg__queue_is_empty(list), count == 0);
}

static void keeps_the_order_of_what_is_put_at_both_ends(void **state) {
    struct record records[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    tdg__queue_t list;

    (void)state;
    tdg__queue_init(&list);
    expect(&list, NULL, 0);
    tdg__queue_append(&list, &records[1].link);
    tdg__queue_append(&list, &records[2].link);
    tdg__queue_prepend(&list, &records[0].link);
    expect(&list, (const int[]){1, 2, 3}, 3);
    tdg__queue_remove(&records[1].link);
    expect(&list, (const int[]){1, 3}, 2);
    tdg__queue_insert(&records[2].link, &records[1].link);
    expect(&list, (const int[]){1, 2, 3}, 3);
}

static void takes_from_the_front_until_it_is_empty(void **state) {
    struct record records[2] = {{.number = 1}, {.number = 2}};
    tdg__queue_t list;

    (void)state;
    tdg__queue_init(&list);
    assert_null(tdg__queue_take(&list));
    tdg__queue_append(&list, &records[0].link);
    tdg__queue_append(&list, &records[1].link);
    assert_ptr_equal(tdg__queue_take(&list), &records[0].link);
    assert_ptr_equal(tdg__queue_take(&list), &records[1].link);
    assert_null(tdg__queue_take(&list));
}

static void a_link_says_whether_it_is_in_a_list(void **state) {
    struct record record = {.number = 1};
    tdg__queue_t list, other;

    (void)state;
    tdg__queue_init(&list);
    tdg__queue_init(&other);
    assert_false(tdg__queue_has(&record.link));
    tdg__queue_append(&list, &record.link);
    tdg__queue_append(&other, &record.other);
    assert_true(tdg__queue_has(&record.link));
    tdg__queue_remove(&record.link);
    assert_false(tdg__queue_has(&record.link));
    assert_true(tdg__queue_has(&record.other));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_order_of_what_is_put_at_both_ends),
        cmocka_unit_test(takes_from_the_front_until_it_is_empty),
        cmocka_unit_test(a_link_says_whether_it_is_in_a_list),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
