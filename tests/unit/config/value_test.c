/* SPDX-License-Identifier: MIT */
#include "config/value.h"

#include <unistd.h>

#include "base/alloc.h"
#include "support.h"

typedef struct amount_case {
    const char *text;
    int64_t value; /* -1: refused */
} amount_case_t;

static void check_amounts(bool (*parse)(const char *, int64_t *),
                          const amount_case_t *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int64_t value = -1;

        if (parse(cases[i].text, &value) != (cases[i].value != -1) ||
            (cases[i].value != -1 && value != cases[i].value))
            fail_msg("%s: %lld", cases[i].text, (long long)value);
    }
}

static void durations(void **state) {
    static const amount_case_t cases[] = {
        {"0", 0},
        {"0s", 0},
        {"500ms", 500},
        {"2s", 2000},
        {"5m", 300000},
        {"1h", 3600000},
        {"1d", 86400000},
        {"30 s", 30000},
        {"9223372036854775807ms", INT64_MAX},
        {"9223372036854775s", 9223372036854775000},
        {"9223372036854776s", -1},
        {"9223372036854775808ms", -1},
        {"99999999999d", 99999999999 * 86400000},
        {"999999999999d", -1},
        {"1", -1},
        {"10x", -1},
        {"s", -1},
        {"", -1},
        {"1.5s", -1},
        {"-1s", -1},
        {"+1s", -1},
        {"1S", -1},
        {"1s ", -1},
        {" 1s", -1},
        {"1  s", -1},
        {"1sec", -1},
    };

    (void)state;
    check_amounts(tdg__duration_parse, cases, COUNT(cases));
}

static void sizes(void **state) {
    static const amount_case_t cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"64KiB", 65536},
        {"10MiB", 10 << 20},
        {"10 MiB", 10 << 20},
        {"2GiB", INT64_C(2) << 30},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775808", -1},
        {"9007199254740992KiB", -1},
        {"8589934592GiB", -1},
        {"10MB", -1},
        {"10M", -1},
        {"10kib", -1},
        {"-1", -1},
        {"", -1},
        {"MiB", -1},
    };

    (void)state;
    check_amounts(tdg__size_parse, cases, COUNT(cases));
}

static void numbers(void **state) {
    static const amount_case_t cases[] = {
        {"0", 0},
        {"-7", -7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807", -INT64_MAX},
        {"9223372036854775808", -1},
        {"", -1},
        {"-", -1},
        {"1.0", -1},
        {"0x10", -1},
        {"1e3", -1},
        {"--1", -1},
        {"+1", -1},
        {"1_000", -1},
    };

    (void)state;
    check_amounts(tdg__number_parse, cases, COUNT(cases));
}

static void are_written_with_the_largest_unit(void **state) {
    static const struct {
        void (*write)(int64_t, char *);
        int64_t value;
        const char *text;
    } cases[] = {
        {tdg__duration_write, 0, "0"},
        {tdg__duration_write, 1500, "1500ms"},
        {tdg__duration_write, 60000, "1m"},
        {tdg__duration_write, 75000, "75s"},
        {tdg__duration_write, 86400000, "1d"},
        {tdg__duration_write, INT64_MAX, "9223372036854775807ms"},
        {tdg__size_write, 0, "0"},
        {tdg__size_write, 4097, "4097"},
        {tdg__size_write, 16384, "16KiB"},
        {tdg__size_write, 4 << 20, "4MiB"},
        {tdg__size_write, INT64_C(1) << 40, "1024GiB"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[TDG__VALUE_TEXT_MAX];

        cases[i].write(cases[i].value, out);
        assert_string_equal(out, cases[i].text);
    }
}

/* ---- The environment ----------------------------------------------------- */

static void the_environment_is_put_in(void **state) {
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"plain $ text $X $$ {}", "plain $ text $X $$ {}"},
        {"${TDG_A}", "one"},
        {"<${TDG_A}${TDG_A}>", "<oneone>"},
        {"${TDG_EMPTY}", ""},
        {"${TDG_EMPTY:-two}", "two"},
        {"${TDG_UNSET:-a:-b $ {c}", "a:-b $ {c"},
        {"${TDG_UNSET:-}", ""},
        {"${TDG_A:-two}", "one"},
        {"$${TDG_A}", "${TDG_A}"},
        {"$$${TDG_A}", "$${TDG_A}"},
        {"a$", "a$"},
        {"${TDG_TRICK}", "${TDG_A}"}, /* once, not again */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t error = {0};
        char *out = NULL;

        if (tdg__expand(cases[i].text, false, &out, &error) != 0)
            fail_msg("%s: %s", cases[i].text, error.text);
        assert_string_equal(out, cases[i].expected);
        tdg__free(out);
    }
}

static void note_name(void *arg, const char *name) {
    strcat(strcat(arg, name), " ");
}

static void what_has_to_be_set_is_known(void **state) {
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"", ""},
        {"$", ""},
        {"${A}", "A "},
        {"x${A}y${B_2}${A}", "A B_2 A "},
        {"${A:-b} ${A", ""},
        {"$${A} $$${A} $${${B}", "B "},
        {"${} ${1} ${A-} ${A b} ${", ""},
        {"${A:-${B}} ${C}", "C "},
        {"${A-${B}} ${C}", "C "},
        {"${TDG_IS_SET:-b} ${TDG_IS_EMPTY:-b} ${TDG_IS_SET:-", "TDG_IS_SET "},
    };

    (void)state;
    setenv("TDG_IS_SET", "x", 1);
    setenv("TDG_IS_EMPTY", "", 1);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char names[64] = "";

        tdg__expand_names(cases[i].text, note_name, names);
        assert_string_equal(names, cases[i].names);
    }
}

static void what_cannot_be_put_in_is_said(void **state) {
    static const char unclosed[] =
        "a ${ is not closed; write ${NAME}, or $${ for a literal ${";
    static const char nameless[] = "a ${…} has no valid variable name; write ${NAME} or "
                                   "${NAME:-text}, or $${ for a literal ${";
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"${TDG_UNSET}", "the environment variable TDG_UNSET is not set"},
        {"x${TDG_A", unclosed},
        {"${", unclosed},
        {"${}", nameless},
        {"${1A}", nameless},
        {"${A B}", nameless},
        {"${A:=b}", nameless},
        {"${A:b}", nameless},
        {"${TDG_BYTES}", "the environment variable TDG_BYTES is not valid UTF-8"},
        {"${TDG_LONG}${TDG_LONG}",
         "the value is longer than 65536 bytes after replacing its variables"},
        {"${AAAAAAAAAABBBBBBBBBBCCCCCCCCCCDDDDDDDDDDEEEEEEEEEEFFFFFFFFFFGGGGGGGGGG}",
         nameless},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t error = {0};
        char *out = NULL;

        assert_int_equal(tdg__expand(cases[i].text, false, &out, &error), TDG_EINVAL);
        assert_null(out);
        if (strcmp(error.text, cases[i].says) != 0)
            fail_msg("%s: %s", cases[i].text, error.text);
    }
}

static void paths_become_absolute(void **state) {
    static const struct {
        const char *path, *file, *expected; /* %: the working directory */
    } cases[] = {
        {"/a/./b//c/", "/x/t.yaml", "/a/b/c"},
        {"/", NULL, "/"},
        {"/.", NULL, "/"},
        {"a/b", "/x/t.yaml", "/x/a/b"},
        {"./a", "/x//y/t.yaml", "/x/y/a"},
        {"../a", "/x/t.yaml", "/x/../a"},
        {".", "/t.yaml", "/"},
        {"a", NULL, "%/a"},
        {"a", "t.yaml", "%/a"},
        {".", "./t.yaml", "%"},
        {"a", "x/t.yaml", "%/x/a"},
        {"~/a", "/x/t.yaml", "/home/me/a"},
        {"~", "/x/t.yaml", "/home/me"},
        {"~you/a", "/x/t.yaml", "/x/~you/a"},
        {"a/~/b", "/x/t.yaml", "/x/a/~/b"},
    };
    char here[4096];

    (void)state;
    assert_non_null(getcwd(here, sizeof(here)));
    for (size_t i = 0; i < COUNT(cases); i++) {
        bool from_here = cases[i].expected[0] == '%';
        tdg__parse_error_t error = {0};
        char *out = NULL;

        if (tdg__path_resolve(cases[i].path, cases[i].file, &out, &error) != 0)
            fail_msg("%s: %s", cases[i].path, error.text);
        if (from_here)
            assert_memory_equal(out, here, strlen(here));
        assert_string_equal(out + (from_here ? strlen(here) : 0),
                            cases[i].expected + from_here);
        tdg__free(out);
    }
}

static void bad_paths_are_refused(void **state) {
    char long_path[70000], *out = NULL;
    tdg__parse_error_t error;

    (void)state;
    assert_int_equal(tdg__path_resolve("", NULL, &out, &error), TDG_EINVAL);
    assert_string_equal(error.text, "a path cannot be empty");

    for (size_t len = 4200; len < sizeof(long_path); len += 65000) {
        memset(long_path, 'x', len);
        long_path[0] = '/';
        long_path[len] = '\0';
        assert_int_equal(tdg__path_resolve(long_path, NULL, &out, &error), TDG_EINVAL);
        assert_string_equal(error.text, "the path is longer than 4095 bytes");
    }

    unsetenv("HOME");
    assert_int_equal(tdg__path_resolve("~/a", NULL, &out, &error), TDG_EINVAL);
    setenv("HOME", "/home/me", 1);
    assert_string_equal(error.text, "~ stands for the home directory, but the "
                                    "environment variable HOME is not set");
    assert_null(out);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t nth = 1; nth < 4; nth++) {
        tdg__parse_error_t error;
        char *out = NULL;
        int rv;

        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__expand("a long text, longer than what is allocated at first, with "
                         "${TDG_A} inside and more behind it, to the very end of it",
                         false, &out, &error);
        assert_int_equal(rv, memory_failed() ? TDG_ENOMEM : 0);
        memory_fail(0, MEMORY_ONCE);
        tdg__free(out);

        out = NULL;
        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__path_resolve("a", "/x/y", &out, &error);
        assert_int_equal(rv, memory_failed() ? TDG_ENOMEM : 0);
        memory_fail(0, MEMORY_ONCE);
        tdg__free(out);
    }
}

static int environment_setup(void **state) {
    static char long_text[40001];

    memset(long_text, 'x', sizeof(long_text) - 1);
    setenv("TDG_A", "one", 1);
    setenv("TDG_EMPTY", "", 1);
    setenv("TDG_TRICK", "${TDG_A}", 1);
    setenv("TDG_BYTES", "\xff", 1);
    setenv("TDG_LONG", long_text, 1);
    setenv("HOME", "/home/me", 1);
    unsetenv("TDG_UNSET");
    return memory_setup(state);
}

#define TEST(name)                                                                       \
    cmocka_unit_test_setup_teardown(name, environment_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(durations),
        TEST(sizes),
        TEST(numbers),
        TEST(are_written_with_the_largest_unit),
        TEST(the_environment_is_put_in),
        TEST(what_has_to_be_set_is_known),
        TEST(what_cannot_be_put_in_is_said),
        TEST(paths_become_absolute),
        TEST(bad_paths_are_refused),
        TEST(every_allocation_may_fail),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("value", tests, NULL, NULL);
}
