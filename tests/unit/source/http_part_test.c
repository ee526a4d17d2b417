/* SPDX-License-Identifier: MIT */
#include "source/http/http_part.h"

#include "support.h"

static void expect(const char *document, const char *pointer, const char *part) {
    tdg__text_t out;

    tdg__text_init(&out, 1000);
    assert_int_equal(tdg__http_part(document, strlen(document), pointer, &out, NULL), 0);
    assert_string_equal(out.data, part);
    tdg__text_done(&out);
}

static int try(const char *document, const char *pointer, size_t max,
               tdg__parse_error_t *error) {
    tdg__text_t out;
    int rv;

    tdg__text_init(&out, max);
    rv = tdg__http_part(document, strlen(document), pointer, &out, error);
    tdg__text_done(&out);
    return rv;
}

static void the_same_values_are_the_same_text(void **state) {
    (void)state;
    expect("{\"b\" : [ 1 , {} ] ,\n\"a\":\"x\"}", "", "{\"a\":\"x\",\"b\":[1,{}]}");
    expect("{\"a\":\"\\u0078\",\"b\":[1,{}]}", "", "{\"a\":\"x\",\"b\":[1,{}]}");
    expect("[[],{\"z\":{\"b\":2,\"a\":1}}]", "/1/z", "{\"a\":1,\"b\":2}");
    expect(" \"a\\nb\\\"\" ", "", "\"a\\nb\\\"\"");
    expect("[true,false,null]", "", "[true,false,null]");
}

static void numbers_are_short_and_exact(void **state) {
    (void)state;
    expect("[0.1, 19.99, 1.0, 1e3, -0.5]", "", "[0.1,19.99,1.0,1000.0,-0.5]");
    expect("[1e300, 5e-324]", "", "[1e+300,4.94065645841247e-324]");
    expect("[0.30000000000000004, 0.3]", "", "[0.30000000000000004,0.3]");
    expect("[9223372036854775807, -1]", "", "[9223372036854775807,-1]");
}

static void says_why_not(void **state) {
    tdg__parse_error_t error = {0};

    (void)state;
    assert_int_equal(try("{\"a\":1}", "/b", 100, &error), TDG_ENOTFOUND);
    assert_int_equal(try("{\"a\":1,}", "/a", 100, &error), TDG_EJSON);
    assert_true(error.text[0] != '\0');
    assert_int_equal(try("", "", 100, &error), TDG_EJSON);
    assert_int_equal(try("[1,2,3,4,5]", "", 5, &error), TDG_ETOOLARGE);
    assert_non_null(strstr(error.text, "max-size"));
}

static void has_limits(void **state) {
    size_t count = TDG__HTTP_PART_VALUES + 1;
    char *many = malloc(2 * count + 2), deep[301];
    tdg__parse_error_t error = {0};

    (void)state;
    for (size_t i = 0; i < count; i++)
        memcpy(many + 2 * i, i == 0 ? "[1" : ",1", 2);
    memcpy(many + 2 * count, "]", 2);
    assert_int_equal(try(many, "/0", 100, &error), TDG_ETOOLARGE);
    free(many);
    memset(deep, '[', 150);
    memset(deep + 150, ']', 150);
    deep[300] = '\0';
    assert_int_equal(try(deep, "", 1000, &error), TDG_ETOOLARGE);
}

static void says_when_memory_is_out(void **state) {
    static const char document[] = "{\"b\":[1.5,{\"y\":1,\"x\":2}],\"a\":\"\\u0078\"}";
    int rv = TDG_ENOMEM;

    (void)state;
    for (size_t n = 1; rv == TDG_ENOMEM; n++) {
        assert_true(n < 1000);
        memory_fail(n, MEMORY_ONCE);
        rv = try(document, "", 1000, NULL);
        assert_int_equal(rv == TDG_ENOMEM, memory_failed());
    }
    assert_int_equal(rv, 0);
    memory_fail(0, MEMORY_ONCE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_same_values_are_the_same_text),
        TEST(numbers_are_short_and_exact),
        TEST(says_why_not),
        TEST(has_limits),
        TEST(says_when_memory_is_out),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("http_part", tests, NULL, NULL);
}
