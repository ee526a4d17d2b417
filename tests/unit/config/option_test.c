/* SPDX-License-Identifier: MIT */
#include "config/option.h"

#include "said.h"
#include "support.h"

typedef struct record {
    char *uri, *path, *key, *raw;
    bool hidden;
    int64_t count, every, timeout, window, max_size, shift, at_least;
    int format;
    char **include, **exclude;
    json_t *headers, *secrets;
} record_t;

static const char *const formats[] = {"json", "csv", "text", NULL};

#define ROW(kind, field, ...)                                                            \
    { .type = TDG__OPTION_##kind, .offset = offsetof(record_t, field), __VA_ARGS__ }

static const tdg__option_t own[] = {
    ROW(PATH, path, .name = "path", .fallback = "data", .example = "docs"),
    ROW(BOOL, hidden, .name = "hidden", .fallback = "true"),
    ROW(NUMBER, count, .name = "count", .fallback = "5", .min = 1, .max = 10),
    ROW(NUMBER, shift, .name = "shift", .min = -5),
    ROW(DURATION, at_least, .name = "at-least", .min = 2000),
    ROW(DURATION, every, .name = "every", .fallback = "30s", .min = 1000,
        .max = 86400000),
    ROW(DURATION, timeout, .name = "timeout"),
    ROW(DURATION, window, .name = "window", .max = 60000),
    ROW(CHOICE, format, .name = "format", .fallback = "csv", .choices = formats),
    ROW(STRINGS, include, .name = "include", .fallback = "*.md"),
    ROW(STRINGS, exclude, .name = "exclude"),
    ROW(MAP, headers, .name = "headers"),
    ROW(MAP, secrets, .name = "secrets", .flags = TDG__OPTION_SECRET),
    ROW(STRING, raw, .name = "raw", .flags = TDG__OPTION_RAW, .fallback = "${X}"),
    {.name = NULL},
};

static const tdg__option_t common[] = {
    ROW(STRING, uri, .name = "uri", .flags = TDG__OPTION_REQUIRED,
        .example = "db://shop/{id}"),
    ROW(SIZE, max_size, .name = "max-size", .fallback = "1MiB", .min = 1, .max = 1 << 30),
    ROW(STRING, key, .name = "key", .flags = TDG__OPTION_SECRET),
    {.name = NULL},
};

static const tdg__option_t *const tables[] = {own, common, NULL};

static tdg__node_t *tree_of(const char *text) {
    tdg__problems_t problems;
    tdg__node_t *node = NULL;

    tdg__problems_init(&problems, NULL);
    if (tdg__node_read_text(text, strlen(text), &problems, &node) != 0)
        fail_msg("%s: %s", text, problems.list[0].text);
    return node;
}

/* Reads, and returns what was said; for free(). */
static char *read_record(const char *text, record_t *record, int *ret_code) {
    tdg__node_t *node = text != NULL ? tree_of(text) : NULL;
    tdg__problems_t problems;
    char *what;

    memset(record, 0, sizeof(*record));
    tdg__problems_init(&problems, "/etc/x/t.yaml");
    *ret_code = tdg__options_read(tables, node, record, &problems);
    what = said(&problems);
    tdg__problems_done(&problems);
    tdg__node_destroy(node);
    return what;
}

static void read_well(const char *text, record_t *record) {
    int rv;
    char *what = read_record(text, record, &rv);

    if (rv != 0 || what[0] != '\0')
        fail_msg("%s: %d: %s", text, rv, what);
    free(what);
}

static void assert_says(const char *text, const char *expected) {
    record_t record;
    int rv;
    char *what = read_record(text, &record, &rv);

    if (rv != TDG_EINVAL || strcmp(what, expected) != 0)
        fail_msg("%s: %d\n  is:       %s\n  expected: %s", text, rv, what, expected);
    free(what);
    tdg__options_done(tables, &record);
}

static void what_is_not_given_takes_its_default(void **state) {
    record_t r;

    (void)state;
    read_well("uri: a://b\n", &r);
    assert_string_equal(r.uri, "a://b");
    assert_string_equal(r.path, "/etc/x/data");
    assert_true(r.hidden);
    assert_int_equal(r.count, 5);
    assert_int_equal(r.every, 30000);
    assert_int_equal(r.timeout, -1);
    assert_int_equal(r.window, -1);
    assert_int_equal(r.format, 1);
    assert_string_equal(r.include[0], "*.md");
    assert_null(r.include[1]);
    assert_null(r.exclude);
    assert_null(r.headers);
    assert_null(r.key);
    assert_string_equal(r.raw, "${X}");
    assert_int_equal(r.max_size, 1 << 20);
    tdg__options_done(tables, &r);
    assert_null(r.uri);
    tdg__options_done(tables, &r); /* again does no harm */
}

static void what_is_given_is_read(void **state) {
    record_t r;

    (void)state;
    setenv("TDG_A", "one", 1);
    setenv("TDG_N", "7", 1);
    read_well("uri: 'a://${TDG_A}'\npath: /srv/./${TDG_A}/\nhidden: false\n"
              "count: ${TDG_N}\nevery: 2m\ntimeout: 0\nwindow: 250ms\nformat: text\n"
              "include: only\nexclude: [b, \"${TDG_A}\"]\nshift: -5\n"
              "headers: {A: x, B: 'y ${TDG_A}'}\nraw: ${TDG_A}\nmax-size: 64KiB\n"
              "key: '123'\n",
              &r);
    assert_string_equal(r.uri, "a://one");
    assert_string_equal(r.path, "/srv/one");
    assert_false(r.hidden);
    assert_int_equal(r.count, 7);
    assert_int_equal(r.shift, -5);
    assert_int_equal(r.every, 120000);
    assert_int_equal(r.timeout, 0);
    assert_int_equal(r.window, 250);
    assert_int_equal(r.format, 2);
    assert_string_equal(r.include[0], "only");
    assert_null(r.include[1]);
    assert_string_equal(r.exclude[1], "one");
    assert_json_equal(r.headers, "{'A': 'x', 'B': 'y one'}");
    assert_string_equal(r.raw, "${TDG_A}");
    assert_int_equal(r.max_size, 65536);
    tdg__options_done(tables, &r);
}

static void empty_lists_and_maps_are_given(void **state) {
    record_t r;

    (void)state;
    read_well("uri: x\ninclude: []\nheaders: {}\n", &r);
    assert_non_null(r.include);
    assert_null(r.include[0]);
    assert_json_equal(r.headers, "{}");
    tdg__options_done(tables, &r);
}

static void every_message(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"count: 5\n", "1:1: uri is missing; an example is uri: db://shop/{id}"},
        {"uri: x\nevry: 5s\n", "2:1: evry: unknown option; did you mean every?"},
        {"uri: x\nfrobnicate: 5s\n",
         "2:1: frobnicate: unknown option; the options are path, hidden, count, "
         "shift, at-least, every, timeout, window, format, include, exclude, headers, "
         "secrets, "
         "raw, uri, max-size, key"},
        {"uri: x\nevery: 10x\n", "2:8: every: \"10x\" is not a duration; write a number "
                                 "with ms, s, m, h or d, such "
                                 "as 30s"},
        {"uri: x\nevery: 10\n", "2:8: every: \"10\" is not a duration; write a number "
                                "with ms, s, m, h or d, such "
                                "as 30s"},
        {"uri: x\nevery: 10ms\n",
         "2:8: every: \"10ms\" is out of range; write a value from 1s to 1d"},
        {"uri: x\nwindow: 2m\n",
         "2:9: window: \"2m\" is out of range; write a value from 0 to 1m"},
        {"uri: x\ncount: 0\n",
         "2:8: count: \"0\" is out of range; write a value from 1 to 10"},
        {"uri: x\nshift: 1\n",
         "2:8: shift: \"1\" is out of range; write a value from -5 to 0"},
        {"uri: x\nat-least: 1s\n",
         "2:11: at-least: \"1s\" is too small; the smallest is 2s"},
        {"uri: x\ncount: five\n", "2:8: count: \"five\" is not a whole number"},
        {"uri: x\nmax-size: 10MB\n", "2:11: max-size: \"10MB\" is not a size; write a "
                                     "number of bytes, or one with KiB, "
                                     "MiB or GiB, such as 64KiB"},
        {"uri: x\nmax-size: 0\n",
         "2:11: max-size: \"0\" is out of range; write a value from 1 to 1GiB"},
        {"uri: x\nhidden: yes\n",
         "2:9: hidden: \"yes\" is neither true nor false; write true"},
        {"uri: x\nhidden: Off\n",
         "2:9: hidden: \"Off\" is neither true nor false; write false"},
        {"uri: x\nhidden: TRUE\n",
         "2:9: hidden: \"TRUE\" is neither true nor false; write true"},
        {"uri: x\nhidden: maybe\n", "2:9: hidden: \"maybe\" is neither true nor false"},
        {"uri: x\nformat: jsn\n",
         "2:9: format: \"jsn\" is not known; did you mean json?"},
        {"uri: x\nformat: pdf-file\n",
         "2:9: format: \"pdf-file\" is not known; write json, csv or text"},
        {"uri: [x]\n", "1:6: uri: this is a list; a text is expected"},
        {"uri: {x: y}\n", "1:6: uri: this is a map; a text is expected"},
        {"uri:\n", "1:1: uri: the value is missing; write a text, or remove the line"},
        {"uri: x\ninclude: {a: b}\n",
         "2:10: include: this is a map; a text or a list of texts is expected"},
        {"uri: x\ninclude:\n",
         "2:1: include: the value is missing; write a text or a list of texts, or "
         "remove the line"},
        {"uri: x\ninclude: [a, [b], {}]\n",
         "2:14: include[1]: this is a list; a text is expected\n"
         "2:19: include[2]: this is a map; a text is expected"},
        {"uri: x\nheaders: [a]\n",
         "2:10: headers: this is a list; a map of names and texts is expected"},
        {"uri: x\nheaders: a\n",
         "2:10: headers: this is one value; a map of names and texts is expected"},
        {"uri: x\nheaders: {a: [b], c: ~}\n",
         "2:14: headers.a: this is a list; a text is expected\n"
         "2:19: headers.c: the value is missing; write a text, or remove the line"},
        {"uri: x\npath: ''\n", "2:7: path: a path cannot be empty"},
        {"uri: ${TDG_UNSET}\n",
         "1:6: uri: the environment variable TDG_UNSET is not set"},
        {"- x\n", "1:1: this is a list; expected a map of options and their values\n"
                  "1:1: uri is missing; an example is uri: db://shop/{id}"},
        {"x\n", "1:1: this is one value; expected a map of options and their values\n"
                "1:1: uri is missing; an example is uri: db://shop/{id}"},
    };

    (void)state;
    unsetenv("TDG_UNSET");
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_says(cases[i].text, cases[i].says);
    assert_says(NULL, "0:0: uri is missing; an example is uri: db://shop/{id}");
}

static void all_problems_are_told_at_once(void **state) {
    (void)state;
    assert_says(
        "hiden: true\ncount: 99\nevery: soon\nmax-size: -1\n",
        "1:1: hiden: unknown option; did you mean hidden?\n"
        "1:1: uri is missing; an example is uri: db://shop/{id}\n"
        "2:8: count: \"99\" is out of range; write a value from 1 to 10\n"
        "3:8: every: \"soon\" is not a duration; write a number with ms, s, m, h or "
        "d, such as 30s\n"
        "4:11: max-size: \"-1\" is not a size; write a number of bytes, or one with "
        "KiB, MiB or GiB, such as 64KiB");
}

static void no_message_shows_a_secret(void **state) {
    static const char *const texts[] = {
        "uri: x\ncount: ${TDG_SECRET}\n",       "uri: x\nevery: ${TDG_SECRET}\n",
        "uri: x\nhidden: ${TDG_SECRET}\n",      "uri: x\nformat: ${TDG_SECRET}\n",
        "uri: x\nmax-size: ${TDG_SECRET}\n",    "uri: x\nkey: [hunter2]\n",
        "uri: x\nkey: 'hunter2 ${'\n",          "uri: x\nsecrets: hunter2\n",
        "uri: x\nsecrets: {A: 'hunter2 ${'}\n",
    };

    (void)state;
    setenv("TDG_SECRET", "hunter2", 1);
    for (size_t i = 0; i < COUNT(texts); i++) {
        record_t record;
        int rv;
        char *what = read_record(texts[i], &record, &rv);

        assert_int_equal(rv, TDG_EINVAL);
        assert_true(strlen(what) > 0);
        if (strstr(what, "hunter2") != NULL)
            fail_msg("%s: %s", texts[i], what);
        free(what);
        tdg__options_done(tables, &record);
    }
}

static void values_are_written_as_one_would(void **state) {
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"uri", "a b"},
        {"path", "/etc/x/y"},
        {"hidden", "false"},
        {"count", "3"},
        {"shift", "-2"},
        {"every", "90s"},
        {"window", ""},
        {"format", "json"},
        {"include", "[*.md]"},
        {"exclude", ""},
        {"headers", "{\"A\":\"b\"}"},
        {"key", "(secret)"},
        {"max-size", "1MiB"},
    };
    record_t r;

    (void)state;
    read_well("uri: a b\npath: y\nhidden: false\ncount: 3\nshift: -2\nevery: 90s\n"
              "format: json\nheaders: {A: b}\nkey: hunter2\n",
              &r);
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__text_t out;

        tdg__text_init(&out, 1000);
        tdg__text_put(&out, "");
        tdg__option_write(tdg__option_find(tables, cases[i].name), &r, &out);
        assert_int_equal(out.error, 0);
        assert_string_equal(out.data, cases[i].text);
        tdg__text_done(&out);
    }
    assert_null(tdg__option_find(tables, "nothing"));
    tdg__options_done(tables, &r);
}

/* The number of problems is the same, told or not. */
static void fail_each_allocation(const char *text, int code, size_t count) {
    tdg__node_t *node = tree_of(text);
    bool complete = false;

    for (size_t nth = 1; !complete; nth++) {
        tdg__problems_t problems;
        record_t record = {0};
        int rv;

        tdg__problems_init(&problems, "/etc/x/t.yaml");
        memory_fail(nth, nth % 2 ? MEMORY_ONCE : MEMORY_FROM_THEN_ON);
        rv = tdg__options_read(tables, node, &record, &problems);
        complete = !memory_failed();
        memory_fail(0, MEMORY_ONCE);
        if (complete || rv != TDG_ENOMEM) {
            assert_int_equal(rv, code);
            assert_int_equal(tdg__problems_total(&problems), count);
        }
        tdg__problems_done(&problems);
        tdg__options_done(tables, &record);
    }
    tdg__node_destroy(node);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    setenv("TDG_A", "one", 1);
    fail_each_allocation("uri: '${TDG_A}'\npath: a\ninclude: [a, b]\nheaders: {A: b}\n",
                         0, 0);
    fail_each_allocation("path: ''\nxyzzy: 1\ncount: 100\nformat: pdf-file\n"
                         "include: [[]]\nheaders: {a: []}\n",
                         TDG_EINVAL, 7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_not_given_takes_its_default), TEST(what_is_given_is_read),
        TEST(empty_lists_and_maps_are_given),      TEST(every_message),
        TEST(all_problems_are_told_at_once),       TEST(no_message_shows_a_secret),
        TEST(values_are_written_as_one_would),     TEST(every_allocation_may_fail),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
