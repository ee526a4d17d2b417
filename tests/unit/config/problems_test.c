/* SPDX-License-Identifier: MIT */
#include "config/problems.h"

#include "said.h"
#include "support.h"

static void are_sorted_by_place(void **state) {
    tdg__problems_t problems;
    char *text;

    (void)state;
    tdg__problems_init(&problems, "x.yaml");
    tdg__problems_add(&problems, 3, 1, "third");
    tdg__problems_add(&problems, 1, 9, "second");
    tdg__problems_add(&problems, 1, 2, "first %d", 1);
    text = said(&problems);
    assert_string_equal(text, "1:2: first 1\n1:9: second\n3:1: third");
    free(text);
    tdg__problems_done(&problems);
}

static void beyond_the_limit_are_only_counted(void **state) {
    tdg__problems_t problems;

    (void)state;
    tdg__problems_init(&problems, NULL);
    for (unsigned i = 0; i < TDG__MAX_PROBLEMS + 7; i++)
        tdg__problems_add(&problems, i, 1, "%u", i);
    assert_int_equal(problems.count, TDG__MAX_PROBLEMS);
    assert_int_equal(problems.left_out, 7);
    assert_int_equal(tdg__problems_total(&problems), TDG__MAX_PROBLEMS + 7);
    tdg__problems_done(&problems);
}

static void long_texts_are_cut_between_characters(void **state) {
    tdg__problems_t problems;
    char text[2000] = "";

    (void)state;
    for (size_t i = 0; i + 3 < sizeof(text); i += 3)
        memcpy(text + i, "€", 4);
    tdg__problems_init(&problems, NULL);
    tdg__problems_add(&problems, 1, 1, "%s", text);
    tdg__problems_add(&problems, 1, 1, "x%s", text);
    for (size_t i = 0; i < 2; i++) {
        const char *cut = problems.list[i].text;

        assert_in_range(strlen(cut), 990, 1000);
        assert_string_equal(cut + strlen(cut) - 6, "€…");
    }
    tdg__problems_done(&problems);
}

static void texts_of_the_file_are_quoted(void **state) {
    char out[TDG__QUOTED_MAX], text[200];

    (void)state;
    assert_string_equal(tdg__quoted(out, ""), "\"\"");
    assert_string_equal(tdg__quoted(out, "a b"), "\"a b\"");
    assert_string_equal(tdg__quoted(out, "a\x1b[2J\n\x7f"), "\"a?[2J??\"");
    assert_string_equal(tdg__quoted(out, "a\xc2\x9b\xc2\xa0z"), "\"a?\xc2\xa0z\"");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(strlen(tdg__quoted(out, text)), 60 + 2 + strlen("…"));
    memcpy(text + 59, "€", 3);
    assert_int_equal(strlen(tdg__quoted(out, text)), 59 + 2 + strlen("…"));
}

static void without_memory_they_are_counted(void **state) {
    (void)state;
    for (size_t nth = 1; nth <= 2; nth++) {
        tdg__problems_t problems;

        tdg__problems_init(&problems, NULL);
        memory_fail(nth, MEMORY_FROM_THEN_ON);
        tdg__problems_add(&problems, 1, 1, "lost");
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(problems.count, 0);
        assert_int_equal(tdg__problems_total(&problems), 1);
        tdg__problems_done(&problems);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(are_sorted_by_place),
        TEST(beyond_the_limit_are_only_counted),
        TEST(long_texts_are_cut_between_characters),
        TEST(texts_of_the_file_are_quoted),
        TEST(without_memory_they_are_counted),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("problems", tests, NULL, NULL);
}
