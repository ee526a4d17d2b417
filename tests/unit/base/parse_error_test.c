/* SPDX-License-Identifier: MIT */
#include "base/parse_error.h"
#include "support.h"

enum { ROOM = sizeof(((tdg__parse_error_t *)NULL)->text) };

static void returns_the_code(void **state) {
    tdg__parse_error_t error;

    (void)state;
    assert_int_equal(tdg__parse_fail(&error, TDG_EURI, 0, "x"), TDG_EURI);
    assert_int_equal(tdg__parse_fail(&error, TDG_EFILTER, 0, "x"), TDG_EFILTER);
}

static void says_where_and_what(void **state) {
    tdg__parse_error_t error;

    (void)state;
    memset(&error, 0xa5, sizeof(error));
    tdg__parse_fail(&error, TDG_EURI, 17, "'%c' is not allowed in a %s of %d", '<',
                    "port", 5);
    assert_int_equal(error.at, 17);
    assert_string_equal(error.text, "'<' is not allowed in a port of 5");
}

static void keeps_the_largest_offset(void **state) {
    tdg__parse_error_t error;

    (void)state;
    tdg__parse_fail(&error, TDG_EURI, SIZE_MAX, "x");
    assert_int_equal(error.at, SIZE_MAX);
}

static void forgets_what_it_said_before(void **state) {
    tdg__parse_error_t error;

    (void)state;
    tdg__parse_fail(&error, TDG_EURI, 9, "a long sentence");
    tdg__parse_fail(&error, TDG_EURI, 2, "short");
    assert_int_equal(error.at, 2);
    assert_string_equal(error.text, "short");
}

static void accepts_null_in_the_place_of_the_error(void **state) {
    (void)state;
    assert_int_equal(tdg__parse_fail(NULL, TDG_ETEMPLATE, 3, "%s", "nobody reads it"),
                     TDG_ETEMPLATE);
}

/* Of all lengths around the room, the text is kept whole or cut to what fits. */
static void cuts_a_text_that_is_too_long(void **state) {
    char text[2 * ROOM];

    (void)state;
    for (size_t len = ROOM - 3; len < ROOM + 3; len++) {
        tdg__parse_error_t errors[2];

        memset(errors, 0xa5, sizeof(errors));
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + i % 26);
        text[len] = '\0';

        assert_int_equal(tdg__parse_fail(&errors[0], TDG_EURI, 4, "%s", text), TDG_EURI);
        assert_int_equal(strlen(errors[0].text), len < ROOM ? len : ROOM - 1);
        assert_memory_equal(errors[0].text, text, strlen(errors[0].text));
        assert_int_equal(errors[0].at, 4);
        for (size_t i = 0; i < sizeof(errors[1]); i++) /* nothing behind it is touched */
            assert_int_equal(((unsigned char *)&errors[1])[i], 0xa5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_the_code),
        cmocka_unit_test(says_where_and_what),
        cmocka_unit_test(keeps_the_largest_offset),
        cmocka_unit_test(forgets_what_it_said_before),
        cmocka_unit_test(accepts_null_in_the_place_of_the_error),
        cmocka_unit_test(cuts_a_text_that_is_too_long),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("parse_error", tests, NULL, NULL);
}
