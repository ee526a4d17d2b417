/* SPDX-License-Identifier: MIT */
#include "support.h"
#include "terminal.h"

static void shows_as(const char *text, size_t len, bool lines, const char *wanted) {
    tdg__text_t out;

    tdg__text_init(&out, SIZE_MAX);
    cli_put_plain(&out, text, len, lines);
    assert_int_equal(out.error, 0);
    assert_string_equal(out.len > 0 ? out.data : "", wanted);
    tdg__text_done(&out);
}

static void keeps_what_only_shows(void **state) {
    static const char text[] = "plain, été, 日本, 🎉, a\u200db";

    (void)state;
    shows_as(text, strlen(text), false, text);
    shows_as("", 0, false, "");
}

static void keeps_lines_and_tabs_where_asked(void **state) {
    (void)state;
    shows_as("a\tb\nc", 5, true, "a\tb\nc");
    shows_as("a\tb\nc", 5, false, "a^Ib^Jc");
}

static void makes_control_characters_visible(void **state) {
    (void)state;
    shows_as("\033]0;title\a", 10, true, "^[]0;title^G");
    shows_as("a\rb\x7f\0c", 6, true, "a^Mb^?^@c");
    shows_as("\xc2\x9b"
             "31m",
             5, true, "<U+009B>31m"); /* what some terminals take for escape [ */
}

static void makes_turned_writing_visible(void **state) {
    (void)state;
    shows_as("a\u202egpj.exe", 10 + 1, false, "a<U+202E>gpj.exe");
    shows_as("\u2028", 3, true, "<U+2028>");
}

static void takes_text_that_is_no_utf8(void **state) {
    (void)state;
    shows_as("a\x9b"
             "b",
             3, false, "a<9B>b");
    shows_as("\xe2\x80", 2, false, "<E2><80>");
    shows_as("\xe2\x1b[", 3, false, "<E2>^[[");
    shows_as("\xf8\x90\x80\x80", 4, false, "<F8><90><80><80>");
    shows_as("\xfc\x8f\x80\x80", 4, false, "<FC><8F><80><80>");
}

static void decodes_one_character(void **state) {
    static const struct {
        const char *text;
        uint32_t character;
        size_t len;
    } cases[] = {
        {"a", 'a', 1},
        {"\x7f", 0x7f, 1},
        {"\xc3\xa9x", 0xe9, 2},
        {"\xe2\x82\xac", 0x20ac, 3},
        {"\xf0\x9f\x98\x80", 0x1f600, 4},
        {"\xff", 0x80, 1},
        {"\xe2\x82", 0x80, 1},
        {"\xc0\x9b", 0x80, 1},
        {"\xed\xa0\x80", 0x80, 1},
    };
    size_t len;

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(cli_decode(cases[i].text, strlen(cases[i].text), &len),
                         cases[i].character);
        assert_int_equal(len, cases[i].len);
    }
}

static void colours_as_asked(void **state) {
    (void)state;
    assert_true(cli_wants_color(CLI_COLOR_ALWAYS, -1));
    assert_false(cli_wants_color(CLI_COLOR_NEVER, -1));
    assert_false(cli_wants_color(CLI_COLOR_AUTO, -1));
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(keeps_what_only_shows),
        CASE(keeps_lines_and_tabs_where_asked),
        CASE(makes_control_characters_visible),
        CASE(makes_turned_writing_visible),
        CASE(takes_text_that_is_no_utf8),
        CASE(decodes_one_character),
        CASE(colours_as_asked),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
