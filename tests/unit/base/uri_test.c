/* SPDX-License-Identifier: MIT */
#include "base/uri.h"
#include "support.h"

static void accepts_absolute_uris(void **state) {
    static const char *const uris[] = {
        "file:///etc/hosts",
        "db://t17/orders/42",
        "a:",
        "urn:isbn:0451450523",
        "mailto:someone@example.com",
        "http://user:pw@example.com:8080/a/b?c=d&e#f",
        "http://[::1]/",
        "http://[v7.x]/",
        "x+y-z.1:opaque",
        "a:%41%c3%A9",
        "a://",
        "a:?q",
        "a:#f",
        "file:///%2e%2E/%2e./etc",
        "a:../../x",
        "a:/..//b",
        "a://User%3a@h:80/",
        "http://[FE80::1]/",
        "http://1.2.3.4/",
        "a://h//b",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(uris); i++)
        if (tdg__uri_check(uris[i], strlen(uris[i]), NULL) != 0)
            fail_msg("refused: %s", uris[i]);
}

static void refuses_others_and_says_where(void **state) {
    static const struct {
        const char *uri;
        size_t len;
        size_t at;
    } cases[] = {
        {"", 0, 0},         {"/etc/hosts", 10, 0}, {"hosts", 5, 5},   {"1a:b", 4, 0},
        {":a", 2, 0},       {"a_b:c", 5, 1},       {"a b:c", 5, 1},   {"a:b c", 5, 3},
        {"a:b\0c", 5, 3},   {"a:\xc3\xa9", 4, 2},  {"a:b{c}", 6, 3},  {"a:b<", 4, 3},
        {"a:\"", 3, 2},     {"a:b\\c", 5, 3},      {"a:b^", 4, 3},    {"a:b|", 4, 3},
        {"a:b`", 4, 3},     {"a:b\n", 4, 3},       {"a:b\x7f", 4, 3}, {"a:%", 3, 3},
        {"a:%4", 4, 4},     {"a:%4g", 5, 4},       {"a:%zz", 5, 3},   {"a:b#c#d", 7, 5},
        {"a://h:x/", 8, 7}, {"a://[::1", 8, 8},    {"a:/[", 4, 3},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t error = {.at = 999};

        assert_int_equal(tdg__uri_check(cases[i].uri, cases[i].len, &error), TDG_EURI);
        if (error.at != cases[i].at)
            fail_msg("%s: at %zu, not %zu", cases[i].uri, error.at, cases[i].at);
        assert_int_not_equal(strlen(error.text), 0);
        assert_int_equal(tdg__uri_check(cases[i].uri, cases[i].len, NULL), TDG_EURI);
    }
}

static void looks_at_its_own_bytes_only(void **state) {
    (void)state;
    assert_int_equal(tdg__uri_check("a:b c", 3, NULL), 0);
    assert_int_equal(tdg__uri_check("a:%41", 4, NULL), TDG_EURI);
}

static void takes_a_uri_of_a_mebibyte(void **state) {
    const size_t len = 1 << 20;
    char *uri = malloc(len);

    (void)state;
    assert_non_null(uri);
    for (size_t i = 0; i < len; i++)
        uri[i] = i % 3 == 0 ? '/' : '.';
    memcpy(uri, "a:", 2);
    assert_int_equal(tdg__uri_check(uri, len, NULL), 0);
    free(uri);
}

/* Checks with one failing allocation after the other. Returns how many there are. */
static size_t fail_each_allocation(const char *uri) {
    for (size_t n = 1;; n++) {
        int rv;

        memory_fail(n, MEMORY_ONCE);
        rv = tdg__uri_check(uri, strlen(uri), NULL);
        assert_int_equal(memory_live(), 0);
        if (!memory_failed()) {
            assert_int_equal(rv, 0);
            return n - 1;
        }
        assert_int_equal(rv, TDG_ENOMEM);
    }
}

static void reports_each_allocation_that_fails(void **state) {
    static const char *const uris[] = {
        "HTTP://u%7e@H%41:1/a/../%7eb/./c?%7e#%7e",
        "http://[FE80::1]/a/../..//b",
        "http://1.2.3.4/%7e",
        "a:b/../c",
        "a:/..//b",
        "http://[vF.A]/",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(uris); i++)
        assert_true(fail_each_allocation(uris[i]) > 0);
}

static void undoes_percent_encodings(void **state) {
    static const struct {
        const char *text, *expected;
        size_t len;
    } rows[] = {
        {"", "", 0},
        {"abc", "abc", 3},
        {"a%20b%2fc%2F", "a b/c/", 6},
        {"%E2%82%ac", "\xe2\x82\xac", 3},
        {"%00x%ff", "\0x\xff", 3},
        {"%%41", "%A", 2},
        {"%", "%", 1},
        {"%4", "%4", 2},
        {"%4g%g4", "%4g%g4", 6},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t len = strlen(rows[i].text);
        char *text = malloc(len > 0 ? len : 1), *out = malloc(len + 1);

        /* Without a NUL behind it, a read too far is seen. */
        memcpy(text, rows[i].text, len);

        assert_int_equal(tdg__uri_decode(text, len, out), rows[i].len);
        assert_memory_equal(out, rows[i].expected, rows[i].len);
        free(text);
        free(out);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(accepts_absolute_uris),
        TEST(refuses_others_and_says_where),
        TEST(looks_at_its_own_bytes_only),
        TEST(takes_a_uri_of_a_mebibyte),
        TEST(reports_each_allocation_that_fails),
        TEST(undoes_percent_encodings),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("uri", tests, NULL, NULL);
}
