/* SPDX-License-Identifier: MIT */
#include "base/nearest.h"
#include "support.h"

static const char *const names[] = {"every",   "exclude",
                                    "include", "max-size",
                                    "uri",     "a-name-that-is-longer-than-anybody-types",
                                    NULL};

static void finds_what_is_at_most_two_slips_away(void **state) {
    static const struct {
        const char *word, *meant;
    } cases[] = {
        {"every", "every"},      {"evry", "every"},       {"evrey", "every"},
        {"evreyx", "every"},     {"maxsize", "max-size"}, {"max_size", "max-size"},
        {"exclude ", "exclude"}, {"url", "uri"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_string_equal(tdg__nearest_of(cases[i].word, names), cases[i].meant);
}

static void the_beginning_of_a_name_is_near(void **state) {
    (void)state;
    assert_string_equal(tdg__nearest_of("inc", names), "include");
    assert_string_equal(tdg__nearest_of("max", names), "max-size");
    assert_null(tdg__nearest_of("e", names));
}

static void says_nothing_where_nothing_is_near(void **state) {
    static const char *const far[] = {"", "xyz", "evxxxy", "abc",
                                      "a-word-of-forty-letters-gets-no-suggestion-here"};

    (void)state;
    for (size_t i = 0; i < COUNT(far); i++)
        assert_null(tdg__nearest_of(far[i], names));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_is_at_most_two_slips_away),
        cmocka_unit_test(the_beginning_of_a_name_is_near),
        cmocka_unit_test(says_nothing_where_nothing_is_near),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("nearest", tests, NULL, NULL);
}
