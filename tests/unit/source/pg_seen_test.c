/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "source/postgres/pg_seen.h"
#include "support.h"

struct heard {
    char text[256];
};

static void hear(void *arg, const char *uri) {
    struct heard *heard = arg;

    strcat(heard->text, uri);
    strcat(heard->text, " ");
}

static void what_differs_is_found(void **state) {
    tdg__pg_seen_t before, after;
    struct heard heard = {""};

    (void)state;
    assert_int_equal(tdg__pg_seen_init(&before, 10), 0);
    assert_int_equal(tdg__pg_seen_init(&after, 10), 0);
    tdg__pg_seen_add(&before, "same", 1);
    tdg__pg_seen_add(&before, "gone", 2);
    tdg__pg_seen_add(&before, "other", 3);
    tdg__pg_seen_add(&after, "new", 4);
    tdg__pg_seen_add(&after, "other", 5);
    tdg__pg_seen_add(&after, "same", 1);
    tdg__pg_seen_compare(&before, &after, hear, &heard);
    assert_string_equal(heard.text, "new other gone ");
    tdg__pg_seen_done(&before);
    tdg__pg_seen_done(&after);
}

static void rows_of_one_uri_sum_up_in_any_order(void **state) {
    tdg__pg_seen_t a, b;
    struct heard heard = {""};

    (void)state;
    assert_int_equal(tdg__pg_seen_init(&a, 10), 0);
    assert_int_equal(tdg__pg_seen_init(&b, 10), 0);
    tdg__pg_seen_add(&a, "u", 1);
    tdg__pg_seen_add(&a, "u", UINT64_MAX);
    tdg__pg_seen_add(&b, "u", UINT64_MAX);
    tdg__pg_seen_add(&b, "u", 1);
    tdg__pg_seen_compare(&a, &b, hear, &heard);
    assert_string_equal(heard.text, "");
    tdg__pg_seen_done(&a);
    tdg__pg_seen_done(&b);
}

/* Random sets and removals beside an array. */
static void it_agrees_with_an_array(void **state) {
    enum { URIS = 50, MAX = 30 };
    struct dice dice = dice_from_env();
    uint64_t expected[URIS] = {0}, found; /* 0: not there */
    tdg__pg_seen_t seen;
    size_t count = 0;
    char uri[16];

    (void)state;
    assert_int_equal(tdg__pg_seen_init(&seen, MAX), 0);
    for (int step = 0; step < 20000; step++) {
        uint32_t which = roll(&dice, URIS);

        snprintf(uri, sizeof(uri), "u%u", which);
        if (roll(&dice, 2) == 0) {
            tdg__pg_seen_remove(&seen, uri);
            count -= expected[which] != 0;
            expected[which] = 0;
        } else {
            uint64_t value = 1 + roll(&dice, 1000);
            bool fits = expected[which] != 0 || count < MAX;

            assert_int_equal(tdg__pg_seen_set(&seen, uri, value),
                             fits ? 0 : TDG_ETOOLARGE);
            count += fits && expected[which] == 0;
            if (fits)
                expected[which] = value;
        }
        assert_int_equal(seen.rows.pool.count, count);
        which = roll(&dice, URIS);
        snprintf(uri, sizeof(uri), "u%u", which);
        assert_int_equal(tdg__pg_seen_get(&seen, uri, &found), expected[which] != 0);
        if (expected[which] != 0)
            assert_int_equal(found, expected[which]);
    }
    tdg__pg_seen_done(&seen);
}

static void failing_memory_leaves_it_as_it_was(void **state) {
    tdg__pg_seen_t seen;
    uint64_t found;
    int rv = TDG_ENOMEM;

    (void)state;
    assert_int_equal(tdg__pg_seen_init(&seen, 10), 0);
    for (size_t nth = 1; rv != 0; nth++) {
        memory_fail(nth, MEMORY_FROM_THEN_ON);
        rv = tdg__pg_seen_set(&seen, "u", 1);
        memory_fail(0, MEMORY_ONCE);
        assert_true(rv == 0 || rv == TDG_ENOMEM);
        assert_int_equal(tdg__pg_seen_get(&seen, "u", &found), rv == 0);
    }
    tdg__pg_seen_done(&seen);
}

static void a_digest_is_read(void **state) {
    (void)state;
    assert_int_equal(tdg__pg_digest("0123456789abcdef0000000000000000"),
                     UINT64_C(0x0123456789abcdef));
    assert_int_equal(tdg__pg_digest(""), 0);
    assert_int_equal(tdg__pg_digest("0123456789abcde"), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_differs_is_found),   TEST(rows_of_one_uri_sum_up_in_any_order),
        TEST(it_agrees_with_an_array), TEST(failing_memory_leaves_it_as_it_was),
        TEST(a_digest_is_read),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("pg_seen", tests, NULL, NULL);
}
