/* SPDX-License-Identifier: MIT */
#include "source/common/rows.h"

#include <math.h>
#include <stdio.h>

#include "support.h"

static void fill(tdg__rows_t *rows) {
    static const char *const names[] = {"n", "a,b", "t"};

    assert_int_equal(tdg__rows_begin(rows, names, 3), 0);
    assert_int_equal(tdg__rows_next(rows), 0);
    tdg__rows_null(rows);
    tdg__rows_integer(rows, INT64_MIN);
    tdg__rows_text(rows, "say \"hi\"\n", 9);
    assert_int_equal(tdg__rows_next(rows), 0);
    tdg__rows_real(rows, 0.1);
    tdg__rows_bytes(rows, "\0\xff", 2);
    tdg__rows_text(rows, "", 0);
    assert_int_equal(tdg__rows_end(rows), 0);
}

static void as_json(void **state) {
    tdg__rows_t rows;

    (void)state;
    tdg__rows_init(&rows, TDG__ROWS_JSON, 10, 1000);
    fill(&rows);
    assert_string_equal(rows.text.data, "[{\"n\":null,\"a,b\":-9223372036854775808,"
                                        "\"t\":\"say \\\"hi\\\"\\n\"},\n"
                                        "{\"n\":0.1,\"a,b\":\"AP8=\",\"t\":\"\"}]");
    assert_int_equal(rows.count, 2);
    tdg__rows_done(&rows);
}

static void as_csv(void **state) {
    tdg__rows_t rows;

    (void)state;
    tdg__rows_init(&rows, TDG__ROWS_CSV, 10, 1000);
    fill(&rows);
    assert_string_equal(rows.text.data, "n,\"a,b\",t\r\n"
                                        ",-9223372036854775808,\"say \"\"hi\"\"\n\"\r\n"
                                        "0.1,AP8=,\"\"\r\n");
    tdg__rows_done(&rows);
}

static void nothing_is_an_empty_list(void **state) {
    static const char *const names[] = {"n"};
    tdg__rows_t rows;

    (void)state;
    tdg__rows_init(&rows, TDG__ROWS_JSON, 10, 1000);
    assert_int_equal(tdg__rows_begin(&rows, names, 1), 0);
    assert_int_equal(tdg__rows_end(&rows), 0);
    assert_string_equal(rows.text.data, "[]");
    tdg__rows_done(&rows);
}

static void one_row_is_an_object(void **state) {
    static const char *const names[] = {"n"};
    tdg__rows_t rows;

    (void)state;
    tdg__rows_init(&rows, TDG__ROWS_JSON, 1, 1000);
    rows.one = true;
    assert_int_equal(tdg__rows_begin(&rows, names, 1), 0);
    assert_int_equal(tdg__rows_next(&rows), 0);
    tdg__rows_integer(&rows, 7);
    assert_int_equal(tdg__rows_end(&rows), 0);
    assert_string_equal(rows.text.data, "{\"n\":7}");
    tdg__rows_done(&rows);
}

static void rows_may_have_no_columns(void **state) {
    static const struct {
        tdg__rows_format_t format;
        const char *text;
    } cases[] = {
        {TDG__ROWS_JSON, "[{},\n{}]"},
        {TDG__ROWS_CSV, "\r\n\r\n\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__rows_t rows;

        tdg__rows_init(&rows, cases[i].format, 10, 1000);
        assert_int_equal(tdg__rows_begin(&rows, NULL, 0), 0);
        assert_int_equal(tdg__rows_next(&rows), 0);
        assert_int_equal(tdg__rows_next(&rows), 0);
        assert_int_equal(tdg__rows_end(&rows), 0);
        assert_string_equal(rows.text.data, cases[i].text);
        tdg__rows_done(&rows);
    }
}

static void json_is_left_as_it_is(void **state) {
    static const char *const names[] = {"j"};
    static const struct {
        tdg__rows_format_t format;
        const char *text;
    } cases[] = {
        {TDG__ROWS_JSON, "[{\"j\":{\"a\":1}}]"},
        {TDG__ROWS_CSV, "j\r\n\"{\"\"a\"\":1}\"\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__rows_t rows;

        tdg__rows_init(&rows, cases[i].format, 10, 1000);
        (void)tdg__rows_begin(&rows, names, 1);
        (void)tdg__rows_next(&rows);
        tdg__rows_json(&rows, "{\"a\":1}", 7);
        assert_int_equal(tdg__rows_end(&rows), 0);
        assert_string_equal(rows.text.data, cases[i].text);
        tdg__rows_done(&rows);
    }
}

static void numbers_come_back_as_they_were(void **state) {
    static const char *const names[] = {"n"};
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {1, "1.0"},
        {-0.5, "-0.5"},
        {1e300, "1e+300"},
        {1.0 / 3, "0.33333333333333331"},
        {0.3, "0.3"},
        {5e-324, "4.94065645841247e-324"},
        {INFINITY, "\"Infinity\""},
        {-INFINITY, "\"-Infinity\""},
        {NAN, "\"NaN\""},
        {1e15, "1e+15"},
        {123456789., "123456789.0"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char expected[64];
        tdg__rows_t rows;

        snprintf(expected, sizeof(expected), "[{\"n\":%s}]", cases[i].text);
        tdg__rows_init(&rows, TDG__ROWS_JSON, 10, 1000);
        (void)tdg__rows_begin(&rows, names, 1);
        (void)tdg__rows_next(&rows);
        tdg__rows_real(&rows, cases[i].value);
        assert_int_equal(tdg__rows_end(&rows), 0);
        assert_string_equal(rows.text.data, expected);

        json_t *json = json_loads(rows.text.data, 0, NULL);

        assert_non_null(json);
        if (isfinite(cases[i].value))
            assert_true(json_real_value(json_object_get(json_array_get(json, 0), "n")) ==
                        cases[i].value);
        json_decref(json);
        tdg__rows_done(&rows);
    }
}

static void text_that_is_none_is_base64(void **state) {
    static const char *const names[] = {"t"};
    tdg__rows_t rows;

    (void)state;
    tdg__rows_init(&rows, TDG__ROWS_JSON, 10, 1000);
    (void)tdg__rows_begin(&rows, names, 1);
    (void)tdg__rows_next(&rows);
    tdg__rows_text(&rows, "\xff", 1);
    (void)tdg__rows_next(&rows);
    tdg__rows_text(&rows, "a\0b", 3);
    assert_int_equal(tdg__rows_end(&rows), 0);
    assert_string_equal(rows.text.data, "[{\"t\":\"/w==\"},\n{\"t\":\"a\\u0000b\"}]");
    tdg__rows_done(&rows);
}

static void limits_are_kept(void **state) {
    static const char *const names[] = {"n"}, *const twice[] = {"n", "m", "n"};
    tdg__rows_t rows;

    (void)state;
    tdg__rows_init(&rows, TDG__ROWS_JSON, 1, 1000);
    (void)tdg__rows_begin(&rows, names, 1);
    assert_int_equal(tdg__rows_next(&rows), 0);
    tdg__rows_null(&rows);
    assert_int_equal(tdg__rows_next(&rows), TDG_ETOOLARGE);
    assert_int_equal(rows.text.error, 0);
    tdg__rows_done(&rows);

    tdg__rows_init(&rows, TDG__ROWS_CSV, 10, 10);
    (void)tdg__rows_begin(&rows, names, 1);
    (void)tdg__rows_next(&rows);
    tdg__rows_bytes(&rows, "0123456789", 10);
    assert_int_equal(tdg__rows_next(&rows), TDG_ETOOLARGE);
    assert_int_equal(rows.text.error, TDG_ETOOLARGE);
    tdg__rows_done(&rows);

    tdg__rows_init(&rows, TDG__ROWS_JSON, 10, 1000);
    assert_int_equal(tdg__rows_begin(&rows, twice, 3), TDG_EINVAL);
    assert_string_equal(rows.twice, "n");
    tdg__rows_done(&rows);
}

static void names_that_are_no_text_leave_valid_json(void **state) {
    static const char *const names[] = {"a\xff", "\xc3\xa9"};
    tdg__rows_t rows;

    (void)state;
    tdg__rows_init(&rows, TDG__ROWS_JSON, 1, 1000);
    rows.one = true;
    assert_int_equal(tdg__rows_begin(&rows, names, 2), 0);
    assert_int_equal(tdg__rows_next(&rows), 0);
    tdg__rows_integer(&rows, 1);
    tdg__rows_integer(&rows, 2);
    assert_int_equal(tdg__rows_end(&rows), 0);
    assert_string_equal(rows.text.data, "{\"a?\":1,\"\xc3\xa9\":2}");
    tdg__rows_done(&rows);
}

static void memory_may_be_out(void **state) {
    (void)state;
    for (size_t nth = 1;; nth++) {
        static const char *const names[] = {"n"};
        tdg__rows_t rows;

        memory_fail(nth, MEMORY_ONCE);
        tdg__rows_init(&rows, TDG__ROWS_JSON, 10, 1000);
        (void)tdg__rows_begin(&rows, names, 1);
        for (int i = 0; i < 5 && tdg__rows_next(&rows) == 0; i++)
            tdg__rows_bytes(&rows, "0123456789012345678901234567890123456789", 40);

        int rv = tdg__rows_end(&rows);
        bool failed = memory_failed();

        memory_fail(0, MEMORY_ONCE);
        tdg__rows_done(&rows);
        assert_int_equal(rv, failed ? TDG_ENOMEM : 0);
        if (!failed)
            return;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_json),
        cmocka_unit_test(as_csv),
        cmocka_unit_test(nothing_is_an_empty_list),
        cmocka_unit_test(one_row_is_an_object),
        cmocka_unit_test(rows_may_have_no_columns),
        cmocka_unit_test(json_is_left_as_it_is),
        cmocka_unit_test(numbers_come_back_as_they_were),
        cmocka_unit_test(text_that_is_none_is_base64),
        cmocka_unit_test(names_that_are_no_text_leave_valid_json),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test_setup_teardown(memory_may_be_out, memory_setup, memory_teardown),
    };

    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
