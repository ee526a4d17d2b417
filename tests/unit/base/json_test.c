/* SPDX-License-Identifier: MIT
 *
 * jansson's parser is the measure for what JSON is (fuzz_json.c compares more). */
#include "base/json.h"
#include "support.h"

static const tdg__json_limits_t roomy = {
    .max_bytes = 1 << 20, .max_depth = 64, .max_values = 10000};

enum { LOAD_FLAGS = JSON_DECODE_ANY | JSON_REJECT_DUPLICATES };

static int parse(const char *text, const tdg__json_limits_t *limits, json_t **ret,
                 tdg__parse_error_t *error) {
    *ret = NULL;
    return tdg__json_parse(text, strlen(text), limits, ret, error);
}

static void reads_what_jansson_reads(void **state) {
    static const char *const good[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "12",
        "-12",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "-1.5e3",
        "1E+2",
        "1e-2",
        "0.0",
        "1e-999", /* rounds to 0 */
        "0.10000000000000000000000000000000000000000000000000000000000000000000000000001",
        "\"\"",
        "\"text\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u00e9\\u20ac\\ud83d\\ude00\\uFFFF\\u0001\"",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"",
        "\"[{,:}]\"",
        "[]",
        "{}",
        " \t\r\n[ ] \n",
        "[1,2,3]",
        "[[],[[]],{}]",
        "{\"a\":1,\"b\":{\"c\":[true,null]},\"\":\"\"}",
        "{\"a\\u0041\":1,\"aA \":2}",
        "{ \"a\" : [ 1 , 2 ] , \"b\" : { } }",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        json_t *expected = json_loads(good[i], LOAD_FLAGS, NULL), *json;

        assert_non_null(expected);
        if (parse(good[i], &roomy, &json, NULL) != 0 || !json_equal(json, expected))
            fail_msg("%s", good[i]);
        json_decref(json);
        json_decref(expected);
    }
}

static void refuses_what_is_not_json(void **state) {
    static const struct {
        const char *text;
        size_t at;
        const char *says;
    } cases[] = {
        {"", 0, "unexpected end of input"},
        {"  ", 2, "unexpected end of input"},
        {"[", 1, "unexpected end of input"},
        {"[1", 2, "unexpected end of input"},
        {"[1,", 3, "unexpected end of input"},
        {"{\"a\"", 4, "expected a colon"},
        {"{\"a\":", 5, "unexpected end of input"},
        {"{\"a\" 1}", 5, "expected a colon"},
        {"{a:1}", 1, "expected a key"},
        {"{1:1}", 1, "expected a key"},
        {"{\"a\":1,}", 7, "expected a key"},
        {"{,}", 1, "expected a key"},
        {"[1,]", 3, "expected a value"},
        {"[,]", 1, "expected a value"},
        {"[1 2]", 3, "expected a comma or ]"},
        {"[1}", 2, "expected a comma or ]"},
        {"{\"a\":1]", 6, "expected a comma or }"},
        {"]", 0, "expected a value"},
        {"1 2", 2, "expected the end"},
        {"{}{}", 2, "expected the end"},
        {"nul", 0, "expected a value"},
        {"True", 0, "expected a value"},
        {"NaN", 0, "expected a value"},
        {"'a'", 0, "expected a value"},
        {"+1", 0, "expected a value"},
        {".5", 0, "expected a value"},
        {"-", 1, "expected a digit"},
        {"-a", 1, "expected a digit"},
        {"1.", 2, "expected a digit"},
        {"1.e1", 2, "expected a digit"},
        {"1e", 2, "expected a digit"},
        {"1e+", 3, "expected a digit"},
        {"01", 1, "expected the end"},
        {"[-01]", 3, "expected a comma or ]"},
        {"0x10", 1, "expected the end"},
        {"truex", 4, "expected the end"},
        {"\"a", 2, "the string has no end"},
        {"\"a\\", 3, "unknown escape"},
        {"\"a\\\"", 4, "the string has no end"},
        {"\"\\x\"", 2, "unknown escape"},
        {"\"\\\n\"", 2, "unknown escape"},
        {"\"\\u12\"", 5, "expected four hexadecimal digits"},
        {"\"\\u12g4\"", 5, "expected four hexadecimal digits"},
        {"\"\\u0000\"", 7, "U+0000 is not allowed"},
        {"\"\\udc00\"", 7, "half a surrogate pair"},
        {"\"\\ud800\"", 7, "half a surrogate pair"},
        {"\"\\ud800x\"", 7, "half a surrogate pair"},
        {"\"\\ud800\\n\"", 7, "half a surrogate pair"},
        {"\"\\ud800\\ud800\"", 13, "half a surrogate pair"},
        {"\"a\nb\"", 2, "control character in a string"},
        {"\"a\x1f\"", 2, "control character in a string"},
        {"\"\xff\"", 1, "the string is not UTF-8"},
        {"\"\xc0\x80\"", 1, "the string is not UTF-8"},
        {"\"\xed\xa0\x80\"", 1, "the string is not UTF-8"},
        {"{\"\xff\":1}", 2, "the string is not UTF-8"},
        {"\xef\xbb\xbf{}", 0, "expected a value"},
        {"{\"a\":1,\"a\":2}", 7, "this key appears twice"},
        {"{\"a\":1,\"\\u0061\":2}", 7, "this key appears twice"},
        {"[1] // no", 4, "expected the end"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t error = {.text = ""};
        json_t *json, *theirs = json_loads(cases[i].text, LOAD_FLAGS, NULL);
        int rv = parse(cases[i].text, &roomy, &json, &error);

        assert_null(theirs);
        assert_null(json);
        if (rv != TDG_EJSON || strcmp(error.text, cases[i].says) != 0 ||
            error.at != cases[i].at)
            fail_msg("%s: %d at %zu: %s", cases[i].text, rv, error.at, error.text);
    }
}

static void refuses_a_nul_byte_wherever_it_stands(void **state) {
    static const char texts[][8] = {"\0",        "[\0]   ",    "[1\0]  ",
                                    "\"a\0\"  ", "{\"\0\":1}", "[\"\\\0\"]"};
    json_t *json = NULL;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(tdg__json_parse(texts[i], 7, &roomy, &json, NULL), TDG_EJSON);
    assert_null(json);
}

static void reads_no_further_than_it_is_told(void **state) {
    json_t *json = NULL;

    (void)state;
    assert_int_equal(tdg__json_parse("123", 2, &roomy, &json, NULL), 0);
    assert_int_equal(json_integer_value(json), 12);
    json_decref(json);
    assert_int_equal(tdg__json_parse("\"a\"", 2, &roomy, &json, NULL), TDG_EJSON);
    assert_int_equal(tdg__json_parse("true", 3, &roomy, &json, NULL), TDG_EJSON);
    assert_int_equal(tdg__json_parse("1.5", 2, &roomy, &json, NULL), TDG_EJSON);
}

static void says_which_numbers_do_not_fit(void **state) {
    static const char *const numbers[] = {
        "9223372036854775808",          "-9223372036854775809", "92233720368547758070",
        "[1, 99999999999999999999999]", "{\"id\": 1e999}",      "-1.5e400"};
    tdg__parse_error_t error;
    json_t *json;

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        error.text[0] = '\0';
        assert_int_equal(parse(numbers[i], &roomy, &json, &error), TDG_ENUMBER);
        assert_true(strlen(error.text) > 0);
        assert_null(json);
    }
}

static void keeps_reals_to_the_last_bit(void **state) {
    static const double numbers[] = {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.5};
    char text[64];
    json_t *json;

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        snprintf(text, sizeof(text), "%.17e", numbers[i]);
        assert_int_equal(parse(text, &roomy, &json, NULL), 0);
        assert_true(json_is_real(json) && json_real_value(json) == numbers[i]);
        json_decref(json);
    }
}

static void counts_bytes(void **state) {
    tdg__json_limits_t limits = roomy;
    tdg__parse_error_t error;
    json_t *json;

    (void)state;
    limits.max_bytes = 5;
    assert_int_equal(parse("[1,2]", &limits, &json, &error), 0);
    json_decref(json);
    assert_int_equal(parse("[1,22]", &limits, &json, &error), TDG_ETOOLARGE);
    assert_string_equal(error.text, "more than 5 bytes");
    assert_int_equal(error.at, 5);
}

static void counts_depth_and_not_brackets_in_strings(void **state) {
    tdg__json_limits_t limits = roomy;
    tdg__parse_error_t error;
    json_t *json;

    (void)state;
    limits.max_depth = 2;
    assert_int_equal(parse("[[], {}, [\"[[[{{{\\\"[[[\"]]", &limits, &json, &error), 0);
    json_decref(json);
    assert_int_equal(parse("[[[]]]", &limits, &json, &error), TDG_ETOOLARGE);
    assert_string_equal(error.text, "nested more than 2 deep");
    assert_int_equal(error.at, 2);
    assert_int_equal(parse("{\"a\":{\"b\":{}}}", &limits, &json, &error), TDG_ETOOLARGE);

    limits.max_depth = 0;
    assert_int_equal(parse("1", &limits, &json, &error), 0);
    json_decref(json);
    assert_int_equal(parse("[]", &limits, &json, &error), TDG_ETOOLARGE);
}

static void takes_the_deepest_nesting_and_nothing_more(void **state) {
    tdg__json_limits_t limits = roomy;
    char text[2 * TDG__JSON_MAX_DEPTH + 4];
    json_t *json = NULL;

    (void)state;
    limits.max_depth = TDG__JSON_MAX_DEPTH;
    memset(text, '[', TDG__JSON_MAX_DEPTH + 1);
    memset(text + TDG__JSON_MAX_DEPTH + 1, ']', TDG__JSON_MAX_DEPTH + 1);
    assert_int_equal(
        tdg__json_parse(text, 2 * TDG__JSON_MAX_DEPTH + 2, &limits, &json, NULL),
        TDG_ETOOLARGE);
    assert_int_equal(
        tdg__json_parse(text + 1, 2 * TDG__JSON_MAX_DEPTH, &limits, &json, NULL), 0);
    json_decref(json);
}

static void counts_values_of_every_kind(void **state) {
    /* object, key, array, string, number, literals (three), object, key, string: 11 */
    static const char text[] =
        "{\"a\":[\"[1,2,3]\",-1.5e3,true,false,null],\"b\":\"x\\\"y\"}";
    tdg__json_limits_t limits = roomy;
    tdg__parse_error_t error;
    json_t *json;

    (void)state;
    for (size_t max = 0; max < 10; max++) {
        limits.max_values = max;
        assert_int_equal(parse(text, &limits, &json, &error), TDG_ETOOLARGE);
        assert_null(json);
    }
    assert_string_equal(error.text, "more than 9 values");
    limits.max_values = 10;
    assert_int_equal(parse(text, &limits, &json, &error), 0);
    json_decref(json);
}

/* A megabyte of empty objects: refused before it costs much. */
static void stops_at_the_limit_with_little_memory_spent(void **state) {
    size_t len = 1 << 20, calls = memory_calls();
    char *text = malloc(len);
    json_t *json = NULL;

    (void)state;
    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 1; i + 2 < len; i += 3)
        memcpy(text + i, "{},", 3);
    assert_int_equal(tdg__json_parse(text, len, &roomy, &json, NULL), TDG_ETOOLARGE);
    assert_true(memory_calls() - calls < 10 * roomy.max_values);
    free(text);
}

static void fails_cleanly_whichever_allocation_fails(void **state) {
    static const char text[] =
        "{\"jsonrpc\":\"2.0\",\"a key of some length\":[1,2.5,\"a string of some "
        "length\","
        "\"an escaped\\nstring of some length\",{\"k\\u0065y\":{}},[],"
        "0.1000000000000000000000000000000000000000000000000000000000000000000000001,"
        "1,2,3,4,5,6,7,8,9],\"b\":1,\"c\":2,\"d\":3,\"e\":4,\"f\":5,\"g\":6,\"h\":7}";
    json_t *expected = json_loads(text, LOAD_FLAGS, NULL);

    (void)state;
    assert_non_null(expected);
    for (int how = MEMORY_ONCE; how <= MEMORY_FROM_THEN_ON; how++) {
        bool failed = true;
        size_t nth;

        for (nth = 1; failed; nth++) {
            json_t *json = NULL;
            int rv;

            memory_fail(nth, how);
            rv = tdg__json_parse(text, sizeof(text) - 1, &roomy, &json, NULL);
            failed = memory_failed();
            memory_fail(0, MEMORY_ONCE);
            assert_int_equal(rv, failed ? TDG_ENOMEM : 0);
            assert_true(failed ? json == NULL : json_equal(json, expected));
            json_decref(json);
        }
        assert_true(nth > 20);
    }
    json_decref(expected);
}

static void places_are_written_down(void **state) {
    static const char text[] = " {\"a\": [1, true,\n\"b\"], \"\u00e9\":{}}";
    static const char *const begin[] = {"{",    "\"a\"", "[",          "1",
                                        "true", "\"b\"", "\"\u00e9\"", "{"};
    static const tdg__json_limits_t narrow = {100, 3, 8};
    size_t places[8];
    json_t *json;

    (void)state;
    assert_int_equal(
        tdg__json_parse_placed(text, strlen(text), &narrow, places, &json, NULL), 0);
    for (size_t i = 0; i < 8; i++)
        assert_memory_equal(text + places[i], begin[i], strlen(begin[i]));
    json_decref(json);

    /* No more than there may be values. */
    assert_int_equal(
        tdg__json_parse_placed("[1,2,3,4,5,6,7,8]", 17, &narrow, places, &json, NULL),
        TDG_ETOOLARGE);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(reads_what_jansson_reads),
        CASE(places_are_written_down),
        CASE(refuses_what_is_not_json),
        CASE(refuses_a_nul_byte_wherever_it_stands),
        CASE(reads_no_further_than_it_is_told),
        CASE(says_which_numbers_do_not_fit),
        CASE(keeps_reals_to_the_last_bit),
        CASE(counts_bytes),
        CASE(counts_depth_and_not_brackets_in_strings),
        CASE(takes_the_deepest_nesting_and_nothing_more),
        CASE(counts_values_of_every_kind),
        CASE(stops_at_the_limit_with_little_memory_spent),
        CASE(fails_cleanly_whichever_allocation_fails),
    };

    json_object_seed(1); /* first, so that it is no allocation of the tests */
    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
