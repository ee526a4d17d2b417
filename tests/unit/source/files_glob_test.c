/* SPDX-License-Identifier: MIT */
#include "source/files/files_glob.h"

#include <time.h>

#include "support.h"

static tdg__globs_t *compiled(const char *pattern) {
    const char *const patterns[] = {pattern, NULL};
    tdg__parse_error_t error = {0};
    tdg__globs_t *globs = NULL;
    size_t bad;

    if (tdg__globs_create(patterns, &globs, &bad, &error) != 0)
        fail_msg("%s: %s", pattern, error.text);
    return globs;
}

static void matches_what_it_says(void **state) {
    static const struct {
        const char *pattern, *path;
        bool matches;
    } cases[] = {
        {"*.md", "a.md", true},
        {"*.md", "x/y/a.md", true},
        {"*.md", "a.mdx", false},
        {"*.md", ".md", true},
        {"*.md", "a.md/b.txt", true}, /* a folder on the way */
        {"/*.md", "a.md", true},
        {"/*.md", "x/a.md", false},
        {"docs/*.md", "docs/a.md", true},
        {"docs/*.md", "docs/x/a.md", false},
        {"docs/*.md", "x/docs/a.md", false},
        {"docs", "docs", true},
        {"docs", "docs/x/a.md", true},
        {"docs", "x/docs/a.md", true},
        {"docs", "docsy", false},
        {"docs", "mydocs/a", false},
        {"docs/", "docs", false},
        {"docs/", "docs/a", true},
        {"docs/", "x/docs/a", true},
        {"docs/**", "docs", false},
        {"docs/**", "docs/a", true},
        {"docs/**", "docs/a/b/c", true},
        {"docs/**/x.md", "docs/x.md", true},
        {"docs/**/x.md", "docs/a/b/x.md", true},
        {"docs/**/x.md", "docs/ax.md", false},
        {"**/x.md", "x.md", true},
        {"**/x.md", "a/b/x.md", true},
        {"**/x.md", "a/bx.md", false},
        {"**", "a", true},
        {"**", "a/b/c", true},
        {"a/**/b/**/c", "a/b/c", true},
        {"a/**/b/**/c", "a/1/2/b/3/c", true},
        {"a/**/b/**/c", "a/1/2/3/c", false},
        {"**/**/**/a", "a", true},
        {"a**b", "axxb", true}, /* not a name of its own: one star */
        {"x/a**b", "x/a/b", false},
        {"?", "a", true},
        {"?", "ab", false},
        {"?.md", "\xc3\xa9.md", true}, /* one character, two bytes */
        {"??.md", "\xc3\xa9.md", false},
        {"?.md", "\xff.md", true}, /* no UTF-8: one byte */
        {"a?b", "a/b", false},
        {"x/a?b", "x/a/b", false},
        {"[abc].txt", "b.txt", true},
        {"[abc].txt", "d.txt", false},
        {"[a-c]x", "cx", true},
        {"[!a-c]x", "dx", true},
        {"[^a-c]x", "ax", false},
        {"y/[!a]x", "y//x", false},
        {"[]]", "]", true},
        {"[!]]", "]", false},
        {"[a-]", "-", true},
        {"[\\]x]", "]", true},
        {"[\xc3\xa0-\xc3\xb0]", "\xc3\xa9", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"\\{a,b\\}", "{a,b}", true},
        {"*.{md,txt}", "a.md", true},
        {"*.{md,txt}", "x/a.txt", true},
        {"*.{md,txt}", "a.html", false},
        {"{a,b}/{c,d}", "b/c", true},
        {"{a,b}/{c,d}", "c/b", false},
        {"x{,y}z", "xz", true},
        {"x{,y}z", "xyz", true},
        {"{a,{b,c}d}", "cd", true},
        {"{a,{b,c}d}", "a", true},
        {"{a,{b,c}d}", "c", false},
        {"a}b", "a}b", true},
        {"[{]x", "{x", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__globs_t *globs = compiled(cases[i].pattern);

        if (tdg__globs_match(globs, cases[i].path) != cases[i].matches)
            fail_msg("\"%s\" and \"%s\": should %smatch", cases[i].pattern, cases[i].path,
                     cases[i].matches ? "" : "not ");
        tdg__globs_destroy(globs);
    }
}

static void refuses_what_it_cannot_read(void **state) {
    static const char *const bad[] = {"",    "/",     "[a", "[",    "[]",
                                      "[!]", "[z-a]", "{a", "{a,b", "a\\"};
    char many[4 * TDG__GLOB_MAX_BRANCHES] = "", large[TDG__GLOB_MAX_LEN + 2];
    const char *more[] = {many, large};
    size_t at;

    (void)state;
    strcat(many, "{a");
    for (int i = 0; i < TDG__GLOB_MAX_BRANCHES; i++)
        strcat(many, ",b");
    strcat(many, "}");
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    for (size_t i = 0; i < COUNT(bad) + COUNT(more); i++) {
        const char *text = i < COUNT(bad) ? bad[i] : more[i - COUNT(bad)];
        const char *const patterns[] = {"fine", text, NULL};
        tdg__globs_t *globs = NULL;
        tdg__parse_error_t error = {0};

        if (tdg__globs_create(patterns, &globs, &at, &error) != TDG_EINVAL)
            fail_msg("accepted: %s", text);
        assert_int_equal(at, 1);
        assert_int_not_equal(strlen(error.text), 0);
        assert_null(globs);
    }
}

static void an_empty_list_matches_nothing(void **state) {
    tdg__globs_t *globs = NULL;
    size_t at;

    (void)state;
    assert_int_equal(tdg__globs_create(NULL, &globs, &at, NULL), 0);
    assert_true(tdg__globs_are_empty(globs));
    assert_false(tdg__globs_match(globs, "a"));
    tdg__globs_destroy(globs);
}

/* Backtracking would need longer than the universe has. */
static void a_wicked_pattern_costs_no_more_than_another(void **state) {
    char pattern[TDG__GLOB_MAX_LEN + 1] = "", path[4096];
    struct timespec begin, end;

    (void)state;
    for (int i = 0; i < 40; i++)
        strcat(pattern, "**/*a*/");
    strcat(pattern, "b");
    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = i % 2 == 0 ? 'a' : '/';
    path[sizeof(path) - 1] = '\0';

    tdg__globs_t *globs = compiled(pattern);

    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 10; i++)
        assert_false(tdg__globs_match(globs, path));
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true(end.tv_sec - begin.tv_sec < 20);
    tdg__globs_destroy(globs);
}

static void survives_a_lack_of_memory(void **state) {
    const char *const patterns[] = {"*.{md,txt}", "docs/**", "[a-z]*", "a",
                                    "b",          "c",       NULL};

    (void)state;
    for (size_t nth = 1;; nth++) {
        tdg__globs_t *globs = NULL;
        size_t at, live = memory_live();

        memory_fail(nth, MEMORY_ONCE);
        int rv = tdg__globs_create(patterns, &globs, &at, NULL);
        memory_fail(0, MEMORY_ONCE);
        if (rv == 0) {
            assert_true(nth > 10);
            tdg__globs_destroy(globs);
            return;
        }
        assert_int_equal(rv, TDG_ENOMEM);
        assert_int_equal(memory_live(), live);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(matches_what_it_says),
        TEST(refuses_what_it_cannot_read),
        TEST(an_empty_list_matches_nothing),
        TEST(a_wicked_pattern_costs_no_more_than_another),
        TEST(survives_a_lack_of_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("files_glob", tests, NULL, NULL);
}
