/* SPDX-License-Identifier: MIT */
#include "safe_text.h"

#include <locale.h>

#include "support.h"
#include "terminal.h"

/* What a function wrote; the next call overwrites it. */
static char written[4096];

#define WRITE(call)                                                                      \
    do {                                                                                 \
        written[0] = '\0';                                                               \
        FILE *out = fmemopen(written, sizeof(written), "w");                             \
                                                                                         \
        assert_non_null(out);                                                            \
        call;                                                                            \
        assert_int_equal(fclose(out), 0);                                                \
    } while (0)

static const struct {
    const char *text, *line;
    int columns;
} lines[] = {
    {"", "", 0},
    {"plain", "plain", 5},
    {"größe", "größe", 5},
    {"a\nb\r\nc\td", "a b c d", 7},
    {"\033[2Jx", "^[[2Jx", 6},
    {"\a\b\177", "^G^H^?", 6},
    {"\xc2\x9b"
     "31m",
     "<U+009B>31m", 11},
    {"a\xe2\x80\xae"
     "b",
     "a<U+202E>b", 10},
    {"\xe2\x80\xa8", "<U+2028>", 8},
    {"\xf3\xa0\x81\x81", "<U+E0041>", 9},
    {"\xff\xc3(", "<FF><C3>(", 9},
    {"\xc0\x9b", "<C0><9B>", 8},
    {"\xed\xa0\x80", "<ED><A0><80>", 12},
    {"cut \xe2\x82", "cut <E2><82>", 12},
};

static void a_line_shows_what_could_harm(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        WRITE(cli_put_line(out, lines[i].text));
        assert_string_equal(written, lines[i].line);
        assert_int_equal(cli_columns(lines[i].text), lines[i].columns);
        assert_int_equal(cli_is_plain(lines[i].text),
                         strcmp(lines[i].text, lines[i].line) == 0);
    }
}

static void no_byte_comes_through_raw(void **state) {
    char text[] = "a?b";

    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        text[1] = (char)byte;
        WRITE(cli_put_line(out, text));
        for (const char *p = written; *p != '\0'; p++)
            assert_in_range((unsigned char)*p, 0x20, 0x7e);
    }
}

static void a_text_keeps_its_lines(void **state) {
    static const char text[] = "one\n\ttwo\r\nth\033ree\0!";
    tdg__text_t shown;

    (void)state;
    tdg__text_init(&shown, 100);
    cli_put_plain(&shown, text, sizeof(text) - 1, true);
    assert_string_equal(shown.data, "one\n\ttwo^M\nth^[ree^@!");
    tdg__text_done(&shown);
}

static void what_is_no_terminal_gets_the_bytes(void **state) {
    static const char text[] = "\033[1m\r\n\0\xff";
    FILE *file = tmpfile();
    char back[sizeof(text)];

    (void)state;
    assert_non_null(file);
    cli_put_content(file, text, sizeof(text));
    rewind(file);
    assert_int_equal(fread(back, 1, sizeof(back), file), sizeof(text));
    assert_memory_equal(back, text, sizeof(text));
    fclose(file);
}

static void a_cell_is_cut_or_filled(void **state) {
    (void)state;
    WRITE(cli_put_cell(out, "abc", 5));
    assert_string_equal(written, "abc  ");
    WRITE(cli_put_cell(out, "abcde", 5));
    assert_string_equal(written, "abcde");
    WRITE(cli_put_cell(out, "größer", 5));
    assert_string_equal(written, "größ…");
    WRITE(cli_put_cell(out, "abc", 0));
    assert_string_equal(written, "");
}

static void wide_characters_have_two_columns(void **state) {
    (void)state;
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        skip();
    assert_int_equal(cli_columns("日本"), 4);
    assert_int_equal(cli_columns("e\xcc\x81"), 1);
    WRITE(cli_put_cell(out, "日本語", 4));
    assert_string_equal(written, "日… ");
    setlocale(LC_CTYPE, "C");
}

static void words_are_wrapped(void **state) {
    (void)state;
    WRITE(fputs("to ", out); cli_put_wrapped(out, "fix it", 3, 20));
    assert_string_equal(written, "to fix it\n");
    WRITE(cli_put_wrapped(out, "größer  als zehn Spalten", 2, 12));
    assert_string_equal(written, "größer als\n  zehn\n  Spalten\n");
    WRITE(cli_put_wrapped(out, "a-word-that-is-too-long b", 0, 8));
    assert_string_equal(written, "a-word-that-is-too-long\nb\n");
    WRITE(cli_put_wrapped(out, "", 4, 8));
    assert_string_equal(written, "\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_shows_what_could_harm),
        cmocka_unit_test(no_byte_comes_through_raw),
        cmocka_unit_test(a_text_keeps_its_lines),
        cmocka_unit_test(what_is_no_terminal_gets_the_bytes),
        cmocka_unit_test(a_cell_is_cut_or_filled),
        cmocka_unit_test(wide_characters_have_two_columns),
        cmocka_unit_test(words_are_wrapped),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("safe_text", tests, NULL, NULL);
}
