/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include "support.h"

static void starts_empty_and_without_memory(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 10);
    assert_int_equal(text.len, 0);
    assert_null(text.data);
    assert_int_equal(text.error, 0);
    tdg__text_done(&text);
}

static void appends_bytes_strings_and_numbers(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 1000);
    tdg__text_add(&text, "a\0b", 3);
    tdg__text_put(&text, "-");
    tdg__text_put_u64(&text, 0);
    tdg__text_put(&text, "-");
    tdg__text_put_u64(&text, UINT64_MAX);
    assert_int_equal(text.error, 0);
    assert_int_equal(text.len, 26);
    assert_memory_equal(text.data, "a\0b-0-18446744073709551615", 27);
    tdg__text_done(&text);
}

static void ends_in_nul_after_appending_nothing(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 0);
    tdg__text_add(&text, NULL, 0);
    assert_int_equal(text.error, 0);
    assert_string_equal(text.data, "");
    tdg__text_done(&text);
}

static void grows_through_many_sizes(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, SIZE_MAX);
    for (int i = 0; i < 5000; i++)
        tdg__text_add(&text, &"abcdefg"[i % 7], 1);
    assert_int_equal(text.error, 0);
    assert_int_equal(text.len, 5000);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(text.data[i], "abcdefg"[i % 7]);
    assert_int_equal(text.data[5000], '\0');
    tdg__text_done(&text);
}

static void takes_exactly_the_limit(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 4);
    tdg__text_put(&text, "abcd");
    assert_int_equal(text.error, 0);
    tdg__text_put(&text, "");
    assert_int_equal(text.error, 0);
    tdg__text_put(&text, "e");
    assert_int_equal(text.error, TDG_ETOOLARGE);
    assert_string_equal(text.data, "abcd");
    tdg__text_done(&text);
}

static void stays_failed_until_it_is_cleared(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 4);
    tdg__text_put(&text, "abcde");
    tdg__text_put(&text, "f");
    tdg__text_put_json(&text, NULL);
    assert_int_equal(text.error, TDG_ETOOLARGE);
    assert_int_equal(text.len, 0);

    tdg__text_clear(&text);
    tdg__text_put(&text, "f");
    assert_int_equal(text.error, 0);
    assert_string_equal(text.data, "f");
    tdg__text_done(&text);
}

static void keeps_its_memory_when_cleared(void **state) {
    tdg__text_t text;
    const char *before;

    (void)state;
    tdg__text_init(&text, 100);
    tdg__text_put(&text, "something");
    before = text.data;
    tdg__text_clear(&text);
    assert_string_equal(text.data, "");
    tdg__text_put(&text, "else");
    assert_ptr_equal(text.data, before);
    tdg__text_done(&text);
}

static void remembers_that_memory_ran_out(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 1000);
    tdg__text_put(&text, "abc");
    memory_fail(1, MEMORY_ONCE);
    for (int i = 0; i < 100; i++)
        tdg__text_put(&text, "defg");
    assert_true(memory_failed());
    assert_int_equal(text.error, TDG_ENOMEM);
    assert_true(text.len < 100);
    tdg__text_done(&text);
}

static void escapes_what_json_does_not_allow(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 100);
    tdg__text_put_quoted(&text, "a\"b\\c/\n\r\t\b\f\x01\x1f\x7f\0é", 17);
    assert_string_equal(text.data,
                        "\"a\\\"b\\\\c/\\n\\r\\t\\b\\f\\u0001\\u001f\x7f\\u0000é\"");
    tdg__text_done(&text);
}

/* jansson reads back what we quote. */
static void quotes_so_that_the_same_string_is_read_back(void **state) {
    char bytes[127];
    tdg__text_t text;
    json_t *json;

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i + 1);
    tdg__text_init(&text, 10000);
    tdg__text_put_quoted(&text, bytes, sizeof(bytes));
    json = json_loadb(text.data, text.len, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    assert_int_equal(json_string_length(json), sizeof(bytes));
    assert_memory_equal(json_string_value(json), bytes, sizeof(bytes));
    json_decref(json);
    tdg__text_done(&text);
}

static void writes_json_on_one_line(void **state) {
    json_t *json = json_from("{'a': [1, 'x\\n', null, {'b': true}]}");
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 100);
    tdg__text_put(&text, ">");
    tdg__text_put_json(&text, json);
    assert_string_equal(text.data, ">{\"a\":[1,\"x\\n\",null,{\"b\":true}]}");
    tdg__text_done(&text);
    json_decref(json);
}

static void writes_json_within_the_limit(void **state) {
    json_t *json = json_from("['a', 'b', 'c']");
    tdg__text_t text;

    (void)state;
    for (size_t max = 0; max < 13; max++) {
        tdg__text_init(&text, max);
        tdg__text_put_json(&text, json);
        assert_int_equal(text.error, TDG_ETOOLARGE);
        assert_true(text.len <= max);
        tdg__text_done(&text);
    }
    tdg__text_init(&text, 13);
    tdg__text_put_json(&text, json);
    assert_int_equal(text.error, 0);
    tdg__text_done(&text);
    json_decref(json);
}

static void counts_json_that_is_null_as_lack_of_memory(void **state) {
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 100);
    tdg__text_put_json(&text, NULL);
    assert_int_equal(text.error, TDG_ENOMEM);
    tdg__text_done(&text);
}

static void fails_cleanly_when_json_finds_no_memory(void **state) {
    json_t *json =
        json_from("{'a': [1, {'b': ['c']}], 'd': {'e': {'f': 'a long text'}}}");
    bool failed = true;

    (void)state;
    for (size_t nth = 1; failed; nth++) {
        tdg__text_t text;

        tdg__text_init(&text, 1000);
        memory_fail(nth, MEMORY_FROM_THEN_ON);
        tdg__text_put_json(&text, json);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(text.error, failed ? TDG_ENOMEM : 0);
        tdg__text_done(&text);
    }
    json_decref(json);
}

static void writes_digits_without_padding(void **state) {
    static const struct {
        uint64_t number;
        const char *decimal, *hex;
    } cases[] = {
        {0, "0", "0"},
        {9, "9", "9"},
        {10, "10", "a"},
        {0x1000, "4096", "1000"},
        {UINT64_MAX, "18446744073709551615", "ffffffffffffffff"},
    };
    char out[TDG__U64_DIGITS];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(tdg__u64_digits(out, cases[i].number), strlen(cases[i].decimal));
        assert_memory_equal(out, cases[i].decimal, strlen(cases[i].decimal));
        assert_int_equal(tdg__u64_hex(out, cases[i].number), strlen(cases[i].hex));
        assert_memory_equal(out, cases[i].hex, strlen(cases[i].hex));
    }
}

static void knows_what_utf8_is(void **state) {
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {
        {"", true},
        {"plain", true},
        {"\x7f", true},
        {"\xc2\x80", true},
        {"\xdf\xbf", true},
        {"\xe0\xa0\x80", true},
        {"\xed\x9f\xbf", true},
        {"\xee\x80\x80", true},
        {"\xef\xbf\xbf", true},
        {"\xf0\x90\x80\x80", true},
        {"\xf4\x8f\xbf\xbf", true},
        {"a\xe2\x82\xac"
         "b",
         true},
        {"\x80", false},     /* continues nothing */
        {"\xc0\x80", false}, /* overlong */
        {"\xc1\xbf", false},
        {"\xe0\x9f\xbf", false},
        {"\xf0\x8f\xbf\xbf", false},
        {"\xed\xa0\x80", false}, /* a surrogate */
        {"\xed\xbf\xbf", false},
        {"\xf4\x90\x80\x80", false}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", false},
        {"\xff", false},
        {"\xc2", false}, /* cut */
        {"\xe2\x82", false},
        {"\xf0\x90\x80", false},
        {"\xe2\x82"
         "x",
         false},
        {"\xf0\x90\x80"
         "x",
         false},
        {"\xc2"
         "x",
         false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (tdg__utf8_is_valid(cases[i].text, strlen(cases[i].text)) != cases[i].valid)
            fail_msg("case %zu", i);
    }
}

static void reads_hexadecimal_digits(void **state) {
    static const char digits[] = "0123456789abcdef", capitals[] = "0123456789ABCDEF";

    (void)state;
    for (int i = 0; i < 16; i++) {
        assert_int_equal(tdg__hex_value(digits[i]), i);
        assert_int_equal(tdg__hex_value(capitals[i]), i);
    }
    for (int c = 0; c < 256; c++)
        if (c == 0 || strchr("0123456789abcdefABCDEF", c) == NULL)
            assert_int_equal(tdg__hex_value((char)c), -1);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(starts_empty_and_without_memory),
        CASE(appends_bytes_strings_and_numbers),
        CASE(ends_in_nul_after_appending_nothing),
        CASE(grows_through_many_sizes),
        CASE(takes_exactly_the_limit),
        CASE(stays_failed_until_it_is_cleared),
        CASE(keeps_its_memory_when_cleared),
        CASE(remembers_that_memory_ran_out),
        CASE(escapes_what_json_does_not_allow),
        CASE(quotes_so_that_the_same_string_is_read_back),
        CASE(writes_json_on_one_line),
        CASE(writes_json_within_the_limit),
        CASE(counts_json_that_is_null_as_lack_of_memory),
        CASE(fails_cleanly_when_json_finds_no_memory),
        CASE(writes_digits_without_padding),
        CASE(knows_what_utf8_is),
        CASE(reads_hexadecimal_digits),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
