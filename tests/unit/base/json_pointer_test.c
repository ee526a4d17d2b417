/* SPDX-License-Identifier: MIT */
#include "base/json_pointer.h"

#include "support.h"

/* The document of RFC 6901, section 5, and some more. */
static const char document[] =
    "{\"foo\": [\"bar\", \"baz\"], \"\": 0, \"a/b\": 1, \"c%d\": 2, \"e^f\": 3,"
    " \"g|h\": 4, \"i\\\\j\": 5, \"k\\\"l\": 6, \" \": 7, \"m~n\": 8,"
    " \"~1\": 9, \"deep\": {\"\": {\"x\": [[10]]}}, \"nil\": null, \"0\": 11}";

static const struct {
    const char *pointer, *part; /* NULL: there is none */
} parts[] = {
    {"/foo", "[\"bar\",\"baz\"]"},
    {"/foo/0", "\"bar\""},
    {"/foo/1", "\"baz\""},
    {"/", "0"},
    {"/a~1b", "1"},
    {"/c%d", "2"},
    {"/e^f", "3"},
    {"/g|h", "4"},
    {"/i\\j", "5"},
    {"/k\"l", "6"},
    {"/ ", "7"},
    {"/m~0n", "8"},
    {"/~01", "9"},
    {"/deep//x/0/0", "10"},
    {"/nil", "null"},
    {"/0", "11"},
    {"/foo/2", NULL},
    {"/foo/01", NULL},
    {"/foo/-", NULL},
    {"/foo/-1", NULL},
    {"/foo/", NULL},
    {"/foo/1e0", NULL},
    {"/foo/99999999999999999999", NULL},
    {"/foo/18446744073709551616", NULL},
    {"/foo/0/0", NULL},
    {"/nil/x", NULL},
    {"/FOO", NULL},
    {"/fo", NULL},
    {"/deep/x", NULL},
};

static void names_one_part(void **state) {
    json_t *value = json_loads(document, 0, NULL);

    (void)state;
    assert_non_null(value);
    assert_ptr_equal(tdg__json_pointer_get(value, ""), value);
    for (size_t i = 0; i < COUNT(parts); i++) {
        json_t *part;

        assert_int_equal(tdg__json_pointer_check(parts[i].pointer, NULL), 0);
        part = tdg__json_pointer_get(value, parts[i].pointer);
        if (parts[i].part == NULL) {
            assert_null(part);
            continue;
        }
        assert_non_null(part);

        json_t *expected = json_loads(parts[i].part, JSON_DECODE_ANY, NULL);

        assert_true(json_equal(part, expected));
        json_decref(expected);
    }
    json_decref(value);
}

static void a_scalar_has_no_parts(void **state) {
    json_t *value = json_string("text");

    (void)state;
    assert_ptr_equal(tdg__json_pointer_get(value, ""), value);
    assert_null(tdg__json_pointer_get(value, "/"));
    assert_null(tdg__json_pointer_get(value, "/0"));
    json_decref(value);
}

static void says_what_is_no_pointer(void **state) {
    static const struct {
        const char *text;
        size_t at;
        const char *why;
    } wrong[] = {
        {"foo", 0, "begins with '/'"},
        {"#/foo", 0, "begins with '/'"},
        {"/a~", 2, "~0"},
        {"/a~2", 2, "~0"},
        {"/~~0", 1, "~0"},
        {"/\xff", 0, "UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        tdg__parse_error_t error = {0};

        assert_int_equal(tdg__json_pointer_check(wrong[i].text, &error), TDG_EINVAL);
        assert_int_equal(error.at, wrong[i].at);
        assert_non_null(strstr(error.text, wrong[i].why));
    }
}

static void has_a_longest(void **state) {
    char text[TDG__JSON_POINTER_MAX + 2];
    json_t *value = json_object();

    (void)state;
    memset(text, 'a', sizeof(text));
    text[0] = '/';
    text[TDG__JSON_POINTER_MAX + 1] = '\0';
    assert_int_equal(tdg__json_pointer_check(text, NULL), TDG_EINVAL);
    text[TDG__JSON_POINTER_MAX] = '\0';
    assert_int_equal(tdg__json_pointer_check(text, NULL), 0);
    assert_null(tdg__json_pointer_get(value, text));
    assert_int_equal(json_object_set_new(value, text + 1, json_true()), 0);
    assert_true(json_is_true(tdg__json_pointer_get(value, text)));
    json_decref(value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_one_part, memory_setup, memory_teardown),
        cmocka_unit_test_setup_teardown(a_scalar_has_no_parts, memory_setup,
                                        memory_teardown),
        cmocka_unit_test(says_what_is_no_pointer),
        cmocka_unit_test_setup_teardown(has_a_longest, memory_setup, memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("json_pointer", tests, NULL, NULL);
}
